"""Half messages: what was reported of checks elsewhere."""

from __future__ import annotations

from orbitmq.protocol.names import HALF_TOPIC, TRANSACTION_CHECK_TOPIC
from tests.kit.store import flip
from tests.kit.transactions import COMMIT, INTERVAL, Transacting


def test_rounds_within_the_immunity_time_do_not_count_as_checks(transactions: Transacting) -> None:
    """apache/rocketmq#8311"""
    transactions.broker.settings.transaction_check_max = 3
    transactions.half(properties="CHECK_IMMUNITY_TIME_IN_SECONDS\x01600\x02")
    transactions.pass_ms(600_000)
    assert transactions.published(TRANSACTION_CHECK_TOPIC) == []
    transactions.pass_ms(INTERVAL)
    assert transactions.asked
    transactions.end(transactions.answer(transactions.asked[-1], COMMIT))
    assert [one.body for one in transactions.published()] == [b"body 1"]


def test_an_unreadable_half_message_holds_up_no_other(transactions: Transacting) -> None:
    """apache/rocketmq#9500"""
    transactions.half()
    others = [transactions.half() for _ in range(3)]
    damaged = transactions.real.stored(HALF_TOPIC, 0, 0)
    transactions.real.store.flushing.flush_now()
    flip(transactions.root, damaged.physical_offset + 4, segment_bytes=1 << 20)
    transactions.pass_ms(3 * INTERVAL)
    asked = {check.msg_id for check in transactions.asked}
    assert asked >= {sent.transaction_id for sent in others}
    transactions.decide(others[0], COMMIT)
    assert [one.body for one in transactions.published()] == [b"body 2"]

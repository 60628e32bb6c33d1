"""The store of a slave that acts for its master: what is due leaves for others, and nothing is appended."""

from __future__ import annotations

from pathlib import Path

from orbitmq.broker.mastership.escape import Escape, moved
from orbitmq.broker.transaction.records import copied
from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.store import Appended, PendingMessage, PutStatus
from tests.kit.transactions import Transacting


def escape() -> Escape:
    return Escape(lambda message: None)


def message(number: int, topic: str = "T") -> PendingMessage:
    properties = b"UNIQ_KEY\x01%d\x02" % number
    return PendingMessage(topic, 0, 0, 0, 1, bytes(8), bytes(8), 0, 0, b"x", properties)


def test_messages_count_as_stored_once_another_master_has_them_in_order() -> None:
    store = escape()
    batch = [message(number) for number in range(3)]
    assert store.append_many(batch, 0) == []
    assert list(store.outbox) == batch
    store.sent(store.outbox[0])
    # The batch comes again, made anew.
    again = [message(number) for number in range(3)]
    assert [answer.status for answer in store.append_many(again, 0)] == [PutStatus.PUT_OK]
    assert len(store.outbox) == 2
    store.sent(store.outbox[0])
    store.sent(store.outbox[0])
    answers: list[Appended] = []
    assert len(store.append_many(again[1:], 0, answers)) == len(answers) == 2
    assert not store.outbox
    # Each counts once.
    assert store.append_many([message(0)], 0) == []


def test_another_batch_waits_for_the_first_one() -> None:
    store = escape()
    store.append_many([message(1)], 0)
    assert store.append_many([message(2)], 0) == []
    assert [one.properties for one in store.outbox] == [message(1).properties]
    store.sent(store.outbox[0])
    store.append_many([message(2)], 0)
    assert [one.properties for one in store.outbox] == [message(2).properties]
    assert len(store.append_many([message(1)], 0)) == 1


def test_records_of_pop_are_handed_over_and_what_goes_around_waits_for_the_master() -> None:
    due: list[PendingMessage] = []
    store = Escape(due.append)
    batch = [message(1, TIMER_TOPIC), message(2, "rmq_sys_REVIVE_LOG_C"), message(3)]
    assert len(store.append_many(batch, 0)) == 2
    assert [one.topic for one in store.outbox] == ["T"]
    assert due == batch[1:2]


def test_a_moved_half_message_is_as_its_producer_sent_it(tmp_path: Path) -> None:
    world = Transacting(tmp_path, transactionTimeOut=1)
    world.half()
    transactions = world.broker.transactions
    first = transactions.half(0)
    assert first is not None
    # One that has been asked about already, and was copied for it.
    transactions.replace([first], [copied(first, 3, first.record.store_host)], world.now)
    half = transactions.half(1)
    assert half is not None
    assert half.check_times == 3
    found = moved(half)
    assert (found.topic, found.queue_id, bytes(found.body), found.sys_flag & 0xC) == (
        half.topic,
        half.queue_id,
        b"body 1",
        4,
    )
    properties = decode_properties(found.properties)
    for left in ("TRAN_MSG", "PGROUP", "UNIQ_KEY", "TAGS"):
        assert properties.pop(left)
    assert not {name for name in properties if name.startswith(("REAL_", "TRANSACTION_"))}
    world.close()

"""Producers are asked about half messages that stay open: when, how often, and what becomes of no answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.handling.call import Peer
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_CHECK_TOPIC
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.transaction import ResumeCheckHalfMessage
from orbitmq.protocol.schema.declare import Void
from tests.kit.transactions import COMMIT, INTERVAL, ROLLBACK, TIMEOUT, Transacting

OTHER = Peer(2, bytes([10, 0, 0, 8, 0, 0, 0x30, 0x39]), "10.0.0.8:12345", 493)


def test_a_producer_is_asked_about_what_stays_open(world: Transacting) -> None:
    sent = world.half()
    world.pass_ms(INTERVAL)
    (check,) = world.asked
    assert world.told == [1]
    assert (check.topic, check.msg_id, check.transaction_id) == (HALF_TOPIC, "ID000001", "ID000001")
    assert check.broker_name == "broker-a"
    copy = world.halves()[1]
    assert (check.tran_state_table_offset, check.commit_log_offset) == (1, copy.physical_offset)
    assert check.offset_msg_id == copy.offset_id
    asked = decode_record(bytes(check.body or b""))
    assert (asked.topic, asked.queue_id, asked.body) == ("TopicTest", 1, b"body 1")
    assert asked.property_map()["TRANSACTION_CHECK_TIMES"] == "1"
    world.end(world.answer(check, COMMIT))
    (published,) = world.published()
    assert published.prepared_transaction_offset == copy.physical_offset
    properties = published.property_map()
    assert properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in properties
    assert sent.queue_offset == 0


def test_rounds_are_an_interval_apart(world: Transacting) -> None:
    world.half()
    world.pass_ms(INTERVAL - 1000)
    assert len(world.asked) == 0
    world.pass_ms(1000)
    assert len(world.asked) == 1
    world.pass_ms(INTERVAL - 1000)
    assert len(world.asked) == 1
    world.pass_ms(1000)
    assert len(world.asked) == 2


def test_the_interval_counts_from_when_it_is_set(world: Transacting) -> None:
    world.half()
    world.broker.settings.transaction_check_interval = 3_000
    world.broker.settings.transaction_time_out = 2_000
    world.pass_ms(3_000)
    assert len(world.asked) == 1


def test_the_young_are_left_alone(world: Transacting) -> None:
    world.pass_ms(INTERVAL - TIMEOUT + 1000)
    world.half()
    world.half(properties="", born_timestamp=world.now - 60_000)  # behind a young one: next round
    world.pass_ms(TIMEOUT - 1000)
    assert world.asked == []
    world.pass_ms(INTERVAL)
    assert len(world.asked) == 2


def test_a_timeout_of_its_own(tmp_path: Path) -> None:
    world = Transacting(tmp_path, transactionTimeOut=31_000)
    world.half()
    world.pass_ms(INTERVAL)
    assert world.asked == []
    world.pass_ms(INTERVAL)
    assert len(world.asked) == 1
    world.close()


def test_a_producer_whose_clock_is_ahead_is_asked_by_the_brokers(world: Transacting) -> None:
    world.half(born_timestamp=world.now + 3_600_000)
    world.pass_ms(INTERVAL)
    assert len(world.asked) == 1


@pytest.mark.parametrize("immunity", ["", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0110\x02"])
def test_a_clock_that_was_set_back_over_a_restart_delays_no_question(
    world: Transacting, immunity: str
) -> None:
    """Nobody was asked until the clock was where it had been before."""
    world.half(immunity)
    world.now -= 3_600_000
    world.restart()
    world.pass_ms(INTERVAL)
    assert len(world.asked) == 1


def test_producers_are_asked_in_turn(world: Transacting) -> None:
    world.join(OTHER)
    for _ in range(4):
        world.half()
    world.pass_ms(INTERVAL)
    assert world.told == [1, 2, 1, 2]


def test_a_producer_that_does_not_keep_up_is_not_asked(world: Transacting) -> None:
    world.join(OTHER)
    slow = {1}
    world.broker.check_back.keeps_up = lambda connection_id: connection_id not in slow
    world.half()
    world.half()
    world.pass_ms(INTERVAL)
    assert world.told == [2, 2]
    slow.add(2)
    world.pass_ms(INTERVAL)
    assert world.told == [2, 2]
    # It was not their fault: the count of checks did not rise.
    assert [half.check_times for half in world.open_halves()] == [1, 1]
    slow.clear()
    world.pass_ms(INTERVAL)
    assert len(world.told) == 4


def test_producers_are_asked_even_if_every_tick_begins_a_round(tmp_path: Path) -> None:
    world = Transacting(
        tmp_path, flushDiskType="SYNC_FLUSH", transactionCheckInterval=1000, transactionTimeOut=1000
    )
    world.half()
    for _ in range(5):
        world.real.store.flushing.flush_now()
        world.pass_ms(1000)
    assert len(world.asked) >= 2
    world.real.store.flushing.flush_now()
    world.end(world.answer(world.asked[-1], COMMIT))
    world.real.store.flushing.flush_now()
    assert world.bodies() == [b"body 1"]
    world.close()


def test_without_a_producer_the_count_rises_all_the_same(world: Transacting) -> None:
    world.leave()
    world.half()
    world.pass_ms(INTERVAL)
    assert world.asked == []
    assert [half.check_times for half in world.open_halves()] == [1]


def test_an_answer_that_names_an_old_copy_ends_the_newest(world: Transacting) -> None:
    sent = world.half()
    world.pass_ms(INTERVAL * 3)
    assert len(world.asked) == 3
    world.end(world.answer(world.asked[0], COMMIT))
    assert world.bodies() == [b"body 1"]
    assert world.open_halves() == []
    for check in world.asked:
        assert "has ended already" in world.refusal(world.answer(check, ROLLBACK)).remark
    assert "has ended already" in world.refusal(world.request(sent, COMMIT)).remark
    world.pass_ms(INTERVAL * 2)
    assert len(world.asked) == 3
    assert world.bodies() == [b"body 1"]


def test_what_was_asked_too_often_is_given_up(tmp_path: Path) -> None:
    world = Transacting(tmp_path, transactionCheckMax=3)
    world.half()
    world.pass_ms(INTERVAL * 3)
    assert len(world.asked) == 3
    world.pass_ms(INTERVAL)
    assert len(world.asked) == 3
    (rerouted,) = world.published(TRANSACTION_CHECK_TOPIC)
    properties = rerouted.property_map()
    assert (rerouted.body, properties["REAL_TOPIC"], properties["TRANSACTION_CHECK_TIMES"]) == (
        b"body 1",
        "TopicTest",
        "3",
    )
    config = world.broker.topics.get(TRANSACTION_CHECK_TOPIC)
    assert config is not None
    assert (config.read_queue_nums, config.perm) == (1, 6)
    assert world.open_halves() == []
    assert world.broker.transactions.figures.given_up == {"TopicTest": 1}
    assert "has ended already" in world.refusal(world.answer(world.asked[-1], COMMIT)).remark
    world.close()


def test_what_is_older_than_the_log_keeps_is_given_up_unasked(world: Transacting) -> None:
    world.half(born_timestamp=world.now - 73 * 3_600_000)
    world.pass_ms(INTERVAL)
    assert world.asked == []
    assert len(world.published(TRANSACTION_CHECK_TOPIC)) == 1


def test_within_its_immunity_time_a_half_is_copied_and_nobody_asked(world: Transacting) -> None:
    world.half(properties="CHECK_IMMUNITY_TIME_IN_SECONDS\x01100\x02")
    young = world.half()
    world.pass_ms(INTERVAL * 3)
    assert [check.msg_id for check in world.asked] == [young.transaction_id] * 3
    immune = next(half for half in world.open_halves() if half.unique_id == "ID000001")
    assert (immune.check_times, immune.root) == (0, 0)
    world.pass_ms(INTERVAL)
    assert [check.msg_id for check in world.asked][-1] == "ID000001" or "ID000001" in [
        check.msg_id for check in world.asked
    ]


@pytest.mark.parametrize("value", ["-1", "soon"])
def test_an_immunity_time_that_is_none_is_the_timeout(world: Transacting, value: str) -> None:
    world.half(properties=f"CHECK_IMMUNITY_TIME_IN_SECONDS\x01{value}\x02")
    world.pass_ms(INTERVAL)
    assert len(world.asked) == 1


def test_past_its_immunity_time_only_the_answer_to_a_check_counts(world: Transacting) -> None:
    sent = world.half(properties="CHECK_IMMUNITY_TIME_IN_SECONDS\x0110\x02")
    world.pass_ms(10_000)
    assert world.asked == []
    within = world.half(properties="CHECK_IMMUNITY_TIME_IN_SECONDS\x0110\x02")
    world.pass_ms(1000)
    for decision in (COMMIT, ROLLBACK):
        refused = world.refusal(world.request(sent, decision))
        assert refused.code == ResponseCode.ILLEGAL_OPERATION
    assert isinstance(world.decide(within, COMMIT), Void)
    world.pass_ms(INTERVAL)
    world.end(world.answer(world.asked[0], COMMIT))
    assert sorted(world.bodies()) == [b"body 1", b"body 2"]


def test_under_sync_flush_a_question_waits_for_its_copy_to_be_on_the_disk(tmp_path: Path) -> None:
    world = Transacting(tmp_path, flushDiskType="SYNC_FLUSH")
    world.half()
    world.real.store.flushing.flush_now()
    world.pass_ms(INTERVAL)
    assert world.asked == []
    world.real.store.flushing.flush_now()
    world.tick()
    (check,) = world.asked
    world.end(world.answer(check, COMMIT))
    world.real.store.flushing.flush_now()
    assert world.bodies() == [b"body 1"]
    world.close()


def test_under_sync_flush_a_decision_counts_for_a_copy_that_is_not_on_the_disk_yet(tmp_path: Path) -> None:
    world = Transacting(tmp_path, flushDiskType="SYNC_FLUSH")
    sent = [world.half(), world.half()]
    world.real.store.flushing.flush_now()
    world.pass_ms(INTERVAL)
    world.decide(sent[0], COMMIT)
    world.decide(sent[1], ROLLBACK)
    world.real.store.flushing.flush_now()
    assert world.bodies() == [b"body 1"]
    assert world.open_halves() == []
    world.pass_ms(INTERVAL)
    assert world.asked == []
    assert world.broker.transactions.figures.open == {}
    world.kill()
    assert world.open_halves() == []
    world.close()


def test_a_slice_has_a_limit_and_rounds_go_on(world: Transacting) -> None:
    for _ in range(250):
        world.half()
    world.now += INTERVAL
    more = [world.broker.check_back.tick(world.now) for _ in range(3)]
    assert more == [True, True, False]
    world.tick()
    assert len(world.asked) == 250
    assert world.broker.transactions.figures.open == {("TopicTest", "PG"): 250}


def test_questions_that_had_to_wait_for_the_disk_go_out_in_slices_too(tmp_path: Path) -> None:
    world = Transacting(tmp_path, flushDiskType="SYNC_FLUSH")
    for _ in range(250):
        world.half()
    world.real.store.flushing.flush_now()
    world.pass_ms(INTERVAL)
    assert world.asked == []
    world.real.store.flushing.flush_now()
    more = [world.broker.check_back.tick(world.now) for _ in range(3)]
    assert more == [True, True, False]
    world.tick()
    assert len(world.asked) == 250
    world.close()


def test_a_slice_of_large_messages_is_shorter(world: Transacting) -> None:
    for _ in range(4):
        world.half(body=bytes(400_000))
    world.now += INTERVAL
    assert world.broker.check_back.tick(world.now)
    assert not world.broker.check_back.tick(world.now)
    world.tick()
    assert len(world.asked) == 4


def test_a_half_that_was_given_up_can_be_taken_up_again(tmp_path: Path) -> None:
    world = Transacting(tmp_path, transactionCheckMax=1)
    world.half()
    world.pass_ms(INTERVAL * 2)
    (rerouted,) = world.published(TRANSACTION_CHECK_TOPIC)
    reply = world.real.handle(ResumeCheckHalfMessage(msg_id=rerouted.offset_id), world.now)
    assert isinstance(reply, Void)
    assert world.broker.transactions.figures.open == {("TopicTest", "PG"): 1}
    world.pass_ms(INTERVAL)
    world.end(world.answer(world.asked[-1], COMMIT))
    assert world.bodies() == [b"body 1"]
    world.close()


def test_the_count_of_checks_can_be_started_over(world: Transacting) -> None:
    world.half()
    world.pass_ms(INTERVAL)
    (half,) = world.open_halves()
    world.real.handle(ResumeCheckHalfMessage(msg_id=half.record.offset_id), world.now)
    (half,) = world.open_halves()
    assert half.check_times == 0
    world.end(world.answer(world.asked[0], ROLLBACK))
    with pytest.raises(Refused, match="has ended already"):
        world.real.handle(ResumeCheckHalfMessage(msg_id=half.record.offset_id), world.now)
    for wrong in ("nonsense", world.real.stored(OP_HALF_TOPIC, 0).offset_id):
        with pytest.raises(Refused):
            world.real.handle(ResumeCheckHalfMessage(msg_id=wrong), world.now)

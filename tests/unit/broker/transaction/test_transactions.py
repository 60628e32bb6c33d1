"""Half messages, decisions and check-back, over a real store and with the clock in hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.transaction.records import copied
from orbitmq.handling.call import Durable, Peer, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_CHECK_TOPIC
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import decode_properties, encode_properties
from orbitmq.protocol.requests.transaction import ResumeCheckHalfMessage
from orbitmq.protocol.schema.declare import Void
from orbitmq.store import Appended, PendingMessage, PutStatus
from tests.kit.transactions import COMMIT, INTERVAL, ROLLBACK, TIMEOUT, UNKNOWN, Transacting, resumed

OTHER = Peer(2, bytes([10, 0, 0, 8, 0, 0, 0x30, 0x39]), "10.0.0.8:12345", 493)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Transacting]:
    made = Transacting(tmp_path / "store")
    yield made
    made.close()


# Sends.


def test_a_half_message_is_rerouted_with_its_topic_and_queue(world: Transacting) -> None:
    sent = world.half(properties="TRANSACTION_CHECK_TIMES\x0114\x02TRAN_PREPARED_QUEUE_OFFSET\x0199\x02")
    assert world.bodies() == []
    (half,) = world.halves()
    assert (half.topic, half.queue_id, half.queue_offset, half.sys_flag) == (HALF_TOPIC, 0, 0, 0)
    properties = half.property_map()
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("TopicTest", "1")
    assert properties["__transactionId__"] == properties["UNIQ_KEY"] == sent.transaction_id == "ID000001"
    assert not {"TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"} & set(properties)
    assert (sent.queue_id, sent.queue_offset) == (1, 0)
    assert world.broker.transactions.figures.open == {("TopicTest", "PG"): 1}


@pytest.mark.parametrize(
    "property_", ["DELAY\x013\x02", "TIMER_DELAY_SEC\x011\x02", "TIMER_DELIVER_MS\x019\x02"]
)
def test_a_half_message_cannot_be_delayed(world: Transacting, property_: str) -> None:
    with pytest.raises(Refused) as refused:
        world.half(properties=property_)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert world.halves() == []
    assert world.broker.transactions.figures.open == {}


def test_a_delay_of_zero_is_none(world: Transacting) -> None:
    world.half(properties="DELAY\x010\x02")
    assert len(world.halves()) == 1


def test_a_message_that_comes_back_for_a_retry_is_no_half_message(world: Transacting) -> None:
    world.half(properties="DELAY\x013\x02", topic="%RETRY%G", queue_id=0, reconsume_times=1)
    assert world.halves() == []
    assert world.real.stored("SCHEDULE_TOPIC_XXXX", 2).body == b"body 1"


def test_half_messages_can_be_refused(tmp_path: Path) -> None:
    world = Transacting(tmp_path, rejectTransactionMessage=True)
    with pytest.raises(Refused) as refused:
        world.half()
    assert refused.value.code == ResponseCode.NO_PERMISSION
    world.close()


# Decisions.


def test_a_commit_publishes_the_message_as_it_was_sent(world: Transacting) -> None:
    sent = world.half(flag=9)
    assert isinstance(world.decide(sent, COMMIT), Void)
    (published,) = world.published()
    assert (published.queue_id, published.body, published.flag) == (1, b"body 1", 9)
    assert published.sys_flag & 0xC == 8
    assert published.prepared_transaction_offset == int(sent.msg_id[-16:], 16)
    assert published.born_timestamp == world.now
    properties = published.property_map()
    assert properties["TRAN_MSG"] == "true"
    assert properties["__transactionId__"] == "ID000001"
    assert not {"REAL_TOPIC", "REAL_QID"} & set(properties)
    assert world.ops() == [[0]]
    assert world.broker.transactions.figures.open == {}
    assert world.broker.transactions.figures.committed == {"TopicTest": 1}


def test_an_op_record_is_as_apaches(world: Transacting) -> None:
    world.decide(world.half(), COMMIT)
    op = world.real.stored(OP_HALF_TOPIC, 0)
    assert (op.body, op.property_map()) == (b"0,", {"WAIT": "true", "TAGS": "d"})


def test_a_rollback_publishes_nothing(world: Transacting) -> None:
    world.decide(world.half(), ROLLBACK)
    assert world.bodies() == []
    assert world.ops() == [[0]]
    world.pass_ms(INTERVAL * 3)
    assert world.asked == []


def test_who_does_not_know_gets_no_answer_and_is_asked_later(world: Transacting) -> None:
    assert world.decide(world.half(), UNKNOWN) is None
    assert world.ops() == []
    world.pass_ms(INTERVAL)
    assert len(world.asked) == 1


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"producer_group": "OTHER"}, "The producer group wrong"),
        ({"tran_state_table_offset": 1}, "The transaction state table offset wrong"),
        ({"transaction_id": "NOT_THIS"}, "The transaction id wrong: NOT_THIS, the half message has ID000001"),
        ({"commit_log_offset": 1 << 40}, "Find prepared transaction message failed"),
        ({"commit_log_offset": -1}, "Find prepared transaction message failed"),
        ({"commit_log_offset": 1}, "Find prepared transaction message failed"),
        (
            {"commit_or_rollback": 4},
            "commitOrRollback field wrong: 4 is not 8 (commit), 12 (roll back) or 0 (unknown)",
        ),
    ],
)
def test_a_decision_that_fits_no_half_message_is_refused(
    world: Transacting, fields: dict[str, object], remark: str
) -> None:
    sent = world.half()
    refused = world.refusal(world.request(sent, COMMIT, **fields))
    assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert world.bodies() == []
    world.decide(sent, COMMIT)
    assert world.bodies() == [b"body 1"]


def test_a_message_that_is_no_half_message_cannot_be_published_so(world: Transacting) -> None:
    sent = world.half()
    world.decide(sent, COMMIT)
    published = world.published()[0]
    refused = world.refusal(world.request(sent, COMMIT, commit_log_offset=published.physical_offset))
    assert refused.remark == "Find prepared transaction message failed"


def test_the_same_decision_again_changes_nothing_and_another_one_is_refused(world: Transacting) -> None:
    sent, dropped = world.half(), world.half()
    for _ in range(2):
        assert isinstance(world.decide(sent, COMMIT), Void)
        assert isinstance(world.decide(dropped, ROLLBACK), Void)
    assert "has ended already" in world.refusal(world.request(sent, ROLLBACK)).remark
    assert "has ended already" in world.refusal(world.request(dropped, COMMIT)).remark
    assert world.bodies() == [b"body 1"]


def test_decisions_that_come_together_share_an_op_record(world: Transacting) -> None:
    sent = [world.half() for _ in range(5)]
    requests = [world.request(one, COMMIT if n % 2 else ROLLBACK) for n, one in enumerate(sent)]
    requests.append(requests[1])  # the same once more
    requests.append(world.request(sent[0], COMMIT, producer_group="X"))
    results = world.real.send_together(requests, world.now)
    assert [type(result) for result in results] == [Void] * 5 + [Refused] * 2
    assert world.ops() == [[1, 3, 0, 2, 4]] or world.ops() == [[0, 1, 2, 3, 4]]
    assert world.bodies() == [b"body 2", b"body 4"]


def test_op_records_have_a_limit(tmp_path: Path) -> None:
    world = Transacting(tmp_path, transactionOpMsgMaxSize=5)
    sent = [world.half() for _ in range(5)]
    world.real.send_together([world.request(one, COMMIT) for one in sent], world.now)
    assert world.ops() == [[0, 1], [2, 3], [4]]
    world.close()


def test_a_commit_is_acknowledged_once_it_is_on_the_disk(tmp_path: Path) -> None:
    world = Transacting(tmp_path, flushDiskType="SYNC_FLUSH")
    sent = world.half()
    world.real.store.flush_now()
    result = world.decide(sent, COMMIT)
    assert isinstance(result, Wait)
    assert result.on == (Durable(world.real.store.max_physical),)
    assert world.bodies() == []
    with pytest.raises(Refused) as refused:
        resumed(result, timed_out=True)
    assert refused.value.code == ResponseCode.FLUSH_DISK_TIMEOUT
    world.real.store.flush_now()
    assert isinstance(resumed(result), Void)
    assert world.bodies() == [b"body 1"]
    world.close()


def test_what_cannot_be_stored_stays_open(world: Transacting, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, dropped = world.half(), world.half()

    def refused(messages: Sequence[PendingMessage], now: int, answers: list[Appended] | None = None) -> Any:
        answers = [] if answers is None else answers
        answers += [Appended(PutStatus.SERVICE_NOT_AVAILABLE) for _ in messages]
        return answers

    with monkeypatch.context() as broken:
        broken.setattr(world.real.store, "append_many", refused)
        assert "SERVICE_NOT_AVAILABLE" in world.refusal(world.request(sent, COMMIT)).remark
        for remark in ("SERVICE_NOT_AVAILABLE", "cannot be stored now"):
            assert remark in world.refusal(world.request(dropped, ROLLBACK)).remark
        world.pass_ms(INTERVAL)
    world.tick()
    assert isinstance(world.decide(sent, COMMIT), Void)
    assert isinstance(world.decide(dropped, ROLLBACK), Void)
    assert world.bodies() == [b"body 1"]
    assert sorted(offset for op in world.ops() for offset in op) == [0, 1]


# Check-back.


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
        world.real.store.flush_now()
        world.pass_ms(1000)
    assert len(world.asked) >= 2
    world.real.store.flush_now()
    world.end(world.answer(world.asked[-1], COMMIT))
    world.real.store.flush_now()
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
    world.real.store.flush_now()
    world.pass_ms(INTERVAL)
    assert world.asked == []
    world.real.store.flush_now()
    world.tick()
    (check,) = world.asked
    world.end(world.answer(check, COMMIT))
    world.real.store.flush_now()
    assert world.bodies() == [b"body 1"]
    world.close()


def test_under_sync_flush_a_decision_counts_for_a_copy_that_is_not_on_the_disk_yet(tmp_path: Path) -> None:
    world = Transacting(tmp_path, flushDiskType="SYNC_FLUSH")
    sent = [world.half(), world.half()]
    world.real.store.flush_now()
    world.pass_ms(INTERVAL)
    world.decide(sent[0], COMMIT)
    world.decide(sent[1], ROLLBACK)
    world.real.store.flush_now()
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
    world.real.store.flush_now()
    world.pass_ms(INTERVAL)
    assert world.asked == []
    world.real.store.flush_now()
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


# Bookkeeping.


def test_offsets_move_over_what_has_ended(world: Transacting) -> None:
    sent = [world.half() for _ in range(3)]
    world.decide(sent[0], COMMIT)
    world.decide(sent[2], COMMIT)
    world.real.store.flush_now()
    world.pass_ms(2000)
    assert (world.offset(), world.offset(OP_HALF_TOPIC)) == (1, 1)
    world.decide(sent[1], ROLLBACK)
    world.real.store.flush_now()
    world.pass_ms(3000)
    assert (world.offset(), world.offset(OP_HALF_TOPIC)) == (3, 3)
    assert len(world.broker.transactions.window) == 0


def test_offsets_are_saved_only_once_copies_are_on_the_disk(world: Transacting) -> None:
    world.half()
    world.real.store.flush_now()
    world.pass_ms(INTERVAL)
    before = world.offset()
    assert before <= 0
    world.pass_ms(3000)
    assert world.offset() == before
    world.real.store.flush_now()
    world.pass_ms(2000)
    assert world.offset() == 1


def test_the_oldest_open_half_is_kept_in_the_log(world: Transacting) -> None:
    assert world.broker.transactions.oldest_waiting() is None
    sent = [world.half() for _ in range(2)]
    assert world.broker.oldest_waiting() == int(sent[0].msg_id[-16:], 16)
    world.decide(sent[0], COMMIT)
    world.pass_ms(1000)
    assert world.broker.oldest_waiting() == int(sent[1].msg_id[-16:], 16)


def test_figures_by_topic_and_group(world: Transacting) -> None:
    figures = world.broker.transactions.figures
    world.half()
    world.half(topic="Other")
    sent = world.half()
    assert figures.open == {("TopicTest", "PG"): 2, ("Other", "PG"): 1}
    assert (figures.open_count, figures.open_by_topic()) == (3, {"TopicTest": 2, "Other": 1})
    world.now += 70_000
    world.decide(sent, COMMIT)
    assert figures.latencies["TopicTest"].buckets == [0, 0, 1, 0, 0, 0, 0]
    assert figures.latencies["TopicTest"].sum_s == 70
    world.restart()
    assert world.broker.transactions.figures.open == {("TopicTest", "PG"): 1, ("Other", "PG"): 1}


def test_the_counts_are_in_a_file_that_apache_reads(world: Transacting) -> None:
    world.half()
    world.save()
    text = world.saved["transactions"]
    assert f'"transactionCount":{{"TopicTest":{{"count":1,"timeStamp":{world.now}}}}}' in text
    assert "\n" not in text


# Restarts.


def test_open_halves_outlive_restart_and_kill(world: Transacting) -> None:
    sent = [world.half() for _ in range(4)]
    world.decide(sent[0], COMMIT)
    world.decide(sent[1], ROLLBACK)
    world.restart()
    world.decide(sent[2], COMMIT)
    world.kill()
    assert world.bodies() == [b"body 1", b"body 3"]
    assert [half.unique_id for half in world.open_halves()] == ["ID000004"]
    world.pass_ms(INTERVAL)
    world.kill()
    world.end(world.answer(world.asked[0], COMMIT))
    assert world.bodies() == [b"body 1", b"body 3", b"body 4"]
    world.kill()
    world.pass_ms(INTERVAL * 2)
    assert len(world.asked) == 1


def test_a_commit_that_a_crash_cut_off_from_its_op_record_counts(
    world: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [world.half(), world.half()]
    with monkeypatch.context() as broken:
        broken.setattr(world.broker.transactions, "write_ops", lambda offsets, now: None)
        world.decide(sent[0], COMMIT)
    assert world.ops() == []
    world.kill()
    assert world.ops() == [[0]]
    assert [half.offset for half in world.open_halves()] == [1]
    world.pass_ms(INTERVAL * 2)
    assert {check.msg_id for check in world.asked} == {"ID000002"}
    assert "has ended already" in world.refusal(world.request(sent[0], COMMIT)).remark


def test_a_copy_that_a_crash_cut_off_from_its_op_record_takes_the_place_of_the_old_one(
    world: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = world.half()
    with monkeypatch.context() as broken:
        broken.setattr(world.broker.transactions, "write_ops", lambda offsets, now: None)
        world.pass_ms(INTERVAL)
    world.kill()
    assert [half.offset for half in world.open_halves()] == [1]
    assert world.ops() == [[0]]
    assert world.broker.transactions.figures.open_count == 1
    world.decide(sent, COMMIT)
    assert world.bodies() == [b"body 1"]
    assert world.open_halves() == []


def apaches_copy(world: Transacting, offset: int, check_times: int) -> None:
    """Copies a half message as Apache's broker does: it does not say of which it is a copy."""
    half = world.broker.transactions.half(offset)
    assert half is not None
    message = copied(half, check_times, half.record.store_host)
    properties = decode_properties(message.properties)
    del properties["TRAN_PREPARED_QUEUE_OFFSET"]
    message.properties = encode_properties(properties)
    assert world.real.store.append(message, world.now).status is PutStatus.PUT_OK


def test_what_apache_published_and_copied_all_the_same_is_not_asked_about(
    world: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [world.half(), world.half()]
    with monkeypatch.context() as batching:
        batching.setattr(world.broker.transactions, "write_ops", lambda offsets, now: None)
        world.decide(sent[0], COMMIT)
    apaches_copy(world, 0, 1)
    apaches_copy(world, 1, 1)
    # An orderly stop of that broker: it has passed the first ones.
    world.broker.offsets.store("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0, 2, world.now)
    world.save()
    world.kill()
    assert [half.unique_id for half in world.open_halves()] == ["ID000002"]
    world.pass_ms(INTERVAL)
    assert [check.msg_id for check in world.asked] == ["ID000002"]
    world.end(world.answer(world.asked[0], COMMIT))
    assert world.bodies() == [b"body 1", b"body 2"]


def test_of_apaches_copies_the_newest_counts_after_a_crash(world: Transacting) -> None:
    world.half()
    world.half()
    for check_times in (1, 2):
        apaches_copy(world, 0, check_times)
    world.kill()
    assert [half.offset for half in world.open_halves()] == [1, 3]
    assert world.broker.transactions.figures.open_count == 2
    world.pass_ms(INTERVAL)
    assert sorted(check.msg_id or "" for check in world.asked) == ["ID000001", "ID000002"]
    for check in world.asked:
        world.end(world.answer(check, COMMIT))
    assert sorted(world.bodies()) == [b"body 1", b"body 2"]


def test_a_half_message_that_apache_lost_on_a_delay_is_stepped_over(world: Transacting) -> None:
    world.half()
    half = world.broker.transactions.half(0)
    assert half is not None
    half.properties["REAL_TOPIC"] = HALF_TOPIC
    world.real.store.append(copied(half, 1, half.record.store_host), world.now)
    world.kill()
    assert [half.offset for half in world.open_halves()] == [0]
    assert world.broker.transactions.figures.unreadable == 1


def test_an_offset_behind_the_end_of_the_log_is_brought_back(world: Transacting) -> None:
    world.half()
    world.broker.offsets.store("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0, 99, world.now)
    world.broker.offsets.store("CID_RMQ_SYS_TRANS", OP_HALF_TOPIC, 0, 99, world.now)
    world.save()
    world.kill()
    sent = world.half()
    world.decide(sent, COMMIT)
    assert world.bodies() == [b"body 2"]


def test_properties_of_the_checked_half_reach_the_consumer(world: Transacting) -> None:
    world.half(properties="user\x01value\x02")
    world.pass_ms(INTERVAL)
    world.end(world.answer(world.asked[0], COMMIT))
    properties = decode_properties(world.published()[0].properties)
    assert properties["user"] == "value"

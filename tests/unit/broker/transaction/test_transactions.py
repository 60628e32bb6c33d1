"""Half messages, decisions and check-back, over a real store and with the clock in hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orbitmq.handling.call import Durable, Peer, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import OP_HALF_TOPIC
from orbitmq.protocol.schema.declare import Void
from orbitmq.store import Appended, PendingMessage, PutStatus
from tests.kit.transactions import COMMIT, INTERVAL, ROLLBACK, UNKNOWN, Transacting, resumed

OTHER = Peer(2, bytes([10, 0, 0, 8, 0, 0, 0x30, 0x39]), "10.0.0.8:12345", 493)


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
    world.real.store.flushing.flush_now()
    result = world.decide(sent, COMMIT)
    assert isinstance(result, Wait)
    assert result.on == (Durable(world.real.store.max_physical),)
    assert world.bodies() == []
    with pytest.raises(Refused) as refused:
        resumed(result, timed_out=True)
    assert refused.value.code == ResponseCode.FLUSH_DISK_TIMEOUT
    world.real.store.flushing.flush_now()
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


# Bookkeeping.


def test_offsets_move_over_what_has_ended(world: Transacting) -> None:
    sent = [world.half() for _ in range(3)]
    world.decide(sent[0], COMMIT)
    world.decide(sent[2], COMMIT)
    world.real.store.flushing.flush_now()
    world.pass_ms(2000)
    assert (world.offset(), world.offset(OP_HALF_TOPIC)) == (1, 1)
    world.decide(sent[1], ROLLBACK)
    world.real.store.flushing.flush_now()
    world.pass_ms(3000)
    assert (world.offset(), world.offset(OP_HALF_TOPIC)) == (3, 3)
    assert len(world.broker.transactions.window) == 0


def test_offsets_are_saved_only_once_copies_are_on_the_disk(world: Transacting) -> None:
    world.half()
    world.real.store.flushing.flush_now()
    world.pass_ms(INTERVAL)
    before = world.offset()
    assert before <= 0
    world.pass_ms(3000)
    assert world.offset() == before
    world.real.store.flushing.flush_now()
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

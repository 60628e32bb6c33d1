"""Message trace in Spark: records of every client, and the tables made of them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from orbitmq.client.trace.records import (
    Handled,
    MessageKind,
    after_handling,
    before_handling,
    published,
)
from orbitmq.spark.jobs import trace_tables
from orbitmq.spark.jobs.availability_figures import figures_of
from orbitmq.spark.jobs.figures import Samples
from orbitmq.spark.jobs.trace_records import RECORD_DDL, records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(900)

START = datetime.datetime(2026, 1, 2, 3, 4, 5)
START_MS = int(START.timestamp() * 1000)  # Spark collects times as this machine's

Frame = Callable[[Iterable[str]], "DataFrame"]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Frame:
    """The records of trace messages with these bodies."""

    def told(bodies: Iterable[str]) -> DataFrame:
        rows = [(body.encode(), f"10.0.0.{n}:4000", START) for n, body in enumerate(bodies)]
        return records(spark.createDataFrame(rows, "body binary, bornHost string, storeTimestamp timestamp"))

    return told


def row(frame: DataFrame) -> dict[str, Any]:
    (only,) = frame.collect()
    return {name: value for name, value in only.asDict().items() if value is not None}


def sent(message_id: str, at_ms: int = 0, **other: Any) -> str:
    given: dict[str, Any] = {
        "at_ms": START_MS + at_ms, "region": "DefaultRegion", "group": "PG", "topic": "orders",
        "message_id": message_id, "tags": None, "keys": f"k-{message_id}", "store_host": "10.1.1.1:10911",
        "body_length": 100, "cost_ms": 3, "kind": MessageKind.NORMAL, "offset_message_id": "",
        "success": True,
    }  # fmt: skip
    return published(**(given | other)).text


def handled(
    message_id: str,
    begin_ms: int,
    end_ms: int | None,
    *,
    how: Handled = Handled.SUCCESS,
    retry: int = 0,
    group: str = "CG",
) -> str:
    """Trace of one attempt by a consumer."""
    request = f"{message_id}-{group}-{retry}"
    text = before_handling(
        at_ms=START_MS + begin_ms, region="DefaultRegion", group=group, topic="orders", request_id=request,
        message_id=message_id, retry_times=retry, keys=f"k-{message_id}",
    ).text  # fmt: skip
    if end_ms is not None:
        text += after_handling(
            at_ms=START_MS + end_ms, group=group, topic="orders", request_id=request, message_id=message_id,
            cost_ms=end_ms - begin_ms, keys=f"k-{message_id}", handled=how,
        ).text  # fmt: skip
    return text


def test_a_row_holds_every_field_of_a_send(told: Frame) -> None:
    found = row(
        told(
            [
                sent(
                    "id1", tags="TagA", keys="k1 k2", cost_ms=5, body_length=11, kind=MessageKind.DELAYED,
                    offset_message_id="7F00",
                )
            ]
        )
    )  # fmt: skip
    assert found == {
        "kind": "Pub", "at": START, "region": "DefaultRegion", "clientGroup": "PG", "topic": "orders",
        "msgId": "id1", "tags": "TagA", "keys": "k1 k2", "storeHost": "10.1.1.1:10911", "bodyLength": 11,
        "costMs": 5, "messageType": "delayed", "offsetMsgId": "7F00", "success": True, "batchSize": 1,
        "client": "10.0.0.0:4000", "storedAt": START,
    }  # fmt: skip


GOLDEN = {
    "Pub": {
        "kind": "Pub", "topic": "TopicTest", "msgId": "AC1100010001000000000000", "tags": "TagA",
        "keys": "k1 k2", "storeHost": "127.0.0.1:10911", "bodyLength": 11, "costMs": 5,
        "messageType": "normal",
        "offsetMsgId": "7F00000100002A9F0000000000000000", "success": True,
    },
    "SubBefore": {
        "kind": "SubBefore", "clientGroup": "PG", "requestId": "AC1100010001000000000001",
        "retryTimes": 1,
        "msgId": "AC1100010001000000000000", "keys": "k1 k2",
    },
    "SubAfter": {
        "kind": "SubAfter", "clientGroup": "PG", "requestId": "AC1100010001000000000001", "costMs": 5,
        "success": True, "outcome": "success", "msgId": "AC1100010001000000000000",
    },
    "EndTransaction": {
        "kind": "EndTransaction", "topic": "TopicTest", "transactionId": "TX", "fromCheck": False,
        "transactionState": "COMMIT_MESSAGE", "messageType": "normal",
    },
    "Recall": {"kind": "Recall", "topic": "TopicTest", "success": True},
}  # fmt: skip


def test_what_apache_s_own_classes_write(told: Frame) -> None:
    vectors = Path(__file__).parents[1] / "wire" / "vectors" / "trace.json"
    bodies = [case["data"] for case in json.loads(vectors.read_text())["cases"].values()]
    found = {row.kind: row for row in told(bodies).collect()}
    assert set(found) == set(GOLDEN)
    for kind, wanted in GOLDEN.items():
        assert {name: found[kind][name] for name in wanted} == wanted
        assert found[kind].at.timestamp() == 1_700_000_000


def joined(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


def test_older_and_other_clients(told: Frame) -> None:
    head = ("Pub", START_MS, "R", "PG", "orders", "id", "null", "null", "b:1", 9, 4, 0)
    short = row(told([joined(*head, "true")]))
    assert (short["success"], "offsetMsgId" in short, "keys" in short) == (True, False, False)
    long = row(told([joined(*head, "OFF", "false", "10.9.9.9")]))
    assert (long["success"], long["offsetMsgId"]) == (False, "OFF")
    bare = row(told([joined("SubAfter", "req", "id", 7, "false", "null")]))
    assert (bare["outcome"], bare["costMs"], "at" in bare) == ("failed", 7, False)
    coded = row(told([joined("SubAfter", "req", "id", 7, "false", "null", 1)]))
    assert (coded["outcome"], "clientGroup" in coded) == ("time out", False)


def test_a_batch_is_a_row_per_message(told: Frame) -> None:
    found = told([sent("a,b,c", offset_message_id="1,2,3", keys="k")]).orderBy("msgId").collect()
    assert [(r.msgId, r.offsetMsgId, r.batchSize) for r in found] == [
        ("a", "1", 3),
        ("b", "2", 3),
        ("c", "3", 3),
    ]


def test_what_is_no_record_is_kept_as_it_is(told: Frame) -> None:
    bad = [
        "nonsense",
        "Pub\x01only\x02",
        joined(*sent("x").split("\x01")[:1], "no time", *["f"] * 12),
        "Pub\x01\x02",
    ]
    found = told([*bad, "", "\x02\x02", sent("good")]).collect()
    assert sorted(r.bad for r in found if r.bad) == sorted(text.rstrip("\x02") for text in bad)
    assert [r.msgId for r in found if r.bad is None] == ["good"]
    assert all(r.kind is None for r in found if r.bad)


def test_numbers_that_are_none(told: Frame) -> None:
    found = row(
        told([joined("Pub", START_MS, "R", "G", "t", "id", "", "", "h", "x", "9" * 30, 99, "o", "maybe")])
    )
    assert found["kind"] == "Pub"
    assert not {"bodyLength", "costMs", "messageType", "success"} & set(found)


def test_the_schema_is_the_documented_one(told: Frame, spark: SparkSession) -> None:
    assert told([]).schema.simpleString() == spark.createDataFrame([], RECORD_DDL).schema.simpleString()


STORY = [
    # Sent at 0, handled at once; sent at 100, failed twice, then handled; sent at 200 and never finished.
    sent("m1") + sent("m2", 100) + sent("m3", 200),
    handled("m1", 10, 30),
    handled("m2", 110, 120, how=Handled.EXCEPTION),
    handled("m2", 1110, 1120, how=Handled.TIME_OUT, retry=1) + handled("m2", 2110, 2150, retry=2),
    handled("m3", 210, None),
    sent("m4", 300, kind=MessageKind.DELAYED),
    handled("m4", 10_300, 10_310),
    sent("m5", 400, success=False),
    # Another group, slow.
    handled("m1", 20, 5020, group="slow"),
]  # fmt: skip


@pytest.fixture(scope="module")
def story(told: Frame) -> DataFrame:
    # The trace's own duplicate: the same client told the same twice.
    return trace_tables.distinct(told(STORY).union(told(STORY))).cache()


def tables(story: DataFrame) -> tuple[DataFrame, DataFrame]:
    sends = trace_tables.sends(story)
    return sends, trace_tables.with_topics(trace_tables.handlings(story), sends)


def test_latency_by_topic_and_group(story: DataFrame) -> None:
    _, attempts = tables(story)
    found = {(r.clientGroup, r.delayed): r for r in trace_tables.latency(attempts).collect()}
    assert set(found) == {("CG", False), ("CG", True), ("slow", False)}
    plain = found["CG", False]
    assert (plain.messages, plain.handled, plain.retried) == (3, 2, 1)
    assert (plain.waitingP50Ms, plain.waitingP99Ms) == (10, 10)
    assert (plain.endToEndP50Ms, plain.endToEndP99Ms, plain.endToEndMaxMs) == (30, 2050, 2050)
    assert found["CG", True].endToEndMaxMs == 10_010
    assert found["slow", False].endToEndP999Ms == 5020


def test_slow_consumers_first(story: DataFrame) -> None:
    _, attempts = tables(story)
    first, *rest = trace_tables.consumers(attempts, slow_ms=1000).collect()
    assert (first.clientGroup, first.slow, first.costMaxMs) == ("slow", 1, 5000)
    assert sum(r.handlings for r in rest) == 6
    assert sum(r.failed for r in rest) == 2
    assert sum(r.unfinished for r in rest) == 1
    assert trace_tables.consumers(attempts, slow_ms=5000).agg({"slow": "sum"}).first()[0] == 0


def test_failed_retried_and_unfinished_messages(story: DataFrame) -> None:
    sends, attempts = tables(story)
    found = {(r.msgId, r.clientGroup): r for r in trace_tables.first_attempt_failures(attempts).collect()}
    assert set(found) == {("m2", "CG"), ("m3", "CG")}
    retried = found["m2", "CG"]
    assert (retried.attempts, retried.failures, retried.lastOutcome, retried.state) == (
        3,
        2,
        "success",
        "handled",
    )
    assert (found["m3", "CG"].state, found["m3", "CG"].failures) == ("unfinished", 0)
    assert [r.msgId for r in trace_tables.failed_sends(sends).collect()] == ["m5"]


def test_sending_by_topic_and_producer_group(story: DataFrame) -> None:
    sends, _ = tables(story)
    (found,) = trace_tables.sending(sends).collect()
    assert (found.topic, found.clientGroup, found.messages, found.failed) == ("orders", "PG", 5, 1)
    assert (found.bodyBytes, found.costP50Ms, found.costMaxMs) == (500, 3, 3)


@pytest.mark.parametrize("by", ["m2", "k-m2"])
def test_a_message_s_whole_life(story: DataFrame, by: str) -> None:
    assert [r.what for r in trace_tables.life(story, by).collect()] == [
        "sent to 10.1.1.1:10911 in 3 ms",
        "handling begins",
        "handled: exception in 10 ms",
        "handling begins, retry 1",
        "handled: time out in 10 ms",
        "handling begins, retry 2",
        "handled: success in 40 ms",
    ]


def test_a_life_is_whole_though_not_every_record_has_the_key(told: Frame) -> None:
    records = told([sent("m", keys="order-1 other"), joined("SubAfter", "r", "m", 1, "true", "null", 0)])
    assert [r.kind for r in trace_tables.life(records, "order-1").collect()] == ["Pub", "SubAfter"]
    assert trace_tables.life(records, "order").count() == 0


def test_a_transaction_s_life(told: Frame) -> None:
    end = ("EndTransaction", START_MS + 50, "R", "PG", "orders", "m", "null", "k", "b:1", 2, "TX")
    found = told([sent("m", kind=MessageKind.HALF), joined(*end, "COMMIT_MESSAGE", "true")])
    assert [r.what for r in trace_tables.life(found, "m").collect()] == [
        "sent to 10.1.1.1:10911 in 3 ms (half)",
        "COMMIT_MESSAGE after a check",
    ]
    (only,) = trace_tables.sends(found).collect()
    assert (only.transactionState, only.messageType, only.costMs) == ("COMMIT_MESSAGE", "half", 3)


def test_sends_of_many_clients_are_observed_by_stretches(spark: SparkSession) -> None:
    def at(seconds: int, **given: Any) -> tuple[Any, ...]:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        row = {"kind": "Pub", "at": moment, "topic": "t", "storeHost": "h:1"} | given
        return tuple(row.get(column.split()[0]) for column in RECORD_DDL.split(", "))

    # 0 to 10: one of three fails. 10 to 20: two of three. 20 to 30: all sends to a known broker work.
    sends = [(0, True), (1, False), (2, True), (11, False), (12, None), (13, True)]
    rows = [at(second, success=ok, costMs=4) for second, ok in sends]
    rows += [at(21, success=True, costMs=2), at(22, kind="SubAfter"), at(23, success=False, storeHost=None)]
    seen = trace_tables.observations(spark.createDataFrame(rows, RECORD_DDL), 10).orderBy("at")
    found = seen.collect()
    assert [(row.broker, row.operation, row.ok, row.latencyMs) for row in found] == [
        ("h:1", "send", True, 4.0),
        ("h:1", "send", False, 4.0),
        ("h:1", "send", True, 2.0),
    ]
    assert ["SEND_OK" in (row.error or "") for row in found] == [True, True, False]
    with Samples(seen.toArrow()) as samples:
        ((figures,), (outage,)) = figures_of(samples, max_gap_s=30)
    assert (figures["broker"], figures["operation"], figures["downSeconds"]) == ("h:1", "send", 10)
    assert outage["began"] == datetime.datetime.fromtimestamp(10, datetime.UTC)

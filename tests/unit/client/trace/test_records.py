"""Trace records byte for byte as Java's client writes them."""

from __future__ import annotations

import json
from pathlib import Path

from orbitmq.client.trace.records import (
    Handled,
    MessageKind,
    TraceRecord,
    after_handling,
    before_handling,
    published,
)
from orbitmq.client.trace.tracing import MAX_BODY_BYTES, in_messages

CASES = json.loads((Path(__file__).parents[3] / "wire" / "vectors" / "trace.json").read_text())["cases"]
ID, REQUEST = "AC1100010001000000000000", "AC1100010001000000000001"


def pub(**changed: object) -> TraceRecord:
    values: dict[str, object] = {
        "at_ms": 1700000000000,
        "region": "DefaultRegion",
        "group": "PG",
        "topic": "TopicTest",
        "message_id": ID,
        "tags": "TagA",
        "keys": "k1 k2",
        "store_host": "127.0.0.1:10911",
        "body_length": 11,
        "cost_ms": 5,
        "kind": MessageKind.NORMAL,
        "offset_message_id": "7F00000100002A9F0000000000000000",
        "success": True,
    }
    return published(**{**values, **changed})  # type: ignore[arg-type]


def test_a_message_was_sent() -> None:
    record = pub()
    assert record.text == CASES["Pub"]["data"]
    assert list(record.keys) == CASES["Pub"]["keys"]


def test_texts_that_are_not_there() -> None:
    fields = pub(tags=None, keys="", offset_message_id="").text.split("\x01")
    assert (fields[6], fields[7], fields[12]) == ("null", "null", "null")


def test_a_message_is_handled() -> None:
    before = before_handling(
        at_ms=1700000000000,
        region="DefaultRegion",
        group="PG",
        topic="TopicTest",
        request_id=REQUEST,
        message_id=ID,
        retry_times=1,
        keys="k1 k2",
    )
    assert before.text == CASES["SubBefore"]["data"]
    after = after_handling(
        at_ms=1700000000000,
        group="PG",
        topic="TopicTest",
        request_id=REQUEST,
        message_id=ID,
        cost_ms=5,
        keys="k1 k2",
        handled=Handled.SUCCESS,
    )
    assert after.text == CASES["SubAfter"]["data"]


def test_records_about_one_topic_travel_together_up_to_a_size() -> None:
    records = [pub(message_id=f"{n:024}", keys="k") for n in range(3)] + [pub(topic="Other")]
    messages = in_messages("RMQ_SYS_TRACE_TOPIC", records)
    assert [count for _, count in messages] == [3, 1]
    assert messages[0][0].keys == (f"{0:024}", "k", f"{1:024}", f"{2:024}")
    assert messages[0][0].body.decode().count("\x02") == 3
    long = in_messages("T", [pub(keys="k" * (MAX_BODY_BYTES // 2)) for _ in range(3)])
    assert [count for _, count in long] == [1, 1, 1]

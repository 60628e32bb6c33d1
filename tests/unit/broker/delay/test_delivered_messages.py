"""Delayed messages where they belong, against records that Apache's broker delivered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.delay.delivered_messages import delivered, identity_of, was_delivered
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.store import PendingMessage

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
VECTORS = Path(__file__).parents[3] / "wire" / "vectors" / "delivered_records.json"


def vector(topic: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(VECTORS.read_text())["records"]
    return [record for record in records if record["topic"] == topic and "DELAY\x01" in record["properties"]]


@pytest.mark.parametrize(("nth", "real_topic"), [(0, "DTest"), (1, "%RETRY%GX")])
def test_records_are_delivered_as_apache_delivers_them(nth: int, real_topic: str) -> None:
    came_in = decode_record(bytes.fromhex(vector(SCHEDULE)[nth]["record_hex"]))
    want = decode_record(bytes.fromhex(vector(real_topic)[0]["record_hex"]))
    message = delivered(came_in)
    assert message.topic == want.topic
    assert message.properties == want.properties
    for name in (
        "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times",
        "prepared_transaction_offset", "body",
    ):  # fmt: skip
        assert getattr(message, name) == getattr(want, name), name


def one_delivered() -> PendingMessage:
    return delivered(decode_record(bytes.fromhex(vector(SCHEDULE)[0]["record_hex"])))


def test_a_message_is_recognised_though_its_record_has_a_checksum_of_its_own() -> None:
    message = one_delivered()
    with_checksum = replace(message, properties=message.properties + b"__CRC32#\x01123456\x02")
    assert identity_of("T", 0, with_checksum) == identity_of("T", 0, message)


@pytest.mark.parametrize(
    "change", [{"body": b"other"}, {"born_timestamp": 1}, {"properties": b"KEYS\x01k\x02"}]
)
def test_messages_that_differ_are_told_apart(change: dict[str, Any]) -> None:
    message = one_delivered()
    assert identity_of("T", 0, replace(message, **change)) != identity_of("T", 0, message)
    assert identity_of("T", 1, message) != identity_of("T", 0, message) != identity_of("U", 0, message)


def test_a_delayed_message_counts_as_delivered_only_where_it_belongs() -> None:
    waits = decode_record(bytes.fromhex(vector(SCHEDULE)[0]["record_hex"]))
    there = decode_record(bytes.fromhex(vector("DTest")[0]["record_hex"]))
    assert was_delivered(there)
    assert not was_delivered(waits)
    assert not was_delivered(replace(there, queue_id=there.queue_id + 1))

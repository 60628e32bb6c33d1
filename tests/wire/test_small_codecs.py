"""Properties, batches, ids, hashes, compression and consume-queue units against Apache's bytes."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.protocol.records import ids
from orbitmq.protocol.records.batch_cy import encode_batch, split_batch
from orbitmq.protocol.records.checksums_cy import crc32
from orbitmq.protocol.records.compression import InflatedTooLarge, deflate, inflate
from orbitmq.protocol.records.hashing import index_hash, java_hash
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.records.properties import decode_properties, encode_properties, find_property, tags_code
from orbitmq.protocol.records.queue_units import UNIT_BYTES, pack_unit, unpack_unit
from tests.wire.vector_files import load

HASHES = load("hashes")["cases"]
PROPERTIES = load("properties")["cases"]
BATCH = load("batch_body")
COMPRESSION = load("compression")["cases"]
QUEUES = load("consume_queue")
IDS = load("message_ids")


@pytest.mark.parametrize("case", HASHES, ids=lambda case: case["text"] or "empty")
def test_hashes(case: dict[str, Any]) -> None:
    text = case["text"]
    assert crc32(text.encode()) == case["crc32_31bit"]
    assert java_hash(text) == case["java_hashCode"]
    assert index_hash(text) == case["index_hash"]
    properties = f"KEYS\x01k\x02TAGS\x01{text}\x02".encode()
    assert tags_code(properties) == case["tagsCode"]


@pytest.mark.parametrize("case", PROPERTIES, ids=lambda case: repr(case["string"]))
def test_properties(case: dict[str, Any]) -> None:
    text = case["string"]
    expected = case.get("decoded", case.get("decoded_again"))
    assert decode_properties(text.encode()) == expected
    assert decode_properties(text) == expected
    for name, value in expected.items():
        assert find_property(text.encode(), name.encode()) == value.encode()
    if "map" in case:
        nulls = dict.fromkeys(case["null_valued_keys_skipped"])
        assert encode_properties({**case["map"], **nulls}).hex() == case["utf8_hex"]


def test_batch_body() -> None:
    parts = [(m["flag"], m["body"].encode(), m["properties"].encode()) for m in BATCH["messages"]]
    body = bytes.fromhex(BATCH["body_hex"])
    assert split_batch(body) == parts
    assert split_batch(memoryview(body)) == parts
    assert encode_batch(parts) == body
    for part, message in zip(parts, BATCH["messages"], strict=True):
        assert encode_batch([part]).hex() == message["hex"]


@pytest.mark.parametrize("case", COMPRESSION, ids=lambda case: f"{case['type']}-{case['level']}")
def test_compression(case: dict[str, Any]) -> None:
    raw = b"rocketmq" * 125
    packed = bytes.fromhex(case["compressed_hex"])
    assert inflate(packed, case["sysFlag"], 1000) == raw
    assert inflate(memoryview(packed), case["sysFlag"], 5000) == raw
    with pytest.raises(InflatedTooLarge):
        inflate(packed, case["sysFlag"], 999)
    assert inflate(deflate(raw, case["sysFlag"] & 0x700, case["level"]), case["sysFlag"], 1000) == raw


@pytest.mark.parametrize("case", IDS["offsetMsgId"], ids=lambda case: case["offsetMsgId"])
def test_offset_message_ids(case: dict[str, Any]) -> None:
    host = ids.pack_host(case["host"], case["port"])
    assert ids.offset_message_id(host, case["commitLogOffset"]) == case["offsetMsgId"]
    for text in (case["offsetMsgId"], case["offsetMsgId"].lower()):
        parsed = ids.parse_offset_message_id(text)
        assert parsed == (host, case["commitLogOffset"])
        assert parsed.address == (case["host"], case["port"])


@pytest.mark.parametrize("case", IDS["uniqId"], ids=lambda case: case["uniqId"])
def test_unique_ids(case: dict[str, Any]) -> None:
    parsed = ids.parse_unique_id(case["uniqId"])
    host = ids.pack_host(case["ip"], 0)
    assert ids.pack_host(parsed.ip, 0) == host
    assert parsed.pid == case["pid"]
    assert parsed.loader_hash == int(case["classLoaderHash_hex"], 16)
    assert parsed.ms_of_month == int(case["ms_since_month_start_hex"], 16)
    assert parsed.counter == int(case["counter_hex"], 16)
    made = ids.UniqueIds(host, parsed.pid, parsed.loader_hash)
    month_start, _ = ids.month_of(1_795_212_954_469)
    for _ in range(parsed.counter):
        made.new(month_start + 1)
    assert made.new(month_start + parsed.ms_of_month) == case["uniqId"]


def test_units_point_at_their_records() -> None:
    """Units and records were written in the same run."""
    records = {}
    for vector in load("store_messages")["records"]:
        if not vector.get("appendPropCRC"):
            for record in decode_records(bytes.fromhex(vector["record_hex"]))[0]:
                records[record.physical_offset] = record
    for name, text in QUEUES["units"].items():
        raw = bytes.fromhex(text)
        if name.startswith("batchconsumequeue"):
            continue
        _, topic, queue_id = name.split("/")
        units = [unpack_unit(raw, at) for at in range(0, len(raw), UNIT_BYTES)]
        assert b"".join(pack_unit(*unit) for unit in units) == raw
        for queue_offset, unit in enumerate(units):
            record = records[unit.physical_offset]
            assert unit.is_written
            assert (record.topic, record.queue_id) == (topic, int(queue_id))
            assert (record.queue_offset, record.size) == (queue_offset, unit.size)
            if topic == "SCHEDULE_TOPIC_XXXX":
                assert unit.tags_code == record.store_timestamp + 10_000
            else:
                assert unit.tags_code == tags_code(record.properties)


@pytest.mark.parametrize(("tag", "code"), QUEUES["string_hash"].items())
def test_hashes_in_units(tag: str, code: int) -> None:
    assert java_hash(tag) == code

"""Records as Apache's own classes write them, in both directions."""

from __future__ import annotations

import mmap
from typing import Any

import pytest

from orbitmq.protocol.records.batch_cy import encode_batch, split_batch
from orbitmq.protocol.records.checksums_cy import crc32
from orbitmq.protocol.records.compression import deflate, inflate
from orbitmq.protocol.records.encoding_cy import encode_record, record_size
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.records.ids import host_text, offset_message_id, pack_host
from orbitmq.protocol.records.inner_batch import plain_messages
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, decode_records, read_header
from orbitmq.protocol.records.properties import decode_properties, encode_properties, tags_code
from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.records.scans import Stop
from tests.wire.vector_files import load

RECORDS: list[dict[str, Any]] = load("store_messages")["records"]
SINGLE = [record for record in RECORDS if record["name"] != "batch_of_3"]
DELIVERED: list[dict[str, Any]] = load("delivered_records")["records"]


def packed(address: str) -> bytes:
    ip, _, port = address.rpartition(":")
    return pack_host(ip.strip("[]"), int(port))


@pytest.mark.parametrize("vector", SINGLE, ids=lambda vector: vector["name"])
@pytest.mark.parametrize("given_as", [bytes, bytearray, memoryview, "mmap"], ids=str)
def test_reads_what_apache_wrote(vector: dict[str, Any], given_as: Any) -> None:
    raw = bytes.fromhex(vector["record_hex"])
    if given_as == "mmap":
        buf = mmap.mmap(-1, len(raw) + 7)
        buf[3 : 3 + len(raw)] = raw
    else:
        buf = given_as(b"abc" + raw + b"more")
    record = decode_record(buf, 3, check_property_crc=True)
    assert record.topic == vector["topic"]
    assert record.body == bytes.fromhex(vector["body_hex"])
    assert record.queue_id == vector["queueId"]
    assert record.queue_offset == vector["queueOffset"]
    assert record.physical_offset == vector["physicalOffset"]
    assert record.flag == vector["flag"]
    assert record.sys_flag == vector["sysFlag"]
    assert record.born_timestamp == vector["bornTimestamp"]
    assert record.born_host == packed(vector["bornHost"])
    assert record.store_timestamp == vector["storeTimestamp"]
    assert record.store_host == packed(vector["storeHost"])
    assert record.reconsume_times == vector["reconsumeTimes"]
    assert record.prepared_transaction_offset == vector["preparedTransactionOffset"]
    assert record.size == vector["wroteBytes"] == len(raw)
    assert record.body_crc == crc32(record.body)
    assert record.offset_id == vector["offsetMsgId"]
    expected = decode_properties(vector["propertiesString"])
    found = record.property_map()
    found.pop("__CRC32#", None)
    assert found == expected
    if not vector.get("appendPropCRC"):
        assert record.properties.decode() == vector["propertiesString"]


@pytest.mark.parametrize("vector", SINGLE, ids=lambda vector: vector["name"])
def test_writes_what_apache_wrote(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["record_hex"])
    topic = vector["topic"].encode()
    properties = vector["propertiesString"].encode()
    body = bytes.fromhex(vector["body_hex"])
    born_host, store_host = packed(vector["bornHost"]), packed(vector["storeHost"])
    append_crc = bool(vector.get("appendPropCRC"))
    for given_crc in (None, crc32(body)):
        for given_body in (body, bytearray(body), memoryview(b"x" + body)[1:]):
            out = bytearray(b"\xee" * (len(raw) + 10))
            size = encode_record(
                out,
                5,
                vector["queueId"],
                vector["flag"],
                vector["queueOffset"],
                vector["physicalOffset"],
                # The IPv6 bits come from the hosts.
                vector["sysFlag"] & ~0x30,
                vector["bornTimestamp"],
                born_host,
                vector["storeTimestamp"],
                store_host,
                vector["reconsumeTimes"],
                vector["preparedTransactionOffset"],
                given_body,
                topic,
                properties,
                given_crc,
                append_crc,
            )
            assert size == len(raw)
            assert out == b"\xee" * 5 + raw + b"\xee" * 5
    most = record_size(len(body), len(topic), len(properties), len(born_host), len(store_host), append_crc)
    assert most - len(raw) in ((0, 1) if append_crc else (0,))


@pytest.mark.parametrize("vector", SINGLE, ids=lambda vector: vector["name"])
def test_header_for_scans(vector: dict[str, Any]) -> None:
    size, magic, queue_id, queue_offset, physical_offset, sys_flag, stored = read_header(
        bytes.fromhex(vector["record_hex"])
    )
    assert size == vector["wroteBytes"]
    assert magic & 0xFFFFFFFF == (0xDAA320AB if len(vector["topic"]) > 127 else 0xDAA320A7)
    assert (queue_id, queue_offset) == (vector["queueId"], vector["queueOffset"])
    assert (physical_offset, sys_flag) == (vector["physicalOffset"], vector["sysFlag"])
    assert stored == vector["storeTimestamp"]


def test_scan_of_a_whole_log() -> None:
    """The vectors without a property checksum stand back to back in one commit log."""
    vectors = [vector for vector in RECORDS if not vector.get("appendPropCRC")]
    log = b"".join(bytes.fromhex(vector["record_hex"]) for vector in vectors)
    scan = scan_records(log, 0, len(log), 0)
    assert scan.stop is Stop.END
    assert scan.position == len(log)
    assert len(scan.records) == len(SINGLE) - 2 + 3
    records, bad = decode_records(log)
    assert not bad
    for (physical, size, queue_id, queue_offset, stored, sys_flag, topic, code, properties), record in zip(
        scan.records, records, strict=True
    ):
        assert physical == record.physical_offset
        assert size == record.size
        assert (queue_id, queue_offset) == (record.queue_id, record.queue_offset)
        assert (stored, sys_flag, topic) == (record.store_timestamp, record.sys_flag, record.topic)
        assert properties == record.properties
        assert code == tags_code(properties) == java_hash(record.tags or "")


def test_records_of_a_batch() -> None:
    (vector,) = (vector for vector in RECORDS if vector["name"] == "batch_of_3")
    parts = split_batch(bytes.fromhex(vector["body_hex"]))
    assert encode_batch(parts).hex() == vector["body_hex"]
    records, bad = decode_records(bytes.fromhex(vector["record_hex"]))
    assert not bad
    assert ",".join(record.offset_id for record in records) == vector["offsetMsgId"]
    out = bytearray(vector["wroteBytes"])
    position = 0
    for place, (flag, body, properties) in enumerate(parts):
        position += encode_record(
            out,
            position,
            vector["queueId"],
            flag,
            vector["queueOffset"] + place,
            vector["physicalOffset"] + position,
            vector["sysFlag"],
            vector["bornTimestamp"],
            packed(vector["bornHost"]),
            vector["storeTimestamp"],
            packed(vector["storeHost"]),
            0,
            0,
            body,
            vector["topic"].encode(),
            properties,
        )
    assert out.hex() == vector["record_hex"]


def test_inner_batch_is_three_messages() -> None:
    (vector,) = (vector for vector in RECORDS if vector["name"] == "inner_batch_3")
    record = decode_record(bytes.fromhex(vector["record_hex"]))
    messages = plain_messages(record, 1 << 20)
    assert [message.body for message in messages] == [b"ib0", b"ib1", b"ib2"]
    assert [message.queue_offset for message in messages] == [0, 1, 2]
    assert [message.property_map()["i"] for message in messages] == ["0", "1", "2"]
    assert {message.sys_flag for message in messages} == {0}
    assert {message.topic for message in messages} == {"BatchTopic"}


@pytest.mark.parametrize("vector", [v for v in SINGLE if v["sysFlag"] & 1], ids=lambda v: v["name"])
def test_compressed_bodies(vector: dict[str, Any]) -> None:
    plain = bytes.fromhex(vector["uncompressed_hex"])
    record = decode_record(bytes.fromhex(vector["record_hex"]))
    assert inflate(record.body, record.sys_flag, len(plain)) == plain
    (message,) = plain_messages(record, len(plain))
    assert message.body == plain
    assert message.sys_flag == 0
    again = deflate(plain, record.sys_flag & 0x700)
    assert inflate(again, record.sys_flag, len(plain)) == plain


@pytest.mark.parametrize("number", range(len(DELIVERED)))
def test_records_of_a_running_broker(number: int) -> None:
    """Delays, timers, transactions and retries, as a live broker stored them."""
    vector = DELIVERED[number]
    raw = bytes.fromhex(vector["record_hex"])
    record = decode_record(raw)
    assert record.topic == vector["topic"]
    assert record.physical_offset == vector["physicalOffset"]
    assert record.sys_flag == vector["sysFlag"]
    assert record.reconsume_times == vector["reconsumeTimes"]
    assert record.prepared_transaction_offset == vector["preparedTransactionOffset"]
    assert record.body.decode() == vector["body"]
    assert record.properties.decode() == vector["properties"]
    assert encode_properties(record.property_map()) == record.properties
    assert encoded(record) == raw


def encoded(record: StoredMessage) -> bytes:
    out = bytearray(record.size)
    encode_record(
        out,
        0,
        record.queue_id,
        record.flag,
        record.queue_offset,
        record.physical_offset,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.store_timestamp,
        record.store_host,
        record.reconsume_times,
        record.prepared_transaction_offset,
        record.body,
        record.topic.encode(),
        record.properties,
    )
    return bytes(out)


def test_texts_of_a_record() -> None:
    record = decode_record(bytes.fromhex(RECORDS[0]["record_hex"]))
    assert record.tags == "TagA"
    assert record.keys == ["k1", "k2"]
    assert record.unique_id == "AC1100010001000000000000"
    assert host_text(record.born_host) == "10.1.2.3:40001"
    assert record.offset_id == offset_message_id(record.store_host, 0)
    v6 = decode_record(bytes.fromhex(RECORDS[2]["record_hex"]))
    assert host_text(v6.born_host) == "[2001:db8::1]:40001"

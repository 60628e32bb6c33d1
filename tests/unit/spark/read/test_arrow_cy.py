"""Stored records to Arrow: the scanner against the one-record decoder, value by value."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.compression import deflate
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import host_text, pack_host
from orbitmq.protocol.records.inner_batch import plain_messages
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.plain import encode_blank
from orbitmq.protocol.records.properties import decode_properties
from tests.property.strategies import RECORDS
from tests.wire.vector_files import load

pa = pytest.importorskip("pyarrow")
arrow_cy = pytest.importorskip("orbitmq.spark.read.arrow_cy")

ALL = tuple(arrow_cy.COLUMN_TYPES)
V4 = pack_host("10.0.0.1", 80)
V6 = pack_host("2001:db8::1", 65_535)
VECTORS = [
    bytes.fromhex(vector["record_hex"])
    for vector in load("store_messages")["records"]
    if not vector.get("appendPropCRC")
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record(
    queue_offset: int,
    body: bytes = b"body",
    properties: bytes = b"TAGS\x01a\x02",
    *,
    topic: bytes = b"T",
    sys_flag: int = 0,
    born_host: bytes = V4,
    born_timestamp: int = 1_700_000_000_123,
) -> bytes:
    out = bytearray(300 + len(body) + len(properties))
    size = encode_record(
        out,
        0,
        3,
        -7,
        queue_offset,
        1 << 40,
        sys_flag,
        born_timestamp,
        born_host,
        1_700_000_000_456,
        V4,
        2,
        0,
        body,
        topic,
        properties,
    )
    return bytes(out[:size])


def rows_of(raw: bytes) -> list[dict[str, Any]]:
    """Rows that the scanner should make of records, by the decoder of single ones."""
    rows = []
    position = 0
    while position < len(raw):
        stored = decode_record(raw, position)
        position += stored.size
        if stored.sys_flag & 0xC in (0x4, 0xC):
            continue
        for message in plain_messages(stored, 1 << 20):
            properties = decode_properties(message.properties)
            rows.append(
                {
                    "topic": message.topic,
                    "queueId": message.queue_id,
                    "queueOffset": message.queue_offset,
                    "physicalOffset": message.physical_offset,
                    "keys": properties.get("KEYS"),
                    "tags": properties.get("TAGS"),
                    "body": message.body,
                    "properties": list(properties.items()),
                    "flag": message.flag,
                    "sysFlag": stored.sys_flag,
                    "bornTimestamp": message.born_timestamp,
                    "storeTimestamp": message.store_timestamp,
                    "bornHost": host_text(message.born_host),
                    "storeHost": host_text(message.store_host),
                    "msgId": properties.get("UNIQ_KEY", message.offset_id),
                    "offsetMsgId": message.offset_id,
                    "reconsumeTimes": message.reconsume_times,
                    "recordSize": stored.size,
                    "propertyBytes": message.properties,
                }
            )
    return rows


def values(batch: Any) -> list[dict[str, Any]]:
    """A batch as rows, its times in ms."""
    batch.validate(full=True)
    columns = {}
    for name in batch.schema.names:
        column = batch.column(name)
        if name.endswith("Timestamp"):
            column = column.cast(pa.int64())
            columns[name] = [None if one is None else one // 1000 for one in column.to_pylist()]
        else:
            columns[name] = column.to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def scanned(raw: Any, columns: tuple[str, ...] = ALL, **how: Any) -> list[dict[str, Any]]:
    scanner = arrow_cy.RecordScanner(columns, **how)
    added = scanner.scan(raw)
    assert added == scanner.rows
    batch = scanner.take()
    assert batch.num_rows == added
    assert batch.schema == pa.schema([pa.field(name, arrow_cy.COLUMN_TYPES[name]) for name in columns])
    assert scanner.rows == scanner.size_bytes == 0
    return values(batch)


def test_what_apache_wrote() -> None:
    raw = b"".join(VECTORS)
    expected = rows_of(raw)
    assert len(expected) == len(VECTORS) - 1 + 2 + 2  # no half message; two batches of three
    for given_as in (bytes, bytearray, memoryview):
        assert scanned(given_as(raw)) == expected


@pytest.mark.parametrize("column", ALL)
def test_each_column_alone(column: str) -> None:
    raw = b"".join(VECTORS)
    assert scanned(raw, (column,)) == [{column: row[column]} for row in rows_of(raw)]


def test_columns_in_the_order_asked() -> None:
    columns = ("body", "topic", "queueOffset")
    raw = VECTORS[0] + VECTORS[1]
    assert scanned(raw, columns) == [{name: row[name] for name in columns} for row in rows_of(raw)]


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORDS, max_size=5))
def test_any_records(records: list[bytes]) -> None:
    sound = []
    for raw in records:
        with contextlib.suppress(ValueError):
            rows_of(raw)
            sound.append(raw)
    expected = [row for row in rows_of(b"".join(sound)) if 0 <= row["queueOffset"] < (1 << 63) - 1]
    for row in expected:
        for name in ("bornTimestamp", "storeTimestamp"):
            if abs(row[name]) > ((1 << 63) - 1) // 1000:
                row[name] = None
    assert scanned(b"".join(sound)) == expected


@settings(max_examples=100, deadline=None)
@given(RECORDS, st.data())
def test_damaged_records(raw: bytes, data: st.DataObject) -> None:
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    good = record(1)
    scanner = arrow_cy.RecordScanner(ALL, skip_bad=True)
    scanner.scan(good + bytes(changed) + good)
    values(scanner.take())
    scanner = arrow_cy.RecordScanner(ALL)
    with contextlib.suppress(BadRecord):
        scanner.scan(good + bytes(changed[: data.draw(st.integers(0, len(raw)))]))
    assert values(scanner.take())[:1] == rows_of(good)


def test_range_of_queue_offsets() -> None:
    raw = b"".join(record(offset) for offset in range(10))
    scanner = arrow_cy.RecordScanner(("queueOffset",))
    assert scanner.scan(raw, 3, 7) == 4
    assert scanner.scan(raw, 9, 100) == 1
    assert scanner.scan(raw, 10) == 0
    assert scanner.take().column(0).to_pylist() == [3, 4, 5, 6, 9]


def test_range_cuts_an_inner_batch() -> None:
    body = encode_batch([(number, b"%d" % number, b"TAGS\x01%d\x02" % (number % 2)) for number in range(6)])
    raw = record(0, body, b"INNER_BASE\x0140\x02INNER_NUM\x016\x02", sys_flag=0xC0)
    scanner = arrow_cy.RecordScanner(("queueOffset", "body", "flag", "sysFlag"))
    scanner.scan(raw, 42, 45)
    assert values(scanner.take()) == [
        {"queueOffset": offset, "body": b"%d" % (offset - 40), "flag": offset - 40, "sysFlag": 0xC0}
        for offset in (42, 43, 44)
    ]
    assert [row["queueOffset"] for row in scanned(raw, tags=frozenset({"1"}))] == [41, 43, 45]
    packed = record(0, deflate(body), b"INNER_BASE\x0140\x02", sys_flag=0xC1)
    assert [row["body"] for row in scanned(packed)] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_topic_and_tags() -> None:
    raw = b"".join(
        (
            record(0, topic=b"other"),
            record(1, properties=b"TAGS\x01a\x02"),
            record(2, properties=b"TAGS\x01b\x02"),
            record(3, properties=b""),
            record(4, properties=b"TAGS\x01a b\x02"),
            record(5, properties="TAGS\x01é\x02".encode()),
        )
    )

    def offsets(**how: Any) -> list[int]:
        return [row["queueOffset"] for row in scanned(raw, ("queueOffset",), **how)]

    assert offsets() == [0, 1, 2, 3, 4, 5]
    assert offsets(topic="T") == [1, 2, 3, 4, 5]
    assert offsets(topic="TT") == []
    assert offsets(tags=frozenset({"a"})) == [0, 1]
    assert offsets(topic="T", tags=frozenset({"a", "é"})) == [1, 5]
    assert offsets(tags=frozenset()) == []


def test_compressed_bodies_are_inflated_only_where_asked() -> None:
    broken = record(1, b"no zlib", sys_flag=1)
    raw = record(0, deflate(b"long" * 1000), sys_flag=1) + broken
    assert [row["queueOffset"] for row in scanned(raw, ("queueOffset",))] == [0, 1]
    scanner = arrow_cy.RecordScanner(("body", "queueOffset"), skip_bad=True)
    assert scanner.scan(raw) == 1
    assert scanner.take().column(0).to_pylist() == [b"long" * 1000]
    (error,) = scanner.bad
    assert error.position == len(raw) - len(broken)
    assert "inflated" in error.reason
    bomb = record(0, deflate(bytes(1 << 20)), sys_flag=1)
    with pytest.raises(BadRecord, match="more than 1000"):
        arrow_cy.RecordScanner(("body",), max_body_bytes=1000).scan(bomb)


def test_bad_records() -> None:
    good, bad = record(0), bytearray(record(1))
    bad[88] ^= 1
    scanner = arrow_cy.RecordScanner(("queueOffset",))
    with pytest.raises(BadRecord, match="checksum"):
        scanner.scan(good + bad + good)
    assert scanner.rows == 1
    scanner = arrow_cy.RecordScanner(("queueOffset",), skip_bad=True)
    assert scanner.scan(good + bad + record(2)) == 2
    assert [error.position for error in scanner.bad] == [len(good)]
    assert scanner.take().column(0).to_pylist() == [0, 2]
    # Nothing says how long the bad one is: it is the last.
    assert scanner.scan(good + b"\xff" * 200 + good) == 1
    with pytest.raises(BadRecord, match="cut off"):
        arrow_cy.RecordScanner(("topic",)).scan(good + good[:5])


def test_end_of_a_commit_log_file() -> None:
    good = record(0)
    blank = bytearray(100)
    encode_blank(blank, 0, 100)
    assert len(scanned(good + good + bytes(500))) == 2
    assert len(scanned(good + blank + good)) == 1
    assert scanned(b"") == []


def test_properties_of_every_shape() -> None:
    many = b"".join(b"n%d\x01%d\x02" % (number, number) for number in range(70))
    shapes = (
        b"",
        b"a\x01b",
        b"a\x01\x02\x01b\x02c\x02",
        b"a\x011\x02b\x012\x02a\x013\x02",
        b"KEYS\x01k\x02KEYS\x01\x02",
        many,
        many + b"n3\x01again\x02TAGS\x01t\x02",
        "n\x01é中\x02".encode(),
        b"n\x01\xff\xfe\x02\xc3\x01v\x02",
        b"a\x01b\x01c\x02",
        b"UNIQ_KEY\x01ABC\x02KEYS\x01k l\x02",
    )
    raw = b"".join(record(number, properties=shape) for number, shape in enumerate(shapes))
    assert scanned(raw) == rows_of(raw)


def test_hosts_and_times() -> None:
    raw = b"".join(
        record(number, born_host=host, born_timestamp=time_ms)
        for number, (host, time_ms) in enumerate(
            [(V4, 0), (V6, -1), (V6, 1 << 62), (V4, -(1 << 63)), (pack_host("10.0.0.2", 80), 1)]
        )
    )
    scanner = arrow_cy.RecordScanner(("bornHost", "bornTimestamp"))
    scanner.scan(raw)
    batch = scanner.take()
    assert batch.column(0).to_pylist() == [
        "10.0.0.1:80",
        "[2001:db8::1]:65535",
        "[2001:db8::1]:65535",
        "10.0.0.1:80",
        "10.0.0.2:80",
    ]
    moment = timedelta(milliseconds=1)
    assert batch.column(1).to_pylist() == [EPOCH, EPOCH - moment, None, None, EPOCH + moment]


def test_many_rows_grow_and_are_taken_in_batches() -> None:
    raw = b"".join(record(offset, bytes(offset % 300)) for offset in range(10_000))
    scanner = arrow_cy.RecordScanner(ALL)
    assert scanner.scan(raw) == 10_000
    # Its own figure is that of the batch.
    size_bytes = scanner.size_bytes
    first = scanner.take()
    assert abs(first.nbytes - size_bytes) < 10_000
    assert first.column(ALL.index("queueOffset")).to_pylist() == list(range(10_000))
    assert [len(body) for body in first.column(ALL.index("body")).to_pylist()] == [
        n % 300 for n in range(10_000)
    ]
    scanner.scan(record(77))
    second = scanner.take()
    assert second.num_rows == 1
    assert values(first)[5]["queueOffset"] == 5
    assert scanner.take().num_rows == 0


def test_columns_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="nothing"):
        arrow_cy.RecordScanner(("body", "nothing"))
    with pytest.raises(ValueError, match="once"):
        arrow_cy.RecordScanner(("body", "body"))
    with pytest.raises(ValueError, match="asked for"):
        arrow_cy.RecordScanner(())

"""Stored records to Arrow: the scanner against the one-record decoder, value by value."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.compression import deflate
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.inner_batch import plain_messages
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.plain import encode_blank
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.records.scans import Stop
from tests.kit.stored_records import APACHE_RECORDS, stored_record
from tests.property.strategies import RECORDS

pa = pytest.importorskip("pyarrow")
scanner_module = pytest.importorskip("orbitmq.spark.read.scanner")

RecordScanner = scanner_module.RecordScanner
COLUMN_TYPES = scanner_module.COLUMN_TYPES
ALL = tuple(COLUMN_TYPES)


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
    scanner = RecordScanner(columns, **how)
    added = scanner.scan(raw)
    assert added == scanner.rows
    batch = scanner.take()
    assert batch.num_rows == added
    assert batch.schema == pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in columns])
    assert scanner.rows == scanner.size_bytes == 0
    return values(batch)


def test_what_apache_wrote() -> None:
    raw = b"".join(APACHE_RECORDS)
    expected = rows_of(raw)
    assert len(expected) == len(APACHE_RECORDS) - 1 + 2 + 2  # no half message; two batches of three
    for given_as in (bytes, bytearray, memoryview):
        assert scanned(given_as(raw)) == expected


@pytest.mark.parametrize("column", ALL)
def test_each_column_alone(column: str) -> None:
    raw = b"".join(APACHE_RECORDS)
    assert scanned(raw, (column,)) == [{column: row[column]} for row in rows_of(raw)]


def test_columns_in_the_order_asked() -> None:
    columns = ("body", "topic", "queueOffset")
    raw = APACHE_RECORDS[0] + APACHE_RECORDS[1]
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
    good = stored_record(1)
    scanner = RecordScanner(ALL, skip_bad=True)
    scanner.scan(good + bytes(changed) + good)
    values(scanner.take())
    scanner = RecordScanner(ALL)
    with contextlib.suppress(BadRecord):
        scanner.scan(good + bytes(changed[: data.draw(st.integers(0, len(raw)))]))
    assert values(scanner.take())[:1] == rows_of(good)


def test_range_of_queue_offsets() -> None:
    raw = b"".join(stored_record(offset) for offset in range(10))
    scanner = RecordScanner(("queueOffset",))
    assert scanner.scan(raw, 3, 7) == 4
    assert scanner.scan(raw, 9, 100) == 1
    assert scanner.scan(raw, 10) == 0
    assert scanner.take().column(0).to_pylist() == [3, 4, 5, 6, 9]


def test_range_cuts_an_inner_batch() -> None:
    body = encode_batch([(number, b"%d" % number, b"TAGS\x01%d\x02" % (number % 2)) for number in range(6)])
    raw = stored_record(0, body, b"INNER_BASE\x0140\x02INNER_NUM\x016\x02", sys_flag=0xC0)
    scanner = RecordScanner(("queueOffset", "body", "flag", "sysFlag"))
    scanner.scan(raw, 42, 45)
    assert values(scanner.take()) == [
        {"queueOffset": offset, "body": b"%d" % (offset - 40), "flag": offset - 40, "sysFlag": 0xC0}
        for offset in (42, 43, 44)
    ]
    assert [row["queueOffset"] for row in scanned(raw, tags=frozenset({"1"}))] == [41, 43, 45]
    packed = stored_record(0, deflate(body), b"INNER_BASE\x0140\x02", sys_flag=0xC1)
    assert [row["body"] for row in scanned(packed)] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_topic_and_tags() -> None:
    raw = b"".join(
        (
            stored_record(0, topic=b"other"),
            stored_record(1, properties=b"TAGS\x01a\x02"),
            stored_record(2, properties=b"TAGS\x01b\x02"),
            stored_record(3, properties=b""),
            stored_record(4, properties=b"TAGS\x01a b\x02"),
            stored_record(5, properties="TAGS\x01é\x02".encode()),
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
    broken = stored_record(1, b"no zlib", sys_flag=1)
    raw = stored_record(0, deflate(b"long" * 1000), sys_flag=1) + broken
    assert [row["queueOffset"] for row in scanned(raw, ("queueOffset",))] == [0, 1]
    scanner = RecordScanner(("body", "queueOffset"), skip_bad=True)
    assert scanner.scan(raw) == 1
    assert scanner.take().column(0).to_pylist() == [b"long" * 1000]
    (error,) = scanner.bad
    assert error.position == len(raw) - len(broken)
    assert "inflated" in error.reason
    bomb = stored_record(0, deflate(bytes(1 << 20)), sys_flag=1)
    with pytest.raises(BadRecord, match="more than 1000"):
        RecordScanner(("body",), max_body_bytes=1000).scan(bomb)


def test_bodies_that_cannot_be_inflated_are_null_where_that_is_asked_for() -> None:
    inner = encode_batch((n, b"m%d" % n, b"TAGS\x01a\x02") for n in range(3))
    raw = b"".join(
        [
            stored_record(0, b"", b"TAGS\x01a\x02"),
            stored_record(1, b"no zlib", b"TAGS\x01a\x02", sys_flag=1),
            stored_record(2, deflate(bytes(1001)), b"TAGS\x01a\x02", sys_flag=1),
            stored_record(3, deflate(bytes(2000) + inner), b"TAGS\x01a\x02", sys_flag=0xC1),
            stored_record(6, deflate(bytes(1000)), b"TAGS\x01a\x02", sys_flag=1),
        ]
    )
    scanner = RecordScanner(
        ("queueOffset", "body", "tags"), max_body_bytes=1000, null_unreadable=True, tags=frozenset({"a"})
    )
    assert scanner.scan(raw) == 5
    unreadable, reason = scanner.unreadable
    assert unreadable == 3
    assert "more than 1000 bytes, the maximum by maxInflatedBodyBytes" in reason
    batch = scanner.take()
    assert batch.column(0).to_pylist() == [0, 1, 2, 3, 6]
    assert batch.column(1).to_pylist() == [b"", None, None, None, bytes(1000)]
    assert scanner.unreadable == (0, "")


def test_filling_stops_for_its_caller_to_take_what_large_bodies_became() -> None:
    raw = b"".join(stored_record(n, deflate(bytes(10_000)), sys_flag=1) for n in range(10))
    scanner = RecordScanner(("queueOffset", "body"))
    taken = []
    for _ in scanner.fill(raw, 1, 9, 25_000):
        assert scanner.size_bytes < 45_000
        taken.append(scanner.take().num_rows)
    assert taken == [3, 3]
    assert scanner.take().column(0).to_pylist() == [7, 8]


def test_bad_records() -> None:
    good, bad = stored_record(0), bytearray(stored_record(1))
    bad[88] ^= 1
    scanner = RecordScanner(("queueOffset",))
    with pytest.raises(BadRecord, match="checksum"):
        scanner.scan(good + bad + good)
    assert scanner.rows == 1
    scanner = RecordScanner(("queueOffset",), skip_bad=True)
    assert scanner.scan(good + bad + stored_record(2)) == 2
    assert [error.position for error in scanner.bad] == [len(good)]
    assert scanner.take().column(0).to_pylist() == [0, 2]
    # Nothing says how long the bad one is: it is the last.
    assert scanner.scan(good + b"\xff" * 200 + good) == 1
    with pytest.raises(BadRecord, match="cut off"):
        RecordScanner(("topic",)).scan(good + good[:5])


def test_end_of_a_commit_log_file() -> None:
    good = stored_record(0)
    blank = bytearray(100)
    encode_blank(blank, 0, 100)
    assert len(scanned(good + good + bytes(500))) == 2
    assert len(scanned(good + blank + good)) == 1
    assert scanned(b"") == []


def test_many_rows_grow_and_are_taken_in_batches() -> None:
    raw = b"".join(stored_record(offset, bytes(offset % 300)) for offset in range(10_000))
    scanner = RecordScanner(ALL)
    assert scanner.scan(raw) == 10_000
    # Its own figure is that of the batch.
    size_bytes = scanner.size_bytes
    first = scanner.take()
    assert abs(first.nbytes - size_bytes) < 10_000
    assert first.column(ALL.index("queueOffset")).to_pylist() == list(range(10_000))
    assert [len(body) for body in first.column(ALL.index("body")).to_pylist()] == [
        n % 300 for n in range(10_000)
    ]
    scanner.scan(stored_record(77))
    second = scanner.take()
    assert second.num_rows == 1
    assert values(first)[5]["queueOffset"] == 5
    assert scanner.take().num_rows == 0


def test_columns_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="nothing"):
        RecordScanner(("body", "nothing"))
    with pytest.raises(ValueError, match="once"):
        RecordScanner(("body", "body"))
    with pytest.raises(ValueError, match="asked for"):
        RecordScanner(())


def log_of(*offsets: int, **how: Any) -> bytes:
    """Records as they stand one behind the other at the beginning of a commit log."""
    log = b""
    for offset in offsets:
        log += stored_record(offset, physical_offset=len(log), **how)
    return log


def test_a_log_is_scanned_to_the_limit() -> None:
    log = log_of(0, 1, 2)
    size = len(log) // 3
    scanner = RecordScanner(("queueOffset",))
    # A record that begins before the limit is read, even if it ends behind it.
    assert scanner.scan_log(log, 0, size + 1, 0, 1 << 20) == (2 * size, Stop.END, "", 0)
    assert scanner.scan_log(log, 2 * size, len(log), 0, 1 << 20) == (3 * size, Stop.END, "", 0)
    assert scanner.scan_log(log, len(log), len(log), 0, 1 << 20) == (3 * size, Stop.END, "", 0)
    assert scanner.take().column(0).to_pylist() == [0, 1, 2]


def test_a_log_is_scanned_batch_by_batch() -> None:
    log = log_of(*range(3000))
    scanner = RecordScanner(("queueOffset",))
    position, read, batches = 0, [], 0
    while position < len(log):
        found = scanner.scan_log(log, position, len(log), 0, 800)
        assert found.position > position
        assert found.stop in (None, Stop.END)
        position = found.position
        read += scanner.take().column(0).to_pylist()
        batches += 1
    assert read == list(range(3000))
    assert batches > 10


@pytest.mark.parametrize(
    ("queue_offset", "physical_offset", "reason"),
    [(1, 7, "a record for physical offset 7 is at"), (-1, None, "-1 is no queue offset")],
)
def test_a_record_in_the_wrong_place_ends_the_scan_of_a_log(
    queue_offset: int, physical_offset: int | None, reason: str
) -> None:
    good = log_of(0)
    place = len(good) if physical_offset is None else physical_offset
    bad = stored_record(queue_offset, physical_offset=place)
    scanner = RecordScanner(("queueOffset",))
    found = scanner.scan_log(good + bad, 0, len(good + bad), 0, 1 << 20)
    assert (found.position, found.stop, found.size) == (len(good), Stop.BAD, len(bad))
    assert reason in found.reason
    assert scanner.take().column(0).to_pylist() == [0]


def test_a_damaged_record_ends_the_scan_of_a_log() -> None:
    good = log_of(0)
    scanner = RecordScanner(("queueOffset",), skip_bad=True)
    found = scanner.scan_log(good + b"\xff" * 200, 0, len(good) + 200, 0, 1 << 20)
    assert (found.position, found.stop, found.size) == (len(good), Stop.BAD, 0)
    assert "magic" in found.reason
    assert scanner.bad == []


def test_the_scan_of_a_log_ends_at_its_end() -> None:
    log = log_of(0)
    blank = bytearray(100)
    encode_blank(blank, 0, 100)
    scanner = RecordScanner(("queueOffset",))
    for rest, stop in ((bytes(100), Stop.EMPTY), (bytes(blank), Stop.BLANK)):
        found = scanner.scan_log(log + rest, 0, len(log + rest), 0, 1 << 20)
        assert (found.position, found.stop) == (len(log), stop)


def test_topics_and_times_select_from_a_log() -> None:
    log = b""
    asked = []
    for number in range(200):
        log += stored_record(
            number, topic=b"t%d" % (number % 100), physical_offset=len(log), store_timestamp=number
        )

    def accept(topic: str) -> bool:
        asked.append(topic)
        return topic.endswith("7")

    scanner = RecordScanner(("queueOffset",), accept=accept, from_time_ms=17, to_time_ms=117)
    scanner.scan_log(log, 0, len(log), 0, 1 << 20)
    assert scanner.take().column(0).to_pylist() == [*range(17, 100, 10), 107]
    assert sorted(asked) == sorted({f"t{number}" for number in range(100)})  # each topic once

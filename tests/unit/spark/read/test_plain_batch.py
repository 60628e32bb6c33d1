"""The interpreter's way from records to Arrow; `test_collecting_cy` has the walk that both ways share."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.protocol.records.compression import BadCompression, CompressionMissing, InflatedTooLarge, deflate
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from tests.kit.stored_records import stored_record

pytest.importorskip("pyarrow")

from orbitmq.spark.read.plain_batch import BadBody, PlainBatch, bad_record_of, misplaced
from orbitmq.spark.read.selection_cy import Selection


def rows(names: tuple[str, ...], *records: bytes) -> list[list[Any]]:
    batch = PlainBatch(names, 1000)
    for record in records:
        batch.add(decode_record(record), Selection())
    assert batch.row_count() == len(records)
    return [array.to_pylist() for array in batch.arrays()]


def test_columns_come_in_the_order_asked() -> None:
    assert rows(("body", "topic", "queueOffset"), stored_record(4), stored_record(5, b"b")) == [
        [b"body", b"b"],
        ["T", "T"],
        [4, 5],
    ]


def test_a_batch_tells_the_memory_of_its_values() -> None:
    batch = PlainBatch(("body", "queueOffset", "tags", "properties", "flag"), 1000)
    assert batch.size_bytes() == 0
    batch.add(decode_record(stored_record(0, b"12345", b"TAGS\x01ab\x02")), Selection())
    texts_with_ends = (4 + 5) + (4 + 2) + (4 + 4 + 4 + 4 + 2)
    assert batch.size_bytes() == texts_with_ends + 8 + 4


def test_only_selected_messages_become_rows() -> None:
    selection = Selection(None, frozenset({"a"}))
    selection.set_offsets(1, 3)
    batch = PlainBatch(("queueOffset",), 1000)
    for number, tag in enumerate((b"a", b"a", b"b", b"a")):
        batch.add(decode_record(stored_record(number, properties=b"TAGS\x01%b\x02" % tag)), selection)
    assert batch.arrays()[0].to_pylist() == [1]


def test_a_misplaced_record_is_told_from_one_without_a_queue_offset() -> None:
    assert misplaced(7, 9, -1).reason == "a record for physical offset 7 is at 9"
    assert misplaced(9, 9, -1).reason == "-1 is no queue offset"


def test_the_error_of_a_record_names_its_position() -> None:
    assert str(bad_record_of(BadRecord("torn", 3), 50)) == "torn (record at byte 50)"
    assert bad_record_of(BadCompression("no zlib"), 50).position == 50
    with pytest.raises(CompressionMissing):
        bad_record_of(CompressionMissing("no zstd"), 50)


def test_bodies_that_cannot_be_inflated_are_bad_or_null() -> None:
    large = stored_record(1, deflate(bytes(1001)), sys_flag=1)
    with pytest.raises(InflatedTooLarge):
        rows(("body",), large)
    batch = PlainBatch(("queueOffset", "body"), 1000, null_unreadable=True)
    for record in (
        large,
        stored_record(2, b"no zlib", sys_flag=0xC1),
        stored_record(3, b"no batch", sys_flag=0xC0),
    ):
        batch.add(decode_record(record), Selection())
    assert [array.to_pylist() for array in batch.arrays()] == [[1, 2, 3], [None] * 3]
    assert batch.unreadable == 3
    error = bad_record_of(InflatedTooLarge("more than 5 bytes", 5), 50)
    assert isinstance(error, BadBody)
    assert "more than 5 bytes, the maximum by maxInflatedBodyBytes" in str(error)

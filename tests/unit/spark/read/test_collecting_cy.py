"""The walk over records: where it ends, and what it says of bad ones. Both ways, where one is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.compression import CompressionMissing, deflate
from orbitmq.protocol.records.message import COMPRESSION_ZSTD, BadRecord
from orbitmq.protocol.records.scanning_cy import locate_records
from tests.kit.stored_records import stored_record

pytest.importorskip("pyarrow")

from orbitmq.spark.read import plain_batch
from orbitmq.spark.read.batch_builder_cy import new_batch
from orbitmq.spark.read.collecting_cy import collect_records
from orbitmq.spark.read.column_types import MAX_QUEUE_OFFSET
from orbitmq.spark.read.plain_batch import PlainBatch
from orbitmq.spark.read.selection_cy import Selection

NAMES = ("queueOffset", "body", "tags")
Walk = Callable[..., int]


@pytest.fixture(params=["as-it-is-built", "interpreted"])
def ways(request: pytest.FixtureRequest) -> tuple[Walk, Callable[..., Any]]:
    """The walk and a batch for it."""
    if request.param == "interpreted":
        return plain_batch.collect_records, PlainBatch
    return collect_records, new_batch


class Collected:
    """Records of a buffer, collected into a batch."""

    def __init__(self, ways: tuple[Walk, Callable[..., Any]], raw: Any, selection: Any = None) -> None:
        self._walk, make = ways
        self.raw = raw
        self.selection = Selection() if selection is None else selection
        self.table = locate_records(raw).table
        self.batch = make(NAMES, 1000)
        self.bad: list[BadRecord] = []

    def go_on(
        self, first: int = 0, limit: int = MAX_QUEUE_OFFSET, base: int = -1, max_bytes: int = -1
    ) -> int:
        return self._walk(
            self.batch, self.selection, self.raw, self.table, first, self.bad.append, limit, base, max_bytes
        )

    def column(self, name: str) -> list[Any]:
        values: list[Any] = self.batch.arrays()[NAMES.index(name)].to_pylist()
        return values


def records(count: int, **how: Any) -> bytes:
    raw = b""
    for number in range(count):
        raw += stored_record(number, physical_offset=len(raw), **how)
    return raw


def test_all_records_are_collected(ways: Any) -> None:
    made = Collected(ways, records(5))
    assert made.go_on() == 5
    assert made.column("queueOffset") == [0, 1, 2, 3, 4]


def test_the_walk_begins_with_any_record(ways: Any) -> None:
    made = Collected(ways, records(5))
    assert made.go_on(3) == 5
    assert made.go_on(5) == 5
    assert made.column("queueOffset") == [3, 4]


def test_the_walk_ends_before_a_record_at_the_limit(ways: Any) -> None:
    raw = records(5)
    made = Collected(ways, raw)
    assert made.go_on(0, 2 * len(raw) // 5) == 2
    assert made.go_on(2, 2 * len(raw) // 5 + 1) == 3
    assert made.column("queueOffset") == [0, 1, 2]


def test_the_walk_ends_behind_the_record_that_fills_the_batch(ways: Any) -> None:
    made = Collected(ways, records(100, body=bytes(100)))
    numbers = [0]
    while numbers[-1] < 100:
        made = Collected(ways, made.raw)
        numbers.append(made.go_on(numbers[-1], max_bytes=1000))
        assert numbers[-1] > numbers[-2]
    assert 10 <= len(numbers) <= 20  # a row has a hundred bytes of body, and few others
    assert made.go_on(0, max_bytes=0) == 1


def test_a_record_that_names_another_place_is_bad(ways: Any) -> None:
    raw = records(2)
    size = len(raw) // 2
    assert Collected(ways, raw).go_on(0, base=0) == 2
    moved = Collected(ways, raw)
    assert moved.go_on(0, base=4096) == 1
    (error,) = moved.bad
    assert (error.position, error.reason) == (0, "a record for physical offset 0 is at 4096")
    assert moved.go_on(1, base=4096) == 2
    assert [one.position for one in moved.bad] == [0, size]
    assert moved.batch.row_count() == 0


def test_a_record_of_a_log_has_a_queue_offset(ways: Any) -> None:
    made = Collected(ways, stored_record(-5, physical_offset=0))
    assert made.go_on(0, base=0) == 1
    assert [one.reason for one in made.bad] == ["-5 is no queue offset"]


def test_a_body_that_cannot_be_inflated_is_bad_and_the_walk_goes_on_behind_it(ways: Any) -> None:
    packed = deflate(b"long" * 100)
    raw = stored_record(0, packed, sys_flag=1)
    place = len(raw)
    raw += stored_record(1, b"no zlib", sys_flag=1) + stored_record(2, deflate(bytes(2000)), sys_flag=1)
    raw += stored_record(3)
    made = Collected(ways, raw)
    assert [made.go_on(), made.go_on(2), made.go_on(3)] == [2, 3, 4]
    assert made.column("queueOffset") == [0, 3]
    assert made.column("body") == [b"long" * 100, b"body"]
    assert made.bad[0].position == place
    assert "more than 1000" in made.bad[1].reason


def test_a_missing_library_is_no_fault_of_the_record(ways: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> bytes:
        raise CompressionMissing("zstandard is not installed")

    monkeypatch.setattr(plain_batch, "inflate", missing)
    monkeypatch.setattr("orbitmq.spark.read.collecting_cy.inflate", missing)
    made = Collected(ways, stored_record(0, b"packed", sys_flag=1 | COMPRESSION_ZSTD))
    with pytest.raises(CompressionMissing):
        made.go_on()
    assert made.bad == []


def test_messages_of_an_inner_batch_are_selected_one_by_one(ways: Any) -> None:
    body = encode_batch([(number, b"%d" % number, b"TAGS\x01%d\x02" % (number % 2)) for number in range(6)])
    raw = stored_record(0, body, b"INNER_BASE\x0140\x02INNER_NUM\x016\x02", sys_flag=0xC0)
    selection = Selection(None, frozenset({"1"}))
    selection.set_offsets(42, 46)
    made = Collected(ways, raw, selection)
    assert made.go_on() == 1
    assert made.column("queueOffset") == [43, 45]
    assert made.column("body") == [b"3", b"5"]


def test_an_inner_batch_whose_offset_is_no_number_is_bad(ways: Any) -> None:
    made = Collected(
        ways, stored_record(0, encode_batch([(0, b"", b"")]), b"INNER_BASE\x01x\x02", sys_flag=0xC0)
    )
    assert made.go_on() == 1
    assert "INNER_BASE" in made.bad[0].reason


def test_what_the_selection_leaves_out_makes_no_row(ways: Any) -> None:
    raw = stored_record(0, sys_flag=0x4) + stored_record(1, topic=b"other") + stored_record(2)
    made = Collected(ways, raw, Selection("T".__eq__))
    assert made.go_on() == 3
    assert made.column("queueOffset") == [2]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_read(ways: Any, kind: Any) -> None:
    made = Collected(ways, kind(records(3)))
    assert made.go_on() == 3
    assert made.column("queueOffset") == [0, 1, 2]

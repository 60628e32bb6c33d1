"""Columns as they grow, in Arrow's own layout. Their values come from records: builders take nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.stored_records import stored_record

pa = pytest.importorskip("pyarrow")

from orbitmq.spark.read.scanner import RecordScanner  # noqa: E402


def column(raw: bytes, name: str) -> Any:
    scanner = RecordScanner((name,))
    scanner.scan(raw)
    array = scanner.take().column(0)
    array.validate(full=True)
    return array


@pytest.mark.parametrize("name", ["queueOffset", "physicalOffset", "flag", "recordSize"])
@pytest.mark.parametrize("rows", [0, 1, 127, 128, 129, 255, 256, 257, 5000])
def test_numbers_grow_past_the_memory_of_the_beginning(name: str, rows: int) -> None:
    raw = b"".join(stored_record(number, physical_offset=number << 33) for number in range(rows))
    one = len(stored_record(0))
    expected = {
        "queueOffset": list(range(rows)),
        "physicalOffset": [number << 33 for number in range(rows)],
        "flag": [-7] * rows,
        "recordSize": [one] * rows,
    }
    assert column(raw, name).to_pylist() == expected[name]


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 70_000])
def test_texts_grow_past_the_memory_of_the_beginning(size: int) -> None:
    bodies = [b"", bytes(size), b"x" * size, b"last"]
    raw = b"".join(stored_record(number, body) for number, body in enumerate(bodies))
    assert column(raw, "body").to_pylist() == bodies


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 64, 1000])
@pytest.mark.parametrize("every", [1, 2, 3, 1001])
def test_nulls_are_where_no_value_is(rows: int, every: int) -> None:
    raw = b"".join(
        stored_record(number, properties=b"" if number % every == 0 else b"TAGS\x01t%d\x02" % number)
        for number in range(rows)
    )
    array = column(raw, "tags")
    expected = [None if number % every == 0 else f"t{number}" for number in range(rows)]
    assert array.to_pylist() == expected
    assert array.null_count == expected.count(None)


def test_a_column_without_nulls_has_no_bitmap() -> None:
    # The interpreted twin leaves this to Arrow, which leaves the bitmap out as well.
    assert column(stored_record(0), "tags").buffers()[0] is None


def test_text_that_is_not_utf_8_has_replacement_characters() -> None:
    raw = stored_record(0, properties=b"TAGS\x01a\xff\xc3b\x02") + stored_record(
        1, properties=b"TAGS\x01\xc3\xa9\x02"
    )
    assert column(raw, "tags").to_pylist() == ["a\ufffd\ufffdb", "é"]
    assert column(raw, "propertyBytes").to_pylist() == [b"TAGS\x01a\xff\xc3b\x02", b"TAGS\x01\xc3\xa9\x02"]

"""Types of columns: those of Spark have one, and only some need a record's properties."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from orbitmq.spark.read import columns  # noqa: E402
from orbitmq.spark.read.column_types import COLUMN_TYPES, FROM_PROPERTIES, MAX_TIME_MS  # noqa: E402
from orbitmq.spark.read.scanner import RecordScanner  # noqa: E402
from tests.kit.stored_records import stored_record  # noqa: E402


def test_each_column_of_spark_but_the_brokers_name_comes_from_a_record() -> None:
    assert set(columns.NAMES) - COLUMN_TYPES.keys() == {columns.BROKER_NAME}


@pytest.mark.parametrize("column", COLUMN_TYPES)
def test_a_column_that_needs_properties_says_so(column: str) -> None:
    def value(properties: bytes) -> object:
        scanner = RecordScanner((column,))
        scanner.scan(stored_record(0, properties=properties))
        return scanner.take().column(0)[0].as_py()

    plain = value(b"\x01" * 40)  # without a single property, and as long
    given = value(b"TAGS\x01t\x02KEYS\x01k\x02UNIQ_KEY\x010123456789012345\x02")
    if column in ("recordSize", "propertyBytes"):
        assert column not in FROM_PROPERTIES
    else:
        assert (plain != given) == (column in FROM_PROPERTIES)


def test_the_last_time_fits_into_arrow() -> None:
    kind = COLUMN_TYPES["storeTimestamp"]
    assert pa.array([MAX_TIME_MS * 1000], kind).cast(pa.int64()).to_pylist() == [MAX_TIME_MS * 1000]
    with pytest.raises(OverflowError):
        pa.array([(MAX_TIME_MS + 1) * 1000], kind)

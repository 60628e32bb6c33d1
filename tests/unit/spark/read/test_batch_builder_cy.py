"""Rows of a batch: each value in its column, compiled and interpreted alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.compression import deflate
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.records.scanning_cy import locate_records
from tests.kit.stored_records import APACHE_RECORDS, V4, V6, stored_record

pa = pytest.importorskip("pyarrow")

from orbitmq.spark.read.batch_builder_cy import new_batch  # noqa: E402
from orbitmq.spark.read.collecting_cy import collect_records  # noqa: E402
from orbitmq.spark.read.column_types import COLUMN_TYPES, MAX_QUEUE_OFFSET  # noqa: E402
from orbitmq.spark.read.plain_batch import PlainBatch  # noqa: E402
from orbitmq.spark.read.plain_batch import collect_records as collect_plainly  # noqa: E402
from orbitmq.spark.read.selection_cy import Selection  # noqa: E402

ALL = tuple(COLUMN_TYPES)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MANY = b"".join(b"n%d\x01%d\x02" % (number, number) for number in range(70))
SHAPES = (
    b"",
    b"a\x01b",
    b"a\x01\x02\x01b\x02c\x02",
    b"a\x011\x02b\x012\x02a\x013\x02",
    b"KEYS\x01k\x02KEYS\x01\x02",
    MANY,
    MANY + b"n3\x01again\x02TAGS\x01t\x02",
    "n\x01é中\x02".encode(),
    b"n\x01\xff\xfe\x02\xc3\x01v\x02",
    b"a\x01b\x01c\x02",
    b"UNIQ_KEY\x01ABC\x02KEYS\x01k l\x02",
    b"UNIQ_KEY\x01\xff\x02TAGS\x01\xff\x02KEYS\x01\xc3\xa9\x02",
)
"""Properties that differ in what counts as one, in their number and in their bytes."""


def filled(raw: bytes, names: tuple[str, ...] = ALL, before: Any = None) -> Any:
    batch = new_batch(names, 1 << 20, before)
    table = locate_records(raw).table
    assert collect_records(batch, Selection(), raw, table, 0, pytest.fail) == len(table) // 64
    return batch


def columns_of(batch: Any) -> list[Any]:
    arrays = batch.arrays()
    for array in arrays:
        array.validate(full=True)
    return arrays


def column(raw: bytes, name: str) -> list[Any]:
    values: list[Any] = columns_of(filled(raw, (name,)))[0].to_pylist()
    return values


@pytest.mark.parametrize(
    "raw",
    [
        b"".join(APACHE_RECORDS),
        b"".join(stored_record(number, properties=shape) for number, shape in enumerate(SHAPES)),
        stored_record(
            0,
            deflate(
                encode_batch([(number, b"%d" % number, SHAPES[number]) for number in range(len(SHAPES))])
            ),
            b"INNER_BASE\x0140\x02",
            sys_flag=0xC1,
        ),
    ],
    ids=["apache", "properties", "inner-batch"],
)
def test_a_batch_has_the_columns_of_its_twin(raw: bytes) -> None:
    twin = PlainBatch(ALL, 1 << 20)
    collect_plainly(
        twin, Selection(), raw, locate_records(raw).table, 0, pytest.fail, MAX_QUEUE_OFFSET, -1, -1
    )
    batch = filled(raw)
    assert batch.row_count() == twin.row_count()
    assert columns_of(batch) == columns_of(twin)


def test_of_properties_of_one_name_the_last_counts_in_the_place_of_the_first() -> None:
    assert column(stored_record(0, properties=b"a\x011\x02b\x012\x02a\x013\x02"), "properties") == [
        [("a", "3"), ("b", "2")]
    ]


def test_a_message_may_have_any_number_of_properties() -> None:
    for count in (0, 1, 63, 64, 65, 200):
        properties = b"".join(b"n%d\x01%d\x02" % (number, number) for number in range(count))
        expected = [(f"n{number}", str(number)) for number in range(count)]
        assert column(stored_record(0, properties=properties), "properties") == [expected]


def test_a_message_without_a_unique_id_has_that_of_its_place() -> None:
    raw = stored_record(0, properties=b"") + stored_record(1, properties=b"UNIQ_KEY\x01ABC\x02")
    place = "0A000001" + "00000050" + "0000010000000000"
    assert column(raw, "msgId") == [place, "ABC"]
    assert column(raw, "offsetMsgId") == [place, place]


def test_hosts_follow_each_other_in_any_order() -> None:
    hosts = (V4, V6, V6, V4, pack_host("10.0.0.2", 80))
    raw = b"".join(stored_record(number, born_host=host) for number, host in enumerate(hosts))
    assert column(raw, "bornHost") == [
        "10.0.0.1:80",
        "[2001:db8::1]:65535",
        "[2001:db8::1]:65535",
        "10.0.0.1:80",
        "10.0.0.2:80",
    ]


def test_a_time_that_arrow_cannot_hold_is_null() -> None:
    times = (0, -1, 1 << 62, -(1 << 63), 1)
    raw = b"".join(stored_record(number, born_timestamp=time) for number, time in enumerate(times))
    moment = timedelta(milliseconds=1)
    assert column(raw, "bornTimestamp") == [EPOCH, EPOCH - moment, None, None, EPOCH + moment]


def test_a_batch_tells_the_memory_that_it_needs() -> None:
    raw = b"".join(stored_record(number, bytes(number % 300)) for number in range(3000))
    batch = filled(raw)
    size_bytes = batch.size_bytes()
    made = pa.RecordBatch.from_arrays(columns_of(batch), schema=pa.schema(COLUMN_TYPES.items()))
    assert abs(made.nbytes - size_bytes) < 3000
    assert filled(b"").size_bytes() == 0


def test_a_batch_begins_with_the_memory_of_the_last_and_not_with_its_rows() -> None:
    first = filled(b"".join(stored_record(number, bytes(1000)) for number in range(300)))
    columns_of(first)
    second = filled(stored_record(7), ALL, first)
    assert second.row_count() == 1
    assert columns_of(second) == columns_of(filled(stored_record(7)))

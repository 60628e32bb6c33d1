"""Messages in files of their day, a row group in memory at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from orbitmq.spark.lake.lake import Lake
from orbitmq.spark.lake.storage import LakeLocation, LocalStorage
from orbitmq.spark.lake.writing import (
    DayFiles,
    ParquetForm,
    split_by_day,
)
from orbitmq.spark.read.columns import arrow_schema
from tests.kit.lakes import COLUMNS, batch_of


def test_days_are_those_of_utc_and_never_mixed(tmp_path: Path) -> None:
    mixed = pa.Table.from_batches([batch_of(0, 5, day=1), batch_of(5, 9, day=2), batch_of(9, 12, day=1)])
    batch = mixed.combine_chunks().to_batches()[0]
    found = [(date, rows.column("queueOffset").to_pylist()) for date, rows in split_by_day(batch)]
    assert found == [("1970-01-02", [0, 1, 2, 3, 4, 9, 10, 11]), ("1970-01-03", [5, 6, 7, 8])]
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        files = DayFiles(lake.storage, lake.staging, "%RETRY%g", "x")
        files.write(batch)
        done = files.finish()
    assert {(file.date, file.rows) for file in done} == {("1970-01-02", 8), ("1970-01-03", 4)}
    assert all(file.path.startswith("topic=%25RETRY%25g/date=1970-") for file in done)


def test_messages_without_a_time_have_a_day(tmp_path: Path) -> None:
    schema = arrow_schema(COLUMNS)
    nulls = batch_of(0, 3).set_column(
        schema.get_field_index("storeTimestamp"),
        "storeTimestamp",
        pa.nulls(3, schema.field("storeTimestamp").type),
    )
    with Lake.open(LakeLocation(str(tmp_path))) as lake:
        files = DayFiles(lake.storage, lake.staging, "orders", "x")
        files.write(nulls)
        files.write(batch_of(3, 4, day=0))
        (done,) = files.finish()
    assert (done.date, done.rows, done.last_store_ms) == ("1970-01-01", 4, 0)


def test_a_worker_holds_one_row_group(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    files = DayFiles(storage, "_staged/r", "orders", "x", ParquetForm(row_group_bytes=100_000))
    for low in range(0, 2000, 100):
        files.write(batch_of(low, low + 100, body=b"y" * 1000))
    (done,) = files.finish()
    written = pq.ParquetFile(tmp_path / done.staged).metadata
    sizes = [written.row_group(number).num_rows * 1000 for number in range(written.num_row_groups)]
    assert len(sizes) >= 10
    assert max(sizes) < 200_000

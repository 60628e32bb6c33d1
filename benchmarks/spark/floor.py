"""`python -m benchmarks.spark.floor`: what PySpark leaves of a Python source that reads nothing.

Its tasks yield Arrow batches that were made beforehand, with the columns of the other benchmark: what is left
is Spark's way from a Python process to the JVM. No Python source gives records faster than this one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.rows import size_text
from benchmarks.spark.__main__ import RECORDS
from orbitmq.spark.session.sessions import local_session

TASKS = 12
BATCH_BYTES = (512 << 10, 4 << 20, 16 << 20)
SCHEMA = pa.schema(
    [
        ("keys", pa.string()),
        ("body", pa.binary()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("storeTimestamp", pa.timestamp("us", "UTC")),
        ("sysFlag", pa.int32()),
    ]
)


def _batch(body_bytes: int, batch_bytes: int) -> pa.RecordBatch:
    rows = max(1, batch_bytes // (body_bytes + 60))
    row = ("k" * 12, b"b" * body_bytes, "topic", 1, 1, datetime.now(UTC), 0)
    columns = [pa.array([value] * rows, field.type) for value, field in zip(row, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Ready(DataSource):
    """The options `rows` (of all tasks), `bodyBytes` and `batchBytes`."""

    @classmethod
    def name(cls) -> str:
        """Its format."""
        return "ready"

    def schema(self) -> str:
        """The columns of the benchmark beside Kafka."""
        return (
            "keys string, body binary, topic string, queueId int, queueOffset bigint, "
            "storeTimestamp timestamp, sysFlag int"
        )

    def reader(self, schema: Any) -> ReadyReader:
        """Of a batch job."""
        given = self.options
        return ReadyReader(int(given["rows"]), int(given["bodyBytes"]), int(given["batchBytes"]))


class ReadyReader(DataSourceReader):
    """Yields one batch again and again."""

    def __init__(self, rows: int, body_bytes: int, batch_bytes: int) -> None:
        self._rows, self._body_bytes, self._batch_bytes = rows, body_bytes, batch_bytes

    def partitions(self) -> Sequence[InputPartition]:
        """So many that a task which ends late costs little."""
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows that belong to one task."""
        batch, left = _batch(self._body_bytes, self._batch_bytes), self._rows // TASKS
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=3, help="Of each figure, which is their median.")
def main(rounds: int) -> None:
    """Times a count over batches that are ready: what Spark takes to get rows from a Python source."""
    spark = local_session("floor", memory="2g")
    spark.dataSource.register(Ready)
    click.echo("| records | bytes of a batch | rec/s |\n| --- | --- | --- |")
    for body_bytes, rows in RECORDS:
        for batch_bytes in BATCH_BYTES:
            given = {"rows": rows, "bodyBytes": body_bytes, "batchBytes": batch_bytes}
            took = []
            for _ in range(rounds):
                started = time.monotonic()
                assert spark.read.format("ready").options(**given).load().count() == rows // TASKS * TASKS
                took.append(time.monotonic() - started)
            rate = rows / statistics.median(took)
            click.echo(f"| {rows:,} of {size_text(body_bytes)} | {batch_bytes:,} | {rate:,.0f} |")
    spark.stop()


if __name__ == "__main__":
    main()

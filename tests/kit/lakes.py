"""Messages in a lake, staged and committed as the archive does it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from orbitmq.spark.jobs.archive.tasks import Written
from orbitmq.spark.lake.compaction import MergeTask, groups_to_merge
from orbitmq.spark.lake.lake import Lake
from orbitmq.spark.lake.state import HeldRange, LakeFile
from orbitmq.spark.lake.writing import (
    IN_PATH,
    DayFiles,
    ParquetForm,
    file_name,
    schema_of,
)
from orbitmq.spark.read.columns import NAMES, arrow_schema

COLUMNS = tuple(name for name in NAMES if name not in IN_PATH)

DAY_US = 86_400_000_000

SCHEMA = schema_of(COLUMNS)


def batch_of(low: int, high: int, *, queue_id: int = 0, day: int = 20_000, body: bytes = b"x") -> Any:
    """Messages low to high-1 of one queue, stored a microsecond apart on a day."""
    count = high - low
    values: dict[str, Any] = {
        "brokerName": ["broker-a"] * count,
        "queueId": [queue_id] * count,
        "queueOffset": list(range(low, high)),
        "body": [body] * count,
        "properties": [[("n", str(n))] for n in range(low, high)],
        "storeTimestamp": [day * DAY_US + n for n in range(low, high)],
    }
    schema = arrow_schema(COLUMNS)
    return pa.record_batch(
        [pa.array(values.get(field.name, [None] * count), field.type) for field in schema], schema=schema
    )


def stage(
    lake: Lake, low: int, high: int, *, topic: str = "orders", queue_id: int = 0, day: int = 20_000
) -> Written:
    """The work of a task of the archive."""
    key = f"broker-a|{queue_id}"
    files = DayFiles(lake.storage, lake.staging, topic, file_name(key, low, high))
    done = finished(files, batch_of(low, high, queue_id=queue_id, day=day))
    return Written((HeldRange(topic, key, low, high, high - low),), done)


def finished(files: DayFiles, batch: Any) -> tuple[LakeFile, ...]:
    try:
        files.write(batch)
        return tuple(files.finish())
    except BaseException:
        files.abandon()
        raise


def add(lake: Lake, low: int, high: int, **where: Any) -> None:
    written = stage(lake, low, high, **where)
    schema = None if lake.state.schema else SCHEMA
    lake.append(written.ranges, written.files, schema=schema)


def merge(lake: Lake) -> None:
    task = MergeTask(lake.location, lake.staging, ParquetForm())
    for group in groups_to_merge(lake.state, 1 << 20, fewest=2):
        lake.replace_files([file.path for file in group], task(group))

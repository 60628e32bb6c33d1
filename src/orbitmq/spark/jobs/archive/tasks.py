"""Work of the workers: pull a range of a queue, write it to files, report the files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orbitmq.spark.lake.state import HeldRange, LakeFile
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.lake.writing import IN_PATH, DayFiles, ParquetForm, file_name
from orbitmq.spark.read.planning import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Written:
    """Files written by one task."""

    ranges: tuple[HeldRange, ...]
    files: tuple[LakeFile, ...]
    bad: tuple[str, ...] = ()
    """Places of a store's files that are no sound records."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Written:
        given = json.loads(text)
        files = (
            LakeFile(**{**one, "queues": {name: (low, high) for name, (low, high) in one["queues"].items()}})
            for one in given["files"]
        )
        ranges = (HeldRange(**one) for one in given["ranges"])
        return cls(tuple(ranges), tuple(files), tuple(given["bad"]))


@dataclass(frozen=True, slots=True)
class PieceTask:
    """Archives stretches of queues, read online."""

    location: LakeLocation
    staging: str
    columns: tuple[str, ...]
    source_options: dict[str, str]
    form: ParquetForm

    def __call__(self, work: OffsetRange) -> Written:
        """Reads and writes one stretch. Raises DataLost, NetError, OSError."""
        from orbitmq.spark.read.options import ReadOptions
        from orbitmq.spark.read.reading import read_range

        queue = work.queue
        options = ReadOptions.parse({**self.source_options, "subscribe": queue.topic})
        columns = tuple(name for name in self.columns if name not in IN_PATH)
        name = file_name(queue.key, work.from_queue_offset, work.to_queue_offset)
        files = DayFiles(self.location.open(), self.staging, queue.topic, name, self.form)
        try:
            for batch in read_range(work, options, columns):
                files.write(batch)
            done = files.finish()
        except BaseException:
            files.abandon()
            raise
        rows = sum(file.rows for file in done)
        held = HeldRange(queue.topic, queue.key, work.from_queue_offset, work.to_queue_offset, rows)
        return Written((held,), tuple(done))


def run_tasks(spark: SparkSession, act: Callable[[Any], Written], works: Sequence[Any]) -> list[Written]:
    """`act` for each piece of work, one Spark task each. Raises Spark's error if one fails for good."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.record_batch([pa.array([act(works[number]).to_json()])], names=["written"])

    # Row `number` is partition `number`: Spark cuts a range evenly. It works through Spark Connect as well.
    rows = spark.range(0, len(works), 1, len(works)).mapInArrow(run, "written string").collect()
    return [Written.from_json(row.written) for row in rows]

"""Many small files to few large ones: of one topic and day each, with the same messages in them.

A merge is a commit like any other: the new files are staged, one manifest puts them in the place of the old
ones, and only then do files move. A crash before the manifest leaves the lake as it was; one after it, work
that the next start finishes.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from orbitmq.spark.lake.errors import LakeDamaged
from orbitmq.spark.lake.state import LakeFile, LakeState
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.lake.writing import DayFiles, ParquetForm

TARGET_BYTES = 256 << 20
FEWEST = 4
"""Small files of a day below which nothing is merged."""


def groups_to_merge(
    state: LakeState, target_bytes: int = TARGET_BYTES, fewest: int = FEWEST
) -> list[list[LakeFile]]:
    """Files that together become one of about `target_bytes`; those of half that size are left alone.

    Within a day, files are taken in the order of their queues and offsets, so that neighbours meet.
    """
    small: dict[tuple[str, str], list[LakeFile]] = defaultdict(list)
    for file in state.files.values():
        if file.size_bytes < target_bytes // 2:
            small[file.topic, file.date].append(file)
    groups = []
    for _, files in sorted(small.items()):
        if len(files) < fewest:
            continue
        group: list[LakeFile] = []
        size_bytes = 0
        for file in sorted(files, key=lambda one: one.path):
            if group and size_bytes + file.size_bytes > target_bytes:
                groups.append(group)
                group, size_bytes = [], 0
            group.append(file)
            size_bytes += file.size_bytes
        groups.append(group)
    return [group for group in groups if len(group) > 1]


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merges groups of files, in the workers."""

    location: LakeLocation
    staging: str
    form: ParquetForm

    def __call__(self, group: Sequence[LakeFile]) -> tuple[LakeFile, ...]:
        """One file of several. Raises LakeDamaged, OSError."""
        storage = self.location.open()
        first = group[0]
        merged = DayFiles(storage, self.staging, first.topic, f"merged-{uuid.uuid4().hex}", self.form)
        try:
            schema: pa.Schema | None = None
            for file in group:
                with storage.open_read(file.path) as stream:
                    found = pq.ParquetFile(stream).schema_arrow
                    schema = found if schema is None else pa.unify_schemas([schema, found])
            assert schema is not None
            for file in group:
                with storage.open_read(file.path) as stream:
                    for batch in pq.ParquetFile(stream).iter_batches(batch_size=4096):
                        merged.write_to(first.date, _widened(batch, schema))
            files = merged.finish()
        except BaseException:
            merged.abandon()
            raise
        expected = sum(file.rows for file in group)
        if sum(file.rows for file in files) != expected:
            raise LakeDamaged(f"{first.path} and others do not hold the {expected} messages that they should")
        return tuple(files)


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with nulls where it comes from a file without a column that others have."""
    if batch.schema.names == schema.names:
        return batch
    arrays = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

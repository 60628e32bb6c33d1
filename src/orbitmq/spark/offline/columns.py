"""The columns of a store that is read offline: those of a topic, and those that only files have."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from orbitmq.spark.read.columns import COLUMNS, Column

BAD_RECORD = "badRecord"
PHYSICAL_OFFSET = "physicalOffset"

BAD_RECORD_TYPE = pa.struct(
    [
        pa.field("physicalOffset", pa.int64()),
        pa.field("sizeBytes", pa.int64()),
        pa.field("file", pa.string()),
        pa.field("reason", pa.string()),
    ]
)

OFFLINE_COLUMNS = (
    *COLUMNS,
    Column(PHYSICAL_OFFSET, "bigint", "position in the commit log"),
    Column(
        BAD_RECORD,
        "struct<physicalOffset:bigint,sizeBytes:bigint,file:string,reason:string>",
        "null for a message; else the row stands for bytes that are no sound record, and only this, "
        "brokerName and physicalOffset are set",
    ),
)

BY_NAME = {column.name: column for column in OFFLINE_COLUMNS}
NAMES = tuple(BY_NAME)


def ddl(names: Sequence[str]) -> str:
    """Spark's DDL of these columns."""
    return ", ".join(f"{name} {BY_NAME[name].ddl}" for name in names)


def arrow_type(name: str) -> pa.DataType:
    """A column's type in record batches."""
    return BAD_RECORD_TYPE if name == BAD_RECORD else BY_NAME[name].arrow


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """The schema that record batches with these columns have."""
    return pa.schema([pa.field(name, arrow_type(name)) for name in names])

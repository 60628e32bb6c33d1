"""The columns of a store that is read offline: those of a topic, and what only the files tell."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pyarrow as pa

from orbitmq.spark.columns import COLUMNS, Column
from orbitmq.spark.errors import BadOption

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


def check_columns(names: Sequence[str]) -> None:
    """Raises BadOption for a name that is no column, or that comes twice."""
    for name in names:
        if name not in BY_NAME:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadOption(f"{name} is no column{hint} Columns: {', '.join(NAMES)}")
    if len(set(names)) < len(names):
        raise BadOption(f"a column is named twice: {', '.join(names)}")

"""The columns a message has in Spark: their order, their types, and what stands in them.

Every column may be null in Spark's schema (a data source's batches have to match it exactly); which ones
ever are is said here. Times have microseconds and UTC, as Spark wants them; RocketMQ counts milliseconds.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.column_types import COLUMN_TYPES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(slots=True, frozen=True)
class Column:
    """One column by its Spark name."""

    name: str
    ddl: str
    """Spark's name of its type."""
    about: str

    @property
    def arrow(self) -> pa.DataType:
        return pa.string() if self.name == BROKER_NAME else COLUMN_TYPES[self.name]


BROKER_NAME = "brokerName"
"""The one column that no stored record holds."""

COLUMNS = (
    Column("topic", "string", "topic"),
    Column("brokerName", "string", "name of the broker group that holds the queue"),
    Column("queueId", "int", "queue within topic and broker"),
    Column("queueOffset", "bigint", "position in the queue"),
    Column("keys", "string", "keys, separated by blanks; null without"),
    Column("tags", "string", "tag; null without"),
    Column(
        "body",
        "binary",
        "body, inflated if it was compressed",
    ),
    Column("properties", "map<string,string>", "all properties"),
    Column("flag", "int", "the sender's own flag"),
    Column("sysFlag", "int", "RocketMQ's flags: compression, transaction, IPv6 …"),
    Column("bornTimestamp", "timestamp", "when the sender sent it, by its clock"),
    Column("storeTimestamp", "timestamp", "when the broker stored it"),
    Column("bornHost", "string", "the sender's address, `ip:port`"),
    Column("storeHost", "string", "the broker's address, `ip:port`"),
    Column("msgId", "string", "the sender's unique id; without one, offsetMsgId"),
    Column("offsetMsgId", "string", "broker address and physical offset"),
    Column("reconsumeTimes", "int", "how often consumers have sent it back"),
)

BY_NAME = {column.name: column for column in COLUMNS}
NAMES = tuple(BY_NAME)


def ddl(names: Sequence[str] = NAMES) -> str:
    """Spark's DDL of these columns."""
    return ", ".join(f"{name} {BY_NAME[name].ddl}" for name in names)


def arrow_schema(names: Sequence[str] = NAMES) -> pa.Schema:
    """The schema that record batches with these columns have."""
    return pa.schema([pa.field(name, BY_NAME[name].arrow) for name in names])


def columns_named(text: str | None, known: Mapping[str, Column] = BY_NAME) -> tuple[str, ...]:
    """The columns that the option `columns` names; all without it. Raises BadOption."""
    if text is None:
        return tuple(known)
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise BadOption("columns names no column")
    _check_columns(names, known)
    return names


def columns_asked(schema: StructType, known: Mapping[str, Column] = BY_NAME) -> tuple[str, ...]:
    """The columns of a user's schema, whose types have to be ours. Raises BadOption."""
    names = tuple(field.name for field in schema.fields)
    _check_columns(names, known)
    for field in schema.fields:
        ours = known[field.name].ddl
        if field.dataType.simpleString() != ours:
            raise BadOption(f"column {field.name} is {ours}, not {field.dataType.simpleString()}")
    return names


def _check_columns(names: Sequence[str], known: Mapping[str, Column]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadOption(f"{name} is no column{hint} Columns: {', '.join(known)}")
    if len(set(names)) < len(names):
        raise BadOption(f"a column is named twice: {', '.join(names)}")

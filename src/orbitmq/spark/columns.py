"""The columns a message has in Spark: their order, their types, and what stands in them.

Every column may be null in Spark's schema (a data source's batches have to match it exactly); which ones
ever are is said here. Times have microseconds and UTC, as Spark wants them; RocketMQ counts milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(slots=True, frozen=True)
class Column:
    """One column by its Spark name."""

    name: str
    ddl: str
    """Spark's name of its type."""
    arrow: pa.DataType
    about: str


_TIME = pa.timestamp("us", tz="UTC")

COLUMNS = (
    Column("topic", "string", pa.string(), "topic"),
    Column("brokerName", "string", pa.string(), "name of the broker group that holds the queue"),
    Column("queueId", "int", pa.int32(), "queue within topic and broker"),
    Column("queueOffset", "bigint", pa.int64(), "position in the queue"),
    Column("keys", "string", pa.string(), "keys, separated by blanks; null without"),
    Column("tags", "string", pa.string(), "tag; null without"),
    Column("body", "binary", pa.binary(), "body, inflated if it was compressed"),
    Column("properties", "map<string,string>", pa.map_(pa.string(), pa.string()), "all properties"),
    Column("flag", "int", pa.int32(), "the sender's own flag"),
    Column("sysFlag", "int", pa.int32(), "RocketMQ's flags: compression, transaction, IPv6 …"),
    Column("bornTimestamp", "timestamp", _TIME, "when the sender sent it, by its clock"),
    Column("storeTimestamp", "timestamp", _TIME, "when the broker stored it"),
    Column("bornHost", "string", pa.string(), "the sender's address, `ip:port`"),
    Column("storeHost", "string", pa.string(), "the broker's address, `ip:port`"),
    Column("msgId", "string", pa.string(), "the sender's unique id; without one, offsetMsgId"),
    Column("offsetMsgId", "string", pa.string(), "broker address and physical offset"),
    Column("reconsumeTimes", "int", pa.int32(), "how often consumers have sent it back"),
)

BY_NAME = {column.name: column for column in COLUMNS}
NAMES = tuple(BY_NAME)


def ddl(names: Sequence[str] = NAMES) -> str:
    """Spark's DDL of these columns."""
    return ", ".join(f"{name} {BY_NAME[name].ddl}" for name in names)


def arrow_schema(names: Sequence[str] = NAMES) -> pa.Schema:
    """The schema that record batches with these columns have."""
    return pa.schema([pa.field(name, BY_NAME[name].arrow) for name in names])

"""Columns that a stored record has in Arrow: their names and types, and the limits of their values."""

from __future__ import annotations

import pyarrow as pa

_TIME = pa.timestamp("us", tz="UTC")

COLUMN_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "queueId": pa.int32(),
    "queueOffset": pa.int64(),
    "physicalOffset": pa.int64(),
    "keys": pa.string(),
    "tags": pa.string(),
    "body": pa.binary(),
    "properties": pa.map_(pa.string(), pa.string()),
    "flag": pa.int32(),
    "sysFlag": pa.int32(),
    "bornTimestamp": _TIME,
    "storeTimestamp": _TIME,
    "bornHost": pa.string(),
    "storeHost": pa.string(),
    "msgId": pa.string(),
    "offsetMsgId": pa.string(),
    "reconsumeTimes": pa.int32(),
    "recordSize": pa.int32(),
    "propertyBytes": pa.binary(),
}
"""The columns there are. All may hold nulls as far as the schema says; `keys` and `tags` are null where a
message has none, times where Arrow's microseconds cannot hold what the record says."""

FROM_PROPERTIES = frozenset({"properties", "keys", "tags", "msgId"})
"""Columns for which the properties of a record have to be parsed."""

MAX_QUEUE_OFFSET = (1 << 63) - 1
MAX_TIME_MS = MAX_QUEUE_OFFSET // 1000
"""The last time that a column can hold: Arrow counts microseconds in 64 bits."""

"""Maps columns of a data frame to parts of a message, and checks them before anything is sent."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orbitmq.spark.read.columns import BY_NAME
from orbitmq.spark.sink.errors import BadColumn
from orbitmq.spark.sink.options import DELAY_OPTIONS, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TEXT = ("string",)


@dataclass(slots=True, frozen=True)
class InputColumn:
    """A column that a data frame may have."""

    name: str
    types: tuple[str, ...]
    """Spark's names of the types it may have."""
    about: str


INPUT_COLUMNS = (
    InputColumn("topic", _TEXT, "topic; needed unless the option topic is set"),
    InputColumn("body", ("binary", "string"), "body; text is sent as UTF-8"),
    InputColumn("value", ("binary", "string"), "the same as body, by the name that Kafka's sink has"),
    InputColumn("keys", ("string", "array<string>"), "keys; text is keys separated by blanks"),
    InputColumn("key", ("string",), "one key"),
    InputColumn("tags", _TEXT, "tag"),
    InputColumn("properties", ("map<string,string>",), "properties; RocketMQ's own names are left out"),
    InputColumn("shardingKey", _TEXT, "messages with one sharding key go to one queue, in order"),
    InputColumn("delayLevel", _WHOLE, "1 to 18; null or 0: at once"),
    InputColumn(
        "delayMs", _WHOLE, "deliver so many milliseconds after the broker has it; null or 0: at once"
    ),
    InputColumn(
        "deliverAt", ("timestamp", "bigint"), "deliver at this time (or ms since 1970); null: at once"
    ),
    InputColumn("flag", _WHOLE, "the sender's own number"),
    InputColumn("onceKey", _TEXT, "with idempotent: what a row is known by, in place of where it stands"),
    InputColumn("alsoIn", _TEXT, "with onceKey: another topic in which the message may be already"),
)

_BY_NAME = {column.name: column for column in INPUT_COLUMNS}
_ALIASES = {"value": "body", "key": "keys"}


@dataclass(slots=True, frozen=True)
class Shape:
    """The place of each part of a message among the columns; None where no column holds it."""

    topic: int | None = None
    body: int | None = None
    keys: int | None = None
    tags: int | None = None
    properties: int | None = None
    sharding_key: int | None = None
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_at: int | None = None
    flag: int | None = None
    once_key: int | None = None
    also_in: int | None = None


_FIELDS = {
    "shardingKey": "sharding_key",
    "delayLevel": "delay_level",
    "delayMs": "delay_ms",
    "deliverAt": "deliver_at",
    "onceKey": "once_key",
    "alsoIn": "also_in",
}


def shape_of(schema: StructType, options: WriteOptions) -> Shape:
    """Finds the columns that are sent. Columns that only the source has are passed over.

    Raises BadColumn for a column of a wrong type, one that means nothing, and where topic or body is missing.
    """
    places: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        column = _BY_NAME.get(field.name)
        if column is None:
            if field.name in BY_NAME:
                continue
            near = difflib.get_close_matches(field.name, _BY_NAME, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadColumn(
                f"column {field.name} is no part of a message{hint} Columns: {', '.join(_BY_NAME)}. "
                "Leave others out with select(), or put them into properties"
            )
        kind = field.dataType.simpleString()
        if kind not in column.types:
            raise BadColumn(f"column {field.name} has to be {' or '.join(column.types)}, not {kind}")
        name = _ALIASES.get(field.name, field.name)
        if name in places:
            raise BadColumn(f"{name} comes twice: body and value are the same, and so are keys and key")
        places[name] = place
    if "body" not in places:
        raise BadColumn("there is no column body (or value): a message has to have a body")
    if options.topic is None and "topic" not in places:
        raise BadColumn("there is neither a column topic nor the option topic")
    if "onceKey" in places and not options.idempotent:
        raise BadColumn("the column onceKey is of use with the option idempotent=true only")
    if "alsoIn" in places and "onceKey" not in places:
        raise BadColumn("the column alsoIn is of use with the column onceKey only")
    delays = [name for name in DELAY_OPTIONS if name in places]
    if len(delays) > 1:
        raise BadColumn(f"columns {' and '.join(delays)} say the same in different ways: keep one of them")
    return Shape(**{_FIELDS.get(name, name): place for name, place in places.items()})

"""The tables: one row for each message, and one for each lock.

Columns that Debezium's outbox router knows have its names, so that a reader of the database's log can take
the relay's place: `id`, `aggregatetype` (the topic), `aggregateid` (the sharding key), `type` (the tag),
`payload`.

A row is `pending` until it is sent, and then `sent` until retention deletes it. A row that is refused for
good is `parked`; if its key shall wait for it, it is `blocking`, and later rows of that key are `held`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any
from zlib import crc32

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.mysql import MEDIUMBLOB, MEDIUMTEXT

LOCKS = 64
"""Locks that the keys share. Rows keep the number of theirs: a change of this constant needs an empty
outbox."""
HOUSEKEEPING = LOCKS
"""The lock of the relay that deletes old rows."""
MAX_NAME_CHARACTERS = 255
"""Longest topic, sharding key and tag, as Debezium's table has them."""


class State(StrEnum):
    """State of a row."""

    PENDING = "pending"
    SENT = "sent"
    PARKED = "parked"
    """Refused for good; later messages of its key are sent."""
    BLOCKING = "blocking"
    """Refused for good, and later messages of its key wait."""
    HELD = "held"
    """Waits for a blocking message of its key."""


_MYSQL: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}
"""Names differ if one byte does; transactions; all of Unicode."""


def lock_of(topic: str, key: str | None, message_id: str) -> int:
    """The lock of a key; messages without a key are spread over all locks."""
    return crc32(f"{topic}\0{key}".encode() if key is not None else message_id.encode()) % LOCKS


def message_table(name: str, schema: str | None, metadata: MetaData) -> Table[Any]:
    """The table of messages."""
    number = BigInteger().with_variant(Integer, "sqlite")
    long_text = Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
    unsent = text("state <> 'sent'")
    return Table(
        name,
        metadata,
        Column("seq", number, primary_key=True, autoincrement=True),
        Column(
            "id", Uuid(as_uuid=False).with_variant(String(36), "mysql", "mariadb", "sqlite"), nullable=False
        ),
        Column("aggregatetype", String(MAX_NAME_CHARACTERS), nullable=False),
        Column("aggregateid", String(MAX_NAME_CHARACTERS)),
        Column("type", String(MAX_NAME_CHARACTERS)),
        Column("payload", LargeBinary().with_variant(MEDIUMBLOB(), "mysql", "mariadb"), nullable=False),
        Column("message_keys", long_text),
        Column("properties", long_text),
        Column("delay_level", SmallInteger, nullable=False, server_default="0"),
        Column("deliver_at_ms", BigInteger),
        Column("flag", Integer, nullable=False, server_default="0"),
        Column("wait_store_ok", Boolean, nullable=False, server_default=text("true")),
        Column("key_lock", SmallInteger, nullable=False),
        Column("state", String(8), nullable=False, server_default=State.PENDING.value),
        Column("attempts", Integer, nullable=False, server_default="0"),
        Column("reason", Text),
        Column("created_ms", BigInteger, nullable=False),
        Column("sent_ms", BigInteger),
        Index(f"{name}_id", "id", unique=True),
        # PostgreSQL and SQLite: rows that were sent are not in it.
        Index(f"{name}_unsent", "state", "key_lock", "seq", postgresql_where=unsent, sqlite_where=unsent),
        Index(f"{name}_sent", "sent_ms"),
        schema=schema,
        **_MYSQL,
    )


def lock_table(name: str, schema: str | None, metadata: MetaData) -> Table[Any]:
    """The table of locks: a relay that sends messages of a key has the row of its lock locked."""
    return Table(
        name,
        metadata,
        Column("key_lock", SmallInteger, primary_key=True, autoincrement=False),
        schema=schema,
        **_MYSQL,
    )

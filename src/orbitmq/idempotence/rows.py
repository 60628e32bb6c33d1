"""The rows of the table of handled messages, the same for SQLAlchemy and Django."""

from __future__ import annotations

from typing import Any

from orbitmq.idempotence.keys import Entry

TABLE = "orbitmq_handled_messages"
"""Default name of the table."""
SQLITE_WAIT_MS = 50
"""Time that a claim waits for SQLite's one writer."""
COLUMNS = (
    "id",
    "consumer_group",
    "topic",
    "handler",
    "message_key",
    "message_id",
    "fingerprint",
    "done_at_ms",
)


def row_of(entry: Entry, now_ms: int) -> dict[str, Any]:
    """The values of the row of an entry, in the order of `COLUMNS`."""
    scope = entry.scope
    values = (entry.id, scope.group, scope.topic, scope.handler, entry.key, entry.message_id)
    return dict(zip(COLUMNS, (*values, entry.fingerprint, now_ms), strict=True))


def lock_number(entry: Entry) -> int:
    """The number of an entry's advisory lock in PostgreSQL: 64 bits with a sign."""
    return int.from_bytes(bytes.fromhex(entry.id[:16]), "big", signed=True)

"""The outbox: messages that are sent if, and only if, a transaction of the program's own database commits.

    from orbitmq import Message
    from orbitmq.outbox import Outbox, Relay

    outbox = Outbox()
    with Session(engine) as session, session.begin():
        session.add(order)
        outbox.add(session, Message("orders", body, sharding_key=order.id))

`Relay`, or the command `orbitmq outbox relay`, sends them. It needs the extra `outbox` (SQLAlchemy 2), and a
driver for the database: PostgreSQL, MySQL or MariaDB, SQLite. `orbitmq.outbox.django` writes messages in
Django's transactions, `orbitmq.outbox.migrations` creates the tables in Alembic's.
"""

from __future__ import annotations

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.extras import lacking

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401
except ModuleNotFoundError:
    raise InvalidArgument(lacking("orbitmq.outbox", "SQLAlchemy", "outbox")) from None

from orbitmq.outbox.errors import (
    AlreadyInOutbox,
    DatabaseAway,
    NoSuchMessage,
    NotInTransaction,
    OutboxError,
    TableMissing,
)
from orbitmq.outbox.keeping import Counts, ParkedMessage, counts, discard, parked, release
from orbitmq.outbox.relay import Relay, RelayMetrics
from orbitmq.outbox.rows import ROW_ID
from orbitmq.outbox.writing import Outbox

__all__ = [
    "ROW_ID",
    "AlreadyInOutbox",
    "Counts",
    "DatabaseAway",
    "NoSuchMessage",
    "NotInTransaction",
    "Outbox",
    "OutboxError",
    "ParkedMessage",
    "Relay",
    "RelayMetrics",
    "TableMissing",
    "counts",
    "discard",
    "parked",
    "release",
]

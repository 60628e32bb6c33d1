"""Handlers with exactly one effect for each message, in the user's own database.

    from orbitmq.idempotence import SqlAlchemyStore, once

    store = SqlAlchemyStore(sessionmaker(engine))

    @once(store, key="transferId")
    def transfer(message: ReceivedMessage, session: Session) -> None: ...

RocketMQ delivers at least once. `once` makes a second delivery of the same message a success without an
effect: the store's row and the handler's writes are committed in one transaction. Stores are for SQLAlchemy 2
(extra `sqlalchemy`; PostgreSQL, MySQL or MariaDB, SQLite), Django (extra `django`) and Redis (extra `redis`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.idempotence.contract import AsyncStore, Claim, State, Store
    from orbitmq.idempotence.decorating import AsyncOnceHandler, Done, Once, OnceHandler, once
    from orbitmq.idempotence.django.store import DjangoStore
    from orbitmq.idempotence.errors import (
        IdempotenceError,
        InvalidKey,
        KeyConflict,
        LeaseLost,
        StoreUnavailable,
        TableMissing,
        TransactionEnded,
    )
    from orbitmq.idempotence.memory import MemoryStore
    from orbitmq.idempotence.observing import Counts, Event, Observer
    from orbitmq.idempotence.redis_stores import AsyncRedisStore, RedisStore
    from orbitmq.idempotence.sql.stores import AsyncSqlAlchemyStore, SqlAlchemyStore
    from orbitmq.idempotence.sql.table import handled_messages
    from orbitmq.idempotence.telemetry import OnceTelemetry

_MODULES = {
    "telemetry": ("OnceTelemetry",),
    "redis_stores": ("AsyncRedisStore", "RedisStore"),
    "django.store": ("DjangoStore",),
    "sql.stores": ("AsyncSqlAlchemyStore", "SqlAlchemyStore"),
    "sql.table": ("handled_messages",),
    "contract": ("AsyncStore", "Claim", "State", "Store"),
    "errors": (
        "IdempotenceError",
        "InvalidKey",
        "KeyConflict",
        "LeaseLost",
        "StoreUnavailable",
        "TableMissing",
        "TransactionEnded",
    ),
    "memory": ("MemoryStore",),
    "observing": ("Counts", "Event", "Observer"),
    "decorating": ("AsyncOnceHandler", "Done", "Once", "OnceHandler", "once"),
}

__all__ = [
    "AsyncOnceHandler",
    "AsyncRedisStore",
    "AsyncSqlAlchemyStore",
    "AsyncStore",
    "Claim",
    "Counts",
    "DjangoStore",
    "Done",
    "Event",
    "IdempotenceError",
    "InvalidKey",
    "KeyConflict",
    "LeaseLost",
    "MemoryStore",
    "Observer",
    "Once",
    "OnceHandler",
    "OnceTelemetry",
    "RedisStore",
    "SqlAlchemyStore",
    "State",
    "Store",
    "StoreUnavailable",
    "TableMissing",
    "TransactionEnded",
    "handled_messages",
    "once",
]


def __getattr__(name: str) -> Any:
    """Loads a name, and the package that it stands on, with its first use."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value

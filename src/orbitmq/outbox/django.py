"""The outbox in Django's transactions.

    from django.db import transaction
    from orbitmq.outbox.django import add

    with transaction.atomic():
        order = Order.objects.create(...)
        add(Message("orders", body, tags="created", sharding_key=str(order.pk)))

The tables are created by a migration of one of the program's apps:

    from orbitmq.outbox.django import create_tables, drop_tables

    class Migration(migrations.Migration):
        operations = [migrations.RunPython(create_tables, drop_tables)]

The relay is a process of its own: `orbitmq outbox relay`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.message import Message
from orbitmq.driver_errors import is_missing_table
from orbitmq.extras import lacking
from orbitmq.outbox.errors import (
    AlreadyInOutbox,
    DatabaseAway,
    NotInTransaction,
    TableMissing,
    reason_of,
)
from orbitmq.outbox.migrations import creation, removal
from orbitmq.outbox.writing import Outbox

try:
    from django.db import DEFAULT_DB_ALIAS, IntegrityError, OperationalError, ProgrammingError, connections
except ModuleNotFoundError:
    raise InvalidArgument(lacking("orbitmq.outbox.django", "Django", "outbox,django")) from None

from sqlalchemy.dialects.mysql import pymysql
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.dialects.sqlite import pysqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import ExecutableDDLElement

_DIALECTS: dict[str, Callable[..., Dialect]] = {
    "postgresql": psycopg.dialect,
    "mysql": pymysql.dialect,
    "sqlite": pysqlite.dialect,
}
"""By Django's name of the kind of database."""

_DEFAULT = Outbox()


def add(
    message: Message,
    *,
    id: str | uuid.UUID | None = None,
    using: str = DEFAULT_DB_ALIAS,
    outbox: Outbox = _DEFAULT,
) -> str:
    """Write one message in the atomic block of a database, and return its id.

    `id` is as in `Outbox.add`. Raises NotInTransaction outside of an atomic block; IllegalMessage,
    IllegalName, AlreadyInOutbox, TableMissing, DatabaseAway; Django's other errors.
    """
    row = outbox.row(message, id)
    _write(outbox, using, [row], None if id is None else row["id"])
    return str(row["id"])


def add_all(
    messages: Iterable[Message], *, using: str = DEFAULT_DB_ALIAS, outbox: Outbox = _DEFAULT
) -> list[str]:
    """Write several messages, in their order, and return their ids. Raises what `add` raises."""
    rows = [outbox.row(message) for message in messages]
    _write(outbox, using, rows, None)
    return [row["id"] for row in rows]


def create_tables(apps: Any, schema_editor: Any, outbox: Outbox = _DEFAULT) -> None:
    """Create both tables: the function of a migration's `RunPython`."""
    _execute(schema_editor, creation(outbox))


def drop_tables(apps: Any, schema_editor: Any, outbox: Outbox = _DEFAULT) -> None:
    """Drop both tables, with all messages that have not been sent: the reverse of that migration."""
    _execute(schema_editor, removal(outbox))


def _execute(schema_editor: Any, statements: Iterable[ExecutableDDLElement]) -> None:
    dialect = _dialect(schema_editor.connection.vendor)
    for statement in statements:
        schema_editor.execute(str(statement.compile(dialect=dialect)), params=None)


def _dialect(vendor: str) -> Dialect:
    if vendor not in _DIALECTS:
        raise InvalidArgument(f"the outbox knows {', '.join(sorted(_DIALECTS))}, and not {vendor}")
    return _DIALECTS[vendor](paramstyle="pyformat")


def _write(outbox: Outbox, using: str, rows: Sequence[dict[str, Any]], given_id: str | None) -> None:
    connection = connections[using]
    if not connection.in_atomic_block:
        raise NotInTransaction(
            "Django commits each statement by itself here, so the message would be sent even if the rest "
            "of your work fails: write it within transaction.atomic()"
        )
    if not rows:
        return
    dialect = _dialect(connection.vendor)
    statement = outbox.statement(connection.vendor).compile(dialect=dialect, column_keys=list(rows[0]))
    try:
        with connection.cursor() as cursor:
            for row in rows:
                cursor.execute(str(statement), statement.construct_params(row))
    except IntegrityError as error:
        if given_id is None:
            raise
        raise AlreadyInOutbox(given_id) from error
    except (ProgrammingError, OperationalError) as error:
        if is_missing_table(error.__cause__):
            raise TableMissing(outbox.name) from error
        if isinstance(error, OperationalError) and not connection.is_usable():
            raise DatabaseAway(f"the database does not answer: {reason_of(error)}") from error
        raise

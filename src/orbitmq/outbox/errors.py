"""Errors of the outbox beside those of the client.

    OutboxError
    ├── NotInTransaction     each statement commits by itself, without the program's own writes
    ├── AlreadyInOutbox      a message with this id is in the outbox
    ├── NoSuchMessage        no parked message has this id
    ├── TableMissing         the table is not in the database
    └── DatabaseAway         the database does not answer, or refuses the connection

A message that no broker would take is `IllegalMessage`, as where it is sent; nothing was written then.
Arguments of a wrong type are `InvalidArgument`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError

from orbitmq.driver_errors import is_missing_table
from orbitmq.protocol.errors import OrbitError

MAX_REASON_CHARACTERS = 1000


class OutboxError(OrbitError):
    """A failure of the outbox."""


class NotInTransaction(OutboxError):
    """The connection commits every statement by itself; nothing was written."""


class AlreadyInOutbox(OutboxError):
    """The outbox has a message with the id that was given; roll the transaction back."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"message {message_id} is in the outbox already: roll the transaction back; its effect is there"
        )
        self.message_id = message_id


class NoSuchMessage(OutboxError):
    """No message with this id is parked."""


class TableMissing(OutboxError):
    """The outbox's table is not in the database."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"the database has no table {table}: create it by a migration (see orbitmq.outbox.migrations) "
            "or by `orbitmq outbox create-tables`"
        )
        self.table = table


class DatabaseAway(OutboxError):
    """The database does not answer, or refuses the connection."""


def reason_of(error: BaseException) -> str:
    """An error in one line, short enough to be kept in a row or shown to an operator."""
    if isinstance(error, DBAPIError):
        error = error.orig or error
    text = " ".join(str(error).split()).replace("\0", "")
    return f"{type(error).__name__}: {text}"[:MAX_REASON_CHARACTERS]


@contextmanager
def named(table: str, message_id: str | None = None) -> Iterator[None]:
    """Raises TableMissing, AlreadyInOutbox and DatabaseAway in place of the driver's errors for the same."""
    try:
        yield
    except IntegrityError as error:
        if message_id is None:
            raise
        raise AlreadyInOutbox(message_id) from error
    except DBAPIError as error:
        if is_missing_table(error.orig):
            raise TableMissing(table) from error
        if error.connection_invalidated:
            raise DatabaseAway(f"the database does not answer: {reason_of(error)}") from error
        raise

"""The guard of a unit's transaction: a handler may neither commit it nor roll it back."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, event

from orbitmq.idempotence.endings import refuse_end
from orbitmq.idempotence.errors import TransactionEnded

REFUSED = (
    "the handler committed the transaction of `once`, which ends it after the handler: remove commit(), or "
    "use begin_nested() for a part of it; nothing was committed"
)
ROLLED_BACK = (
    "the handler rolled back, or closed, the transaction of `once`, and then returned as if it were done: "
    "raise, or return Retry(), to have the message come again; nothing was committed"
)


class TransactionGuard:
    """Watches a connection until the handler has ended. Savepoints are the handler's own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._refused = self._ended = False
        event.listen(connection, "commit", self._on_commit)
        event.listen(connection, "rollback", self._on_rollback)
        event.listen(connection, "before_cursor_execute", self._on_statement)

    def _on_commit(self, _: Connection) -> None:
        self._refused = True
        raise TransactionEnded(REFUSED)

    def _on_rollback(self, _: Connection) -> None:
        self._ended = True

    def _on_statement(self, connection: Connection, _: Any, statement: str, *rest: Any) -> None:
        refuse_end(statement, is_mysql=connection.dialect.name in ("mysql", "mariadb"))

    def lift(self) -> None:
        """Stop watching."""
        event.remove(self._connection, "commit", self._on_commit)
        event.remove(self._connection, "rollback", self._on_rollback)
        event.remove(self._connection, "before_cursor_execute", self._on_statement)

    def check(self) -> None:
        """Raise TransactionEnded if the handler ended the transaction, or tried to."""
        if self._refused:
            raise TransactionEnded(REFUSED)
        if self._ended:
            raise TransactionEnded(ROLLED_BACK)

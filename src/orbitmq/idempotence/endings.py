"""Statements that would end the transaction of a handler, and part its key from its writes."""

from __future__ import annotations

import re

from orbitmq.idempotence.errors import TransactionEnded

_FIRST = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
"""Space and comments before a statement."""
_ENDS = (
    r"COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION|"
    r"ROLLBACK(?!\s+(?:(?:WORK|TRANSACTION)\s+)?TO\b)"
)
_MYSQL_COMMITS = r"ALTER|TRUNCATE|RENAME|LOCK\s+TABLES?|(?:CREATE|DROP)(?!\s+TEMPORARY\b)"
"""MySQL and MariaDB commit before these."""
_ENDING = re.compile(rf"{_FIRST}({_ENDS})\b", re.IGNORECASE | re.DOTALL)
_ENDING_IN_MYSQL = re.compile(rf"{_FIRST}({_ENDS}|{_MYSQL_COMMITS})\b", re.IGNORECASE | re.DOTALL)


def refuse_end(statement: str, *, is_mysql: bool) -> None:
    """Raise TransactionEnded for a statement that ends the transaction; savepoints are the handler's own."""
    found = (_ENDING_IN_MYSQL if is_mysql else _ENDING).match(statement)
    if found is not None:
        raise TransactionEnded(
            f"the handler's statement {found[1].upper()} would end the transaction of `once`, which ends it "
            "after the handler: leave it out, or use a savepoint for a part of it; nothing was committed"
        )

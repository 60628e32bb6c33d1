"""Statements that end a transaction, and those that do not."""

from __future__ import annotations

import pytest

from orbitmq.idempotence import TransactionEnded
from orbitmq.idempotence.endings import refuse_end


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        " /* now */ commit;",
        "-- now\nEnd",
        "ROLLBACK",
        "rollback work",
        "START  TRANSACTION",
        "BEGIN",
        "PREPARE TRANSACTION 'x'",
    ],
)
def test_a_statement_that_ends_the_transaction_is_refused_everywhere(statement: str) -> None:
    for is_mysql in (False, True):
        with pytest.raises(TransactionEnded, match="leave it out"):
            refuse_end(statement, is_mysql=is_mysql)


@pytest.mark.parametrize(
    "statement",
    [
        "SAVEPOINT a",
        "ROLLBACK TO SAVEPOINT a",
        "rollback transaction to a",
        "RELEASE SAVEPOINT a",
        "UPDATE commits SET x = 1",
        "INSERT INTO x VALUES ('COMMIT')",
        "CREATE TEMPORARY TABLE x (y INT)",
        "endless",
    ],
)
def test_others_pass(statement: str) -> None:
    for is_mysql in (False, True):
        refuse_end(statement, is_mysql=is_mysql)


@pytest.mark.parametrize("statement", ["TRUNCATE effects", "CREATE TABLE x (y INT)", "drop table x"])
def test_mysql_commits_before_it_changes_tables(statement: str) -> None:
    refuse_end(statement, is_mysql=False)
    with pytest.raises(TransactionEnded):
        refuse_end(statement, is_mysql=True)

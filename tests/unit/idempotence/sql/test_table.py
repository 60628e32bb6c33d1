"""The table: Alembic's migration makes what autogenerate then finds nothing to change in."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import MetaData, create_engine, inspect

from orbitmq.idempotence.rows import TABLE
from orbitmq.idempotence.sql.table import downgrade, handled_messages, upgrade
from tests.kit.databases import mariadb_server, postgres_server


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_migration_makes_the_table_that_autogenerate_expects(kind: str) -> None:
    urls: dict[str, Any] = {
        "sqlite": lambda: "sqlite://",
        "postgresql": lambda: postgres_server().database("psycopg"),
        "mariadb": lambda: mariadb_server().database("pymysql"),
    }
    engine = create_engine(urls[kind]())
    metadata = MetaData()
    handled_messages(metadata)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        operations = Operations(context)
        upgrade(operations)
        assert compare_metadata(context, metadata) == []
        [index] = inspect(connection).get_indexes(TABLE)
        assert index["column_names"] == ["done_at_ms"]
        downgrade(operations)
        assert TABLE not in inspect(connection).get_table_names()
    engine.dispose()

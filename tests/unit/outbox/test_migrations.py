"""Alembic creates the tables that the outbox uses, online and offline."""

from __future__ import annotations

import io

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Engine, inspect

from orbitmq import Message
from orbitmq.outbox import Outbox, migrations


def test_a_migration_up_and_down(engine: Engine) -> None:
    outbox = Outbox("migrated")
    with engine.begin() as connection:
        op = Operations(MigrationContext.configure(connection))
        migrations.create_tables(op, outbox)
        outbox.add(connection, Message("orders", b"x"))
        found = inspect(connection)
        made = {column["name"] for column in found.get_columns("migrated")}
        assert made == {column.name for column in outbox.messages.columns}
        assert {index["name"] for index in found.get_indexes("migrated")} == {
            "migrated_id",
            "migrated_unsent",
            "migrated_sent",
        }
        migrations.drop_tables(op, outbox)
        assert not inspect(connection).has_table("migrated")
        assert not inspect(connection).has_table("migrated_lock")


@pytest.mark.parametrize("dialect", ["postgresql", "mysql", "sqlite"])
def test_a_migration_offline(dialect: str) -> None:
    written = io.StringIO()
    context = MigrationContext.configure(
        dialect_name=dialect, opts={"as_sql": True, "output_buffer": written}
    )
    migrations.create_tables(Operations(context))
    text = written.getvalue()
    assert text.count("CREATE TABLE") == 2
    assert "orbitmq_outbox_unsent" in text
    assert ("MEDIUMBLOB" in text) == (dialect == "mysql")
    assert ("WHERE state <> 'sent'" in text) == (dialect != "mysql")

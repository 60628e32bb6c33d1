"""The outbox's tables in the migrations of Alembic.

    from alembic import op
    from orbitmq.outbox import migrations

    def upgrade() -> None:
        migrations.create_tables(op)

    def downgrade() -> None:
        migrations.drop_tables(op)

It works offline (`alembic upgrade --sql`), too. A program whose `MetaData` has the tables
(`Outbox(metadata=...)`) may let Alembic generate the migration instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy.schema import CreateIndex, CreateTable, DropTable, ExecutableDDLElement

from orbitmq.outbox.writing import Outbox

if TYPE_CHECKING:
    from alembic.operations import Operations


def creation(outbox: Outbox) -> Iterator[ExecutableDDLElement]:
    """The statements that create both tables, in their order."""
    yield CreateTable(outbox.messages)
    for index in sorted(outbox.messages.indexes, key=lambda one: str(one.name)):
        yield CreateIndex(index)
    yield CreateTable(outbox.locks)


def removal(outbox: Outbox) -> Iterator[ExecutableDDLElement]:
    """The statements that drop both tables."""
    yield DropTable(outbox.locks)
    yield DropTable(outbox.messages)


def create_tables(op: Operations, outbox: Outbox | None = None) -> None:
    """Create both tables of an outbox, by default of one with the default name."""
    for statement in creation(outbox or Outbox()):
        op.execute(statement)


def drop_tables(op: Operations, outbox: Outbox | None = None) -> None:
    """Drop both tables, with all messages that have not been sent."""
    for statement in removal(outbox or Outbox()):
        op.execute(statement)

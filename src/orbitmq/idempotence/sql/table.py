"""The table of handled messages: for `create_all`, for Alembic's autogenerate, and as a migration."""

from __future__ import annotations

from typing import Any

from orbitmq.client import InvalidArgument
from orbitmq.extras import lacking
from orbitmq.idempotence.keys import MAX_KEY_CHARACTERS
from orbitmq.idempotence.rows import TABLE

try:
    from sqlalchemy import BigInteger, Column, Index, MetaData, String, Table, Text
    from sqlalchemy.dialects.mysql import LONGTEXT, VARCHAR
except ModuleNotFoundError:
    raise InvalidArgument(lacking("SqlAlchemyStore", "sqlalchemy", "sqlalchemy")) from None

_MYSQL: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


def _hex() -> Any:
    return String(64).with_variant(VARCHAR(64, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")


def handled_messages(metadata: MetaData, name: str = TABLE, schema: str | None = None) -> Table:
    """The table in `metadata`: in an application's own, Alembic's autogenerate writes the migration.

    `id` is a digest of scope and key, so that collations that take `A` for `a` do not matter. The index on
    `done_at_ms` is the clean-up's.
    """
    return Table(
        name,
        metadata,
        Column("id", _hex(), primary_key=True),
        Column("consumer_group", String(MAX_KEY_CHARACTERS), nullable=False),
        Column("topic", String(MAX_KEY_CHARACTERS), nullable=False),
        Column("handler", String(MAX_KEY_CHARACTERS), nullable=False),
        Column("message_key", String(MAX_KEY_CHARACTERS), nullable=False),
        Column("message_id", String(MAX_KEY_CHARACTERS), nullable=False),
        Column("fingerprint", _hex(), nullable=False),
        Column("result", Text().with_variant(LONGTEXT(), "mysql", "mariadb")),
        Column("done_at_ms", BigInteger(), nullable=False),
        Index(f"ix_{name}_done_at_ms", "done_at_ms"),
        schema=schema,
        **_MYSQL,
    )


def upgrade(operations: Any, name: str = TABLE, schema: str | None = None) -> None:
    """Create the table in a migration of Alembic's: `upgrade(op)`, with the module `alembic.op`."""
    handled_messages(MetaData(), name, schema).create(operations.get_bind())


def downgrade(operations: Any, name: str = TABLE, schema: str | None = None) -> None:
    """Drop the table in a migration of Alembic's."""
    handled_messages(MetaData(), name, schema).drop(operations.get_bind())

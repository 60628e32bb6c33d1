"""Django's atomic blocks and migrations, in a process of their own: settings are of a whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url

from orbitmq.outbox import Outbox
from tests.kit.environments import bare
from tests.kit.outbox import rows

PROGRAM = """
import sys, uuid
import django
from django.conf import settings
settings.configure(DATABASES={"default": GIVEN}, USE_TZ=True)
if GIVEN["ENGINE"].endswith("mysql"):
    import pymysql
    pymysql.version_info = (2, 2, 7, "final", 0)  # Django asks for mysqlclient's
    pymysql.install_as_MySQLdb()
django.setup()
from django.db import connection, transaction
from orbitmq import Message
from orbitmq.outbox import AlreadyInOutbox, NotInTransaction, TableMissing
from orbitmq.outbox.django import add, add_all, create_tables, drop_tables

def raises(error, work):
    try:
        with transaction.atomic():
            work()
    except error as raised:
        print(type(raised).__name__)
    else:
        raise AssertionError(error)

message = Message("orders", b"\\x00x", tags="t", keys="17", properties={"a": "ü🚀 100%"}, sharding_key="k")
raises(TableMissing, lambda: add(message))
with connection.schema_editor() as editor:
    create_tables(None, editor)
try:
    add(message)
except NotInTransaction as error:
    assert "transaction.atomic" in str(error)
with transaction.atomic():
    print(add(message))
    try:
        with transaction.atomic():
            add(message)
            raise KeyError
    except KeyError:
        pass
    print(*add_all([message, message]))
own = uuid.uuid5(uuid.NAMESPACE_URL, "order 17")
with transaction.atomic():
    print(add(message, id=own))
raises(AlreadyInOutbox, lambda: add(message, id=own))
"""


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "sqlite"])
def test_messages_in_atomic_blocks(kind: str, url: str, engine: Engine, tmp_path: Path) -> None:
    outbox = Outbox()
    with engine.begin() as connection:
        outbox.drop_tables(connection)
    address = make_url(url)
    names = {"postgresql": "postgresql", "mariadb": "mysql", "sqlite": "sqlite3"}
    database = {
        "ENGINE": f"django.db.backends.{names[kind]}",
        "NAME": address.database,
        "USER": address.username or "",
        "HOST": address.host or "",
        "PORT": address.port or "",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("GIVEN", repr(database))],
        capture_output=True,
        text=True,
        timeout=200,
        env=bare(),
    )
    assert done.returncode == 0, done.stderr
    missing, first, two, own, again = done.stdout.splitlines()
    assert (missing, again) == ("TableMissing", "AlreadyInOutbox")
    found = rows(outbox, engine)
    assert [row.id for row in found] == [first, *two.split(), own]
    assert {row.payload for row in found} == {b"\0x"}
    assert found[0].properties == '{"a": "ü🚀 100%"}'
    assert [row.state for row in found] == ["pending"] * 4

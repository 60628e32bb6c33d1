"""One Django project for the tests of this process, with a database of each kind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pymysql
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from tests.kit.databases import mariadb_server, postgres_server


def _parts(url: str) -> dict[str, Any]:
    from sqlalchemy import make_url

    read = make_url(url)
    return {"NAME": read.database, "USER": read.username, "HOST": read.host, "PORT": read.port}


@pytest.fixture(scope="session")
def project() -> Iterator[list[str]]:
    """Aliases of the databases, with the table of keys and one of effects in each."""
    pymysql.install_as_MySQLdb()
    with tempfile.TemporaryDirectory() as folder:
        databases: dict[str, dict[str, Any]] = {
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(Path(folder, "test.db"))},
            "postgresql": {
                "ENGINE": "django.db.backends.postgresql",
                **_parts(postgres_server().database()),
            },
            "mariadb": {"ENGINE": "django.db.backends.mysql", **_parts(mariadb_server().database())},
        }
        settings.configure(DATABASES=databases, INSTALLED_APPS=["orbitmq.idempotence.django"], USE_TZ=True)
        django.setup()
        for alias in databases:
            call_command("migrate", database=alias, verbosity=0)
            with connections[alias].cursor() as cursor:
                cursor.execute("CREATE TABLE effects (name VARCHAR(50))")
        yield list(databases)
        connections.close_all()

"""An outbox in a new database of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from orbitmq.outbox import Outbox
from orbitmq.outbox.locking import make_locks
from tests.kit.brokers import others_at_night
from tests.kit.outbox import shared_database_url


# Locks, keeping and Django's models are tried on MariaDB with every change.
@pytest.fixture(params=others_at_night(["postgresql", "mariadb", "sqlite"], ["postgresql", "sqlite"]))
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of database, each in turn; a test may ask for one of them."""
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    """URL of a database that other tests have used before."""
    return shared_database_url(kind, tmp_path)


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = create_engine(url)
    # As relays have them.
    yield made if made.dialect.name == "sqlite" else made.execution_options(isolation_level="READ COMMITTED")
    made.dispose()


@pytest.fixture
def outbox(engine: Engine) -> Outbox:
    """An outbox whose tables are there."""
    made = Outbox()
    with engine.begin() as connection:
        made.drop_tables(connection)
        made.create_tables(connection)
        make_locks(made, connection)
    return made

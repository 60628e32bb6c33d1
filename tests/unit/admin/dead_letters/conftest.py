"""A broker, an operator and a journal for tests of dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from orbitmq import Admin
from orbitmq.admin.dead_letters.journal import RedriveJournal
from orbitmq.testing import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


@pytest.fixture
async def admin(broker: LocalBroker) -> AsyncIterator[Admin]:
    async with Admin(broker.namesrv) as connected:
        yield connected


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RedriveJournal]:
    journal = RedriveJournal(tmp_path / "redrives.sqlite3")
    yield journal
    journal.close()

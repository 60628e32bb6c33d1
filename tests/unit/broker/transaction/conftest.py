"""A broker with transactions, on a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.transactions import Transacting


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Transacting]:
    made = Transacting(tmp_path / "store")
    yield made
    made.close()

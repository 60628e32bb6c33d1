"""Queries that Spark could not begin, begun again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from orbitmq.spark.session.start_query import TOO_BUSY, started


@dataclass
class Query:
    """A query as Spark shows it: its states one after the other, as it is asked."""

    failure: Exception | None = None
    triggers_until_progress: int = 0

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.failure is None

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        self.triggers_until_progress -= 1
        return None if self.triggers_until_progress >= 0 else {"batchId": 0}

    def exception(self) -> Exception | None:
        return self.failure


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.spark.session.start_query.PAUSE_S", 0)


def test_a_query_without_a_planner_is_started_again() -> None:
    good = Query(triggers_until_progress=3)
    queries = [Query(RuntimeError(f"{TOO_BUSY}.")), Query(RuntimeError(f"{TOO_BUSY}.")), good]
    left = iter(queries)
    assert started(lambda: next(left)) is good
    assert good.triggers_until_progress < 0, "it was waited for"


def test_another_failure_is_the_caller_s() -> None:
    bad = Query(RuntimeError("offsets are gone"))
    left = iter([bad])
    assert started(lambda: next(left)) is bad


def test_not_for_ever() -> None:
    queries = [Query(RuntimeError(TOO_BUSY)) for _ in range(3)]
    left = iter(queries)
    assert started(lambda: next(left), tries=3) is queries[-1]

"""Apache's `mqadmin` 5.4.0 against OrbitMQ: one test per case of the judge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import suites
from tests.peers.suites import Server, SuiteRun

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def mqadmin(request: pytest.FixtureRequest, judged: Server) -> Iterator[SuiteRun]:
    """The suite, running the cases that were asked for."""
    with suites.running("mqadmin", suites.chosen(request.session, "test_mqadmin"), judged) as run:
        yield run


@pytest.mark.parametrize("case", suites.parameters("mqadmin"))
def test_mqadmin(case: str, mqadmin: SuiteRun) -> None:
    mqadmin.expect(case)

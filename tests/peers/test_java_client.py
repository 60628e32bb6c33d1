"""Apache's Java client 5.4.0 (remoting) at home in OrbitMQ: one test per case of the judge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import suites
from tests.peers.suites import Server, SuiteRun

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def remoting(request: pytest.FixtureRequest, judged: Server) -> Iterator[SuiteRun]:
    """The suite, running the cases that were asked for."""
    with suites.running("remoting", suites.chosen(request.session, "test_java_client"), judged) as run:
        yield run


@pytest.mark.parametrize("case", suites.parameters("remoting"))
def test_java_client(case: str, remoting: SuiteRun) -> None:
    remoting.expect(case)

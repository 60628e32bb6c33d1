"""The Go client rocketmq-client-go v2.1.2 against OrbitMQ: one test per case of the judge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import suites
from tests.peers.machine import need
from tests.peers.suites import Server, SuiteRun

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def go4(request: pytest.FixtureRequest, judged: Server) -> Iterator[SuiteRun]:
    """The suite, running the cases that were asked for."""
    need("go")
    with suites.running("go4", suites.chosen(request.session, "test_go_client"), judged) as run:
        yield run


@pytest.mark.parametrize("case", suites.parameters("go4"))
def test_go_client(case: str, go4: SuiteRun) -> None:
    go4.expect(case)

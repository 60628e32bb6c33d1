"""rocketmq-clients/golang v5.1.3 through our proxy to OrbitMQ: one test per case of the judge."""

from __future__ import annotations

from functools import partial

import pytest

from tests.peers import suites

SUITE = "go5"
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE))
def test_go_client(case: str, suite: suites.SuiteRun, judged: suites.Server) -> None:
    suites.expect(case, suite, partial(suites.running, SUITE, [case], judged))

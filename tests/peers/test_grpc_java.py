"""rocketmq-client-java 5.2.0 through our proxy to OrbitMQ: one test per case of the judge."""

from __future__ import annotations

from functools import partial

import pytest

from tests.peers import suites

SUITE = "grpc"
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE))
def test_java_client(case: str, suite: suites.SuiteRun, judged: suites.Server) -> None:
    suites.expect(case, suite, partial(suites.running, SUITE, [case], judged))

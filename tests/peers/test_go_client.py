"""The Go client rocketmq-client-go v2.1.2 against OrbitMQ: one test per case of the judge."""

from __future__ import annotations

import pytest

from tests.peers import suites

SUITE = "go4"
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE))
def test_go_client(case: str, suite: suites.SuiteRun) -> None:
    suite.expect(case)

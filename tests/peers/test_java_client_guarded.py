"""Apache's Java client 5.4.0 at home in an OrbitMQ with users and rules: every request is signed."""

from __future__ import annotations

import pytest

from tests.peers import suites

SUITE = "guarded"
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE))
def test_java_client(case: str, suite: suites.SuiteRun) -> None:
    suite.expect(case)

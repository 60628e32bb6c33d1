"""Apache's `mqadmin` 5.4.0 against OrbitMQ: one test per case of the judge."""

from __future__ import annotations

import pytest

from tests.peers import suites

SUITE = "mqadmin"
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE))
def test_mqadmin(case: str, suite: suites.SuiteRun) -> None:
    suite.expect(case)

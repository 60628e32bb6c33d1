"""Apache's Java client 5.4.0 at home in an OrbitMQ with users and rules: every request is signed."""

from __future__ import annotations

from functools import partial

import pytest

from tests.peers import suites

SUITE = "guarded"
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE))
def test_java_client(case: str, suite: suites.SuiteRun, judged: suites.Server) -> None:
    suites.expect(case, suite, partial(suites.running, SUITE, [case], judged))

"""Apache's `mqadmin` 5.4.0 against OrbitMQ: one test per case of the judge."""

from __future__ import annotations

from functools import partial

import pytest

from tests.peers import suites

SUITE = "mqadmin"
ALWAYS = [case for case in suites.cases_of(SUITE) if case != "mq_as_processes"]
"""At night each command has a Java of its own as well."""
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE, ALWAYS))
def test_mqadmin(case: str, suite: suites.SuiteRun, judged: suites.Server) -> None:
    suites.expect(case, suite, partial(suites.running, SUITE, [case], judged))

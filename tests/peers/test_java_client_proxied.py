"""Apache's Java client 5.4.0 through the remoting port of our proxy: one test per case of the judge."""

from __future__ import annotations

from functools import partial

import pytest

from tests.peers import suites

SUITE = "proxied"
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE))
def test_java_client(case: str, suite: suites.SuiteRun, judged: suites.Server) -> None:
    suites.expect(case, suite, partial(suites.running, SUITE, [case], judged))

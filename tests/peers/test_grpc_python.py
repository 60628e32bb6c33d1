"""rocketmq-python-client 5.1.2 through our proxy to Apache's broker: one test per case of the judge."""

from __future__ import annotations

from functools import partial

import pytest

from tests.peers import suites
from tests.peers.apache import Apache

SUITE = "python"
ALWAYS = ("py_send_receive_ack", "py_recall")
BROKER = Apache
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE, ALWAYS))
def test_python_client(case: str, suite: suites.SuiteRun, judged: suites.Server) -> None:
    suites.expect(case, suite, partial(suites.running, SUITE, [case], judged))

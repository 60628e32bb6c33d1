"""rocketmq-client-java 5.2.0 through Apache's own proxy to OrbitMQ: one test per case of the judge."""

from __future__ import annotations

from functools import partial

import pytest

from tests.peers import suites
from tests.peers.proxy_process import BehindApacheProxy

SUITE = "grpc"
ALWAYS = ("grpc_send_receive_ack", "grpc_push_consumer", "grpc_tx_commit_rollback")
PROXY = BehindApacheProxy
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("case", suites.parameters(SUITE, ALWAYS))
def test_java_client(case: str, suite: suites.SuiteRun, judged: suites.Server) -> None:
    suites.expect(case, suite, partial(suites.running, SUITE, [case], judged))

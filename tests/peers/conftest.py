"""Fixtures for tests with foreign peers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.apache import Apache
from tests.peers.machine import need
from tests.peers.suites import Server, under_test

CASES_WANT = {
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "recallMessageEnable": "true",
    "transactionTimeOut": 3000,
    "transactionCheckInterval": 3000,
}
"""What Apache must be told for all cases of the judge."""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that foreign clients are let loose on: a fresh OrbitMQ."""
    need("java", "mvn")
    kind = under_test()
    server = kind.start(tmp_path_factory.mktemp("judged") / "store", CASES_WANT if kind is Apache else {})
    yield server
    server.stop()

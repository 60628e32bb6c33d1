"""Fixtures for tests with foreign peers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.machine import need
from tests.peers.orbitmq_process import NOTES
from tests.peers.suites import SECOND_TRIES, Server, SuiteRun, chosen, running, under_test

CASES_WANT = {
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "recallMessageEnable": "true",
    "transactionTimeOut": 3000,
    "transactionCheckInterval": 3000,
}
"""What a broker must be told for all cases of the judge."""

_AUTHENTICATION = "org.apache.rocketmq.auth.authentication.provider"
_AUTHORIZATION = "org.apache.rocketmq.auth.authorization.provider"
GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProvider": f"{_AUTHENTICATION}.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTHENTICATION}.LocalAuthenticationMetadataProvider",
    "authorizationProvider": f"{_AUTHORIZATION}.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTHORIZATION}.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": '{"username":"judge","password":"judge12345678"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"judge","secretKey":"judge12345678"}',
}
"""What makes a broker of either kind ask who is there; `judge` may do everything."""


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that foreign clients are let loose on: a fresh OrbitMQ, for each module's SUITE."""
    need("java", "mvn", *(["go"] if request.module.SUITE == "go4" else []))
    kind = under_test()
    wants = {**CASES_WANT, **(GUARDED if request.module.SUITE == "guarded" else {})}
    server = kind.start(tmp_path_factory.mktemp("judged") / "store", wants)
    yield server
    server.stop()
    notes = server.home / NOTES
    if notes.exists():
        from tests.peers.recording import remember

        remember(notes, request.module.SUITE)


@pytest.fixture(scope="module")
def suite(request: pytest.FixtureRequest, judged: Server) -> Iterator[SuiteRun]:
    """The module's SUITE, running the cases that were asked for."""
    with running(request.module.SUITE, chosen(request), judged) as run:
        yield run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists the cases of the judge that needed a second try, so that none becomes a habit."""
    if SECOND_TRIES:
        terminalreporter.section("CASES THAT FAILED AT FIRST", sep="!", yellow=True, bold=True)
        for line in SECOND_TRIES:
            terminalreporter.write_line(line, yellow=True)

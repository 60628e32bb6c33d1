"""Fixtures for tests with foreign peers."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.needs import need
from tests.peers.orbitmq_process import NOTES
from tests.peers.proxy_process import BehindProxy
from tests.peers.suites import SECOND_TRIES, Server, SuiteRun, chosen, running, under_test
from tests.telling import SECOND_TRY

CASES_WANT = {
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "recallMessageEnable": "true",
    "transactionTimeOut": 3000,
    "transactionCheckInterval": 3000,
}
"""Options that a broker must have for all cases of the judge."""

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
"""Options that make a broker of either kind ask who is there; `judge` may do everything."""


BEHIND_PROXY = frozenset({"grpc", "go5", "python", "proxied"})
"""Suites whose clients reach the broker through a proxy."""


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that foreign clients are let loose on: a fresh OrbitMQ, for each module's SUITE."""
    suite = request.module.SUITE
    need("java", "mvn", *(["go"] if suite in ("go4", "go5") else []))
    kind = getattr(request.module, "BROKER", None) or under_test()
    wants = {**CASES_WANT, **(GUARDED if suite == "guarded" else {})}
    server = kind.start(tmp_path_factory.mktemp("judged") / "store", wants)
    if suite in BEHIND_PROXY:
        server = getattr(request.module, "PROXY", BehindProxy).start(server)
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Puts second tries into the test's report, which also comes from a process of its own."""
    report = yield
    while SECOND_TRIES:
        report.user_properties.append((SECOND_TRY, SECOND_TRIES.pop(0)))
    return report

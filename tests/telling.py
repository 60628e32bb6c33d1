"""Second tries, and a report that hides nothing: what failed at first, what was not run, and why.

A second try is for tests in which a foreign process takes part, whose races are not ours. Every first failure
is told at the end of the run; more than `FIRST_FAILURES_AT_MOST` of them fail it. The report is also appended
to the file that ORBITMQ_TEST_REPORT names.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.needs import MISSING, excuse, fail_unexcused, need, reason_of

REPORT = "ORBITMQ_TEST_REPORT"
FIRST_FAILURES_AT_MOST = 10
SECOND_TRY = "second try"
"""The property of a report that tells of a second try within its test."""

FOREIGN = frozenset(
    (
        *("apache", "chromium", "etcd", "go", "java", "node", "spark", "zookeeper"),
        *("mariadb", "postgres", "postgresql", "redis"),
        *("aiomysql", "asyncpg", "psycopg", "pymysql"),
    )
)
"""Foreign processes, as marks `needs` and the parameters of tests name them, or the drivers of databases."""
ALWAYS_FOREIGN = ("tests/peers/", "tests/console/", "tests/spark/", "tests/upgrades/")
"""Each test has a peer there, a browser, Spark's JVM or brokers of the last release."""
PROMISES = frozenset(
    (
        *("sending", "consuming", "transactions", "resetting", "restarts"),
        *("files", "history", "order_and_retry", "pops", "prove_beside", "snapshots", "stopping", "timers"),
        *("archive", "dedup", "instances", "redrive", "relay", "replay_lake", "resend_jobs"),
        *("sink_brokers", "sink_once", "sink_stream"),
    )
)
"""Tests of what becomes of messages and offsets: one failure is one too many, whoever else takes part."""
FOLDERS_OF_PROMISES = ("tests/fault/", "tests/payments/")


def may_be_tried_again(item: pytest.Item) -> bool:
    """True if a test is run once more when it fails: a foreign process takes part, no promise is at stake."""
    stem = Path(item.nodeid.partition("::")[0]).stem.removeprefix("test_")
    if stem in PROMISES or stem.endswith("_kills") or item.nodeid.startswith(FOLDERS_OF_PROMISES):
        return False
    if "judged" in getattr(item, "fixturenames", ()):  # has second tries of its own
        return False
    return item.nodeid.startswith(ALWAYS_FOREIGN) or not FOREIGN.isdisjoint(_named_by(item))


def _named_by(item: pytest.Item) -> set[object]:
    """What a test says that it needs, and the texts among its parameters."""
    call = getattr(item, "callspec", None)
    texts = [value for value in call.params.values() if isinstance(value, str)] if call is not None else []
    return {*texts, *(name for mark in item.iter_markers("needs") for name in mark.args)}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*names): what the test cannot do without, of tests/needs.py")
    config.addinivalue_line("markers", "nightly: takes too long for every change; runs with --nightly alone")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the tests of the night out unless they are asked for, and grants second tries."""
    late = (
        []
        if config.getoption("--nightly", False)
        else [item for item in items if item.get_closest_marker("nightly")]
    )
    if late:
        items[:] = [item for item in items if item.get_closest_marker("nightly") is None]
        config.hook.pytest_deselected(items=late)
    for item in items:
        if may_be_tried_again(item):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test for want of what it says that it needs."""
    need(*(name for mark in item.iter_markers("needs") for name in mark.args))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """No test is skipped where it has to run."""
    report = yield
    fail_unexcused(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Nor is a file of them."""
    report = yield
    fail_unexcused(report)
    return report


def first_failures(terminal: pytest.TerminalReporter) -> list[tuple[str, str]]:
    """Tests that failed at first and were tried again: the test or case, and how it failed."""
    rerun = [(report.nodeid, report.longreprtext) for report in terminal.stats.get("rerun", [])]
    within = [
        (report.nodeid, line)
        for kind in ("passed", "failed", "error", "skipped")
        for report in terminal.stats.get(kind, [])
        for name, line in getattr(report, "user_properties", ())
        if name == SECOND_TRY
    ]
    return rerun + list(dict.fromkeys(within))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run in which too much failed at first."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(session.config, "workerinput"):
        return
    if len(first_failures(terminal)) > FIRST_FAILURES_AT_MOST and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what failed at first, and what was not run: neither is a mere pass."""
    failures = first_failures(terminalreporter)
    told: list[str] = []
    for name, how in failures:
        terminalreporter.section(f"FAILED AT FIRST: {name}", sep="!", yellow=True, bold=True)
        terminalreporter.write_line(how, yellow=True)
        told += [f"failed at first: {name}", *(f"    {line}" for line in how.splitlines()[-8:])]
    if len(failures) > FIRST_FAILURES_AT_MOST:
        line = f"{len(failures)} FAILED AT FIRST: more than {FIRST_FAILURES_AT_MOST} fail the run"
        terminalreporter.write_line(line, red=True, bold=True)
        told.append(line)
    reasons = Counter(filter(None, map(reason_of, terminalreporter.stats.get("skipped", []))))
    if any(reason.startswith(MISSING) for reason in reasons):
        terminalreporter.section("NOT RUN", sep="!", red=True, bold=True)
    for reason, count in reasons.items():
        why = excuse(reason)
        told.append(f"not run: {count} ({reason})" + (f": {why}" if why else ""))
        if reason.startswith(MISSING):
            terminalreporter.write_line(
                f"NOT RUN for want of {reason.removeprefix(MISSING)}: {count}", red=True, bold=True
            )
    if REPORT in os.environ and told:
        with Path(os.environ[REPORT]).open("a") as file:
            file.write("\n".join(told) + "\n")

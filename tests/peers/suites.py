"""Suites of the judge: programs of foreign clients that print one verdict per case, each case a test here.

A suite runs once for all its cases, in parallel as it likes; the tests wait for their verdicts. A case that
fails is run once more, alone, before it counts; the end of the test run lists every such case, passed or not.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.peers.apache import Apache
from tests.peers.machine import cache
from tests.peers.not_yet import NOT_YET
from tests.peers.orbitmq_process import OrbitMQ
from tests.peers.proxy_process import BehindProxy

JUDGE = Path(__file__).parent / "judge"
CASES = {
    "remoting": ("java/src/judge/cases/[!GM]*[!l].java", r'@Case\((?:value = )?"(\w+)"'),
    "guarded": ("java/src/judge/cases/Acl.java", r'@Case\((?:value = )?"(\w+)"'),
    "mqadmin": ("java/src/judge/cases/Mqadmin.java", r'@Case\((?:value = )?"(\w+)"'),
    "files": ("java/src/judge/Files.java", r'check\("(files_\w+)"'),
    "go4": ("go/go4/cases.go", r'Case\{Name: "(\w+)"'),
    "grpc": ("java/src/judge/cases/Grpc.java", r'@Case\((?:value = )?"(\w+)"'),
    "go5": ("go/go5/cases.go", r'Case\{Name: "(\w+)"'),
    "python": ("python/cases.py", r'@case\("(\w+)"'),
}
"""Where the cases of a suite are declared: tests are collected from there, without running anything."""

PROGRAMS = {
    "remoting": ["java/run.sh"],
    "guarded": ["java/run.sh"],
    "mqadmin": ["java/run.sh", "--suite", "mqadmin"],
    "proxied": ["java/run.sh"],
    "go4": ["go/run.sh", "go4"],
    "grpc": ["java/run.sh", "--suite", "grpc"],
    "go5": ["go/run.sh", "go5"],
    "python": ["python/run.sh"],
}

GUARDED_TOO = (
    "send_sync",
    "send_batch",
    "request_reply",
    "push_concurrently",
    "orderly_global",
    "broadcasting",
    "tx_commit_rollback",
    "query_by_key",
    "admin_topic_lifecycle",
    "admin_group_lifecycle",
    "consumer_lag",
)
"""Cases of `remoting` that are run once more with users and rules on: every kind of request, signed."""

PROXIED = (
    "send_sync",
    "send_batch",
    "push_concurrently",
    "orderly_global",
    "broadcasting",
    "request_reply",
    "tx_commit_rollback",
    "tx_check_back_commit",
    "retry_reconsume_later",
    "pop_push_consumer",
    "admin_running_info",
)
"""Cases of `remoting` whose clients reach the remoting port of a proxy alone."""

VARIABLES = {"guarded": {"JUDGE_AK": "judge", "JUDGE_SK": "judge12345678"}}
"""Environment of a suite's program: who its clients sign as."""


Server = OrbitMQ | Apache | BehindProxy
"""Servers that suites are run against."""

SECOND_TRIES: list[str] = []
"""One line for each case that failed at first: why, and what became of it."""


def under_test() -> type[OrbitMQ | Apache]:
    """OrbitMQ; with ORBITMQ_PEERS_AGAINST=apache Apache itself: what fails there too is the judge's fault."""
    return Apache if os.environ.get("ORBITMQ_PEERS_AGAINST") == "apache" else OrbitMQ


def cases_of(suite: str) -> list[str]:
    """The names of a suite's cases, in the order of its sources."""
    if suite == "proxied":
        return list(PROXIED)
    pattern, declared = CASES[suite]
    found = [name for path in sorted(JUDGE.glob(pattern)) for name in re.findall(declared, path.read_text())]
    return [*found, *GUARDED_TOO] if suite == "guarded" else found


def parameters(suite: str, always: Sequence[str] = ()) -> list[object]:
    """The cases as pytest parameters; those that NOT_YET lists are skipped with its reason. With `always` the
    others run at night.

    ORBITMQ_PEERS_ALL=1 runs them all the same.
    """
    everything = os.environ.get("ORBITMQ_PEERS_ALL") == "1"
    made: list[object] = []
    for case in cases_of(suite):
        missing = missing_for(suite, case)
        skipped = [pytest.mark.skip(reason=f"not yet: {missing}")] if missing and not everything else []
        at_night = [pytest.mark.nightly] if always and case not in always else []
        made.append(pytest.param(case, marks=[*skipped, *at_night]))
    return made


def missing_for(suite: str, case: str) -> str | None:
    """The part that OrbitMQ lacks for a case, or None where it passes."""
    patterns = NOT_YET[suite].items()
    return next((lack for pattern, lack in patterns if fnmatch.fnmatchcase(case, pattern)), None)


def chosen(request: pytest.FixtureRequest) -> list[str]:
    """The cases that this run asks of the fixture's test module, as -k and skip marks leave them."""
    return [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and item.get_closest_marker("skip") is None
    ]


def environment(**more: str) -> dict[str, str]:
    """Environment of the judge's scripts."""
    return {**os.environ, "JUDGE_WORK": str(cache() / "judge"), **more}


class SuiteRun:
    """One running suite: verdicts come in as its output does."""

    def __init__(self, command: Sequence[str], server: Server, **variables: str) -> None:
        self._server = server
        self._verdicts: dict[str, tuple[str, str]] = {}
        self._changed = threading.Condition()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed in close)
        self._popen = subprocess.Popen(
            [str(JUDGE / command[0]), *command[1:]],
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as lines:
            for line in lines:
                word, _, rest = line.strip().partition(" ")
                if word in ("PASS", "FAIL", "SKIP"):
                    case, _, why = rest.partition(": ")
                    with self._changed:
                        self._verdicts[case] = (word, why)
                        self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def verdict(self, case: str, limit_s: float = 1500) -> tuple[str, str]:
        """Waits for the verdict on `case`: PASS, FAIL or SKIP, and why."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while case not in self._verdicts and not self._over:
                assert self._server.alive(), f"the server died; {self._server.tail()}"
                assert time.monotonic() < deadline, f"no verdict within {limit_s} s"
                self._changed.wait(1)
            word, why = self._verdicts.get(case) or self._verdicts.get("setup") or ("FAIL", self._ending())
        return (word, f"{why or 'no reason given'}{self._server_errors()}") if word == "FAIL" else (word, why)

    def wait_until_over(self, limit_s: float = 1500) -> None:
        """Waits until every case of the suite has had its turn."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while not self._over:
                assert time.monotonic() < deadline, f"the suite is not over within {limit_s} s"
                self._changed.wait(1)

    def _ending(self) -> str:
        self._errors.seek(0)
        return f"the suite ended without a verdict: {self._errors.read()[-2000:]}"

    def _server_errors(self) -> str:
        said = self._server.tail()
        return f"\nand the server: {said}" if "Traceback" in said else ""

    def close(self) -> None:
        """Ends the suite where it still runs."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._reader.join()
        self._errors.close()


Again = Callable[[], AbstractContextManager[SuiteRun]]
"""Runs one case once more, with nothing beside it."""


def expect(case: str, run: SuiteRun, again: Again) -> None:
    """The verdict on `case` as a test's: a failure counts when it fails `again` too.

    Foreign clients share two cores with everything else, and some of their waits are short. A case that
    failed at first is listed at the end of the test run all the same, so that it is looked at.
    """
    word, why = run.verdict(case)
    if word == "FAIL":
        run.wait_until_over()
        first = why
        with again() as second:
            word, why = second.verdict(case)
        SECOND_TRIES.append(f"{case}: {'passed' if word == 'PASS' else 'failed again'}; at first: {first}")
    if word == "SKIP":
        pytest.skip(why)
    if word == "FAIL":
        pytest.fail(f"failed twice: {why}", pytrace=False)


@contextlib.contextmanager
def running(suite: str, cases: Sequence[str], server: Server) -> Iterator[SuiteRun]:
    """Runs `cases` of a suite against a server, until the block ends."""
    command = [*PROGRAMS[suite], server.namesrv, "--only", ",".join(cases)]
    if isinstance(server, BehindProxy):
        command += ["--proxy", server.proxy]
    variables = dict(VARIABLES.get(suite, {}))
    if suite == "proxied":
        assert isinstance(server, BehindProxy)
        variables["JUDGE_CLIENTS"] = server.remoting
    run = SuiteRun(command, server, **variables)
    try:
        yield run
    finally:
        run.close()

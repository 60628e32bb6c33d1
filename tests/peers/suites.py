"""Suites of the judge: programs of foreign clients that print one verdict per case, each case a test here.

A suite runs once for all its cases, in parallel as it likes; the tests wait for their verdicts.
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
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.peers.apache import Apache
from tests.peers.machine import cache
from tests.peers.not_yet import NOT_YET
from tests.peers.orbitmq_process import OrbitMQ

JUDGE = Path(__file__).parent / "judge"
CASES = {
    "remoting": ("java/src/judge/cases/[!M]*.java", r'@Case\((?:value = )?"(\w+)"'),
    "mqadmin": ("java/src/judge/cases/Mqadmin.java", r'@Case\((?:value = )?"(\w+)"'),
    "files": ("java/src/judge/Files.java", r'check\("(files_\w+)"'),
    "go4": ("go/go4/cases.go", r'Case\{Name: "(\w+)"'),
}
"""Where the cases of a suite are declared: tests are collected from there, without running anything."""

PROGRAMS = {
    "remoting": ["java/run.sh"],
    "mqadmin": ["java/run.sh", "--suite", "mqadmin"],
    "go4": ["go/run.sh", "go4"],
}


Server = OrbitMQ | Apache
"""What suites are run against."""


def under_test() -> type[OrbitMQ | Apache]:
    """OrbitMQ; with ORBITMQ_PEERS_AGAINST=apache Apache itself: what fails there too is the judge's fault."""
    return Apache if os.environ.get("ORBITMQ_PEERS_AGAINST") == "apache" else OrbitMQ


def cases_of(suite: str) -> list[str]:
    """The names of a suite's cases, in the order of its sources."""
    pattern, declared = CASES[suite]
    return [name for path in sorted(JUDGE.glob(pattern)) for name in re.findall(declared, path.read_text())]


def parameters(suite: str) -> list[object]:
    """The cases as pytest parameters; those that NOT_YET lists are skipped with its reason.

    ORBITMQ_PEERS_ALL=1 runs them all the same.
    """
    everything = os.environ.get("ORBITMQ_PEERS_ALL") == "1"
    made: list[object] = []
    for case in cases_of(suite):
        missing = missing_for(suite, case)
        skipped = [pytest.mark.skip(reason=f"not yet: {missing}")] if missing and not everything else []
        made.append(pytest.param(case, marks=skipped))
    return made


def missing_for(suite: str, case: str) -> str | None:
    """What OrbitMQ lacks for a case, or None where it passes."""
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
    """What the judge's scripts find in their environment."""
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

    def expect(self, case: str, limit_s: float = 1500) -> None:
        """Waits for the verdict on `case`; anything but PASS fails (or skips) the test that asks."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while case not in self._verdicts and not self._over:
                assert self._server.alive(), f"the server died; {self._server.tail()}"
                assert time.monotonic() < deadline, f"no verdict within {limit_s} s"
                self._changed.wait(1)
            word, why = self._verdicts.get(case) or self._verdicts.get("setup") or ("FAIL", self._ending())
        if word == "SKIP":
            pytest.skip(why)
        if word == "FAIL":
            pytest.fail(f"{why or 'no reason given'}{self._server_errors()}", pytrace=False)

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


@contextlib.contextmanager
def running(suite: str, cases: Sequence[str], server: Server) -> Iterator[SuiteRun]:
    """Runs `cases` of a suite against a server, until the block ends."""
    run = SuiteRun([*PROGRAMS[suite], server.namesrv, "--only", ",".join(cases)], server)
    try:
        yield run
    finally:
        run.close()

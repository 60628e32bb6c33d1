"""Things that tests need and a machine may lack: one list, and what becomes of a test that misses something.

A test says `@pytest.mark.needs("openssl")`, a fixture `need("java", "mvn")`. Without it the test is skipped,
and the end of the run says so in capitals. If ORBITMQ_REQUIRE_PEERS=1 is set, as `.ci/run` does, every
test that would be skipped fails, for this or any other reason, but for those on the list `EXCUSED`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from orbitmq.spark.errors import JavaNotFound
from orbitmq.spark.session.java import find_java_home

REQUIRED = "ORBITMQ_REQUIRE_PEERS"
MISSING = "this test needs "
"""Beginning of the reason of a test that was skipped for want of something."""

EXCUSED: dict[str, str] = {
    r"^interpreted": "the other run of .ci/run has the tests of what is compiled",
    r"^root may write everywhere": "who runs .ci/run may be root, whom no permission stops",
    r"a container engine": "few machines let a container engine run inside another one",
    r"the image .* which cannot be pulled": "the registry of images may be out of reach",
    r"the tools of systemd": "machines that it does not run lack them",
    r"pyright": "its package fetches the program from npm, which may be out of reach",
    r"keeps everything in memory": "on such a file system nothing is ever cold",
    r"the commit \w+ that made version": "a shallow clone has no commits of earlier versions",
    r"^ORBITMQ_\w+ ": "a longer form of a test that runs: it is asked for by its variable",
}
"""Reasons by which a test may be skipped even so, and why: a pattern each."""


def java() -> str:
    """The Java to start: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def javac() -> str:
    """The compiler beside that Java."""
    return str(Path(java()).with_name("javac")) if os.sep in java() else "javac"


def _version(command: Sequence[str], pattern: str) -> tuple[int, ...]:
    try:
        asked = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ()
    found = re.search(pattern, asked.stdout + asked.stderr)
    return tuple(int(part) for part in found.groups()) if found else ()


def _has_jdk() -> bool:
    return _version([java(), "-version"], r'version "(\d+)') >= (17,) and shutil.which(javac()) is not None


def _has_java_for_spark() -> bool:
    try:
        find_java_home()
    except JavaNotFound:
        return False
    return True


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("mount") is None or _failed("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder):
            return False
        return not _failed("umount", "-l", folder)


def chromium() -> str | None:
    """The Chromium to start, or None. The one without windows starts with a third less work."""
    return next(
        filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
    )


def container_engine() -> str | None:
    """The program that runs containers here, or None."""
    return next((one for one in ("docker", "podman") if shutil.which(one) and not _failed(one, "info")), None)


def pyright() -> str | None:
    """The program pyright of this environment or on the path, or None. Its first start fetches it."""
    beside = Path(sys.executable).with_name("pyright")
    found = str(beside) if beside.exists() else shutil.which("pyright")
    return None if found is None or _failed(found, "--version") else found


def _has_postgres() -> bool:
    return any(Path("/usr/lib/postgresql").glob("*/bin/postgres")) or shutil.which("postgres") is not None


def _has_mariadb() -> bool:
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is not None


def _failed(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode != 0


def _program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _module(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    # Foreign peers.
    "java": ("a JDK 17 or newer", _has_jdk),
    "mvn": ("Maven (mvn)", _program("mvn")),
    "go": ("Go 1.25 or newer", lambda: _version(["go", "version"], r"go(\d+)\.(\d+)") >= (1, 25)),
    "node": ("Node.js 18 or newer", lambda: _version(["node", "--version"], r"v(\d+)") >= (18,)),
    "npm": ("npm", _program("npm")),
    "spark": ("a Java for Spark", _has_java_for_spark),
    "container": ("a container engine (docker or podman)", lambda: container_engine() is not None),
    # Facts of the machine.
    "linux": ("Linux", lambda: sys.platform == "linux"),
    "fork": ("fork", lambda: hasattr(os, "fork")),
    "ipv6": ("IPv6", _has_ipv6),
    "mount": ("a file system of its own: mount, and the right to", _can_mount),
    # Programs and modules.
    "chromium": ("the browser Chromium", lambda: chromium() is not None),
    "etcd": ("etcd (Debian: etcd-server)", _program("etcd")),
    "postgres": ("PostgreSQL's server (Debian: postgresql)", _has_postgres),
    "mariadb": ("MariaDB's server (Debian: mariadb-server)", _has_mariadb),
    "redis": ("Redis (Debian: redis-server)", _program("redis-server")),
    "systemd": ("the tools of systemd (systemd-analyze)", _program("systemd-analyze")),
    "openssl": ("the program openssl", _program("openssl")),
    "atheris": ("atheris, for fuzzing guided by coverage", _module("atheris")),
    "pyright": ("the program pyright (requirements/pyright.txt)", lambda: pyright() is not None),
    "testcapi": ("a Python with the module _testcapi", _module("_testcapi")),
}
"""Need -> what it is in words, and a test for it. Python packages of the extra `dev` are not listed: every
set-up has them, and a test that is skipped for want of one fails where REQUIRED is set like any other."""


@functools.cache
def has(name: str) -> bool:
    """True if this machine has the thing that tests call by this name."""
    return NEEDS[name][1]()


def need(*names: str) -> None:
    """Skips the test unless everything is there."""
    if absent := [NEEDS[name][0] for name in names if not has(name)]:
        do_without(" and ".join(absent))


def do_without(what: str) -> NoReturn:
    """Skips the test for want of `what`, loudly."""
    pytest.skip(MISSING + what)


def is_required() -> bool:
    """True if tests have to run that would be skipped elsewhere."""
    return os.environ.get(REQUIRED) == "1"


def excuse(reason: str) -> str | None:
    """The ground on which a test may be skipped for this reason all the same, or None."""
    return next((why for pattern, why in EXCUSED.items() if re.search(pattern, reason)), None)


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """The reason for which a test, or a file of them, was skipped; None where it was not."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return None
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(told).removeprefix("Skipped: ")


def fail_unexcused(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns a test that was skipped into one that failed, where it has to run."""
    reason = reason_of(report)
    if reason is not None and is_required() and excuse(reason) is None:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was not run: {reason}; with {REQUIRED}=1 that is a failure"

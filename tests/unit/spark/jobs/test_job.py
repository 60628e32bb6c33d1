"""Properties that every job has: help, flags, one line where something is wrong; PySpark only when it is
called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from orbitmq.admin.output import Facts, Result
from orbitmq.cli.app import run
from orbitmq.spark import jobs
from orbitmq.spark.errors import DataLost
from orbitmq.spark.jobs.failures import useful_line
from orbitmq.spark.jobs.job import JobSetup, JobUi, job


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[JobSetup]:
    """A job `probe` that keeps what it was told."""
    kept: list[JobSetup] = []

    @job(
        "probe",
        examples="orbitmq job probe --size 3",
        dry_run="Only look.",
        report="Page.",
        checkpoint="Here.",
    )
    @click.option("--size", default=1)
    def probe(setup: JobSetup, ui: JobUi, size: int) -> Result:
        """Try things."""
        kept.append(setup)
        if size == 13:
            raise DataLost("offsets 3 to 7 are gone")
        if size == 14:
            raise KeyboardInterrupt
        with ui.progress("sizing", total=size) as bar:
            bar.set(done=1)
            bar.advance(size - 1)
            bar.note("all of it")
        return Facts({"size": size})

    monkeypatch.setattr(sys.modules[__name__], "probe_command", probe, raising=False)
    monkeypatch.setitem(jobs.JOBS, "probe", (f"{__name__}:probe_command", "Try things"))
    return kept


def test_every_job_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for name, (_, line) in jobs.JOBS.items():
        assert run(["job", name, "--help"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"Usage: orbitmq job {name}")
        assert f"orbitmq job {name}" in text.split("\n", 1)[1], name
        assert run(["job", "--help"]) == 0
        assert line in capsys.readouterr().out


def test_the_command_line_loads_no_spark() -> None:
    code = """
import sys
from orbitmq.cli.app import run
from orbitmq.spark.jobs import JOBS
run(["job", "--help"])
for name in JOBS:
    run(["job", name, "--help"])
print(sorted(name for name in sys.modules if name in ("pyspark", "pandas")), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]\n"


def test_without_the_extra_one_line_says_what_to_install() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(["pyspark", "pyarrow", "pandas", "py4j"]))
from orbitmq.cli.app import run
from orbitmq.spark import jobs
assert run(["job", "--help"]) == 0
jobs.JOBS["probe"] = ("orbitmq.spark.source:DefaultSource", "")
sys.exit(run(["job", "probe"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'orbitmq[jobs]'" in done.stderr


def test_common_flags_reach_the_job(
    told: list[JobSetup], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    flags = ["--namesrv", "a:1;b:2", "--access-key", "me", "--secret-file", str(secret), "--tls-ca", "ca.pem"]
    flags += ["--max-inflated-body-bytes", "1000"]
    where = ["--master", "local[3]", "--conf", "spark.x=1=2", "--dry-run", "--report", "x.html"]
    assert run(["job", "probe", *flags, *where, "--checkpoint", "c", "--size", "4", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"size": 4}
    assert captured.err == ""
    (setup,) = told
    assert setup.source_options == {
        "namesrv": "a:1;b:2",
        "accessKey": "me",
        "secretKey": "s3cret",
        "tls": "true",
        "tlsCa": "ca.pem",
    }
    assert setup.reading_options == setup.source_options | {"maxInflatedBodyBytes": "1000"}
    assert (setup.master, setup.conf, setup.dry_run) == ("local[3]", (("spark.x", "1=2"),), True)
    assert (setup.report, setup.checkpoint) == (Path("x.html"), "c")


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--conf", "x"], 2, "expected NAME=VALUE"),
        (["--master", "local", "--remote", "sc://h"], 2, "give one of them"),
        (["--access-key", "me"], 2, "needs a secret"),
        (["--size", "13"], 1, "orbitmq: offsets 3 to 7 are gone"),
        (["--size", "14"], 130, "aborted"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ORBITMQ_SECRET_KEY", raising=False)
    assert run(["job", "probe", *arguments]) == code
    assert words in capsys.readouterr().err


@contextmanager
def terminal() -> Iterator[Callable[[], str]]:
    """Standard error is a terminal within the block; gives what it has shown since it was asked last."""
    ours, theirs = os.openpty()
    with (
        open(ours, "rb", buffering=0) as seen,
        open(theirs, "w") as stderr,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(sys, "stderr", stderr)
        patched.setenv("TERM", "xterm")

        def shown() -> str:
            print("that is all", end="", file=stderr, flush=True)
            text = b""
            while not text.endswith(b"that is all"):
                text += seen.read(1024)
            return text.decode().removesuffix("that is all")

        yield shown


@pytest.mark.usefixtures("told")
def test_progress_is_shown_on_a_terminal_and_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal() as shown:
        assert run(["job", "probe", "--size", "3", "--json"]) == 0
        text = shown()
        assert [words for words in ("sizing", "3/3", "100%", "all of it") if words not in text] == []
        assert json.loads(capsys.readouterr().out) == {"size": 3}, "the result has standard output to itself"
        assert run(["job", "probe", "--size", "3", "--quiet"]) == 0
        assert shown() == ""
    assert run(["job", "probe", "--size", "3"]) == 0
    assert capsys.readouterr().err == ""


class Tracker:
    """Spark's table of running tasks: two stages, one after the other, of four and two tasks."""

    def __init__(self) -> None:
        self.asked = 0

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 -- Spark's name
        self.asked += 1
        return [[1], [1], [2]][self.asked - 1] if self.asked < 4 else []

    def getStageInfo(self, stage: int) -> SimpleNamespace:  # noqa: N802
        done = {1: [2, 3, 4], 2: [0, 0, 1]}[stage][min(self.asked, 3) - 1]
        return SimpleNamespace(numCompletedTasks=done, numTasks={1: 4, 2: 2}[stage])


def test_the_bar_follows_spark_s_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.spark.jobs.ui.POLL_SECONDS", 0.01)
    tracker = Tracker()
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with terminal() as shown:
        with JobUi().spark_progress(session, "reading"):
            deadline = time.monotonic() + 60
            while tracker.asked < 5 and time.monotonic() < deadline:
                time.sleep(0.01)
        assert "5/6" in shown()


def test_a_job_has_no_flag_that_it_does_not_heed(capsys: pytest.CaptureFixture[str]) -> None:
    @job("offline", examples="orbitmq job offline", cluster=False)
    def offline(setup: JobSetup, ui: JobUi) -> None:
        """Ask nobody."""

    @job("counting", examples="orbitmq job counting", bodies=False)
    def counting(setup: JobSetup, ui: JobUi) -> None:
        """Read no body."""

    assert "--max-inflated-body-bytes" not in {flag for one in counting.params for flag in one.opts}
    shown = {flag for parameter in offline.params for flag in parameter.opts}
    assert shown == {"--master", "--remote", "--memory", "--conf", "--json", "--quiet", "-q"}


def test_a_job_that_needs_no_spark_any_more_says_that_its_flags_do_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @job("small", examples="orbitmq job small", spark=False, cluster=False)
    def small(setup: JobSetup, ui: JobUi) -> None:
        """Run without Spark."""

    small(["--master", "local[3]"], standalone_mode=False)
    assert "The job runs without Spark" in capsys.readouterr().err


WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "x.py", line 1, in read
ValueError: 3

During handling of the above exception, another exception occurred:

orbitmq.spark.errors.DataLost: offsets 3 to 7 are gone

\tat org.apache.spark.api.python.BasePythonRunner.read(Runner.scala:1)
Caused by: java.lang.Error: no
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (WORKER, "offsets 3 to 7 are gone"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find it.\nmore", "Failed to find it."),
        ("PythonException: x\nTraceback:\nZeroDivisionError: by zero\n", "ZeroDivisionError: by zero"),
        (
            "An error occurred while calling o51.collect.\n: org.apache.spark.SparkException: Job aborted.\n"
            "\tat org.apache.X\nCaused by: java.util.regex.PatternSyntaxException: Unclosed class\n[\n^",
            "PatternSyntaxException: Unclosed class",
        ),
        ("", "Spark gave no reason"),
    ],
)
def test_of_a_stack_trace_the_useful_line(text: str, line: str) -> None:
    assert useful_line(text) == line

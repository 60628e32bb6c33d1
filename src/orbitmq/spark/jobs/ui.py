"""Output of a job: progress on a terminal, nothing in a pipe; a table or JSON at its end.

ProgressBar goes to standard error, so that standard output holds the result alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from orbitmq.admin.output import Result, show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.25


class ProgressBar:
    """A bar that is not shown."""

    def advance(self, by: int = 1) -> None:
        """So much more is done."""

    def set(self, *, done: int | None = None, total: int | None = None) -> None:
        """Sets the amount done and the total."""

    def note(self, text: str) -> None:
        """A few words behind the bar."""


class JobUi:
    """The output of a job to its user.

    `quiet` shows no progress; without a terminal there is none either. With `as_json` the result is JSON.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet

    @property
    def interactive(self) -> bool:
        return not self.quiet and sys.stderr.isatty()

    def say(self, text: str) -> None:
        """A line for people, on standard error: what was decided, what was found on the way."""
        if not self.quiet:
            click.echo(text, err=True)

    def warn(self, text: str) -> None:
        """A line that is shown in any case."""
        click.echo(f"orbitmq: {text}", err=True)

    def show(self, result: Result) -> None:
        show(result, self.as_json)

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator[ProgressBar]:
        """A bar for as long as the block runs; without a total, one that only counts."""
        if not self.interactive:
            yield ProgressBar()
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.progress import Progress as Bars

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(show_speed=True),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
            yield _Bar(bars, bars.add_task(what, total=total, note=""))

    @contextmanager
    def spark_progress(self, spark: SparkSession, what: str) -> Iterator[ProgressBar]:
        """A bar that follows the tasks of the Spark jobs that run within the block."""
        with self.progress(what) as bar:
            tracker = _tracker(spark) if self.interactive else None
            if tracker is None:
                yield bar
                return
            over = threading.Event()
            follower = threading.Thread(target=_follow, args=(tracker, bar, over), daemon=True)
            follower.start()
            try:
                yield bar
            finally:
                over.set()
                follower.join()


class _Bar(ProgressBar):
    """A line of rich's."""

    def __init__(self, bars: Any, task: Any) -> None:
        self._bars = bars
        self._task = task

    def advance(self, by: int = 1) -> None:
        self._bars.advance(self._task, by)

    def set(self, *, done: int | None = None, total: int | None = None) -> None:
        given = {"completed": done, "total": total}
        self._bars.update(self._task, **{key: value for key, value in given.items() if value is not None})

    def note(self, text: str) -> None:
        self._bars.update(self._task, note=text)


def _tracker(spark: SparkSession) -> Any | None:
    """Spark's own table of running tasks; Spark Connect has none."""
    try:
        return spark.sparkContext.statusTracker()
    except Exception:
        return None


def _follow(tracker: Any, bar: ProgressBar, over: threading.Event) -> None:
    """Sums up the tasks of the stages that have been seen: a stage that is done is no longer listed."""
    stages: dict[int, tuple[int, int]] = {}
    while not over.wait(POLL_SECONDS):
        try:
            listed = set(tracker.getActiveStageIds())
            for stage in listed | {one for one, (done, total) in stages.items() if done < total}:
                info = tracker.getStageInfo(stage)
                if info is not None:
                    stages[stage] = (info.numCompletedTasks, info.numTasks)
        except Exception:  # the session ends: so does the bar
            return
        if stages:
            done, total = (sum(column) for column in zip(*stages.values(), strict=True))
            bar.set(done=done, total=total)


QUIET = JobUi(quiet=True)
"""For calls from code."""

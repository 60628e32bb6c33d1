"""An archive in a process of its own, to be killed: `python -m tests.spark.archive_process ...`.

Its words are name server, topic, lake and Spark's master. Batches are small, and a merge follows every third,
so that little time passes between two points that matter.

With `processes` for a master no Spark runs: tasks go to a pool of two processes. Everything else is the same,
and a driver that was killed is back within seconds, however busy the machine is.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from orbitmq.spark.errors import SparkSourceError
from orbitmq.spark.jobs.archive import running
from orbitmq.spark.jobs.archive.running import ArchiveOptions, run
from orbitmq.spark.jobs.archive.tasks import Written
from orbitmq.spark.jobs.job import JobSetup, JobUi
from orbitmq.spark.lake.storage import LakeLocation

WITHOUT_SPARK = "processes"


class Pool:
    """Stands in for Spark: processes, made anew after one has died."""

    def __init__(self) -> None:
        self._processes: ProcessPoolExecutor | None = None

    def run_tasks(self, _: object, act: Callable[[Any], Written], works: Sequence[Any]) -> list[Written]:
        from pyspark import cloudpickle

        if self._processes is None:
            self._processes = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
        pickled = [cloudpickle.dumps((act, work)) for work in works]
        try:
            return [Written.from_json(text) for text in self._processes.map(perform, pickled)]
        except BrokenProcessPool as error:
            self._processes.shutdown(wait=False)
            self._processes = None
            raise SparkSourceError(str(error)) from error


def perform(pickled: bytes) -> str:
    """In a process of the pool."""
    from pyspark import cloudpickle

    act, work = cloudpickle.loads(pickled)
    return str(act(work).to_json())


@dataclass(frozen=True, slots=True)
class WithoutSpark(JobSetup):
    """A setup whose session is nothing."""

    @contextlib.contextmanager
    def session(self, app_name: str) -> Iterator[Any]:
        yield None


def main() -> None:
    namesrv, topic, lake, master = sys.argv[1:]
    if master == WITHOUT_SPARK:
        running.run_tasks = Pool().run_tasks
        setup: JobSetup = WithoutSpark(namesrv)
    else:
        conf = (("spark.executor.memory", "512m"),)
        setup = JobSetup(namesrv, master=master, memory="512m", conf=conf)
    options = ArchiveOptions(
        LakeLocation(lake),
        (topic,),
        setup=setup,
        follow_s=0.05,
        batch_messages=400,
        file_messages=100,
        compact=True,
        compact_every=3,
        target_bytes=1 << 20,
        retry_for_s=600,
    )
    run(options, JobUi())


if __name__ == "__main__":
    main()

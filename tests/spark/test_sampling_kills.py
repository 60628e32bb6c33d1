"""`lag` and `availability` under kill -9 while they write: the next run goes on with what is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from orbitmq.spark.jobs.availability import AvailabilityOptions
from orbitmq.spark.jobs.availability import run as run_availability
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.lag import LagOptions
from orbitmq.spark.jobs.lag import run as run_lag
from orbitmq.spark.jobs.sampling import LEFT_SECONDS
from tests.kit.brokers import others_at_night
from tests.peers.machine import REPOSITORY
from tests.spark.conftest import Outgoing, create_topic, publish
from tests.spark.test_lag import commit

if TYPE_CHECKING:
    from orbitmq.testing import LocalBroker

WHOLE = 4
"""Files that are there when a run is killed; the next one is not whole."""
RUNS = 2

pytestmark = pytest.mark.timeout(900)


def killed(job: str, namesrv: str, folder: Path) -> None:
    """A run that takes samples until it is killed."""
    command = [sys.executable, "-m", "tests.spark.sampling_process", job, namesrv, str(folder), str(WHOLE)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def samples(folder: Path) -> list[tuple[object, ...]]:
    """Time, and what was looked at, of each row of the files that are whole."""
    names = ("clientGroup", "topic", "broker", "queueId", "operation", "address")
    rows = [row for path in folder.glob("[0-9]*.parquet") for row in pq.read_table(path).to_pylist()]
    return [(row["at"], *(row.get(name) for name in names)) for row in rows]


def unfinished(folder: Path) -> list[Path]:
    return list(folder.glob("_*"))


@pytest.mark.parametrize("job", others_at_night(["lag", "availability"], ["lag"]))
def test_a_run_that_was_killed_is_gone_on_with(orbitmq_server: LocalBroker, tmp_path: Path, job: str) -> None:
    topic = f"sampled_{time.time_ns()}"
    create_topic(orbitmq_server, topic, queues=2)
    publish(orbitmq_server, topic, [Outgoing(b"x", n % 2) for n in range(10)])
    for queue_id in range(2):
        commit(orbitmq_server, f"{topic}_g", topic, queue_id, 2)
    folder = tmp_path / "samples"
    before: set[tuple[object, ...]] = set()
    for number in range(1, RUNS + 1):
        killed(job, orbitmq_server.namesrv, folder)
        assert len(list(folder.glob("[0-9]*.parquet"))) == WHOLE * number
        assert len(unfinished(folder)) == number
        found = samples(folder)
        assert before < set(found), "what was there before stays"
        assert len(set(found)) == len(found), "no sample is there twice"
        before = set(found)
    an_hour_ago = time.time() - LEFT_SECONDS - 1
    for path in unfinished(folder):
        os.utime(path, (an_hour_ago, an_hour_ago))
    setup = JobSetup(orbitmq_server.namesrv)
    if job == "lag":
        done = run_lag(LagOptions(folder, setup, samples=1, timeout_ms=60_000))
        (row,) = [row for row in done.current_lag if row["topic"] == topic]
        assert (row["lag"], row["clientGroup"]) == (6, f"{topic}_g")
        added = done.samples
    else:
        told = run_availability(AvailabilityOptions(folder, setup, samples=1, timeout_ms=60_000))
        added = told.probes
        assert sum(row["observations"] for row in told.figures) == len(before) + added, "all of it is told"
        assert [row["up"] for row in told.figures] == [True] * len(told.figures)
    found = samples(folder)
    assert before < set(found)
    assert len(set(found)) == len(found) == len(before) + added
    assert unfinished(folder) == [], "what the killed runs left unfinished is taken away"

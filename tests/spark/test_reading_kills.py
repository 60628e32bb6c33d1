"""`audit` and `search` under kill -9: the next run looks at the rest, and tells what it would have told."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from orbitmq.spark.jobs.archive.running import ArchiveOptions
from orbitmq.spark.jobs.archive.running import run as run_archive
from orbitmq.spark.jobs.checkpoint import ASKED, PIECES
from orbitmq.spark.jobs.job import JobFailed, JobSetup
from orbitmq.spark.jobs.search import running
from orbitmq.spark.jobs.search.matching import Wanted
from orbitmq.spark.jobs.search.running import SearchOptions
from orbitmq.spark.lake.storage import LakeLocation
from tests.kit.store_files import StoreFiles
from tests.spark import reading_process
from tests.spark.conftest import Outgoing, create_topic, publish
from tests.spark.killing import kill_when
from tests.spark.test_audit import crc, healthy, wrong_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.testing import LocalBroker

ENOUGH = 3
"""Pieces after which a job is killed; there are more."""
DAY_MS = 86_400_000
MESSAGES = 500

pytestmark = pytest.mark.timeout(900)


def killed(job: str, where: Path, checkpoint: Path) -> list[Path]:
    """The pieces that a run had looked through when it was killed."""
    words = ("tests.spark.reading_process", job, str(where), str(checkpoint))
    kill_when(lambda: len(pieces(checkpoint)) >= ENOUGH, checkpoint.parent / "driver.log", *words)
    return pieces(checkpoint)


def pieces(checkpoint: Path) -> list[Path]:
    return sorted((checkpoint / PIECES).glob("*.parquet"))


@pytest.mark.nightly  # another JVM; an audit breaks off and goes on in `test_offline`
def test_an_audit_that_was_killed_looks_at_the_rest_of_a_store(spark: SparkSession, tmp_path: Path) -> None:
    store = healthy(tmp_path / "store")
    for number in range(MESSAGES):
        store.put(bytes(200), "payments", number % 4)
    crc(store)
    wrong_size(store)
    whole = reading_process.told(reading_process.audit(JobSetup(), str(store.root)))
    assert len(whole[0]) > 1
    checkpoint = tmp_path / "checkpoint"
    done = killed("audit", store.root, checkpoint)
    damaged = 0
    for piece in done:
        table = pq.read_table(piece)
        if "isBatch" in table.column_names:  # of a log
            for offset, problem in zip(
                *(table.column(name).to_pylist() for name in ("physicalOffset", "problem")), strict=True
            ):
                if problem is None:
                    damage_unseen(store, offset + 90)
                    damaged += 1
    assert 0 < damaged < MESSAGES, "some pieces were looked through, and some were not"
    setup = JobSetup(checkpoint=str(checkpoint))
    again = reading_process.told(reading_process.audit(setup, str(store.root)))
    assert again == whole, "what was looked through was not looked at again"
    assert [name for name in os.listdir(checkpoint) if name != "_lock"] == []
    anew = reading_process.audit(setup, str(store.root))
    assert anew.errors > damaged, "after the end of a run the next one looks at everything"


def damage_unseen(store: StoreFiles, physical_offset: int) -> None:
    """Turns a bit over in a file that looks as old as before."""
    path = store.log_file(physical_offset)
    before = path.stat()
    store.flip(physical_offset)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.nightly  # another JVM; below, a search breaks off and goes on in the session of all tests
def test_a_search_that_was_killed_looks_at_the_rest_of_a_lake(spark: SparkSession, tmp_path: Path) -> None:
    store = StoreFiles(tmp_path / "store")
    for number in range(100):
        if number % 10 == 0:
            store.time_ms += DAY_MS
        store.put(b"order %d" % number, "orders", number % 2, properties=f"KEYS\x01k{number}\x02")
    lake = tmp_path / "lake"
    run_archive(
        ArchiveOptions(LakeLocation(str(lake)), ("orders",), store=str(store.root), broker_name="broker-a")
    )
    whole = reading_process.told(reading_process.search(JobSetup(), str(lake)))
    assert len(whole) == 100
    checkpoint = tmp_path / "checkpoint"
    done = killed("search", lake, checkpoint)
    times = [ms for piece in done for ms in pq.read_table(piece).column("storeTimestamp").to_pylist()]
    days = {datetime.fromtimestamp(ms / 1000, UTC).date().isoformat() for ms in times}
    assert ENOUGH <= len(days) < 10, "some pieces were looked through, and some were not"
    for day in days:
        for path in lake.glob(f"topic=orders/date={day}/*.parquet"):
            path.write_bytes(b"no Parquet")
    again = reading_process.told(reading_process.search(JobSetup(checkpoint=str(checkpoint)), str(lake)))
    assert again == whole, "what was looked through was not read again"
    assert [name for name in os.listdir(checkpoint) if name != "_lock"] == []


def test_a_search_that_broke_off_reads_the_rest_of_a_topic(
    spark: SparkSession, orbitmq_server: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"broke_off_{time.time_ns()}"
    create_topic(orbitmq_server, topic)
    publish(orbitmq_server, topic, [Outgoing(b"order %d" % n, n % 4) for n in range(40)])
    checkpoint = tmp_path / "checkpoint"
    read: list[list[tuple[int, int]]] = []
    spans_read = running.read_spans
    breaks_at = 3

    def read_spans(spark: SparkSession, setup: JobSetup, spans: dict[Any, tuple[int, int]]) -> Any:
        if len(read) == breaks_at:
            raise ConnectionResetError("the broker is gone")
        read.append(list(spans.values()))
        return spans_read(spark, setup, spans)

    monkeypatch.setattr(running, "read_spans", read_spans)

    def search(**asked: Any) -> list[bytes]:
        setup = JobSetup(orbitmq_server.namesrv, checkpoint=str(checkpoint))
        options = SearchOptions(
            **{"wanted": Wanted(text="order"), "topics": (topic,), "piece_messages": 8} | asked, setup=setup
        )
        return [one.body for one in running.run(options).messages]

    with pytest.raises(ConnectionResetError):
        search()
    breaks_at = -1
    publish(orbitmq_server, topic, [Outgoing(b"order 40", 0)])
    with pytest.raises(JobFailed, match="the checkpoint of something else: limit, wanted differ"):
        search(wanted=Wanted(text="other"), limit=1)
    assert sorted(search(), key=lambda body: int(body.split()[1])) == [b"order %d" % n for n in range(41)]
    assert read == [[(low, low + 2)] * 4 for low in range(0, 10, 2)] + [[(10, 11)]], "each stretch once"
    assert not (checkpoint / ASKED).exists()

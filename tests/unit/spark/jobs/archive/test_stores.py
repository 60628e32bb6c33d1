"""Shares of a commit log for the archive of a store's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.store_files import StoreFiles

pytest.importorskip("pyarrow")

from orbitmq.spark.jobs.archive.running import ArchiveOptions, run
from orbitmq.spark.jobs.archive.stores import LARGEST_PIECE_BYTES, SMALLEST_PIECE_BYTES, in_groups, pieces_of
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.ui import JobUi
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.offline.log_ranges import LogFile, LogRange
from orbitmq.spark.offline.planning import BadPlace, Work

MIB = 1 << 20


def log(count: int, size_bytes: int = SMALLEST_PIECE_BYTES) -> list[Work]:
    """Neighbours of a log, as planning gives them."""
    file = LogFile("/store/commitlog", f"{0:020d}", 0, count * size_bytes)
    return [Work((LogRange(file, n * size_bytes, (n + 1) * size_bytes, False),)) for n in range(count)]


def sizes(works: list[Work]) -> list[int]:
    return [sum(map(len, work.ranges)) // MIB for work in works]


@pytest.mark.parametrize(
    ("count", "workers", "expected"),
    [
        (2, 8, [64, 64]),  # small ones are not cut smaller for the sake of many workers
        (16, 2, [256] * 4),
        (16, 4, [128] * 8),
        (64, 2, [256] * 16),  # a task that fails has not too much to read again
        (5, 1, [128, 128, 64]),
    ],
)
def test_every_worker_has_two_tasks_of_a_fitting_size(count: int, workers: int, expected: list[int]) -> None:
    works = log(count)
    pieces = pieces_of(works, workers)
    assert sizes(pieces) == expected
    assert [one for piece in pieces for one in piece.ranges] == [one for work in works for one in work.ranges]


def test_a_batch_is_no_larger_than_it_has_to_be() -> None:
    pieces = pieces_of(log(16), 2)
    assert [sizes(group) for group in in_groups(pieces, 512 * MIB)] == [[256, 256], [256, 256]]
    assert [len(group) for group in in_groups(pieces, 1)] == [1, 1, 1, 1]
    assert not list(in_groups([], LARGEST_PIECE_BYTES))


def test_what_is_bad_stays_with_its_neighbours() -> None:
    place = BadPlace("/store/commitlog/0", 0, 8, "gap")
    first, *others = log(4)
    pieces = pieces_of([Work(first.ranges, ((place, "broker-a"),)), *others], 1)
    assert [piece.bad for piece in pieces] == [((place, "broker-a"),), ()]


def test_a_topic_that_the_store_has_no_queue_of_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = StoreFiles(tmp_path / "store")
    store.put(topic="orders")
    lake, setup = LakeLocation(str(tmp_path / "lake")), JobSetup(dry_run=True)
    for topic in ("orders", "ordres"):
        run(ArchiveOptions(lake, (topic,), store=str(store.root), broker_name="b", setup=setup), JobUi())
    told = [line for line in capsys.readouterr().err.splitlines() if "no queue" in line]
    assert told == ["orbitmq: no queue of topic ordres is in the store; did you mean orders?"]

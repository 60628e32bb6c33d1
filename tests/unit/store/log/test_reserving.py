"""Blocks reserved ahead, by the owner or by a thread, and a disk without room."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orbitmq import failpoints
from orbitmq.store.errors import DiskStalled
from orbitmq.store.files import RealDisk
from orbitmq.store.log.commit_log import CommitLog
from tests.kit.store import opened
from tests.unit.store.log.test_commit_log import SEGMENT, no_space, write


@pytest.fixture
def commit_log(tmp_path: Path) -> CommitLog:
    return CommitLog.load(RealDisk(), tmp_path / "commitlog", SEGMENT)


def write_at_last(commit_log: CommitLog, size: int) -> int:
    """Takes room and writes, beside a reserver that other programs may hold up."""
    while True:
        try:
            return write(commit_log, size)
        except DiskStalled:
            continue


def test_blocks_are_reserved_before_they_are_written(tmp_path: Path) -> None:
    commit_log = CommitLog.load(RealDisk(), tmp_path, 256 << 20)
    segment = commit_log.ensure_space(100)
    assert segment.reserved == 64 << 20
    path = tmp_path / f"{0:020d}"
    assert path.stat().st_size == 256 << 20
    assert 64 << 20 <= path.stat().st_blocks * 512 < 80 << 20
    segment.wrote = 40 << 20
    commit_log.reserving.run()
    assert segment.reserved == 128 << 20
    commit_log.reserving.run()
    assert segment.reserved == 128 << 20


def test_the_next_segment_is_made_ahead(commit_log: CommitLog, tmp_path: Path) -> None:
    write(commit_log, 1000)
    commit_log.reserving.run()
    names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    assert names == [f"{0:020d}", f"{SEGMENT:020d}"]
    assert len(commit_log.segments) == 1
    commit_log.close()
    assert len(list((tmp_path / "commitlog").iterdir())) == 1


def test_a_smaller_step_is_taken_where_the_large_one_finds_no_room(tmp_path: Path) -> None:
    commit_log = CommitLog.load(RealDisk(), tmp_path, 256 << 20)
    asked: list[int] = []

    def too_large() -> None:
        asked.append(1)
        if len(asked) < 3:
            no_space()

    with failpoints.armed_point("commitlog.reserve", too_large):
        segment = commit_log.ensure_space(5000)
    assert segment.reserved == 8192


def test_reserving_ahead_without_room_is_no_error_and_said_once(
    commit_log: CommitLog, caplog: pytest.LogCaptureFixture
) -> None:
    write(commit_log, 1000)
    with failpoints.armed_point("commitlog.create", no_space):
        for _ in range(3):
            commit_log.reserving.run()
    assert len(commit_log.segments) == 1
    commit_log.reserving.run()
    assert [record.getMessage().split(" in ")[0] for record in caplog.records] == [
        "no room to reserve",
        "room again",
    ]


def test_room_is_wanted_until_it_is_reserved(tmp_path: Path) -> None:
    commit_log = CommitLog.load(RealDisk(), tmp_path, 256 << 20)
    assert not commit_log.reserving.is_wanted
    segment = commit_log.ensure_space(100)
    assert commit_log.reserving.is_wanted is (segment.reserved < 32 << 20)
    segment.wrote = segment.reserved
    assert commit_log.reserving.is_wanted
    commit_log.reserving.run()
    assert not commit_log.reserving.is_wanted
    commit_log.close()


@pytest.fixture
def reserver() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_beside_a_reserver_the_owner_reserves_nothing_itself(
    commit_log: CommitLog, reserver: ThreadPoolExecutor
) -> None:
    threads: set[int] = set()

    def note() -> None:
        threads.add(threading.get_ident())

    commit_log.reserving.use_thread(reserver)
    with (
        failpoints.armed_point("commitlog.create", note),
        failpoints.armed_point("commitlog.reserve", note),
    ):
        for number in range(5):
            assert write_at_last(commit_log, SEGMENT // 2 + 1) == number * SEGMENT
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("point", ["commitlog.create", "commitlog.reserve"])
def test_a_reserver_that_does_not_get_there_is_waited_for_once_and_not_for_long(
    commit_log: CommitLog, reserver: ThreadPoolExecutor, point: str
) -> None:
    write(commit_log, SEGMENT // 2 + 1)
    goes_on = threading.Event()
    commit_log.reserving.use_thread(reserver)
    with failpoints.armed_point(point, lambda: goes_on.wait(60)):
        began = time.monotonic()
        for _ in range(5_000):
            with pytest.raises(DiskStalled):
                commit_log.ensure_space(SEGMENT // 2 + 1)
        assert time.monotonic() - began < 50, "each of them would wait for 20 ms"
        assert commit_log.ensure_space(100) is commit_log.segments[0], "there is room for less"
        goes_on.set()
    reserver.submit(int).result()
    assert write_at_last(commit_log, SEGMENT // 2 + 1) == SEGMENT


def test_beside_a_reserver_no_room_is_an_error_that_passes(
    commit_log: CommitLog, reserver: ThreadPoolExecutor
) -> None:
    write(commit_log, SEGMENT // 2)
    commit_log.reserving.use_thread(reserver)
    with failpoints.armed_point("commitlog.create", no_space):
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                write_at_last(commit_log, SEGMENT // 2 + 1)
    assert commit_log.reserving.is_without_room
    assert write_at_last(commit_log, SEGMENT // 2 + 1) == SEGMENT


def test_the_reserver_goes_ahead_when_half_of_its_lead_is_used(
    tmp_path: Path, reserver: ThreadPoolExecutor
) -> None:
    store = opened(tmp_path, mapped_file_size_commit_log=256 << 20)
    store.log.reserving.use_thread(reserver)
    segment = store.structures.log.segments[-1]
    reserved = segment.reserved
    segment.wrote = reserved // 2 - 1
    store.log.reserving.begin_soon()
    reserver.submit(int).result()
    assert segment.reserved == reserved
    segment.wrote = reserved // 2 + 1
    store.log.reserving.begin_soon()
    reserver.submit(int).result()
    assert segment.reserved > reserved
    segment.wrote = 0
    store.close()

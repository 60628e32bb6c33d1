"""Segments: rolling, flushing, reading, cutting."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from orbitmq import failpoints
from orbitmq.store import FlushFailed
from orbitmq.store.files import RealDisk
from orbitmq.store.log.commit_log import CommitLog
from tests.kit.store import filled, flip, opened

SEGMENT = 1 << 20


@pytest.fixture
def commit_log(tmp_path: Path) -> CommitLog:
    return CommitLog.load(RealDisk(), tmp_path / "commitlog", SEGMENT)


def write(commit_log: CommitLog, size: int) -> int:
    """Takes room and writes; gives the physical offset."""
    segment = commit_log.ensure_space(size)
    at = segment.wrote
    segment.view[at : at + size] = b"x" * size
    segment.wrote += size
    return segment.start + at


def no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_offsets_run_through_all_segments(commit_log: CommitLog) -> None:
    assert (commit_log.min_physical, commit_log.max_physical) == (0, 0)
    assert [write(commit_log, SEGMENT // 2 - 100) for _ in range(3)] == [0, SEGMENT // 2 - 100, SEGMENT]
    assert commit_log.max_physical == SEGMENT + SEGMENT // 2 - 100
    assert commit_log.find(SEGMENT - 1) is commit_log.segments[0]
    assert commit_log.find(SEGMENT) is commit_log.segments[1]
    assert commit_log.find(-1) is commit_log.find(2 * SEGMENT) is None
    assert commit_log.next_segment_start(SEGMENT + 5) == 2 * SEGMENT
    blank = bytes(commit_log.segments[0].view[SEGMENT - 200 : SEGMENT - 192])
    assert blank == (200).to_bytes(4, "big") + bytes.fromhex("cbd43194")


def test_no_room_is_an_error_that_passes(commit_log: CommitLog) -> None:
    write(commit_log, SEGMENT // 2)
    with failpoints.armed_point("commitlog.create", no_space), pytest.raises(OSError, match="No space"):
        commit_log.ensure_space(SEGMENT // 2 + 1)
    assert len(commit_log.segments) == 1
    assert write(commit_log, SEGMENT // 2 + 1) == SEGMENT


def test_a_flush_covers_what_was_written_when_it_began(commit_log: CommitLog) -> None:
    write(commit_log, 1000)
    with failpoints.armed_point("commitlog.flush", lambda: write(commit_log, 500) and None):
        assert commit_log.flush() == 1000
    assert commit_log.durable == 1000
    assert commit_log.flush() == 1500
    write(commit_log, SEGMENT - 100)
    assert commit_log.flush() == commit_log.max_physical == 2 * SEGMENT - 100
    assert [segment.synced for segment in commit_log.segments] == [SEGMENT, SEGMENT - 100]


def test_a_failed_flush_stays_failed(commit_log: CommitLog) -> None:
    write(commit_log, 1000)
    with failpoints.armed_point("commitlog.flush", no_space), pytest.raises(FlushFailed, match="No space"):
        commit_log.flush()
    for _ in range(2):
        with pytest.raises(FlushFailed, match="earlier"):
            commit_log.flush()
    assert commit_log.durable == 0


def test_reads_end_where_the_log_ends(commit_log: CommitLog) -> None:
    write(commit_log, 100)
    assert commit_log.read(90, 50) == b"x" * 10
    assert commit_log.read(100, 5) == commit_log.read(SEGMENT, 5) == b""
    assert commit_log.read(-5, 3) == b""


def test_cutting_leaves_nothing_behind_the_end(commit_log: CommitLog, tmp_path: Path) -> None:
    for _ in range(5):
        write(commit_log, SEGMENT // 2 - 100)
    commit_log.truncate(1000)
    assert (commit_log.max_physical, len(commit_log.segments)) == (1000, 1)
    assert (tmp_path / "commitlog" / f"{0:020d}").stat().st_size == SEGMENT
    assert bytes(commit_log.segments[0].view[990:1100]) == b"x" * 10 + bytes(100)
    assert write(commit_log, 10) == 1000


def test_the_last_segment_is_never_removed(commit_log: CommitLog) -> None:
    for _ in range(3):
        write(commit_log, SEGMENT // 2 - 100)
    view = commit_log.segments[0].view[:10]
    assert commit_log.remove_first() == SEGMENT
    assert commit_log.min_physical == SEGMENT
    assert commit_log.remove_first() == 0
    assert bytes(view) == b"x" * 10


def test_records_are_read_from_a_physical_offset_on_over_segments_and_damage(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 100, body=bytes(3000))
    start = appended[30].physical_offset
    broken = appended[60].physical_offset
    flip(tmp_path, broken + 4, 0xFF)
    read = [record.physical_offset for record in store.log.records(start)]
    assert read == [one.physical_offset for one in appended[30:] if one.physical_offset != broken]
    assert list(store.log.records(appended[-1].end_offset)) == []
    assert next(store.log.records(-5)).physical_offset == 0
    store.close()


def test_a_record_longer_than_a_piece_is_read(tmp_path: Path) -> None:
    size = 5 << 20
    store = opened(tmp_path, mapped_file_size_commit_log=16 << 20, max_message_size=8 << 20)
    filled(store, 2, body=bytes(size))
    assert [len(record.body) for record in store.log.records(0)] == [size, size]
    store.close()

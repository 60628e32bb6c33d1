"""The log of timers: units in the order in which they came, in segments that no unit crosses."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from orbitmq.store.errors import StoreCorrupt
from orbitmq.store.files import RealDisk, RealFile
from orbitmq.store.timer.log import BLANK, DEFAULT, NO_UNIT, UNIT_BYTES, TimerLog, TimerUnit, pack_unit

UNITS = 4
SEGMENT = (UNITS + 1) * UNIT_BYTES + BLANK.size - 1
"""Four units fit: behind a fifth there would be no room for the blank one."""


def unit(number: int, *, size_bytes: int = 100) -> TimerUnit:
    return TimerUnit(
        NO_UNIT, DEFAULT, 1_000 + number, 5_000, number * 100, size_bytes, number, 6_000 + number
    )


@pytest.fixture
def log(tmp_path: Path) -> TimerLog:
    return TimerLog.load(RealDisk(), tmp_path / "timerlog", SEGMENT)


def filled(log: TimerLog, count: int) -> list[int]:
    """Appends units 0, 1, 2 ... and writes them; gives their positions."""
    positions = [log.append(pack_unit(unit(number))) for number in range(count)]
    log.write()
    return positions


def numbers(log: TimerLog, position: int = 0, end: int | None = None) -> list[int]:
    return [found.topic_hash for _, found in log.units(position, log.end if end is None else end)]


def test_units_are_read_as_they_were_appended(log: TimerLog) -> None:
    positions = filled(log, 3)
    assert [log.unit(position) for position in positions] == [unit(number) for number in range(3)]
    assert list(log.units(0, log.end)) == [(positions[n], unit(n)) for n in range(3)]


def test_no_unit_crosses_the_end_of_a_segment(log: TimerLog) -> None:
    positions = filled(log, 2 * UNITS + 1)
    assert [position // SEGMENT for position in positions] == [0] * UNITS + [1] * UNITS + [2]
    assert [position % SEGMENT for position in positions[::UNITS]] == [0, 0, 0]
    assert numbers(log) == list(range(2 * UNITS + 1))


def test_it_says_how_many_units_a_segment_still_takes(log: TimerLog) -> None:
    left = []
    for number in range(UNITS + 1):
        log.append(pack_unit(unit(number)))
        left.append(log.units_left)
    assert left == [3, 2, 1, 0, 3]


def test_units_are_in_the_files_only_once_they_are_written(log: TimerLog) -> None:
    position = log.append(pack_unit(unit(0)))
    assert (log.end, log.written) == (UNIT_BYTES, 0)
    assert log.unit(position) is None
    log.write()
    assert log.written == UNIT_BYTES
    assert log.unit(position) == unit(0)


def test_what_was_taken_back_is_neither_written_nor_counted(log: TimerLog) -> None:
    filled(log, 1)
    end = log.end
    log.append(pack_unit(unit(1)))
    log.forget(end)
    log.write()
    assert (log.end, numbers(log)) == (end, [0])
    assert log.append(pack_unit(unit(2))) == end
    log.write()
    assert numbers(log) == [0, 2]


def test_a_range_ends_before_a_unit_that_is_not_sound(log: TimerLog, tmp_path: Path) -> None:
    positions = filled(log, 3)
    log.close()
    with (tmp_path / "timerlog" / f"{0:020d}").open("r+b") as file:
        file.seek(positions[1])
        file.write(b"\x00\x00\x00\x01")
    again = TimerLog.load(RealDisk(), tmp_path / "timerlog", SEGMENT)
    assert numbers(again, end=3 * UNIT_BYTES) == [0]
    assert again.unit(positions[1]) is None
    assert again.unit(positions[2]) == unit(2)


def test_units_of_no_message_are_not_sound(log: TimerLog) -> None:
    position = log.append(pack_unit(unit(0, size_bytes=0)))
    log.write()
    assert log.unit(position) is None


def test_a_window_reads_both_ways_over_segments(log: TimerLog) -> None:
    positions = filled(log, 2 * UNITS)
    forwards, backwards = log.walk(0), log.walk(0)
    assert [forwards.unit(position) for position in positions] == [unit(n) for n in range(2 * UNITS)]
    assert [backwards.unit(position, backwards=True) for position in reversed(positions)] == [
        unit(n) for n in reversed(range(2 * UNITS))
    ]
    assert forwards.unit(log.end) is None


def test_a_log_that_was_cut_keeps_nothing_behind_its_end(log: TimerLog, tmp_path: Path) -> None:
    positions = filled(log, 2 * UNITS)
    log.truncate(positions[2])
    assert (log.end, numbers(log, end=2 * SEGMENT)) == (positions[2], [0, 1])
    assert [path.name for path in (tmp_path / "timerlog").iterdir()] == [f"{0:020d}"]
    assert not any((tmp_path / "timerlog" / f"{0:020d}").read_bytes()[positions[2] :])


def test_segments_go_once_all_their_units_are_behind_and_never_the_last(log: TimerLog) -> None:
    filled(log, 3 * UNITS)
    assert log.remove_before(SEGMENT - 1) == 0
    assert log.remove_before(SEGMENT) == 1
    assert log.start == SEGMENT
    assert log.remove_before(9 * SEGMENT) == 1
    assert (log.start, log.last_segment) == (2 * SEGMENT, 2 * SEGMENT)
    assert numbers(log, log.start) == [8, 9, 10, 11]


def test_units_can_be_linked_anew_and_made_to_stand_for_nothing(log: TimerLog) -> None:
    first, second = filled(log, 2)
    log.relink(second, first)
    log.void(first)
    assert log.unit(second) == unit(1)._replace(previous=first)
    voided = log.unit(first)
    assert voided is not None
    assert voided.slot_ms == 0


def test_a_failed_sync_is_made_up_for_by_the_next(log: TimerLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: RealFile) -> None:
        raise OSError(errno.EIO, "Input/output error")

    filled(log, 1)
    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "sync", fails)
        with pytest.raises(OSError, match="Input/output"):
            log.sync()
    assert log.is_unsynced
    log.sync()
    assert not log.is_unsynced


@pytest.mark.parametrize("size", [SEGMENT - 1, SEGMENT + 1])
def test_a_segment_of_another_size_is_refused_with_the_option_to_set(tmp_path: Path, size: int) -> None:
    (tmp_path / f"{0:020d}").write_bytes(bytes(size))
    with pytest.raises(StoreCorrupt, match=f"set mappedFileSizeTimerLog={size}"):
        TimerLog.load(RealDisk(), tmp_path, SEGMENT)


def test_a_last_segment_that_was_never_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}").write_bytes(bytes(SEGMENT))
    (tmp_path / f"{SEGMENT:020d}").touch()
    log = TimerLog.load(RealDisk(), tmp_path, SEGMENT)
    assert (log.last_segment, log.end) == (0, 0)
    assert [path.name for path in tmp_path.iterdir()] == [f"{0:020d}"]


def test_a_cleared_log_begins_anew(log: TimerLog, tmp_path: Path) -> None:
    filled(log, 2 * UNITS)
    log.clear()
    assert log.is_empty
    assert list((tmp_path / "timerlog").iterdir()) == []
    assert log.append(pack_unit(unit(0))) == 0

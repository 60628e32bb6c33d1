"""The file of how far timers have got."""

from __future__ import annotations

from pathlib import Path

from orbitmq.store.timer.check_point import TimerCheck, TimerFields, TimerMark
from tests.fault.recorded_disk import RecordedDisk

FIELDS = TimerFields(read_ms=5000, queue_offset=3)
MARK = TimerMark(5000, 5000, 52, 3, 104, 900)


def test_it_is_on_the_disk_as_soon_as_it_is_made(tmp_path: Path) -> None:
    disk = RecordedDisk(tmp_path)
    path = tmp_path / "config" / "timercheck"
    check = TimerCheck.load(disk, path, 1000)
    assert check.write(FIELDS, MARK)
    kinds = [step.kind for step in disk.journal]
    assert kinds == ["name", "make", "resize", "write", "sync", "sync folder"]
    assert check.write(FIELDS._replace(counter=1), MARK)
    assert [step.kind for step in disk.journal[len(kinds) :]] == ["write"]
    again = TimerCheck.load(disk, path, 1000)
    assert (again.fields, again.mark) == (FIELDS._replace(counter=1), MARK)

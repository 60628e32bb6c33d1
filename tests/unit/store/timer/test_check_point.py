"""The file of how far timers have got."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from orbitmq.store.files import RealDisk
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


def test_a_mark_of_before_messages_were_taken_in_anew_is_read(tmp_path: Path) -> None:
    """It was written without the last of its fields."""
    path = tmp_path / "timercheck"
    body = struct.pack(">qqqqqqq", *FIELDS) + struct.pack(">4sqqqqqqi", b"OMQT", *MARK[:6], 1000)
    path.write_bytes((body + struct.pack(">I", zlib.crc32(body))).ljust(4096, b"\0"))
    check = TimerCheck.load(RealDisk(), path, 1000)
    assert (check.fields, check.mark) == (FIELDS, MARK)
    check.write(FIELDS, MARK._replace(passed_to=9))
    again = TimerCheck.load(RealDisk(), path, 1000)
    assert again.mark == MARK._replace(passed_to=9)

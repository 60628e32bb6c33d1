"""A disk in memory, and what crashes leave of it."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from tests.fault.recorded_disk import PAGE_BYTES, RecordedDisk

ROOT = Path("/root-of-the-disk")
FILE = ROOT / "folder" / "file"


@pytest.fixture
def disk() -> RecordedDisk:
    return RecordedDisk(ROOT)


def made(disk: RecordedDisk, size: int = 3 * PAGE_BYTES) -> None:
    """A file that is on the disk, with its name."""
    disk.make_folder(FILE.parent)
    disk.sync_folder(ROOT)
    disk.open(FILE, size).sync()
    disk.sync_folder(FILE.parent)


def test_files_are_what_was_written(disk: RecordedDisk) -> None:
    made(disk)
    file = disk.open(FILE)
    view = file.view()
    view[10:13] = b"abc"
    file.write(12, b"xy")
    assert file.read(9, 6) == b"\x00abxy\x00"
    assert (disk.names(ROOT), disk.names(FILE.parent)) == (["folder"], ["file"])
    file.cut(11)
    assert view[10:14].tobytes() == b"a\x00\x00\x00"
    disk.rename(FILE, FILE.with_name("other"))
    assert disk.content(FILE.with_name("other"))[10] == ord("a")
    with pytest.raises(FileNotFoundError):
        disk.open(FILE)
    with pytest.raises(IsADirectoryError):
        disk.open(FILE.parent)
    disk.remove_folder(FILE.parent)  # it is not empty
    disk.remove(FILE.with_name("other"))
    disk.remove_folder(FILE.parent)
    assert disk.names(ROOT) == []


def test_a_kill_leaves_all_that_was_written_up_to_any_step(disk: RecordedDisk) -> None:
    made(disk)
    file = disk.open(FILE)
    before = len(disk.journal)
    file.write(0, b"one")
    file.view()[5:8] = b"two"
    file.write(9, b"three")
    playback = disk.playback()
    found = []
    for step in range(before, len(disk.journal) + 1):
        playback.go_to(step)
        found.append(playback.killed().content(FILE)[:14])
    assert found == [
        bytes(14), b"one" + bytes(11), b"one\0\0two" + bytes(6), b"one\0\0two\0three",
    ]  # fmt: skip


def test_a_power_cut_leaves_what_was_synced_and_any_pages_of_the_rest(disk: RecordedDisk) -> None:
    made(disk)
    file = disk.open(FILE)
    file.write(0, b"S" * 3 * PAGE_BYTES)
    file.sync()
    file.write(0, b"a" * 3 * PAGE_BYTES)
    file.write(0, b"b" * 3 * PAGE_BYTES)
    playback = disk.played()
    assert playback.power_cut(random.Random(1), kept=0.0).content(FILE) == b"S" * 3 * PAGE_BYTES
    assert playback.power_cut(random.Random(1), kept=1.0).content(FILE) == b"b" * 3 * PAGE_BYTES
    seen: set[str] = set()
    for seed in range(300):
        content = playback.power_cut(random.Random(seed)).content(FILE).decode()
        for at in range(0, len(content), PAGE_BYTES):
            page = content[at : at + PAGE_BYTES]
            for sector in range(0, PAGE_BYTES, 512):
                assert len(set(page[sector : sector + 512])) == 1, "sectors are whole"
            seen.add("".join(sorted(set(page))))
    assert {"S", "a", "b", "Sa", "ab"} <= seen


def test_names_are_there_for_sure_once_their_folder_was_synced(disk: RecordedDisk) -> None:
    made(disk)
    new = FILE.with_name("new")
    disk.open(new, 5).sync()
    disk.rename(new, FILE)
    playback = disk.played()
    left = {
        tuple((path.name, len(data)) for path, data in playback.power_cut(random.Random(seed)).files())
        for seed in range(100)
    }
    old = 3 * PAGE_BYTES
    assert left == {(("file", old),), (("file", old), ("new", 5)), (("file", 5),)}
    disk.sync_folder(FILE.parent)
    playback = disk.played()
    assert len(playback.power_cut(random.Random(0), kept=0.0).content(FILE)) == 5


def test_what_a_failed_sync_has_dropped_stays_lost(disk: RecordedDisk) -> None:
    made(disk)
    file = disk.open(FILE)
    file.write(0, b"dropped")

    def fail(kind: str, path: Path) -> None:
        if kind == "sync":
            raise OSError(errno.EIO, "Input/output error")

    disk.before = fail
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    disk.before = None
    file.write(PAGE_BYTES, b"later")
    file.sync()  # it succeeds
    assert file.read(0, 7) == b"dropped"
    left = disk.played().power_cut(random.Random(1), kept=1.0).content(FILE)
    assert left[:7] == bytes(7)
    assert left[PAGE_BYTES : PAGE_BYTES + 5] == b"later"


def test_a_disk_that_was_laid_out_goes_on(disk: RecordedDisk) -> None:
    made(disk)
    disk.open(FILE).write(0, b"first")
    again = disk.played().killed()
    again.open(FILE).write(5, b"second")
    assert again.played().killed().content(FILE)[:11] == b"firstsecond"
    assert again.played().power_cut(random.Random(1), kept=0.0).content(FILE)[:11] == b"first" + bytes(6)

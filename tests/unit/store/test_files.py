"""The file interface over real files."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import pytest

from orbitmq import failpoints
from orbitmq.store.files import PAGE_BYTES, RealDisk, is_segment_name, segment_name, segment_starts

DISK = RealDisk()


def test_a_file_is_made_at_its_size_without_blocks(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "f", 1 << 20)
    assert file.size == 1 << 20
    assert (tmp_path / "f").stat().st_blocks == 0
    file.reserve(0, 8192)
    assert (tmp_path / "f").stat().st_blocks * 512 >= 8192
    file.close()
    assert DISK.open(tmp_path / "f").size == 1 << 20


def test_an_existing_file_is_lengthened_but_never_shortened(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100)
    assert DISK.open(tmp_path / "f", 50).size == 100
    assert DISK.open(tmp_path / "f", 200).size == 200
    assert (tmp_path / "f").read_bytes() == b"x" * 100 + bytes(100)
    with pytest.raises(FileNotFoundError):
        DISK.open(tmp_path / "other")


def test_view_write_and_read_are_one(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "f", 8192)
    file.write(10, b"written")
    view = file.view()
    assert bytes(view[10:17]) == b"written"
    view[0:4] = b"view"
    assert file.read(0, 20) == b"view\0\0\0\0\0\0written\0\0\0"
    assert file.read(8190, 10) == b"\0\0"
    file.cut(12)
    assert file.read(10, 10) == b"wr" + bytes(8)
    assert (tmp_path / "f").stat().st_size == 8192


def test_memory_outlives_the_file_until_the_last_view(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "f", 4096)
    view = file.view()
    view[0] = 7
    DISK.remove(tmp_path / "f")
    file.close()
    file.close()
    assert view[0] == 7


def open_below(folder: Path) -> int:
    """Descriptors of this process that are open on files of a folder."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum(os.readlink(link).startswith(f"{folder}/") for link in links if os.path.islink(link))


def test_descriptors_go_with_their_files(tmp_path: Path) -> None:
    files = [DISK.open(tmp_path / str(number), 100) for number in range(5)]
    assert open_below(tmp_path) == 5
    del files
    assert open_below(tmp_path) == 0


def test_what_was_just_written_is_in_memory(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "f", 1 << 20)
    file.write(0, b"x" * 100_000)
    assert file.resident_bytes(0, 100_000) == 100_000
    assert file.resident_bytes(50_000, 10) == 10


def test_of_a_map_the_pages_that_left_memory_are_known(tmp_path: Path) -> None:
    page = mmap.PAGESIZE
    path = tmp_path / "f"
    file = DISK.open(path, 64 * page)
    file.write(0, b"x" * file.size)
    file.sync()
    with path.open("rb") as other:
        os.posix_fadvise(other.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.view()
        assert file.resident_bytes(0, file.size) == 0
        os.posix_fadvise(other.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(other.fileno(), 3 * page, page)
    assert file.resident_bytes(page + 7, 10) == 10
    assert file.resident_bytes(page + 7, 20 * page) == 3 * page - 7
    assert file.resident_bytes(0, 10) == 0
    assert file.resident_bytes(2 * page, 2 * page) == 2 * page
    assert file.resident_bytes(file.size - 1, 1) == 0


def test_a_cut_leaves_nothing_behind_it(tmp_path: Path) -> None:
    """Whatever is there, in the page of the end or far behind it; what is a hole already stays one."""
    for size in (3 * PAGE_BYTES, 3 * PAGE_BYTES + 100):
        for end in (0, 20, PAGE_BYTES - 1, PAGE_BYTES, size - 1, size):
            for stale in (None, end, end + 1, PAGE_BYTES - 1, 2 * PAGE_BYTES, size - 1):
                path = tmp_path / "cut"
                path.unlink(missing_ok=True)
                file = DISK.open(path, size)
                file.write(0, b"x" * end)
                if stale is not None and end <= stale < size:
                    file.write(stale, b"s")
                file.cut(end)
                assert file.read(0, size) == b"x" * end + bytes(size - end), (size, end, stale)
                assert os.stat(path).st_size == size
                file.close()
    file = DISK.open(tmp_path / "reserved", 64 * PAGE_BYTES)
    file.reserve(0, 64 * PAGE_BYTES)
    file.cut(20)
    assert os.stat(tmp_path / "reserved").st_blocks * 512 <= PAGE_BYTES
    file.close()


def test_a_file_system_is_written_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    file_system = DISK.file_system(tmp_path)
    if file_system is not None:
        assert file_system.write_out()
        file_system.close()


def test_folders(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    DISK.make_folder(folder)
    DISK.make_folder(folder)
    (folder / "z").touch()
    (folder / "y").touch()
    assert DISK.names(folder) == ["y", "z"]
    assert DISK.names(tmp_path / "nowhere") == []
    DISK.sync_folder(folder)
    DISK.remove_folder(folder)  # not empty: stays
    assert folder.exists()
    DISK.remove(folder / "y")
    DISK.remove(folder / "y")
    DISK.rename(folder / "z", tmp_path / "z")
    DISK.remove_folder(folder)
    DISK.remove_folder(folder)
    assert not folder.exists()
    total, free = DISK.space(tmp_path)
    assert 0 < free < total


def test_segments_are_named_by_their_start() -> None:
    assert segment_name(1 << 30) == "00000000001073741824"
    assert is_segment_name(segment_name(0))
    assert not is_segment_name("0" * 19)
    assert not is_segment_name("\u0660" * 20)
    assert segment_starts([segment_name(20), "README", segment_name(0)]) == [0, 20]


def test_a_failpoint_acts_only_while_it_is_armed() -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "no")

    failpoints.hit("x")
    with failpoints.armed_point("x", fail):
        failpoints.hit("y")
        with pytest.raises(OSError, match="no"):
            failpoints.hit("x")
    failpoints.hit("x")
    assert not failpoints.armed


@pytest.mark.needs("linux")
def test_the_kernel_reads_nothing_ahead_of_who_writes_a_view(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    file = RealDisk().open(path, 1 << 20)
    view = file.view()
    view[4096:4099] = b"abc"
    assert file.read(4096, 3) == b"abc"
    maps = Path("/proc/self/smaps").read_text().split("VmFlags: ")
    (at,) = [number for number, part in enumerate(maps) if str(path) in part]
    assert "rr" in maps[at + 1].partition("\n")[0].split()

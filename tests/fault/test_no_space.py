"""A disk without room: an error to the sender, never a signal; reads go on, sends too once there is room."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.server.listener import free_ports
from orbitmq.store import MessageStore, PutStatus
from tests.fault.recorded_disk import RecordedDisk
from tests.unit.store.kit import NOW, bodies, crash, filled, message, options

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"NOT RUN: a small file system cannot be mounted here ({mounted.stderr.strip()})")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


FILL = """
import sys
from pathlib import Path
from orbitmq.store import MessageStore, PutStatus
from orbitmq.store.files import StoreFile
from tests.unit.store.kit import NOW, bodies, message, options

root = Path(sys.argv[1])
store = MessageStore.open(options(root, mapped_file_size_commit_log=1 << 30, max_hash_slot_num=1000), NOW)
stored = 0
while store.append(message(stored, body=bytes(1000)), NOW).status is PutStatus.PUT_OK:
    stored += 1
    assert stored < 10_000
assert store.append(message(stored, body=bytes(1000)), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
assert len(bodies(store)) == stored
for chore in store.chores():
    try:
        chore.run(NOW)
    except OSError as error:
        print(chore.name, error)
assert len(bodies(store)) == stored
(root / "ballast").unlink()
for chore in store.chores():
    chore.run(NOW)
assert store.append(message(stored, body=bytes(1000)), NOW).status is PutStatus.PUT_OK
assert len(bodies(store)) == stored + 1
store.close()
store = MessageStore.open(options(root, mapped_file_size_commit_log=1 << 30, max_hash_slot_num=1000), NOW)
assert len(bodies(store)) == stored + 1
print("stored", stored)
"""


def test_a_full_file_system_is_an_error_and_no_signal(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(1 << 20))
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(small_disk)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) > 500


class SmallDisk(RecordedDisk):
    """It has room until it is `full`: then only for a mark that a start leaves, if at all."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.full = False
        self.marks_fit = False
        self.before = self._ask

    def _ask(self, kind: str, path: Path) -> None:
        needs_room = kind in ("make", "write", "reserve")
        if self.full and needs_room and not (self.marks_fit and path.name.startswith("abort")):
            raise OSError(errno.ENOSPC, "No space left on device")


def test_without_room_nothing_is_half_done(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    store = MessageStore.open(options(tmp_path), NOW, disk)
    filled(store, 10, body=bytes(3000))
    disk.full = True
    results = [store.append(message(number, body=bytes(3000)), NOW) for number in range(30)]
    taken = [one for one in results if one.status is PutStatus.PUT_OK]
    assert 0 < len(taken) < 30
    assert results[-1].status is PutStatus.SERVICE_NOT_AVAILABLE
    assert len(bodies(store)) == 10 + len(taken)
    with pytest.raises(OSError, match="No space left"):
        store._sweep_chore(NOW)
    assert not store.is_writable
    store._index_chore(NOW)
    disk.full = False
    store._sweep_chore(NOW)
    store._index_chore(NOW)
    assert store.append(message(99, body=bytes(3000)), NOW).status is PutStatus.PUT_OK
    assert len(bodies(store)) == 11 + len(taken)
    assert len(store.query("T", "ID00000099", 5, 0, 1 << 60, "U").records) == 1
    crash(store)
    store = MessageStore.open(options(tmp_path), NOW, disk)
    assert len(bodies(store)) == 11 + len(taken)
    store.close()


def test_a_start_on_a_full_disk_reads_what_is_there(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    store = MessageStore.open(options(tmp_path), NOW, disk)
    filled(store, 200)
    crash(store)
    disk.full = disk.marks_fit = True
    store = MessageStore.open(options(tmp_path), NOW, disk)
    assert len(bodies(store)) == 200
    assert store.append(message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
    disk.full = False
    store._sweep_chore(NOW)
    assert store.append(message(), NOW).status is PutStatus.PUT_OK
    store.close()


def test_a_start_without_room_for_its_mark_keeps_the_mark_of_a_crash(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    crash(MessageStore.open(options(tmp_path), NOW, disk))
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        MessageStore.open(options(tmp_path), NOW, disk)
    assert "abort" in disk.names(tmp_path)
    disk.full = False
    MessageStore.open(options(tmp_path), NOW, disk).close()


def test_a_folder_that_is_read_only_ends_the_start_with_one_line(small_disk: Path) -> None:
    folder = small_disk / "store"
    store = MessageStore.open(options(folder), NOW)
    filled(store, 10)
    store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    port = free_ports(-2, 1, 2)
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq", "standalone", "--data-dir", str(folder),
         "--broker-port", str(port), "--namesrv-port", str(port + 2)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 5, done.stdout + done.stderr
    (line,) = (done.stdout + done.stderr).splitlines()
    assert "Read-only file system" in line

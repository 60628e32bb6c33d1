"""A disk without room: an error to the sender, never a signal; reads go on, sends too once there is room."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from orbitmq.server.turn.listener import free_ports
from orbitmq.store import MessageStore, PutStatus
from orbitmq.testing import LocalBroker
from tests.fault.recorded_disk import RecordedDisk
from tests.fault.stubborn import Stubborn, names
from tests.kit.broker_load import everything, pool_of
from tests.kit.store import NOW, bodies, crash, filled, message, options, query, run_task
from tests.needs import need

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of 3 MiB, or as many as the test says."""
    folder = tmp_path / "small"
    folder.mkdir()
    need("mount")
    size = f"size={getattr(request, 'param', 3)}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def is_made(pool: ConnectionPool, address: str, topic: str) -> bool:
    """True if a broker says that it has made a topic."""
    request = UpdateAndCreateTopic(topic, "TBW102", 1, 1, 6, "SINGLE_TAG", False)
    try:
        await pool.call(address, request, timeout_ms=2_000)
    except (BrokerRefused, NetError):
        return False
    return True


def take_all(path: Path) -> None:
    """Takes what room there is left on a disk, to the last block."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


@pytest.mark.parametrize("small_disk", [12], indirect=True)
def test_a_broker_whose_disk_fills_while_clients_send(small_disk: Path) -> None:
    """They are told, readers are served, and all goes on once there is room: without a start."""
    broker = LocalBroker(
        small_disk / "store",
        own_process=True,
        timeout_seconds=120,
        flushDiskType="SYNC_FLUSH",
        mappedFileSizeCommitLog=1 << 20,
        mappedFileSizeConsumeQueue=6_000,
        maxHashSlotNum=1_000,
        maxIndexNum=4_000,
        timerWheelEnable="false",
        # Else old messages would make room for new ones.
        cleanFileForciblyEnable="false",
        cleanResourceInterval=200,
    )
    ballast, crumbs = small_disk / "ballast", small_disk / "crumbs"

    async def run() -> Stubborn:
        senders = Stubborn(broker.broker, body_bytes=40_000)
        async with senders.sending(), pool_of() as pool:
            await senders.until(lambda: len(senders.acknowledged) >= 50)
            assert await is_made(pool, broker.broker, "before")
            with contextlib.suppress(OSError):  # senders that were quick have left less
                ballast.write_bytes(bytes(4 << 20))
            await senders.until(lambda: senders.refused.total() >= 50)
            before = set(senders.acknowledged)
            assert before <= set(names(await everything(broker.broker)))
            take_all(crumbs)
            assert not await is_made(pool, broker.broker, "amid"), "there is no room for it"
            assert broker.is_running
            ballast.unlink()
            crumbs.unlink()
            held = len(senders.acknowledged)
            await senders.until(lambda: len(senders.acknowledged) >= held + 20)
            assert await is_made(pool, broker.broker, "later")
        # Busy: who sends while it is found out that there is no room.
        assert senders.refused.keys() - {ResponseCode.SYSTEM_BUSY} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert not senders.failed
        return senders

    broker.start()
    try:
        senders = asyncio.run(run())
        broker.kill()
        broker.start()
        assert senders.acknowledged <= set(names(asyncio.run(everything(broker.broker))))
    finally:
        broker.kill()


FILL = """
import sys
from pathlib import Path
from orbitmq.store import MessageStore, PutStatus
from orbitmq.store.files import StoreFile
from tests.needs import need
from tests.kit.store import NOW, bodies, message, options

root = Path(sys.argv[1])
store = MessageStore.open(options(root, mapped_file_size_commit_log=1 << 30, max_hash_slot_num=1000), NOW)
stored = 0
while store.append(message(stored, body=bytes(1000)), NOW).status is PutStatus.PUT_OK:
    stored += 1
    assert stored < 10_000
assert store.append(message(stored, body=bytes(1000)), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
assert len(bodies(store)) == stored
for task in store.periodic_tasks():
    try:
        task.run(NOW)
    except OSError as error:
        print(task.name, error)
assert len(bodies(store)) == stored
(root / "ballast").unlink()
for task in store.periodic_tasks():
    task.run(NOW)
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
        run_task(store, "write queues", NOW)
    assert not store.is_writable
    run_task(store, "index", NOW)
    disk.full = False
    run_task(store, "write queues", NOW)
    run_task(store, "index", NOW)
    assert store.append(message(99, body=bytes(3000)), NOW).status is PutStatus.PUT_OK
    assert len(bodies(store)) == 11 + len(taken)
    assert len(query(store, "T", "ID00000099", 5, 0, 1 << 60, "U").records) == 1
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
    run_task(store, "write queues", NOW)
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
    line = done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "Read-only file system" in line

"""Disks that fail, at any step of a run, once or for good. Acknowledged messages stay, and a sync that failed
is never counted as one that worked.

ORBITMQ_DISK_FAULTS (8) is how many steps are tried of each kind, ORBITMQ_DISK_SEED (1) which.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from pathlib import Path

import pytest

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.store import FlushFailed, MessageStore, PutStatus
from tests.fault.faulty_machine import FaultyMachine
from tests.fault.recorded_broker import Recorded, check_after, with_small_wheel
from tests.fault.recorded_disk import RecordedDisk
from tests.fault.stubborn import Stubborn, names
from tests.kit.broker_load import everything, pool_of, send
from tests.kit.brokers import others_at_night
from tests.kit.store import NOW, bodies, crash, filled, message, options, query, run_task

FAULTS = int(os.environ.get("ORBITMQ_DISK_FAULTS", "8"))
SEED = int(os.environ.get("ORBITMQ_DISK_SEED", "1"))
ACTIONS = 40
WRITES = frozenset({"write", "make", "reserve", "cut", "rename", "remove", "make folder"})
SYNCS = frozenset({"sync", "sync folder"})


@pytest.fixture(autouse=True)
def small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_wheel(monkeypatch)


class Fault:
    """Lets a disk fail at the n-th step of some kinds; with `for_good` from there on at each."""

    def __init__(self, kinds: frozenset[str], at: int, number: int, *, for_good: bool) -> None:
        self.kinds, self.at, self.number, self.for_good = kinds, at, number, for_good
        self.met = 0

    def __call__(self, kind: str, path: Path) -> None:
        if kind in self.kinds and path.name != "abort.tmp":
            self.met += 1
            if self.met == self.at or (self.for_good and self.met > self.at > 0):
                raise OSError(self.number, os.strerror(self.number), str(path))


def failing_run(root: Path, flush: str, fault: Fault) -> Recorded:
    """A run on a disk that fails, killed at its end."""
    root.mkdir(parents=True)
    run = Recorded(RecordedDisk(root), flushDiskType=flush)
    run.fails = True
    sample = run.disk.before
    assert sample is not None

    def before(kind: str, path: Path) -> None:
        sample(kind, path)
        fault(kind, path)

    run.disk.before = before
    run.work(random.Random(SEED), ACTIONS)
    run.sample()
    run.kill()
    return run


@pytest.mark.parametrize("flush", others_at_night(["SYNC_FLUSH", "ASYNC_FLUSH"], ["SYNC_FLUSH"]))
@pytest.mark.parametrize(
    ("kinds", "number", "for_good"),
    [
        (SYNCS, errno.EIO, False),
        (SYNCS, errno.EIO, True),
        (WRITES, errno.EIO, False),
        (WRITES, errno.ENOSPC, True),
        (WRITES | SYNCS, errno.EROFS, True),
        (frozenset({"make", "open"}), errno.EMFILE, False),
    ],
)
def test_whatever_fails_nothing_acknowledged_is_lost(
    tmp_path: Path, flush: str, kinds: frozenset[str], number: int, for_good: bool
) -> None:
    counting = Fault(kinds, 0, number, for_good=False)
    failing_run(tmp_path / "count", flush, counting)
    chance = random.Random(SEED)
    for at in sorted(chance.sample(range(1, counting.met + 1), min(FAULTS, counting.met))):
        fault = Fault(kinds, at, number, for_good=for_good)
        run = failing_run(tmp_path / f"at-{at}", flush, fault)
        end = len(run.disk.journal)
        playback = run.disk.played()
        for power in (False, True):
            disk = playback.power_cut(chance, kept=0.0) if power else playback.killed()
            try:
                check_after(run, disk, end, power=power, thorough=True)
            except Exception as error:
                fate = "power cut" if power else "kill"
                pytest.fail(f"{flush}, seed {SEED}, {os.strerror(number)} at {at}, {fate}: {error!r}")


def on_memory(root: Path, flush: str = "ASYNC_FLUSH") -> tuple[MessageStore, RecordedDisk]:
    disk = RecordedDisk(root)
    return MessageStore.open(options(root, flush_disk_type=flush), NOW, disk), disk


def failing(kind: str, part: str, number: int = errno.EIO) -> Fault:
    """Fails once, at the first step of a kind on a path with this part."""

    class Once(Fault):
        def __call__(self, done: str, path: Path) -> None:
            if part in str(path):
                super().__call__(done, path)

    return Once(frozenset({kind}), 1, number, for_good=False)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_a_failed_sync_has_dropped_is_brought_to_the_disk_by_the_next_start(
    tmp_path: Path, flush: str
) -> None:
    """Its pages count as written: another process's sync would succeed without writing them."""
    store, disk = on_memory(tmp_path, flush)
    filled(store, 20, body=bytes(3000))
    store.flushing.flush_now()
    filled(store, 30, body=bytes(3000))
    disk.before = failing("sync", "commitlog")
    with pytest.raises(FlushFailed):
        store.flushing.flush_now()
    crash(store)
    disk.before = None
    store = MessageStore.open(options(tmp_path, flush_disk_type=flush), NOW + 1, disk)
    assert len(bodies(store)) == 50
    assert store.flushing.unflushed(NOW) == (0, 0)
    crash(store)
    left = disk.played().power_cut(random.Random(1), kept=0.0)
    again = MessageStore.open(options(tmp_path), NOW + 2, left)
    assert len(bodies(again)) == 50
    crash(again)


def test_after_a_failed_sync_of_a_queue_no_more_is_taken(tmp_path: Path) -> None:
    store, disk = on_memory(tmp_path)
    filled(store, 60)
    disk.before = failing("sync", "consumequeue")
    with pytest.raises(OSError, match="Input/output error"):
        run_task(store, "write queues", NOW + 120_000)
    with pytest.raises(OSError, match="an earlier sync failed"):
        run_task(store, "write queues", NOW + 240_000)
    assert store.append(message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "a flush of consume queues failed" in store.figures().refusal
    assert len(bodies(store)) == 60  # reads go on
    store.close()
    left = disk.played().power_cut(random.Random(1), kept=0.0)
    again = MessageStore.open(options(tmp_path), NOW + 1, left)
    assert len(bodies(again)) == 60, "made anew from the log"
    crash(again)


def test_a_segment_that_may_not_be_there_after_a_power_cut_takes_nothing(tmp_path: Path) -> None:
    store, disk = on_memory(tmp_path)
    disk.before = failing("sync folder", "commitlog")
    while (status := store.append(message(body=bytes(3000)), NOW).status) is PutStatus.PUT_OK:
        pass
    assert status is PutStatus.SERVICE_NOT_AVAILABLE
    assert len(store.structures.log.segments) == 1
    disk.before = None
    assert store.append(message(body=bytes(3000)), NOW).status is PutStatus.PUT_OK
    assert len(store.structures.log.segments) == 2
    crash(store)


def test_an_index_that_was_not_flushed_is_made_anew(tmp_path: Path) -> None:
    store, disk = on_memory(tmp_path)
    filled(store, 60)
    run_task(store, "index", NOW)
    disk.before = failing("sync", "/index/")
    run_task(store, "write queues", NOW + 120_000)
    assert store.append(message(60), NOW + 100).status is PutStatus.PUT_OK, "it is no reason to stop"
    run_task(store, "write queues", NOW + 240_000)
    store.close()
    left = disk.played().power_cut(random.Random(1), kept=0.0)
    again = MessageStore.open(options(tmp_path), NOW + 1, left)
    for number in range(61):
        assert len(query(again, "T", f"ID{number:08d}", 2, 0, 1 << 60, "U").records) == 1
    crash(again)


def test_no_handle_for_a_queue_is_an_error_of_that_read_alone(tmp_path: Path) -> None:
    store, disk = on_memory(tmp_path)
    filled(store, 20)
    run_task(store, "write queues", NOW + 120_000)
    store.structures.queue_writer.trim_tails()
    store.structures.queues.reading.clear()
    disk.before = failing("open", "consumequeue", errno.EMFILE)
    cold = store.get("T", 0, 0, 32).cold
    assert cold is not None, "its file is opened off the loop"
    with pytest.raises(OSError, match="Too many open files"):
        store.reader.read_cold(*cold)
    assert len(bodies(store)) == 20
    assert store.append(message(20), NOW + 100).status is PutStatus.PUT_OK
    crash(store)


def test_a_broker_that_could_not_flush_acknowledges_nothing_until_it_is_started_anew(tmp_path: Path) -> None:
    """Though the disk is well again, as far as it tells: what the failed flush was to write may be lost."""
    broker = FaultyMachine(tmp_path / "store", flushDiskType="SYNC_FLUSH", syncFlushTimeout=500)

    async def run() -> Stubborn:
        senders = Stubborn(broker.broker, body_bytes=1_000)
        async with senders.sending():
            await senders.until(lambda: len(senders.acknowledged) >= 100)
            broker.syncs_fail()
            await senders.until(lambda: senders.refused[ResponseCode.SERVICE_NOT_AVAILABLE] > 0)
            broker.syncs_work()
            last = set(senders.acknowledged)
            refused = senders.refused.total()
            await senders.until(lambda: senders.refused.total() >= refused + 200)
            assert senders.acknowledged == last
            assert last <= set(names(await everything(broker.broker))), "reads go on"
        assert senders.refused.keys() <= {
            ResponseCode.FLUSH_DISK_TIMEOUT,  # those who waited for the flush that failed, if any did
            ResponseCode.SERVICE_NOT_AVAILABLE,
        }
        assert not senders.failed
        return senders

    async def one_more() -> None:
        async with pool_of() as pool:
            assert (await pool.call(broker.broker, send("more", 0), timeout_ms=60_000)).code == 0

    broker.start()
    try:
        acknowledged = asyncio.run(run()).acknowledged
        assert broker.is_running
        with pytest.raises(BrokerRefused):
            asyncio.run(one_more())
        broker.kill()
        broker.start()
        asyncio.run(one_more())
        assert acknowledged | {"more"} <= set(names(asyncio.run(everything(broker.broker))))
    finally:
        broker.kill()

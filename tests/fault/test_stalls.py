"""Flushing much and reading cold data stop nobody else: both let go of the GIL. Nor do stalls."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from orbitmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.store import GetStatus, MessageStore, StoreOptions
from tests.fault.faulty_machine import FaultyMachine
from tests.fault.stubborn import Stubborn, names
from tests.kit.broker_load import everything, pool_of
from tests.kit.store import NOW, message

TOTAL_BYTES = 200 << 20
SHORT_GAP_SECONDS = 0.25
"""With the GIL held the gap is as long as the disk takes: half of that will do, or so little."""
ATTEMPTS = 10
"""Another process may take the core at any time: it is enough if the loop once ticks throughout."""


MACHINE_BYTES = 80 << 20
"""A tenth of it may wait for a disk that stalls."""
MOST_GROWTH_BYTES = (MACHINE_BYTES // 10) + (24 << 20)
"""Memory for what waits, and as much again for whatever a process under load needs besides."""
HEARTBEATS = 20


class Ticks:
    """Measures for how long the loop was away at worst."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def run(self) -> None:
        before = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.worst = max(self.worst, now - before)
            before = now


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    store = MessageStore.open(StoreOptions(root=tmp_path, max_index_num=1000, max_hash_slot_num=100), NOW)
    fill(store)
    return store


def fill(store: MessageStore) -> None:
    one = message(body=bytes(1 << 20))
    for _ in range(TOTAL_BYTES >> 20):
        assert store.append(one, NOW).size > 1 << 20


async def ticks_on(work: object, *values: object) -> bool:
    """True if the loop goes on while something runs in a thread."""
    ticks, began = Ticks(), time.perf_counter()
    task = asyncio.create_task(ticks.run())
    await asyncio.sleep(0.01)
    await asyncio.get_running_loop().run_in_executor(None, work, *values)  # type: ignore[arg-type]
    task.cancel()
    took = time.perf_counter() - began
    print(f"\n{took * 1000:.0f} ms of work, worst gap {ticks.worst * 1000:.1f} ms")
    return ticks.worst < max(SHORT_GAP_SECONDS, took / 2)


async def test_the_loop_ticks_while_much_is_flushed(store: MessageStore) -> None:
    for _ in range(ATTEMPTS):
        goes_on = await ticks_on(store.flushing.flush_now)
        assert store.durable_offset == store.max_physical
        if goes_on:
            break
        fill(store)
    assert goes_on
    store.close()


async def test_the_loop_ticks_while_cold_data_is_read(store: MessageStore) -> None:
    for _ in range(ATTEMPTS):
        store.close()
        path = store.options.root / "commitlog" / f"{0:020d}"
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        store = MessageStore.open(store.options, NOW)
        # Pages that opening has touched are in memory; the rest is not.
        result = store.get("T", 0, 100, 32)
        if result.cold is None:
            pytest.skip("NOT RUN: this file system keeps everything in memory")
        assert result.status is not GetStatus.FOUND
        goes_on = await ticks_on(store.reader.read_cold, result.cold[0], TOTAL_BYTES // 2)
        if goes_on:
            break
    assert goes_on
    assert store.get("T", 0, 100, 32).status is GetStatus.FOUND
    store.close()


def own_bytes(pid: int) -> int:
    """Memory that a process holds for itself. Pages of the log are the kernel's: as many as were stored."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_while_the_disk_stalls_senders_are_told_and_memory_is_bounded(tmp_path: Path, flush: str) -> None:
    broker = FaultyMachine(
        tmp_path / "store",
        flushDiskType=flush,
        syncFlushTimeout=200,
        osPageCacheBusyTimeOutMills=100,
        mappedFileSizeCommitLog=64 << 20,
    )
    broker.has_memory(MACHINE_BYTES)
    alive = Heartbeat(body=HeartbeatData(client_id="alive@1", producer_data_set=[ProducerData("P")]))

    async def run() -> Stubborn:
        senders = Stubborn(broker.broker, body_bytes=256 << 10)
        async with pool_of() as pool, senders.sending():
            await senders.until(lambda: len(senders.acknowledged) >= 8)
            before = own_bytes(broker.pid)
            broker.syncs_wait()
            await senders.until(lambda: senders.refused[ResponseCode.SYSTEM_BUSY] > 0)
            stored = len(senders.acknowledged) + senders.refused[ResponseCode.FLUSH_DISK_TIMEOUT]
            for _ in range(HEARTBEATS):
                busy = senders.refused[ResponseCode.SYSTEM_BUSY] + 8
                await pool.call(broker.broker, alive, 60_000)
                await senders.until(lambda busy=busy: senders.refused[ResponseCode.SYSTEM_BUSY] >= busy)
                assert own_bytes(broker.pid) - before < MOST_GROWTH_BYTES
            late = len(senders.acknowledged) + senders.refused[ResponseCode.FLUSH_DISK_TIMEOUT] - stored
            assert late <= 8, "what had been stored before the first was told"
            broker.syncs_work()
            held = len(senders.acknowledged)
            await senders.until(lambda: len(senders.acknowledged) >= held + 8)
        codes = {ResponseCode.SYSTEM_BUSY}
        if flush == "SYNC_FLUSH":
            codes.add(ResponseCode.FLUSH_DISK_TIMEOUT)
        assert senders.refused.keys() == codes
        assert not senders.failed
        return senders

    broker.start()
    try:
        senders = asyncio.run(run())
        assert senders.acknowledged <= set(names(asyncio.run(everything(broker.broker))))
    finally:
        broker.kill()

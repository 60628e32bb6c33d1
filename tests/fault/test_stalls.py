"""Flushing much and reading cold data stop nobody else: both let go of the GIL."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from orbitmq.store import GetStatus, MessageStore, StoreOptions
from tests.unit.store.kit import NOW, message

TOTAL_BYTES = 200 << 20
WORST_GAP_SECONDS = 0.25
"""Generous, for machines that others use as well: with the GIL held the gap is as long as the disk takes."""


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
    one = message(body=bytes(1 << 20))
    for _ in range(TOTAL_BYTES >> 20):
        assert store.append(one, NOW).size > 1 << 20
    return store


async def ticking(work: object, *values: object) -> float:
    """The longest gap of the loop while something runs in a thread."""
    ticks = Ticks()
    task = asyncio.create_task(ticks.run())
    await asyncio.sleep(0.01)
    await asyncio.get_running_loop().run_in_executor(None, work, *values)  # type: ignore[arg-type]
    task.cancel()
    return ticks.worst


async def test_the_loop_ticks_while_much_is_flushed(store: MessageStore) -> None:
    began = time.perf_counter()
    worst = await ticking(store.flush_now)
    took = time.perf_counter() - began
    print(f"\n{TOTAL_BYTES >> 20} MiB flushed in {took * 1000:.0f} ms, worst gap {worst * 1000:.1f} ms")
    assert store.durable_offset == store.max_physical
    assert worst < WORST_GAP_SECONDS
    store.close()


async def test_the_loop_ticks_while_cold_data_is_read(store: MessageStore) -> None:
    store.close()
    path = store.options.root / "commitlog" / f"{0:020d}"
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    store = MessageStore.open(store.options, NOW)
    # What opening has touched is in memory; the rest is not.
    result = store.get("T", 0, 100, 32)
    if result.cold is None:
        pytest.skip("NOT RUN: this file system keeps everything in memory")
    assert result.status is not GetStatus.FOUND
    worst = await ticking(store.read_cold, result.cold[0], TOTAL_BYTES // 2)
    print(f"\n{TOTAL_BYTES >> 21} MiB read cold, worst gap {worst * 1000:.1f} ms")
    assert worst < WORST_GAP_SECONDS
    assert store.get("T", 0, 100, 32).status is GetStatus.FOUND
    store.close()

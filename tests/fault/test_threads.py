"""Threads of a store beside each other, switched as often as the interpreter can: nothing is lost."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from orbitmq.store import MessageStore, PutStatus
from orbitmq.store.files import RealDisk
from orbitmq.store.timer.log import UNIT_BYTES, TimerLog, TimerUnit, pack_unit
from tests.kit.store import NOW, bodies, message, opened

SWITCH_SECONDS = 1e-6
SECONDS = 3.0
QUEUES = 3
OLD_PER_QUEUE = 1500
BATCH = 8


@pytest.fixture(autouse=True)
def _switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    yield
    sys.setswitchinterval(before)


@contextmanager
def beside(*works: Callable[[], object]) -> Iterator[None]:
    """Runs works again and again, each in a thread of its own. Raises what the first of them failed with."""
    ended = threading.Event()

    def again(work: Callable[[], object]) -> None:
        while not ended.is_set():
            work()

    with ThreadPoolExecutor(len(works)) as threads:
        running = [threads.submit(again, work) for work in works]
        try:
            yield
        finally:
            ended.set()
    for one in running:
        one.result()


def drop_from_memory(folder: Path) -> None:
    """Has the kernel forget what is in the files of a folder."""
    for path in folder.rglob("0*"):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def test_reading_threads_change_nothing_that_the_owner_looks_through(tmp_path: Path) -> None:
    store = opened(tmp_path)
    end = store.append(message(body=bytes(8000)), NOW).end_offset
    store.structures.queues.reading.clear()
    deadline = time.monotonic() + 1
    with beside(*[lambda: store.reader.read_cold(0, 1)] * 2):
        while time.monotonic() < deadline:
            assert store.reader.is_resident(0, end)
    store.close()


class Sends:
    """The owner of a store: sends, and reads from the begin of each queue on, again and again."""

    def __init__(self, store: MessageStore, reads: ThreadPoolExecutor) -> None:
        self.store = store
        self.reads = reads
        self.ends = [OLD_PER_QUEUE] * QUEUES
        self.at = [0] * QUEUES
        self.cold: dict[int, Future[None]] = {}
        self.cold_reads = 0
        self.rounds = 0

    def turn(self) -> None:
        for queue_id in range(QUEUES):
            number = self.ends[queue_id]
            batch = [message(number + one, queue_id=queue_id, keys="k") for one in range(BATCH)]
            answers = self.store.append_many(batch, NOW + number)
            assert {one.status for one in answers} == {PutStatus.PUT_OK}
            self.ends[queue_id] += BATCH
            self.read(queue_id)
        self.store.arrivals.drain()

    def read(self, queue_id: int) -> None:
        reading = self.cold.get(queue_id)
        if reading is not None:
            if not reading.done():
                return
            reading.result()
            del self.cold[queue_id]
        if self.at[queue_id] >= self.ends[queue_id]:
            self.at[queue_id] = 0
            self.rounds += 1
            drop_from_memory(self.store.options.root)
        result = self.store.get("T", queue_id, self.at[queue_id], 32)
        if result.cold is not None:
            self.cold_reads += 1
            self.cold[queue_id] = self.reads.submit(self.store.reader.read_cold, *result.cold)
            return
        assert result.next_offset > self.at[queue_id]
        self.at[queue_id] = result.next_offset


def test_sends_cold_pulls_flush_queue_writes_retention_and_close_beside_each_other(tmp_path: Path) -> None:
    """Each task that may run beside others does, and all of them beside the owner."""
    store = opened(tmp_path, flush_consume_queue_thorough_interval=0, flush_interval_commit_log=1)
    for queue_id in range(QUEUES):
        store.append_many([message(one, queue_id=queue_id) for one in range(OLD_PER_QUEUE)], NOW)
    store.close()
    drop_from_memory(tmp_path)
    store = opened(tmp_path, flush_consume_queue_thorough_interval=0, flush_interval_commit_log=1)
    works: dict[str, list[Callable[[int], object]]] = {}
    for task in store.periodic_tasks():
        works.setdefault(task.thread, []).append(task.run)
    assert works.keys() == {"flush", "reserve", "periodic"}
    clock = iter(range(NOW, 1 << 62))

    def thread_of(runs: list[Callable[[int], object]]) -> Callable[[], None]:
        return lambda: [run(next(clock)) for run in runs] and None

    with ThreadPoolExecutor(2) as reads:
        sends = Sends(store, reads)
        deadline = time.monotonic() + SECONDS
        with beside(*map(thread_of, works.values())):
            while time.monotonic() < deadline:
                sends.turn()
                store.retention.follow_again()
                store.retention.ask()
    store.close()
    assert sends.cold_reads
    again = opened(tmp_path)
    for queue_id, end in enumerate(sends.ends):
        assert bodies(again, queue_id=queue_id) == [b"body %d" % one for one in range(end)]
    again.close()


def test_a_segment_of_the_timer_log_that_comes_while_others_go_is_kept(tmp_path: Path) -> None:
    log = TimerLog.load(RealDisk(), tmp_path / "timerlog", 3 * UNIT_BYTES)
    unit = pack_unit(TimerUnit(-1, 1, NOW, 1000, 0, 100, 0, NOW + 1000))
    kept: list[int] = []
    gone = 0

    def remove() -> None:
        nonlocal gone
        at = max(0, len(kept) - 400)
        gone = kept[at] if kept else 0
        log.remove_before(gone)

    deadline = time.monotonic() + 1
    with beside(remove):
        while time.monotonic() < deadline and len(kept) < 2000:
            kept.append(log.append(unit))
            log.write()
    missing = [position for position in kept if position >= gone and log.unit(position) is None]
    assert not missing
    log.close()

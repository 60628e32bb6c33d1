"""Power cuts while a store works: what was not synced is lost, torn or written out of order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from orbitmq.store import MessageStore, StoreOptions
from tests.fault.recorded_disk import RecordedDisk
from tests.kit.store import NOW, SEGMENT, crash, message, query, read_queue, run_task

QUEUES = 3


def options(root: Path, flush: str) -> StoreOptions:
    return StoreOptions(
        root=root,
        mapped_file_size_commit_log=SEGMENT,
        mapped_file_size_consume_queue=20 * 50,
        max_hash_slot_num=50,
        max_index_num=200,
        flush_disk_type=flush,
    )


def run(store: MessageStore, chance: random.Random, steps: int) -> dict[int, int]:
    """Sends, flushes and writes queues at random; gives where each acknowledged message ends in the log."""
    ends: dict[int, int] = {}
    number = 0
    now = NOW
    for _ in range(steps):
        now += chance.randrange(50)
        action = chance.random()
        if action < 0.7:
            batch = []
            for _ in range(chance.randrange(1, 6)):
                body = b"%d" % number + bytes(chance.randrange(3000))
                batch.append(message(number, queue_id=number % QUEUES, body=body, keys="k"))
                number += 1
            for sent, appended in zip(batch, store.append_many(batch, now), strict=True):
                assert appended.status.name == "PUT_OK"
                ends[sent.flag] = appended.end_offset
        elif action < 0.85:
            store.flushing.flush_now()
        elif action < 0.95:
            run_task(store, "write queues", now)
            run_task(store, "index", now)
        else:
            now += 120_000
            run_task(store, "write queues", now)
        store.arrivals.drain()
    return ends


def found(store: MessageStore) -> dict[int, int]:
    """The messages in all queues, in order and without gaps: number -> physical offset."""
    numbers: dict[int, int] = {}
    for queue_id in range(QUEUES):
        records = read_queue(store, "T", queue_id)
        assert [record.queue_offset for record in records] == list(range(len(records)))
        for record in records:
            assert record.body.startswith(b"%d" % record.flag)
            assert record.flag not in numbers
            numbers[record.flag] = record.physical_offset
    return numbers


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("seed", range(12))
def test_what_was_durable_is_there_after_a_power_cut(tmp_path: Path, seed: int, flush: str) -> None:
    chance = random.Random(seed)
    disk = RecordedDisk(tmp_path)
    store = MessageStore.open(options(tmp_path, flush), NOW, disk)
    ends = run(store, chance, 60)
    durable = store.durable_offset
    unflushed = store.flushing.unflushed_bytes
    end = store.max_physical
    crash(store)
    disk = disk.played().power_cut(chance)

    store = MessageStore.open(options(tmp_path, flush), NOW, disk)
    numbers = found(store)
    acknowledged = {number for number, at in ends.items() if at <= durable}
    assert acknowledged <= set(numbers)
    assert set(numbers) <= set(ends)
    lost = [at for number, at in ends.items() if number not in numbers]
    # Nothing is lost before the last sync, and no more than was said to be at risk.
    assert all(at > durable for at in lost)
    assert end - store.max_physical <= unflushed
    for number in acknowledged:
        key = f"ID{number:08d}"
        assert len(query(store, "T", key, 1, 0, 1 << 60, "U").records) == 1
    # It goes on working, and what it says stays true over the next start.
    store.append(message(10_000, body=b"10000"), NOW + 10**9)
    store.close()
    store = MessageStore.open(options(tmp_path, flush), NOW, disk)
    assert set(found(store)) == {*numbers, 10_000}
    store.close()


@pytest.mark.parametrize("seed", range(6))
def test_under_sync_flush_what_was_seen_stays(tmp_path: Path, seed: int) -> None:
    chance = random.Random(1000 + seed)
    disk = RecordedDisk(tmp_path)
    store = MessageStore.open(options(tmp_path, "SYNC_FLUSH"), NOW, disk)
    run(store, chance, 40)
    seen = found(store)
    crash(store)
    left = disk.played().power_cut(chance)
    store = MessageStore.open(options(tmp_path, "SYNC_FLUSH"), NOW, left)
    after = found(store)
    assert seen.items() <= after.items()
    crash(store)

"""Under SYNC_FLUSH nothing is seen before it is on the disk; a failed flush ends the store's service."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from orbitmq import failpoints
from orbitmq.store import FlushFailed, GetStatus, MessageStore, PutStatus
from tests.kit.store import (
    NOW,
    SEGMENT,
    bodies,
    crash,
    filled,
    message,
    opened,
    query,
    run_task,
    segments,
    write_queues,
)


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    return opened(tmp_path, flush_disk_type="SYNC_FLUSH")


def seen(store: MessageStore) -> tuple[int, list[bytes], int, int]:
    found = query(store, "T", "ID00000000", 1, 0, 1 << 60, "U").records
    return store.max_offset("T", 0), bodies(store), len(store.arrivals.drain()), len(found)


def test_nothing_is_seen_before_its_flush(store: MessageStore) -> None:
    first, second = filled(store, 2)
    assert seen(store) == (0, [], 0, 0)
    assert store.get("T", 0, 0, 1).status is GetStatus.NO_MESSAGE_IN_QUEUE
    assert store.physical_offset_of("T", 0, 0) is None
    assert store.record_at(first.physical_offset) is None
    assert store.flushing.is_wanted
    assert store.figures().dispatch_behind_bytes == second.end_offset
    assert store.flushing.flush_now() == second.end_offset
    assert seen(store) == (2, [b"body 0", b"body 1"], 2, 1)
    assert not store.flushing.is_wanted
    assert store.figures().dispatch_behind_bytes == 0


def test_what_came_during_a_flush_waits_for_the_next(store: MessageStore) -> None:
    filled(store, 2)

    def more() -> None:
        store.append_many([message(2), message(3)], NOW)

    with failpoints.armed_point("commitlog.flush", more):
        store.flushing.flush_now()
    assert store.max_offset("T", 0) == 2
    assert [told[2] for told in store.arrivals.drain()] == [1, 2]
    store.flushing.flush_now()
    assert [told[2] for told in store.arrivals.drain()] == [3, 4]
    assert len(bodies(store)) == 4


def test_only_visible_units_are_written(store: MessageStore, tmp_path: Path) -> None:
    filled(store, 3)
    store.flushing.flush_now()
    store.arrivals.drain()
    filled(store, 2)
    write_queues(store)
    units = (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}").read_bytes()
    assert any(units[:60])
    assert not any(units[60:])
    store.flushing.flush_now()
    assert len(bodies(store)) == 5


def test_a_failed_flush_is_never_tried_again(store: MessageStore) -> None:
    filled(store, 1)
    store.flushing.flush_now()
    filled(store, 2)
    durable = store.durable_offset

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    with failpoints.armed_point("commitlog.flush", fail), pytest.raises(FlushFailed):
        store.flushing.flush_now()
    with pytest.raises(FlushFailed, match="an earlier flush failed"):
        store.flushing.flush_now()
    assert store.durable_offset == durable
    assert store.append(message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "Input/output error" in store.figures().refusal
    assert len(bodies(store)) == 1  # reads go on
    store.close()
    assert (store.options.root / "abort").exists()  # the next start looks closely


def test_async_flush_shows_at_once_and_says_what_is_at_risk(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 2)
    assert store.max_offset("T", 0) == 2
    assert not store.flushing.is_wanted
    assert store.flushing.unflushed(NOW + 700) == (store.max_physical, 700)
    for task in store.periodic_tasks():
        task.run(NOW + 20_000)
    assert store.flushing.unflushed(NOW + 30_000) == (0, 0)
    assert store.figures().unflushed_bytes == 0
    crash(store)


def test_what_is_being_flushed_is_at_risk_until_it_is(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 30, body=bytes(3000))
    told: list[tuple[int, int]] = []

    def look() -> None:
        told.append(store.flushing.unflushed(NOW + 900))

    with failpoints.armed_point("commitlog.flush", look):
        store.flushing.flush_now()
    assert len(segments(store)) == 2  # it goes over the end of a segment
    assert told == [(store.max_physical, 900)] * 2
    filled(store, 1, NOW + 5000)
    assert store.flushing.unflushed(NOW + 5700) == (store.max_physical - store.durable_offset, 700)
    assert store.figures().unflushed_since_ms == NOW + 5000
    crash(store)


def test_what_begins_a_segment_is_as_old_as_it_is(tmp_path: Path) -> None:
    store = opened(tmp_path)
    numbers = iter(range(100))
    while store.max_physical < SEGMENT - 4000:
        store.append(message(next(numbers), body=bytes(3000)), NOW)
    store.flushing.flush_now()
    while store.max_physical < SEGMENT:
        store.append(message(next(numbers), body=bytes(3000)), NOW + 50)
    assert store.flushing.unflushed(NOW + 60)[1] == 10
    crash(store)


def test_small_amounts_wait_for_the_thorough_flush(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 2)
    run_task(store, "flush", NOW + 500)
    assert store.flushing.unflushed_bytes
    filled(store, 10, body=bytes(3000))
    run_task(store, "flush", NOW + 1000)
    assert not store.flushing.unflushed_bytes
    filled(store, 1)
    run_task(store, "flush", NOW + 10_500)
    assert not store.flushing.unflushed_bytes
    crash(store)

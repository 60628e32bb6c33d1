"""Readers see what enough replicas hold, and the disk where that is promised; never less than before."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store import GetStatus, MessageStore
from tests.kit.store import bodies, filled, opened


def seen(store: MessageStore) -> int:
    """Number of messages that readers see, after a look at new ones."""
    store.arrivals.drain()
    return store.max_offset("T", 0)


def test_without_replicas_to_wait_for_all_is_seen(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 2)
    assert seen(store) == 2
    assert store.confirm_offset == store.max_physical


def test_messages_are_seen_one_by_one_as_replicas_get_them(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.arrivals.replicas_reached(-1)
    first, second = filled(store, 2)
    assert seen(store) == 0
    assert store.get("T", 0, 0, 32).status is not GetStatus.FOUND
    store.arrivals.replicas_reached(second.end_offset - 1)
    assert seen(store) == 1
    assert store.confirm_offset == second.end_offset - 1
    store.arrivals.replicas_reached(second.end_offset)
    assert bodies(store) == [b"body 0", b"body 1"]
    assert first.end_offset == second.physical_offset


def test_what_was_seen_stays_seen(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 2)
    store.arrivals.replicas_reached(-1)  # the broker becomes a SYNC_MASTER without slaves
    filled(store, 1)
    assert seen(store) == 2
    store.arrivals.replicas_reached(store.max_physical)
    assert seen(store) == 3
    store.arrivals.replicas_reached(-1)  # the slave is gone
    assert seen(store) == 3
    filled(store, 1)
    assert seen(store) == 3
    store.arrivals.replicas_reached(None)  # and an ASYNC_MASTER again
    assert seen(store) == 4
    assert len(store.arrivals.drain()) == 0


def test_arrivals_are_told_when_replicas_have_them(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.arrivals.replicas_reached(-1)
    filled(store, 1)
    assert store.arrivals.drain() == []
    store.arrivals.replicas_reached(store.max_physical)
    assert [(topic, behind) for topic, _, behind, _ in store.arrivals.drain()] == [("T", 1)]


def test_under_sync_flush_the_slower_of_disk_and_replicas_counts(tmp_path: Path) -> None:
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    store.arrivals.replicas_reached(-1)
    filled(store, 1)
    store.arrivals.replicas_reached(store.max_physical)
    assert seen(store) == 0
    store.flushing.flush_now()
    assert seen(store) == 1
    filled(store, 1)
    store.flushing.flush_now()
    assert seen(store) == 1
    store.arrivals.replicas_reached(store.max_physical)
    assert seen(store) == 2


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_stop_loses_nothing_that_replicas_never_got(tmp_path: Path, flush: str) -> None:
    store = opened(tmp_path, flush_disk_type=flush)
    store.arrivals.replicas_reached(-1)
    filled(store, 3)
    store.close()
    again = opened(tmp_path, flush_disk_type=flush)
    assert len(bodies(again)) == 3
    again.close()

"""Very many messages that wait for the same moment cost a start and a delivery nothing."""

import tracemalloc

import pytest

from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.store import DelayStore
from tests.kit.delay_world import DelayWorld

MANY = 5_000
DUE = 100
TOLERANCE_BYTES = 100_000
"""A twentieth of what the messages that wait would take in memory: their keys alone take more."""


@pytest.fixture
def read(monkeypatch):
    """Keys that were read, in their order."""
    found = []
    items, get_many, get = DelayStore.items, DelayStore.get_many, DelayStore.get

    def counted_items(self, *given):
        for key, value in items(self, *given):
            found.append(key)
            yield key, value

    def counted_get_many(self, wanted):
        found.extend(wanted)
        return get_many(self, wanted)

    def counted_get(self, key):
        found.append(key)
        return get(self, key)

    monkeypatch.setattr(DelayStore, "items", counted_items)
    monkeypatch.setattr(DelayStore, "get_many", counted_get_many)
    monkeypatch.setattr(DelayStore, "get", counted_get)
    return found


def work(folder, waiting, read):
    """Numbers of keys read, and most bytes of memory, by a start, by deliveries and by cancels."""
    world = DelayWorld(folder)
    moment = world.now + keys.HOUR_MS * 24
    for n in range(waiting):
        world.send(topic="t", at=moment, id=f"m{n}")
    for _ in range(DUE):
        world.send(topic="t", after="1ms")
    while world.take_in():
        pass
    world.store.close()
    found = []
    tracemalloc.start()
    try:
        for step in (world.open, lambda: deliver(world), lambda: cancel(world)):
            read.clear()
            tracemalloc.reset_peak()
            step()
            found.append((len(read), tracemalloc.get_traced_memory()[1]))
    finally:
        tracemalloc.stop()
    assert world.store.pending_count == waiting - DUE
    world.store.close()
    return found


def deliver(world):
    world.now += 1
    assert world.deliver() == DUE


def cancel(world):
    for n in range(DUE):
        world.send(b"c", action="cancel", id=f"m{n}")
    world.take_in()


def test_neither_a_start_nor_a_delivery_nor_a_cancel_looks_at_what_waits(tmp_path, read):
    few = work(tmp_path / "few", DUE + 1, read)
    many = work(tmp_path / "many", MANY, read)
    for (keys_of_few, memory_of_few), (keys_of_many, memory_of_many) in zip(few, many, strict=True):
        assert keys_of_many == keys_of_few
        assert memory_of_many < memory_of_few + TOLERANCE_BYTES
    assert few[0][0] < 20, "a start reads more than a few keys"

from pathlib import Path

import pytest

from orbitmq.store import MessageStore
from tests.kit.store import NOW, message, opened

TIMES = [0, 10, 10, 10, 20, 30]


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    store = opened(tmp_path)
    for time in TIMES:
        store.append(message(), NOW + time)
    return store


@pytest.mark.parametrize(
    ("time", "lower", "upper"),
    [(-5, 0, 0), (0, 0, 0), (5, 1, 0), (10, 1, 3), (15, 4, 3), (20, 4, 4), (30, 5, 5), (31, 6, 5)],
)
def test_lower_and_upper(store: MessageStore, time: int, lower: int, upper: int) -> None:
    assert store.lookup.offset_by_time("T", 0, NOW + time) == lower
    assert store.lookup.offset_by_time("T", 0, NOW + time, upper=True) == upper


def test_times_of_messages(store: MessageStore) -> None:
    assert [store.lookup.store_time("T", 0, offset) - NOW for offset in range(6)] == TIMES
    assert store.lookup.store_time("T", 0, 6) == store.lookup.store_time("T", 1, 0) == -1
    assert store.lookup.earliest_time("T", 0) == store.lookup.earliest_store_time() == NOW
    assert store.lookup.earliest_time("T", 1) == -1
    assert store.lookup.offset_by_time("other", 0, NOW) == 0


def test_what_counts_as_in_memory(store: MessageStore, tmp_path: Path) -> None:
    assert store.is_in_memory("T", 0, 0)
    assert not store.is_in_memory("T", 0, 6)
    store.close()
    store = opened(tmp_path, access_message_in_memory_max_ratio=0)
    assert not store.is_in_memory("T", 0, 0)

"""Messages that readers are told of: each once, whenever its queue was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store import MessageStore
from tests.kit.store import NOW, filled, message, opened, write_queues


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    return opened(tmp_path)


def test_arrivals_are_told_once(store: MessageStore) -> None:
    assert store.arrivals.drain() == []
    store.append_many([message(1, tag="TagA"), message(2, queue_id=1), message(3, topic="S")], NOW)
    store.append(message(4), NOW)
    told = store.arrivals.drain()
    assert sorted(told) == [("S", 0, 1, 0), ("T", 0, 1, 2598919), ("T", 0, 2, 0), ("T", 1, 1, 0)]
    assert store.arrivals.drain() == []


def test_arrivals_are_told_even_if_queues_were_written_first(store: MessageStore) -> None:
    filled(store, 3)
    write_queues(store)
    assert [told[2] for told in store.arrivals.drain()] == [1, 2, 3]

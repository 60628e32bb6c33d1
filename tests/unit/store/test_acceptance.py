"""A disk that has stalled: senders are told before the kernel stops everybody."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orbitmq import failpoints
from orbitmq.store import MessageStore, PutStatus
from tests.kit.store import NOW, message, opened


class StalledFile:
    """A file whose syncs wait."""

    def __init__(self, file: object) -> None:
        self._file = file
        self.began = threading.Event()
        self.goes_on = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def sync(self) -> None:
        self.began.set()
        assert self.goes_on.wait(120)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MessageStore:
    monkeypatch.setattr("orbitmq.store.acceptance.memory_bytes", lambda: 40 << 10)
    store = opened(tmp_path, os_page_cache_busy_time_out_mills=20)
    store.append(message(), NOW)
    return store


def put(store: MessageStore) -> PutStatus:
    return store.append(message(), NOW).status


def test_messages_are_refused_while_a_flush_takes_too_long_and_much_waits(store: MessageStore) -> None:
    segment = store.structures.log.segments[0]
    stalled = StalledFile(segment.file)
    segment.file = stalled  # type: ignore[assignment]
    flush = threading.Thread(target=store.flushing.flush_now)
    flush.start()
    try:
        assert stalled.began.wait(120)
        while store.figures().flushing_ms <= 20:
            pass
        assert put(store) is PutStatus.PUT_OK, "little waits: memory has room"
        assert store.append(message(body=bytes(8 << 10)), NOW).status is PutStatus.PUT_OK
        assert put(store) is PutStatus.OS_PAGE_CACHE_BUSY
        assert store.figures().busy_refusals == 1
    finally:
        stalled.goes_on.set()
        flush.join()
        segment.file = stalled._file  # type: ignore[assignment]
    assert store.figures().flushing_ms == 0
    assert put(store) is PutStatus.PUT_OK
    store.close()


def test_messages_are_refused_while_no_room_can_be_had_for_them(store: MessageStore) -> None:
    goes_on = threading.Event()
    long = message(body=bytes(3000))
    with ThreadPoolExecutor(1) as reserver:
        store.log.reserving.use_thread(reserver)
        with failpoints.armed_point("commitlog.create", lambda: goes_on.wait(60)):
            while (status := store.append(long, NOW).status) is PutStatus.PUT_OK:
                pass
            assert status is PutStatus.OS_PAGE_CACHE_BUSY
            assert store.figures().busy_refusals == 1
            goes_on.set()
        reserver.submit(int).result()
        assert put(store) is PutStatus.PUT_OK
    store.close()

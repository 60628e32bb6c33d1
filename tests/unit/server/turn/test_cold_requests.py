"""Every request against a store that is not in memory: the loop's thread reads none of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.registry import handlers
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.every import REQUESTS
from orbitmq.protocol.schema.declare import FieldRow, Request
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.turn.listener import free_ports
from orbitmq.store import MessageStore, StoreOptions
from orbitmq.store.files import RealDisk, StoreFile
from orbitmq.testing.local_broker import SMALL_SEGMENTS
from tests.kit.store import NOW, message

MESSAGES = 400
QUEUES = 4


class WatchedFile:
    """A file of which nothing is in memory until a thread has read it; notes who else reads."""

    def __init__(self, file: StoreFile, disk: WatchedDisk) -> None:
        self._file = file
        self._disk = disk
        self._warm: list[tuple[int, int, str]] = []
        """Bytes that a thread has read, and the requests they were read for."""
        self._written: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def _is_warm(self, position: int, length: int) -> bool:
        asked = self._disk.asked
        warm = [*self._written, *((first, end) for first, end, of in self._warm if of == asked)]
        return any(first <= position and position + length <= end for first, end in warm)

    def read(self, position: int, length: int) -> bytes:
        if threading.get_ident() == self._disk.loop_thread:
            if not self._is_warm(position, length):
                self._disk.stalls.add((self._disk.asked, self._file.path.parent.name))
        else:
            self._warm.append((position, position + length, self._disk.asked))
            self._disk.thread_reads += 1
        return self._file.read(position, length)

    def write(self, position: int, data: bytes | memoryview) -> None:
        self._written.append((position, position + len(data)))
        self._file.write(position, data)

    def resident_bytes(self, position: int, length: int) -> int:
        return length if self._disk.loop_thread == 0 or self._is_warm(position, length) else 0


class WatchedDisk(RealDisk):
    """Tells which request has the loop's thread read what is not in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.loop_thread = 0
        """Nothing is noted before a test sets it."""
        self.asked = ""
        self.stalls: set[tuple[str, str]] = set()
        self.thread_reads = 0

    def open(self, path: Path, size: int | None = None, mode: int = 0o644) -> StoreFile:
        return WatchedFile(super().open(path, size, mode), self)  # type: ignore[return-value]


KNOWN: dict[str, str] = {
    "GET_BROKER_RUNTIME_INFO": "the time of the first record, once for each segment that becomes the first",
    "PEEK_MESSAGE": "not off the loop yet: it reads the unit of the message that it is to begin with",
}
"""Requests that still read on the loop, and what."""

TEXTS = {
    "topic": "T",
    "consumer_group": "G",
    "group": "G",
    "producer_group": "P",
    "key": "k1",
}
LAST = frozenset({"DELETE_TOPIC_IN_BROKER", "DELETE_SUBSCRIPTIONGROUP", "UPDATE_BROKER_CONFIG"})


def value_of(row: FieldRow) -> Any:
    if row.kind == "str":
        return TEXTS.get(row.name, "x")
    if row.kind in ("int", "long"):
        return NOW + 5 if "time" in row.name else 0
    if row.kind == "bool":
        return False
    if row.body_class is not None:
        return row.body_class()
    return b""


def plain(kind: type[Request[Any]]) -> Request[Any]:
    return kind(**{row.name: value_of(row) for row in kind.FIELDS if row.kind != "meta"})


def served() -> Iterator[type[Request[Any]]]:
    kinds = [kind for kind in REQUESTS.values() if kind in handlers.by_request and kind.NAME not in LAST]
    yield from sorted(kinds, key=lambda kind: kind.CODE)


async def test_no_request_has_the_loop_read_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = WatchedDisk()
    port = free_ports(-2, 1)
    values = {**SMALL_SEGMENTS, "storePathRootDir": str(tmp_path / "store"), "listenPort": port}
    settings = BROKER_TABLE.load([Layer("the test", values)])
    store = MessageStore.open(StoreOptions.from_settings(settings), NOW)
    for number in range(MESSAGES):
        store.append(message(number, queue_id=number % QUEUES, keys=f"k{number % 3}"), NOW + number)
    store.close()
    server = BrokerServer(settings, disk=disk)
    await server.start()
    pool = ConnectionPool()
    try:
        broker = server.broker
        broker.topics.ensure("T", QUEUES, NOW)
        broker.groups.find("G", NOW)
        for queue_id in range(QUEUES):
            broker.offsets.commit("G", "T", queue_id, 5, NOW)
        disk.loop_thread = threading.get_ident()
        asked = 0
        for kind in served():
            disk.asked = kind.NAME
            with contextlib.suppress(OrbitError):
                await pool.call(server.address, plain(kind), 1_000)
            asked += 1
        await asyncio.sleep(0)
        assert asked > 60
        assert disk.thread_reads > 20, "what the requests ask for is on the disk"
        stalls = {(name, folder) for name, folder in disk.stalls if name not in KNOWN}
        assert stalls == set()
        assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
    finally:
        await pool.close()
        await server.stop()

"""Every request against a store that is not in memory: the loop's thread reads none of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.registry import handlers
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import HALF_TOPIC, TRANSACTION_CHECK_TOPIC
from orbitmq.protocol.records.ids import offset_message_id
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.every import REQUESTS
from orbitmq.protocol.requests.offset import QueryConsumerOffset
from orbitmq.protocol.requests.pop import PeekMessage, PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.transaction import EndTransaction, ResumeCheckHalfMessage
from orbitmq.protocol.schema.declare import FieldRow, Request
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.tasks.periodic import PeriodicTaskRunner
from orbitmq.server.turn.listener import free_ports
from orbitmq.store import Appended, MessageStore, PendingMessage, PeriodicTask, StoreOptions
from orbitmq.store.files import RealDisk, StoreFile
from orbitmq.store.queue import reader
from orbitmq.testing.local_broker import SMALL_SEGMENTS
from tests.kit.store import HOST, NOW, message

MESSAGES = 400
QUEUES = 4


class WatchedFile:
    """A file of which nothing is in memory until a thread has read it; notes who else reads."""

    def __init__(self, file: StoreFile, disk: WatchedDisk) -> None:
        self._file = file
        self._disk = disk
        self._warm = disk.warm.setdefault(file.path, [])
        self._written = disk.written.setdefault(file.path, [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def _is_warm(self, position: int, length: int) -> bool:
        if self._file.path.parent.name == "commitlog" and position >= self._disk.log_end:
            return True  # this process wrote it, through a view
        asked = self._disk.asked
        warm = [*self._written, *((first, end) for first, end, of in self._warm if of == asked)]
        return any(first <= position and position + length <= end for first, end in warm)

    def read(self, position: int, length: int) -> bytes:
        if threading.get_ident() == self._disk.loop_thread:
            if not self._is_warm(position, length):
                self._disk.stalls.add((self._disk.asked, "/".join(self._file.path.parts[-2:])))
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
        self.log_end = 1 << 60
        """End of the log when the broker was started."""
        self.stalls: set[tuple[str, str]] = set()
        self.thread_reads = 0
        self.warm: dict[Path, list[tuple[int, int, str]]] = {}
        """Reads of a file by a thread, and the request of each."""
        self.written: dict[Path, list[tuple[int, int]]] = {}
        self._found: set[tuple[Path, str]] = set()
        """Files that a thread has opened, and for which request."""
        self._seconds = 0.0

    def ask(self, name: str) -> None:
        """Begins with another request: what was in memory for the one before counts no more."""
        self._seconds += 60
        self.asked = f"{name} {self._seconds:.0f}"

    def monotonic(self) -> float:
        return self._seconds

    def open(self, path: Path, size: int | None = None, mode: int = 0o644) -> StoreFile:
        if threading.get_ident() != self.loop_thread:
            self._found.add((path, self.asked))
        elif "consumequeue" in path.parts and (path, self.asked) not in self._found:
            self.stalls.add((self.asked, f"opens {path.parent.name}"))
        return WatchedFile(super().open(path, size, mode), self)  # type: ignore[return-value]


KNOWN: dict[str, str] = {
    "POP_MESSAGE": "a group's first look at a queue: one that waited would leave the queue out of an answer",
    "GET_BROKER_RUNTIME_INFO": "the time of the first record, once for each segment that becomes the first",
}
"""Requests that still read on the loop, and what."""
BY_THE_CLOCK = frozenset({"store/timerwheel", "timerlog/00000000000000000000"})
"""Files that the loop reads with no request: 32 bytes of the wheel a second, neighbours of those before; and
units of the timer log that were written a moment ago."""

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


def half_message(number: int) -> PendingMessage:
    """One of topic T, as the broker stores it."""
    made = message(number, topic=HALF_TOPIC)
    entries = {
        "UNIQ_KEY": f"ID{number}",
        "TRAN_MSG": "true",
        "PGROUP": "P",
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
        "__transactionId__": f"ID{number}",
    }
    made.properties = encode_properties(entries)
    return made


def first_looks(halves: list[Appended], laid_aside: Appended) -> Iterator[Request[Any]]:
    """Requests that begin to read something, each anew: nothing of what the one before has read is left."""
    for queue_id in range(QUEUES):
        yield PullMessage("G", "T", queue_id, 5, 32, 4, 0, 0, 0, "*", expression_type="TAG")
    yield PeekMessage("T", -1, 32, "G")
    yield PeekMessage("T", 2, 32, "Newcomers")
    for group in ("Newcomers", "Strangers"):
        yield PopMessage(group, "T", -1, 32, 60_000, 0, 0, 1, exp_type="TAG", exp="*")
    yield QueryConsumerOffset("Unknown", "T", 1)
    for half, decision in zip(halves, (8, 12, 8), strict=True):
        transaction = f"ID{half.queue_offset}"
        yield EndTransaction(
            "P", half.queue_offset, half.physical_offset, decision, transaction, "T", False, transaction
        )
    yield ResumeCheckHalfMessage("T", offset_message_id(HOST, laid_aside.physical_offset))


def only_in_threads(
    start: Callable[[PeriodicTaskRunner, PeriodicTask], None],
) -> Callable[[PeriodicTaskRunner, PeriodicTask], None]:
    """Leaves out tasks on the loop: what one reads between two requests would count as read for the first."""

    def started(runner: PeriodicTaskRunner, task: PeriodicTask) -> None:
        if task.in_thread:
            start(runner, task)

    return started


async def test_no_request_has_the_loop_read_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk()
    port = free_ports(-2, 1)
    values = {**SMALL_SEGMENTS, "storePathRootDir": str(tmp_path / "store"), "listenPort": port}
    settings = BROKER_TABLE.load([Layer("the test", values)])
    store = MessageStore.open(StoreOptions.from_settings(settings), NOW)
    for number in range(MESSAGES):
        store.append(message(number, queue_id=number % QUEUES, keys=f"k{number % 3}"), NOW + number)
    halves = [store.append(half_message(number), NOW + MESSAGES) for number in range(3)]
    laid_aside = half_message(9)
    laid_aside.topic = TRANSACTION_CHECK_TOPIC
    aside = store.append(laid_aside, NOW + MESSAGES)
    store.close()
    server = BrokerServer(settings, disk=disk)
    monkeypatch.setattr(PeriodicTaskRunner, "start", only_in_threads(PeriodicTaskRunner.start))
    await server.start()
    pool = ConnectionPool()
    try:
        broker = server.broker
        broker.topics.ensure("T", QUEUES, NOW)
        broker.groups.find("G", NOW)
        for queue_id in range(QUEUES):
            broker.offsets.commit("G", "T", queue_id, 5, NOW)
        broker.store.structures.queues.reading.clear()
        monkeypatch.setattr(reader, "monotonic", disk.monotonic)
        disk.log_end = server.store.max_physical
        disk.loop_thread = threading.get_ident()
        refused = []
        for request in first_looks(halves, aside):
            disk.ask(type(request).NAME)
            broker.store.structures.queues.reading.clear()
            try:
                reply = await pool.call(server.address, request, 30_000)
            except OrbitError as error:
                refused.append((type(request).NAME, str(error)))
            else:
                if isinstance(request, PullMessage | PeekMessage | PopMessage):
                    assert reply.body
        assert refused == []
        asked = 0
        for kind in served():
            disk.ask(kind.NAME)
            # One that makes no sense is not answered; what others read later would count as the next one's.
            timeout_ms = 1_000 if kind is EndTransaction else 60_000
            with contextlib.suppress(OrbitError):
                await pool.call(server.address, plain(kind), timeout_ms)
            asked += 1
        await asyncio.sleep(0)
        assert asked > 60
        assert disk.thread_reads > 20, "what the requests ask for is on the disk"
        stalls = {
            (name, what)
            for name, what in disk.stalls
            if name.split()[0] not in KNOWN and what not in BY_THE_CLOCK
        }
        assert stalls == set()
        assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
    finally:
        await pool.close()
        await server.stop()

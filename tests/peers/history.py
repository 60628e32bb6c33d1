"""Recorded histories of queues, and Porcupine's word on them.

Writers and readers speak the protocol themselves, one request for each operation: a client that sends again
would hide that an operation's outcome is not known.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import random
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import ConnectFailed, NetError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendMessage
from tests.peers.machine import cache

PROGRAM = Path(__file__).parent / "porcupine"
TOPIC = "History"
QUEUES = 2
READ_AT_MOST = 32
TIMEOUT_MS = 5_000
PAUSE_SECONDS = 0.02
STORED_MAYBE = (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT)
"""Answers to sends that leave open what becomes of the message."""


@dataclass(slots=True)
class Operation:
    """One append or read; `ended` 0: its outcome is not known."""

    client: int
    kind: str
    queue: int
    offset: int
    values: list[int]
    call: int
    ended: int = 0


class Recorder:
    """Writers and readers of a cluster's queues, each in a thread, and what they saw."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = list(addresses)
        self._values = itertools.count(1)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.operations: list[Operation] = []
        self.errors: list[BaseException] = []

    @property
    def acknowledged(self) -> int:
        """Number of appends with a known outcome so far."""
        return sum(one.kind == "append" and one.ended > 0 for one in list(self.operations))

    def start(self, writers: int, readers: int) -> None:
        """Starts the threads."""
        works = [self._write] * writers + [self._read] * readers
        for client, work in enumerate(works):
            thread = threading.Thread(target=self._run, args=(work, client), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Ends them. Raises the first error that none of them had to bear with."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _run(self, work: Callable[[int, Connections], None], client: int) -> None:
        connections = Connections()
        try:
            while not self._stop.is_set():
                work(client, connections)
                time.sleep(PAUSE_SECONDS)
        except BaseException as error:
            self.errors.append(error)
        finally:
            connections.close()

    def _write(self, client: int, connections: Connections) -> None:
        try:
            connection = connections.to(self._addresses[client % len(self._addresses)])
        except ConnectFailed:
            self._elsewhere()
            return
        value = next(self._values)
        queue = value % QUEUES
        send = SendMessage("H", TOPIC, "TBW102", QUEUES, queue, 0, 1, 0, "", body=str(value).encode())
        operation = Operation(client, "append", queue, -1, [value], time.monotonic_ns())
        try:
            reply = connection.call(send, TIMEOUT_MS)
        except BrokerRefused as refused:
            if refused.code in STORED_MAYBE:
                self.operations.append(operation)
            self._elsewhere()
            return
        except NetError:
            self.operations.append(operation)
            self._elsewhere()
            return
        if reply.code == ResponseCode.SUCCESS:
            operation.ended, operation.offset = time.monotonic_ns(), int(reply.queue_offset)
        self.operations.append(operation)

    def _elsewhere(self) -> None:
        """The next operation of this client goes to another broker: masters change places."""
        self._addresses.append(self._addresses.pop(0))

    def _read(self, client: int, connections: Connections) -> None:
        queue = random.randrange(QUEUES)
        offset = random.randrange(1 + max(0, self.acknowledged // QUEUES))
        # Slaves are read as well: nobody may see what is not safe.
        with contextlib.suppress(NetError, BrokerRefused):
            self._pull(client, connections.to(random.choice(self._addresses)), queue, offset)

    def _pull(self, client: int, connection: BlockingConnection, queue: int, offset: int) -> int:
        called = time.monotonic_ns()
        pull = PullMessage("H", TOPIC, queue, offset, READ_AT_MOST, 4, 0, 0, 0, subscription="*")
        found, bad = decode_records(connection.call(pull, TIMEOUT_MS).body or b"")
        ended = time.monotonic_ns()
        assert not bad
        if found:
            values = [int(one.body) for one in found]
            first = found[0].queue_offset
            self.operations.append(Operation(client, "read", queue, first, values, called, ended))
        return len(found)

    def visible(self, address: str) -> int:
        """The number of messages that a broker shows."""
        with BlockingConnection(address) as connection:
            asked = (connection.call(GetMaxOffset(TOPIC, one), TIMEOUT_MS) for one in range(QUEUES))
            return sum(reply.offset for reply in asked)

    def read_all(self, client: int, address: str) -> None:
        """Reads all queues of a broker from their beginning."""
        with BlockingConnection(address) as connection:
            for queue in range(QUEUES):
                end = connection.call(GetMaxOffset(TOPIC, queue), TIMEOUT_MS).offset
                offset = 0
                while offset < end:
                    read = self._pull(client, connection, queue, offset)
                    assert read, f"nothing at {offset} of {end} in queue {queue}"
                    offset += read


class Connections:
    """One thread's connections, by address."""

    def __init__(self) -> None:
        self._open: dict[str, BlockingConnection] = {}

    def to(self, address: str) -> BlockingConnection:
        """A connection that is not known to be closed. Raises ConnectFailed."""
        connection = self._open.get(address)
        if connection is None or connection.is_closed:
            connection = self._open[address] = BlockingConnection(address, connect_timeout_ms=1000)
        return connection

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()


@functools.cache
def checker() -> Path:
    """The program that asks Porcupine, built once."""
    built = cache() / "history"
    command = ["go", "build", "-buildvcs=false", "-mod=readonly", "-o", str(built), "."]
    subprocess.run(command, cwd=PROGRAM, check=True, capture_output=True)
    return built


def check(operations: Sequence[Operation], folder: Path) -> str:
    """Porcupine's result: `Ok`, `Illegal` or `Unknown`. The history and a page on it stay in the folder."""
    lines = []
    for one in operations:
        fields = asdict(one)
        fields["return"] = fields.pop("ended")
        lines.append(json.dumps(fields) + "\n")
    path = folder / "history.jsonl"
    path.write_text("".join(lines))
    command = [str(checker()), str(path), str(folder / "history.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 2), done.stderr
    return done.stdout.partition(":")[0]

"""One name server and one broker, in this process or in one of their own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.net.blocking import BlockingConnection
from orbitmq.options import Layer
from orbitmq.protocol.errors import TopicNotExist
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from orbitmq.server.lifecycle.process import run
from orbitmq.server.lifecycle.standalone import StandaloneServer
from orbitmq.server.turn.listener import free_ports

START_SECONDS = 120.0
SMALL_SEGMENTS: Mapping[str, str] = {
    "mappedFileSizeCommitLog": str(16 << 20),
    "mappedFileSizeConsumeQueue": "60000",
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "diskMaxUsedSpaceRatio": "99",
    "diskSpaceCleanForciblyRatio": "99",
    "diskSpaceWarningLevelRatio": "99",
    "waitTimeMillsInSendQueue": "60000",
}
"""Default options of a test's broker: files that cost next to nothing, no warning about a disk that others
have filled, and no send refused because a busy machine came to it late.
"""


class StartFailed(RuntimeError):
    """The broker did not come up; the message holds what it said."""


class LocalBroker:
    """A broker and its name server, for as long as it is entered.

    `properties` are the broker's, by Apache's names. Without `data_dir` the data goes when the broker does;
    with one it stays, and a later `LocalBroker` on the same folder continues with it. `own_process` starts it
    as a process of its own, which `kill` ends as kill -9 does. A start or stop that takes longer than
    `timeout_seconds` has failed.
    """

    PROGRAM: ClassVar[tuple[str, ...]] = ("-m", "orbitmq")
    """Arguments of Python for a broker in a process of its own; a test may put others in between."""

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        own_process: bool = False,
        timeout_seconds: float = START_SECONDS,
        **properties: object,
    ) -> None:
        self.own_process = own_process
        self._timeout_seconds = timeout_seconds
        self._properties = {**SMALL_SEGMENTS, **{name: str(value) for name, value in properties.items()}}
        self._temporary = None if data_dir else tempfile.TemporaryDirectory(prefix="orbitmq-")
        self.data_dir = data_dir or Path(self._temporary.name if self._temporary else "")
        port = free_ports(-2, 1, 2)
        self._broker_port, self._namesrv_port = port, port + 2
        self._thread: _ServerThread | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def namesrv(self) -> str:
        """Address of the name server: what clients are given."""
        return f"127.0.0.1:{self._namesrv_port}"

    @property
    def broker(self) -> str:
        """Address of the broker."""
        return f"127.0.0.1:{self._broker_port}"

    def create_topic(self, name: str, queues: int = 4) -> None:
        """Makes a topic, or changes its number of queues. Returns when clients can find it."""
        request = UpdateAndCreateTopic(name, AUTO_CREATE_TOPIC, queues, queues, 6, "SINGLE_TAG", False)
        with BlockingConnection(self.broker) as broker:
            broker.call(request)
        deadline = time.monotonic() + self._timeout_seconds
        with BlockingConnection(self.namesrv) as names:
            while not self._is_routed(names, name, queues):
                if time.monotonic() > deadline:
                    raise StartFailed(f"the name server does not know topic {name}")
                time.sleep(0.005)

    @staticmethod
    def _is_routed(names: BlockingConnection, topic: str, queues: int) -> bool:
        try:
            route = names.call(GetRouteinfoByTopic(topic, True)).body
        except TopicNotExist:
            return False
        return any(row.write_queue_nums == queues for row in route.queue_datas)

    def start(self) -> Self:
        """Starts both; returns when the broker takes messages. Raises StartFailed."""
        if self.own_process:
            self._start_process()
        else:
            self._thread = _ServerThread(self._server(), self._timeout_seconds)
            self._thread.begin()
        return self

    def _server(self) -> StandaloneServer:
        values = {
            **self._properties,
            "storePathRootDir": str(self.data_dir),
            "listenPort": self._broker_port,
        }
        broker = BROKER_TABLE.load([Layer("the test", values)])
        namesrv = NAMESRV_TABLE.load([Layer("the test", {"listenPort": self._namesrv_port})])
        return StandaloneServer(broker, namesrv)

    def _start_process(self) -> None:
        ready = self.data_dir / "ready"
        ready.unlink(missing_ok=True)
        command = [
            *(sys.executable, *self.PROGRAM, "standalone"),
            *("--data-dir", str(self.data_dir), "--init", "--ready-file", str(ready)),
            *("--namesrv-port", str(self._namesrv_port), "--broker-port", str(self._broker_port)),
        ]
        for name, value in self._properties.items():
            command += ["--set", f"{name}={value}"]
        self.data_dir.mkdir(parents=True, exist_ok=True)
        log = (self.data_dir / "broker.log").open("ab")
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + self._timeout_seconds
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise StartFailed((self.data_dir / "broker.log").read_text(errors="replace")[-4000:])
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """The process that the broker runs in."""
        return self._process.pid if self._process is not None else os.getpid()

    @property
    def is_running(self) -> bool:
        """True if a broker in a process of its own is alive."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Ends a broker of its own process as a crash would. The data folder stays until `stop`."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stops both in order and removes a temporary data folder."""
        self.halt()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def halt(self) -> None:
        """Stops both in order and keeps the data for another `start`."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.end()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(self._timeout_seconds)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            self._process = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


_numbers = itertools.count(1)


class Isolated:
    """One test's part of a broker that tests share: topics and groups that no other test has."""

    def __init__(self, shared: LocalBroker) -> None:
        self._shared = shared
        self._number = next(_numbers)
        self._topics: set[str] = set()

    @property
    def namesrv(self) -> str:
        """Address of the name server: what clients are given."""
        return self._shared.namesrv

    @property
    def broker(self) -> str:
        """Address of the broker."""
        return self._shared.broker

    def topic(self, name: str = "topic", queues: int = 4) -> str:
        """An empty topic that no other test has; asked for again it is the same."""
        own = f"{name}-{self._number}"
        if own not in self._topics:
            self._shared.create_topic(own, queues)
            self._topics.add(own)
        return own

    def group(self, name: str = "group") -> str:
        """A group that no other test has."""
        return f"{name}-{self._number}"


class _ServerThread:
    """A server on an event loop of its own, so that tests may block, or run a loop themselves."""

    def __init__(self, server: StandaloneServer, timeout_seconds: float) -> None:
        self._server = server
        self._timeout_seconds = timeout_seconds
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="orbitmq-standalone", daemon=True)

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await self._server.start()
        self._ready.set()
        await self._stop.wait()
        await self._server.stop()

    def begin(self) -> None:
        self._thread.start()
        self._ready.wait(self._timeout_seconds)
        if self._error is not None:
            raise StartFailed(str(self._error)) from self._error
        if not self._ready.is_set():
            raise StartFailed(f"not ready within {self._timeout_seconds:.0f} s")

    def end(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(self._timeout_seconds)
        if self._error is not None:
            raise self._error

"""Running consumers as a process: signals, an orderly end, an exit code, and an address for probes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Protocol

from orbitmq.client.consumer.group_member import GroupMember
from orbitmq.client.core.checking import check_number, shown
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.producer.producer import Producer
from orbitmq.net.accepting import stop_accepting
from orbitmq.net.address import parse_address
from orbitmq.net.errors import CallTimeout, ConnectFailed, ConnectionLost, NetError, NoNameServer

log = logging.getLogger(__name__)

DONE = 0
CUT_SHORT = 1
"""Handlers did not end in time and were cancelled: their messages come again."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


START_TIMEOUT_MS = 60_000
"""Longer than systemd and Kubernetes count failed starts in a row, so that they keep trying."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 2.0


class Watched(Protocol):
    """A producer or consumer as a probe sees it."""

    @property
    def healthy(self) -> bool: ...
    @property
    def errors(self) -> Mapping[str, Exception]: ...


Waiting = dict[Watched, Exception]
"""Clients that wait for their servers, each with the last reason."""


def run(
    *clients: Producer | GroupMember,
    timeout_ms: float | None = None,
    health: str | None = None,
    start_timeout_ms: float = START_TIMEOUT_MS,
) -> int:
    """Starts consumers, and producers that their handlers need, and runs them until they are to stop.

        sys.exit(orbitmq.run(consumer, producer))

    SIGTERM and Ctrl-C, or the `close` of a consumer, end it: nothing more is taken, handlers end within
    `timeout_ms` (`close_timeout_ms` of each consumer), offsets are committed, the groups are left, producers
    send what they hold. A second signal cancels handlers at once. `health` is `host:port` for HTTP probes.
    A start waits up to `start_timeout_ms` for name servers and brokers that are away, and the log says so.

    Gives the exit code: 0 where every handler ended, 1 where some were cancelled; their messages come again.
    Raises what `start` raises. Has to be called in the main thread, outside of an event loop: within one,
    `await serve(...)`.
    """
    return asyncio.run(
        serve(*clients, timeout_ms=timeout_ms, health=health, start_timeout_ms=start_timeout_ms)
    )


async def serve(
    *clients: Producer | GroupMember,
    timeout_ms: float | None = None,
    health: str | None = None,
    start_timeout_ms: float = START_TIMEOUT_MS,
) -> int:
    """`run`, for programs with an event loop of their own."""
    check_clients(clients, (Producer, GroupMember))
    loop, stopping = asyncio.get_running_loop(), Stopping()
    with signals(lambda: loop.call_soon_threadsafe(stopping.signalled)):
        return await run_until(stopping, clients, timeout_ms, health, start_timeout_ms)


class Stopping:
    """The signals so far: the first asks clients to end in order, the second at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.urged = asyncio.Event()

    def signalled(self) -> None:
        """A signal has come. To be called on the event loop."""
        (self.urged if self.asked.is_set() else self.asked).set()


async def run_until(
    stopping: Stopping,
    clients: Sequence[Producer | GroupMember],
    timeout_ms: float | None,
    health: str | None,
    start_timeout_ms: float,
) -> int:
    """The work of `run`, whoever gets the signals."""
    check_number("run", "start_timeout_ms", start_timeout_ms, 0)
    away: Waiting = {}
    producers = [client for client in clients if isinstance(client, Producer)]
    consumers = [client for client in clients if isinstance(client, GroupMember)]
    asked = stopping.asked
    async with contextlib.AsyncExitStack() as opened:
        if health is not None:
            await opened.enter_async_context(health_served(clients, health, away))
        for producer in producers:
            await opened.enter_async_context(producer)
        for consumer in consumers:
            opened.push_async_callback(consumer.close)
            await start_when_there(consumer, start_timeout_ms, away, asked)
        ends: list[asyncio.Task[Any]] = [asyncio.create_task(asked.wait())]
        ends += [asyncio.create_task(consumer.wait_closed()) for consumer in consumers]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        asked.set()
        draining = [asyncio.create_task(consumer.drain(timeout_ms)) for consumer in consumers]
        urging = asyncio.create_task(stopping.urged.wait())
        drained: asyncio.Future[list[bool]] = asyncio.gather(*draining)
        either: list[asyncio.Future[Any]] = [drained, urging]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            for consumer in consumers:
                consumer.hurry()
        in_time = all(await drained)
        for task in (*ends, urging):
            task.cancel()
    return DONE if in_time else CUT_SHORT


async def start_when_there(
    consumer: GroupMember, timeout_ms: float, away: Waiting, asked: asyncio.Event
) -> None:
    """Starts a consumer, and again for up to `timeout_ms` while name servers or brokers do not answer.

    The log tells of the wait, which ends when somebody has `asked` for the end of all, and `away` has its
    reason. Raises what the start raises, after the wait too.
    """
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE_SECONDS
    began = loop.time()
    try:
        while not asked.is_set():
            try:
                await consumer.start()
            except NetError as error:
                left = timeout_ms / 1000 - (loop.time() - began)
                if left <= 0 or not _may_pass(error):
                    raise
                if consumer not in away:
                    text = "%s waits up to %g s for its servers: %s"
                    log.warning(text, name_of(consumer), timeout_ms / 1000, error)
                away[consumer] = error
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, left)):
                        await asked.wait()
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                if consumer in away:
                    log.info("%s has started after %.1f s", name_of(consumer), loop.time() - began)
                return
    finally:
        away.pop(consumer, None)


def _may_pass(error: NetError) -> bool:
    """True if the server may be there later, and its address is not that of another kind of server."""
    if isinstance(error, NoNameServer):
        return any(map(_may_pass, error.failures))
    return isinstance(error, ConnectFailed | ConnectionLost | CallTimeout)


def check_clients(clients: Sequence[object], kinds: tuple[type, ...]) -> None:
    """Raises InvalidArgument for what cannot be run."""
    for client in clients:
        if not isinstance(client, kinds):
            raise InvalidArgument(f"run takes producers and consumers, not {shown(client)}")
    if not clients:
        raise InvalidArgument("run takes at least one producer or consumer")


@contextlib.contextmanager
def signals(stop: Callable[[], object]) -> Iterator[None]:
    """Has `stop` called for SIGINT and SIGTERM, as long as it is entered."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def name_of(client: object) -> str:
    """A client as a person names it: its class, and its group if it has one."""
    group = getattr(getattr(client, "_core", client), "shown_group", "")
    return f"{type(client).__name__}{group and f' of group {group}'}"


def _illness(client: Watched, error: Exception | None) -> str:
    causes = "; ".join(f"{subject}: {error}" for subject, error in client.errors.items())
    if error is not None:
        causes = f"it has not started yet: {error}"
    causes = " ".join(causes.split()) or "it has not started yet, or is closed"
    return f"{name_of(client)} is not healthy: {causes}\n"


@contextlib.asynccontextmanager
async def health_served(
    clients: Sequence[Watched], address: str, away: Waiting | None = None
) -> AsyncIterator[None]:
    """Answers HTTP probes: 200 while every client is healthy, 503 with those that are not, and why.

    `away` are clients that wait for their servers, with the reason.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
                ill = [client for client in clients if not client.healthy]
                text = "".join(_illness(client, (away or {}).get(client)) for client in ill) or "ok\n"
                status = "503 Service Unavailable" if ill else "200 OK"
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n{text}".encode())
                await writer.drain()
        writer.close()

    host, port = parse_address(address)
    server = await asyncio.start_server(answer, host, port, limit=8192)
    try:
        yield
    finally:
        await stop_accepting(server)

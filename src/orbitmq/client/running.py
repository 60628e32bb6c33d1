"""Running consumers as a process: signals, an orderly end, an exit code, and an address for probes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Protocol

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.checking import shown
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.producer.producer import Producer
from orbitmq.net.accepting import stop_accepting
from orbitmq.net.address import parse_address

log = logging.getLogger(__name__)

DONE = 0
CUT_SHORT = 1
"""Handlers did not end in time and were cancelled: their messages come again."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Watched(Protocol):
    """A producer or consumer as a probe sees it."""

    @property
    def healthy(self) -> bool: ...


def run(*clients: Producer | PushConsumer, timeout_ms: float | None = None, health: str | None = None) -> int:
    """Starts consumers, and producers that their handlers need, and runs them until they are to stop.

        sys.exit(orbitmq.run(consumer, producer))

    SIGTERM and Ctrl-C, or the `close` of a consumer, end it: nothing more is taken, handlers end within
    `timeout_ms` (`close_timeout_ms` of each consumer), offsets are committed, the groups are left, producers
    send what they hold. A second signal cancels handlers at once. `health` is `host:port` for HTTP probes.

    Gives the exit code: 0 where every handler ended, 1 where some were cancelled; their messages come again.
    Raises what `start` raises. Has to be called in the main thread, outside of an event loop: within one,
    `await serve(...)`.
    """
    return asyncio.run(serve(*clients, timeout_ms=timeout_ms, health=health))


async def serve(
    *clients: Producer | PushConsumer, timeout_ms: float | None = None, health: str | None = None
) -> int:
    """`run`, for programs with an event loop of their own."""
    check_clients(clients, (Producer, PushConsumer))
    producers = [client for client in clients if isinstance(client, Producer)]
    consumers = [client for client in clients if isinstance(client, PushConsumer)]
    asked, urged = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        (urged if asked.is_set() else asked).set()

    with signals(lambda: loop.call_soon_threadsafe(stop)):
        async with contextlib.AsyncExitStack() as opened:
            if health is not None:
                await opened.enter_async_context(health_served(clients, health))
            for producer in producers:
                await opened.enter_async_context(producer)
            for consumer in consumers:
                await opened.enter_async_context(consumer)
            ends: list[asyncio.Task[Any]] = [asyncio.create_task(asked.wait())]
            ends += [asyncio.create_task(consumer.wait_closed()) for consumer in consumers]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            asked.set()
            draining = [asyncio.create_task(consumer.drain(timeout_ms)) for consumer in consumers]
            urging = asyncio.create_task(urged.wait())
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


@contextlib.asynccontextmanager
async def health_served(clients: Sequence[Watched], address: str) -> AsyncIterator[None]:
    """Answers HTTP probes: 200 while every client is healthy, 503 with the names of those that are not."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
                ill = [repr(client).partition("(")[0] for client in clients if not client.healthy]
                text = "".join(f"{name} is not healthy\n" for name in ill) or "ok\n"
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

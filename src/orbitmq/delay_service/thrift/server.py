"""The thrift port as a server that starts and stops: framed transport, one call of a connection at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from orbitmq.delay_service.errors import ExtraMissing
from orbitmq.delay_service.thrift.bounds import MalformedCall
from orbitmq.net.address import format_address
from orbitmq.server.errors import CannotListen
from orbitmq.server.turn.listener import hosts_of, reason_of

if TYPE_CHECKING:
    from orbitmq.delay_service.rules.ddmq_requests import ThriftCounts
    from orbitmq.delay_service.service import Service

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 1024
MOST_PER_PEER = 256
MAX_FRAME = 5 << 20
LARGE_FRAME = 64 << 10
LARGE_AT_ONCE = 16
LARGE_PER_PEER = 4
"""Frames beyond LARGE_FRAME that are read or carried out at a time, and of one address; others wait."""
IDLE_SECONDS = 600.0
FRAME_SECONDS = 30.0
"""Time from the first byte of a frame to its last one, and for an answer to be taken."""


class ThriftServer:
    """Listens from `start` to `stop`."""

    def __init__(self, delay: Service) -> None:
        try:
            from orbitmq.delay_service.thrift.calls import Calls
        except ModuleNotFoundError as error:
            raise ExtraMissing((error.name or "").partition(".")[0], "thrift") from None
        address = delay.settings.thrift_address
        assert address is not None
        self._host, self._port = address
        self._calls = Calls(delay)
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], bool] = {}
        """True while a call is carried out."""
        self._peers: Counter[str] = Counter()
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._large_of: dict[str, asyncio.Semaphore] = {}

    @property
    def address(self) -> str:
        """`host:port`."""
        return format_address(self._host, self._port)

    @property
    def counts(self) -> ThriftCounts:
        return self._calls.counts

    async def start(self) -> None:
        """Returns when it listens. Raises CannotListen."""
        try:
            self._server = await asyncio.start_server(
                self._accepted, hosts_of(self._host), self._port, limit=LARGE_FRAME, reuse_address=True
            )
        except OSError as error:
            raise CannotListen(self.address, reason_of(error)) from None
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Ends all connections; calls that are carried out are answered before."""
        if self._server is None:
            return
        self._calls.stopping = True
        self._server.close()
        for task, is_busy in list(self._tasks.items()):
            if not is_busy:
                task.cancel()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=FRAME_SECONDS)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = str((writer.get_extra_info("peername") or ("",))[0])
        counts = self.counts
        if len(self._tasks) >= MOST_CONNECTIONS or self._peers[peer] >= MOST_PER_PEER or self._calls.stopping:
            counts.refused["too many"] += 1
            writer.transport.abort()
            return
        self._tasks[task] = False
        self._peers[peer] += 1
        counts.connections += 1
        self._large_of.setdefault(peer, asyncio.Semaphore(LARGE_PER_PEER))
        try:
            await self._serve(reader, writer, peer, task)
        except asyncio.IncompleteReadError:
            pass
        except TimeoutError:
            counts.refused["too slow"] += 1
        except MalformedCall as error:
            counts.refused["malformed"] += 1
            log.warning("thrift: a connection of %s ends: %s", peer, error)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            counts.connections -= 1
            del self._tasks[task]
            self._peers[peer] -= 1
            if not self._peers[peer]:
                del self._peers[peer], self._large_of[peer]
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: str,
        task: asyncio.Task[None],
    ) -> None:
        """Answers calls until the connection ends, or does not keep to the rules."""
        # One timeout for all steps: a new one for each costs more than reading a small call.
        async with asyncio.timeout(None) as limit:
            while not self._calls.stopping:
                _allow(limit, IDLE_SECONDS)
                first = await reader.readexactly(1)
                _allow(limit, FRAME_SECONDS)
                length = int.from_bytes(first + await reader.readexactly(3), "big")
                if not 0 < length <= MAX_FRAME:
                    raise MalformedCall(f"a frame of {length} bytes: {MAX_FRAME} are the limit")
                if length <= LARGE_FRAME:
                    await self._answer(reader, writer, length, task, limit)
                else:
                    _allow(limit, None)
                    async with self._large_of[peer], self._large:
                        _allow(limit, FRAME_SECONDS)
                        await self._answer(reader, writer, length, task, limit)

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        length: int,
        task: asyncio.Task[None],
        limit: asyncio.Timeout,
    ) -> None:
        from orbitmq.delay_service.thrift.codec import read_call

        frame = await reader.readexactly(length)
        _allow(limit, None)
        self._tasks[task] = True
        writer.write(await self._calls.carry_out(read_call(frame)))
        _allow(limit, FRAME_SECONDS)
        await writer.drain()
        self._tasks[task] = False


def _allow(limit: asyncio.Timeout, seconds: float | None) -> None:
    """The next step may take so long; None: as long as it takes."""
    limit.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)

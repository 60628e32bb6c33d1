"""One connection that carries calls in both directions.

Either side may send requests; answers find their call by `opaque`. Bytes written within one turn of the event
loop leave in one write. A peer that does not take its answers is not read from until it does, so what it can
make us hold is bounded.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from orbitmq.handling.call import Peer
from orbitmq.net.address import format_address
from orbitmq.net.errors import CallTimeout, ConnectionLost
from orbitmq.net.replies import read_reply
from orbitmq.net.strangers import UNANSWERED, other_protocol
from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.remoting.command import FLAG_ONEWAY, Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, FrameSplitter, needed_bytes
from orbitmq.protocol.remoting.header_cy import encode_head

if TYPE_CHECKING:
    from orbitmq.net.unfinished import Unfinished
    from orbitmq.protocol.remoting.signing import Credentials
    from orbitmq.protocol.schema.declare import Reply, Request

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT", bound="Reply")
Buffer = bytes | bytearray | memoryview

_Asked: TypeAlias = "tuple[asyncio.Future[Command], float, str, float]"
"""A call that waits for its answer: until which loop time, for what, and for how long (ms)."""

HIGH_WATER_BYTES = 1 << 20
"""Unsent bytes beyond which a peer is not read from."""
JOIN_BYTES = 64 << 10
"""Pieces are joined into buffers of up to this size; a larger one goes out as it is, without a copy."""
REQUESTS_PER_STEP = 64
"""Requests handed over at once; between steps a peer that is too slow is noticed."""
TURN_SECONDS = 0.005
"""A step begins no later than this after its turn did: then others have theirs."""

_connection_ids = itertools.count(1)


def _joined(pieces: list[Buffer]) -> Iterator[Buffer]:
    """The same bytes in few buffers: small pieces are joined, large ones stay as they are."""
    run: list[Buffer] = []
    size = 0
    for piece in pieces:
        if run and size + len(piece) > JOIN_BYTES:
            yield run[0] if len(run) == 1 else b"".join(run)
            run.clear()
            size = 0
        run.append(piece)
        size += len(piece)
    yield run[0] if len(run) == 1 else b"".join(run)


def _plain_host(host: str) -> str:
    """An address without its zone; one of IPv4 as such, also where IPv6 carries it."""
    host = host.partition("%")[0]
    return host[7:] if host.startswith("::ffff:") and "." in host else host


class Flushes:
    """Connections that got something to send while it was not their turn: they are flushed together.

    That is at the end of the turn of another one, or else in the next round of the event loop.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Connection] = []
        self.may_answer: Callable[[], bool] | None = None
        """Asked before anything leaves, where it is set: connections are cut in place of an answer where it
        says no."""
        self.turns = 0
        """Number of turns under way; more than one if a turn leads to another."""
        self._soon = False

    def add(self, connection: Connection) -> None:
        self._waiting.append(connection)
        if not self.turns and not self._soon:
            self._soon = True
            self._loop.call_soon(self._flush_now)

    def end_turn(self) -> None:
        """Someone's turn is over."""
        self.turns -= 1
        if self._waiting and not self.turns:
            self.flush()

    def _flush_now(self) -> None:
        self._soon = False
        self.flush()

    def flush(self) -> None:
        """Has what is queued leave now; see `may_answer`."""
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.flush_queued()


class Connection(asyncio.Protocol):
    """A connected peer.

    `on_requests(connection, commands)` gets the requests of one read, in order, never an empty list.
    `on_frames(connection, data)` is asked first, where there is one: it may handle whole frames at the start
    of what a read brought, and says how many bytes that were; of what is left it is asked again, until it
    takes nothing. With `admit(connection, data)` it is offered no more than that many bytes of a read.
    `on_closed(connection)` is called once.
    """

    def __init__(
        self,
        on_requests: Callable[[Connection, list[Command]], None],
        on_closed: Callable[[Connection], None] | None = None,
        *,
        on_frames: Callable[[Connection, bytes], int] | None = None,
        admit: Callable[[Connection, bytes], int] | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_body: Callable[[int], int] | None = None,
        unfinished: Unfinished | None = None,
        flushes: Flushes | None = None,
    ) -> None:
        self.id = next(_connection_ids)
        self.peer = Peer(self.id, b"", "")
        self.local_host = ""
        self.local_port = 0
        self.is_closed = False
        self.credentials: Credentials | None = None
        """Credentials that sign requests sent over this connection."""
        self.last_active = 0.0
        """Loop time of the last byte read or written, in seconds."""
        self.last_heard = 0.0
        """Loop time of the last byte read, in seconds."""
        self._arrived = 0.0
        """Loop time of the read whose requests are handled."""
        self._on_requests = on_requests
        self._on_frames = on_frames
        self._admit = admit
        self._take = None if on_frames is None else self._offer_frames
        self._on_closed = on_closed
        self._splitter = FrameSplitter(max_frame_bytes, max_body)
        self._unfinished = unfinished
        self._is_unfinished = False
        self._goes_on = False
        self._transport: asyncio.Transport | None = None
        self._loop = loop = asyncio.get_running_loop()
        # uvloop's time is that of its last look at the sockets: what is read behind others has waited.
        self._clock = loop.time if isinstance(loop, asyncio.BaseEventLoop) else time.monotonic
        self._pending: dict[int, _Asked] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        """Loop time at which calls are looked through for those whose time is over."""
        self._opaque = 0
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._flushes = flushes or Flushes()
        self._flush_soon = False
        self._in_turn = False
        self._writable = True
        self._inbox: deque[Command] = deque()
        self._close_reason = "closed by peer"
        self._drained: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()

    @property
    def address(self) -> str:
        """The peer's, `host:port`."""
        return self.peer.address

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes over the new transport."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)  # type: ignore[attr-defined]
        remote = transport.get_extra_info("peername") or ("0.0.0.0", 0)
        local = transport.get_extra_info("sockname") or ("0.0.0.0", 0)
        host = _plain_host(remote[0])
        self.local_host = _plain_host(local[0])
        self.peer = Peer(self.id, pack_host(host, remote[1]), format_address(host, remote[1]))
        self.local_port = local[1]
        self.last_active = self._loop.time()

    def data_received(self, data: bytes) -> None:
        """Cuts what came into commands; answers end their calls, requests go to `on_requests`."""
        if not self.last_heard and (other := other_protocol(data)):
            self.cut(other)
            return
        self.last_active = self.last_heard = now = self._loop.time()
        inbox = self._inbox
        if not inbox:
            self._arrived = now
        splitter = self._splitter
        # Bytes that wait in the inbox came first.
        take = self._take if not inbox and self._writable else None
        try:
            commands = splitter.feed(data, take)
        except MalformedFrame as error:
            self.cut(f"malformed frame: {error}")
            return
        if self._is_unfinished or (splitter.pending_bytes and not commands):
            self._note_unfinished()
        if len(commands) == 1 and not inbox and not commands[0].flag & 1 and self._writable:
            self._handle_inbox(commands)  # most reads are like this: nothing has to wait in the inbox
            return
        for command in commands:
            if command.flag & 1:
                asked = self._pending.pop(command.opaque, None)
                if asked is not None and not asked[0].done():
                    asked[0].set_result(command)
            else:
                inbox.append(command)
        if inbox:
            self._handle_inbox()
        elif self._out and take is not None:
            self.flush()

    def _offer_frames(self, data: bytes) -> int:
        """Offers what was read to `on_frames` for as long as it takes some of it.

        Its answers leave in one write with those to the rest. A peer that is too slow for them is noticed in
        between, and others have their turn.
        """
        assert self._on_frames is not None
        if self._admit is not None:
            data = data[: self._admit(self, data)]
            if not data:
                return 0
        self._in_turn = True
        self._flushes.turns += 1
        end, late = 0, 0.0
        try:
            while taken := self._on_frames(self, data[end:] if end else data):
                end += taken
                if end == len(data) or len(data) - end < needed_bytes(data, end):
                    break
                if self._out_bytes >= JOIN_BYTES:
                    self.flush()
                late = late or time.monotonic() + TURN_SECONDS
                if self.is_closed or not self._writable or time.monotonic() > late:
                    break
        finally:
            self._in_turn = False
            self._flushes.end_turn()
        return end

    def _note_unfinished(self) -> None:
        """Tells of a frame of which not all is there."""
        if self._unfinished is not None:
            self._is_unfinished = self._unfinished.note(self, self._splitter.pending_bytes)

    def _handle_inbox(self, first: list[Command] | None = None) -> None:
        self._in_turn = True
        self._flushes.turns += 1
        inbox = self._inbox
        try:
            if first is not None:
                self._on_requests(self, first)
            late = time.monotonic() + TURN_SECONDS if len(inbox) > REQUESTS_PER_STEP else None
            while inbox and self._writable and not self.is_closed:
                step = [inbox.popleft() for _ in range(min(len(inbox), REQUESTS_PER_STEP))]
                self._on_requests(self, step)
                if self._out_bytes >= JOIN_BYTES:
                    self.flush()
                if late is not None and time.monotonic() > late:
                    break
        finally:
            self._in_turn = False
            self._flushes.end_turn()
        if self._out:
            self.flush()
        if inbox and not self.is_closed and self._transport is not None:
            self._transport.pause_reading()
            if self._writable and not self._goes_on:
                self._goes_on = True
                self._loop.call_soon(self._handle_rest)

    def _handle_rest(self) -> None:
        """Handles the requests that a turn has left in the inbox."""
        self._goes_on = False
        if self._writable:
            self.resume_writing()

    def pause_writing(self) -> None:
        """The peer is slower than we are: nothing more is read from it for now."""
        self._writable = False
        if self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._writable = True
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._inbox:
            self._handle_inbox()
        if self._writable and not self._inbox and self._transport is not None and not self.is_closed:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """A half-closed peer is gone: no RocketMQ peer half-closes."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Fails the calls under way and notifies the owner."""
        if error is not None and self._close_reason == "closed by peer":
            self._close_reason = str(error) or type(error).__name__
        elif self._pending and not self.last_heard and self._close_reason == "closed by peer":
            transport = self._transport
            if transport is not None and transport.get_extra_info("sslcontext") is None:
                self._close_reason = UNANSWERED
        self.is_closed = True
        self._out.clear()
        self._out_bytes = 0
        self._inbox.clear()
        # Memory that it held must not wait for a collection of garbage, which is seldom: a cycle may hold it.
        self._splitter.clear()
        self._take = None
        if self._is_unfinished and self._unfinished is not None:
            self._unfinished.note(self, 0)
        pending, self._pending = self._pending, {}
        self._set_timer(math.inf)
        for future, *_ in pending.values():
            if not future.done():
                future.set_exception(ConnectionLost(self.peer.address, self._close_reason))
                future.exception()  # a caller that is gone already must not cause a warning
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if not self._ended.done():
            self._ended.set_result(None)
        if self._on_closed is not None:
            self._on_closed(self)

    def change_transport(self, transport: asyncio.Transport) -> None:
        """Continues over another transport for the same peer: the encrypted one."""
        self._transport = transport

    # Writing.

    def send(self, command: Command) -> None:
        """Queues one frame. A large body is not copied: it must not change until it has left."""
        if not self.is_closed:
            self._queue(command)
            self._flush_later()

    def _queue(self, command: Command) -> None:
        body = command.body
        length = 0 if body is None else len(body)
        head = encode_head(command, length)
        self._out.append(head)
        if body is not None:
            self._out.append(body)
        self._out_bytes += len(head) + length

    def send_frame(self, frame: bytes) -> None:
        """Queues a frame that is encoded already."""
        if not self.is_closed:
            self._out.append(frame)
            self._out_bytes += len(frame)
            if not self._in_turn:
                self._flush_later()

    def _flush_later(self) -> None:
        if not self._in_turn and not self._flush_soon:
            self._flush_soon = True
            self._flushes.add(self)

    def flush_queued(self) -> None:
        """Sends what was queued while it was not this connection's turn."""
        self._flush_soon = False
        if self._out:
            self.flush()

    def flush(self) -> None:
        """Hands everything queued to the transport in as few writes as make sense."""
        out, self._out = self._out, []
        size, self._out_bytes = self._out_bytes, 0
        transport = self._transport
        if transport is None or self.is_closed or not out:
            return
        may_answer = self._flushes.may_answer
        if may_answer is not None and not may_answer():
            self.cut("this broker may not answer: it cannot prove that it is master")
            return
        self.last_active = self._loop.time()
        # Not writelines: in Python 3.12 and 3.13 it does not notice when a peer is too slow.
        if size <= JOIN_BYTES:
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        else:
            for buffer in _joined(out):
                transport.write(buffer)

    @property
    def age_ms(self) -> float:
        """Time in ms since the requests that are handled now were read."""
        return (self._clock() - self._arrived) * 1000

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait for the peer to take them."""
        waiting = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._out_bytes + waiting

    @property
    def is_writable(self) -> bool:
        """True while the peer keeps up with what it is sent."""
        return self._writable

    async def drain(self) -> None:
        """Waits until the peer has taken most of what it was sent."""
        while not self._writable and not self.is_closed:
            if self._drained is None or self._drained.done():
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    # Calls of our own.

    def submit(self, request: Request[Any], timeout_ms: float) -> asyncio.Future[Command]:
        """Sends a request; the future gives the raw answer.

        It fails with CallTimeout or ConnectionLost.
        """
        command = request.to_command()
        if self.credentials is not None:
            self.credentials.sign(command)
        return self.submit_command(command, type(request).__name__, timeout_ms)

    def submit_command(self, command: Command, name: str, timeout_ms: float) -> asyncio.Future[Command]:
        """Sends a request as it is, under an `opaque` of this connection; `name` is for errors."""
        if self.is_closed:
            raise ConnectionLost(self.peer.address, self._close_reason)
        opaque = self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        command.opaque = opaque
        future: asyncio.Future[Command] = self._loop.create_future()
        deadline = self._loop.time() + timeout_ms / 1000
        self._pending[opaque] = (future, deadline, name, timeout_ms)
        if deadline < self._timer_at:
            self._set_timer(deadline)
        self._queue(command)
        if len(self._pending) == 1 and not self._flush_soon and not self._in_turn:
            self.flush()  # nothing else is under way that could leave with it
        else:
            self._flush_later()
        return future

    def _set_timer(self, at: float) -> None:
        """One timer for all calls, set to the first that may have to be given up: most end long before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at < math.inf:
            self._timer = self._loop.call_at(at, self._time_out)

    def _time_out(self) -> None:
        """Gives up the calls whose time is over."""
        now = max(self._loop.time(), self._timer_at)
        for opaque in [opaque for opaque, asked in self._pending.items() if asked[1] <= now]:
            future, _, name, timeout_ms = self._pending.pop(opaque)
            if not future.done():
                future.set_exception(CallTimeout(self.peer.address, name, timeout_ms))
        self._set_timer(min((asked[1] for asked in self._pending.values()), default=math.inf))

    async def call(self, request: Request[ReplyT], timeout_ms: float = 3000) -> ReplyT:
        """Sends a request and gives its typed reply.

        Raises BrokerRefused (with the protocol's code) for an answer that is an error, CallTimeout,
        ConnectionLost, and MalformedReply for an answer that cannot be read.
        """
        if not self._writable:
            await self.drain()
        return read_reply(request, await self.submit(request, timeout_ms), self.peer.address)

    def send_oneway(self, request: Request[Any]) -> None:
        command = request.to_command()
        if self.credentials is not None:
            self.credentials.sign(command)
        command.opaque = self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        command.flag |= FLAG_ONEWAY
        self.send(command)

    # The end.

    def close(self, reason: str = "closed here") -> None:
        """Ends the connection once what is queued has left."""
        if not self.is_closed and self._transport is not None:
            self._close_reason = reason
            self.flush()
            self.is_closed = True
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            if not self.is_closed:
                self._close_reason = reason
            self.is_closed = True
            self._transport.abort()

    def cut(self, reason: str) -> None:
        """Ends the connection at once, and says so in the log."""
        log.warning("closing %s: %s", self.peer.address, reason)
        self.abort(reason)

    async def wait_closed(self) -> None:
        """Returns when the connection is gone."""
        await asyncio.shield(self._ended)

"""Calls over real sockets: both ways, in time, and with peers that misbehave."""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from orbitmq.net.connection import (
    HIGH_WATER_BYTES,
    JOIN_BYTES,
    REQUESTS_PER_STEP,
    TURN_SECONDS,
    Connection,
    Flushes,
)
from orbitmq.net.errors import CallTimeout, Closed, ConnectFailed, ConnectionLost
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.unfinished import Unfinished
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.command import FLAG_RESPONSE, Command
from orbitmq.protocol.remoting.frame import FrameSplitter, encode_command
from orbitmq.protocol.requests.offset import GetMaxOffset, QueryConsumerOffset
from orbitmq.server.turn.listener import Listener, free_ports


class Peer:
    """A server whose answers each test writes itself."""

    def __init__(self) -> None:
        self.requests: list[tuple[Connection, Command]] = []
        self.answer = lambda connection, command: connection.send(
            Command(0, command.opaque, FLAG_RESPONSE, {"offset": "7"})
        )
        self.closed: asyncio.Queue[Connection] = asyncio.Queue()
        self.listener = Listener(self.on_requests, self.closed.put_nowait)
        self.address = ""

    def on_requests(self, connection: Connection, commands: list[Command]) -> None:
        for command in commands:
            self.requests.append((connection, command))
            self.answer(connection, command)

    async def start(self, port: int | None = None) -> None:
        port = port or free_ports()
        await self.listener.listen("127.0.0.1", port)
        self.address = f"127.0.0.1:{port}"


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    await peer.start()
    yield peer
    await peer.listener.close()


@pytest.fixture
async def pool() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool()
    yield pool
    await pool.close()


REQUEST = GetMaxOffset(topic="T", queue_id=0)


async def test_a_call_gets_its_typed_reply(peer: Peer, pool: ConnectionPool) -> None:
    assert (await pool.call(peer.address, REQUEST)).offset == 7


class Transport:
    """Notes what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_paused = self.is_aborted = False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.is_aborted = True


async def drain(answered: Callable[[], bool]) -> int:
    """Number of turns of the loop until all is answered."""
    turns = 0
    while not answered():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_the_many_small_answers_of_one_read_leave_in_few_writes() -> None:
    answered = 0

    def answer(connection: Connection, commands: list[Command]) -> None:
        nonlocal answered
        answered += len(commands)
        for command in commands:
            body = bytes(100_000) if command.opaque == 700 else bytes(300)
            connection.send(Command(0, command.opaque, FLAG_RESPONSE, body=body))

    transport = Transport()
    connection = Connection(answer)
    connection.connection_made(transport)  # type: ignore[arg-type]
    connection.data_received(b"".join(encode_command(Command(1, opaque)) for opaque in range(1000)))
    turns = await drain(lambda: answered == 1000)
    assert len(transport.written) < 25 + turns
    split = FrameSplitter()
    answers = [one for piece in transport.written for one in split.feed(piece)]
    assert [(one.opaque, len(one.body or b"")) for one in answers] == [
        (opaque, 100_000 if opaque == 700 else 300) for opaque in range(1000)
    ]


async def test_what_a_turn_says_to_others_leaves_with_the_turn_and_once_for_each() -> None:
    flushes = Flushes()
    transports = [Transport() for _ in range(3)]
    others: list[Connection] = []

    def tell_others(connection: Connection, commands: list[Command]) -> None:
        for other in others:
            other.send(Command(1, 1))
            other.send(Command(1, 2))
        assert not any(transport.written for transport in transports)

    asking = Connection(tell_others, flushes=flushes)
    others += [Connection(tell_others, flushes=flushes) for _ in range(2)]
    for connection, transport in zip([asking, *others], transports, strict=True):
        connection.connection_made(transport)  # type: ignore[arg-type]
    asking.data_received(encode_command(Command(1, 7)))
    assert [len(transport.written) for transport in transports] == [0, 1, 1]
    others[0].send(Command(1, 3))  # in nobody's turn
    assert len(transports[1].written) == 1
    await asyncio.sleep(0)
    assert len(transports[1].written) == 2


async def test_a_flood_of_requests_leaves_turns_to_others() -> None:
    """Each step takes as long as a turn may: behind each the loop goes round, and nothing more is read."""
    taken: list[int] = []

    def answer(connection: Connection, commands: list[Command]) -> None:
        taken.extend(command.opaque for command in commands)
        time.sleep(TURN_SECONDS * 1.2)

    transport = Transport()
    connection = Connection(answer)
    connection.connection_made(transport)  # type: ignore[arg-type]
    connection.data_received(b"".join(encode_command(Command(1, opaque)) for opaque in range(640)))
    assert len(taken) == REQUESTS_PER_STEP
    assert transport.is_paused
    assert await drain(lambda: len(taken) == 640) == 9
    assert taken == list(range(640)), "in the order in which they came"
    assert not transport.is_paused


async def test_requests_that_wait_for_their_turn_grow_older() -> None:
    ages: list[float] = []

    def answer(connection: Connection, commands: list[Command]) -> None:
        ages.append(connection.age_ms)
        time.sleep(TURN_SECONDS * 1.2)

    connection = Connection(answer)
    connection.connection_made(Transport())  # type: ignore[arg-type]
    flood = b"".join(encode_command(Command(1, opaque)) for opaque in range(3 * REQUESTS_PER_STEP))
    connection.data_received(flood)
    await drain(lambda: len(ages) == 3)
    assert ages[1] >= TURN_SECONDS * 1000
    assert ages[2] >= ages[1] + TURN_SECONDS * 1000
    connection.data_received(encode_command(Command(1, 0)))
    assert ages[3] < ages[2]


async def test_a_connection_that_is_gone_takes_its_inbox_with_it() -> None:
    taken: list[Command] = []

    def answer(connection: Connection, commands: list[Command]) -> None:
        taken.extend(commands)
        time.sleep(TURN_SECONDS * 1.2)

    connection = Connection(answer)
    connection.connection_made(Transport())  # type: ignore[arg-type]
    connection.data_received(b"".join(encode_command(Command(1, opaque)) for opaque in range(640)))
    connection.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(taken) == REQUESTS_PER_STEP


async def test_what_a_lost_connection_held_is_free_at_once() -> None:
    """Not with the next collection of garbage, which is seldom: what floods left would add up."""
    gone: asyncio.Future[weakref.ref[Connection]] = asyncio.get_running_loop().create_future()
    listener = Listener(
        lambda connection, commands: None,
        lambda connection: gone.set_result(weakref.ref(connection)),
        on_frames=lambda connection, data: 0,
    )
    await listener.listen("127.0.0.1", 0)
    gc.disable()
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.ports[0])
        writer.write((1 << 20).to_bytes(4, "big") + bytes(500_000))
        await writer.drain()
        writer.close()
        lost = await gone
        for _ in range(10):  # the event loop's own end of it
            await asyncio.sleep(0)
        assert lost() is None
    finally:
        gc.enable()
    await listener.close()


async def test_unfinished_frames_of_all_peers_are_bounded_and_the_silent_ones_go() -> None:
    unfinished = Unfinished(1 << 20)
    whole = encode_command(Command(1, 1, body=bytes(400_000)))
    begun: list[tuple[Connection, Transport]] = []
    for number in range(5):
        connection = Connection(lambda connection, commands: None, unfinished=unfinished)
        transport = Transport()
        connection.connection_made(transport)  # type: ignore[arg-type]
        connection.data_received(whole[:300_000])
        connection.last_heard = float(number)  # the clock of an event loop may not have moved
        begun.append((connection, transport))
    assert [transport.is_aborted for _, transport in begun] == [True, True, False, False, False]
    assert unfinished.held_bytes == 900_000
    begun[2][0].data_received(whole[300_000:])
    begun[3][0].connection_lost(None)
    assert unfinished.held_bytes == 300_000, "who has ended it, or is gone, holds nothing"
    assert not begun[2][0].is_closed


async def test_answers_may_come_in_any_order(peer: Peer, pool: ConnectionPool) -> None:
    held: list[tuple[Connection, Command]] = []

    def answer(connection: Connection, command: Command) -> None:
        held.append((connection, command))
        if len(held) == 3:
            for connection, command in reversed(held):
                offset = command.ext["queueId"]
                connection.send(Command(0, command.opaque, FLAG_RESPONSE, {"offset": offset}))

    peer.answer = answer
    calls = [pool.call(peer.address, GetMaxOffset(topic="T", queue_id=n)) for n in range(3)]
    assert [reply.offset for reply in await asyncio.gather(*calls)] == [0, 1, 2]


async def test_an_error_answer_is_an_exception_with_its_code(peer: Peer, pool: ConnectionPool) -> None:
    peer.answer = lambda connection, command: connection.send(
        Command(ResponseCode.QUERY_NOT_FOUND, command.opaque, FLAG_RESPONSE, None, None, "nothing here")
    )
    with pytest.raises(BrokerRefused, match="nothing here") as caught:
        await pool.call(peer.address, QueryConsumerOffset(consumer_group="G", topic="T", queue_id=0))
    assert caught.value.code == ResponseCode.QUERY_NOT_FOUND


async def test_silence_is_a_timeout_and_a_late_answer_does_no_harm(peer: Peer, pool: ConnectionPool) -> None:
    held: asyncio.Queue[tuple[Connection, Command]] = asyncio.Queue()
    peer.answer = lambda connection, command: held.put_nowait((connection, command))
    await pool.connection(peer.address)  # connecting counts, too
    with pytest.raises(CallTimeout, match="GetMaxOffset"):
        await pool.call(peer.address, REQUEST, timeout_ms=50)
    connection, command = await held.get()
    connection.send(Command(0, command.opaque, FLAG_RESPONSE, {"offset": "1"}))
    peer.answer = lambda connection, command: connection.send(
        Command(0, command.opaque, FLAG_RESPONSE, {"offset": "2"})
    )
    assert (await pool.call(peer.address, REQUEST)).offset == 2


async def test_each_call_has_its_own_time(peer: Peer, pool: ConnectionPool) -> None:
    held: list[tuple[Connection, Command]] = []
    peer.answer = lambda connection, command: held.append((connection, command))
    loop = asyncio.get_running_loop()

    async def call(timeout_ms: float) -> None:
        began = loop.time()
        with pytest.raises(CallTimeout, match=str(timeout_ms)):
            await pool.call(peer.address, REQUEST, timeout_ms=timeout_ms)
        assert loop.time() - began >= timeout_ms / 1000

    patient = asyncio.ensure_future(pool.call(peer.address, REQUEST, timeout_ms=600_000))
    given_up = asyncio.ensure_future(pool.call(peer.address, REQUEST, timeout_ms=30))
    await asyncio.sleep(0)
    given_up.cancel()
    await pool.connection(peer.address)
    await asyncio.gather(call(800), call(50), call(400))
    assert not patient.done()
    for connection, command in held:
        connection.send(Command(0, command.opaque, FLAG_RESPONSE, {"offset": "9"}))
    assert (await patient).offset == 9


async def test_a_connection_on_which_nothing_comes_is_given_up(
    peer: Peer, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.net.pool.SILENT_SECONDS", 0.0)
    peer.answer = lambda connection, command: None
    await pool.connection(peer.address)
    with pytest.raises(CallTimeout):
        await pool.call(peer.address, REQUEST, timeout_ms=60)
    await peer.closed.get()
    assert len({connection.id for connection, _ in peer.requests}) == 1


async def test_closing_the_pool_ends_the_wait_for_a_connection(
    pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()

    async def never(*_: object, **__: object) -> None:
        await loop.create_future()

    monkeypatch.setattr(loop, "create_connection", never)
    call = asyncio.create_task(pool.call("127.0.0.1:9", REQUEST))
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(Closed):
        await call


async def test_calls_fail_when_the_connection_ends(peer: Peer, pool: ConnectionPool) -> None:
    peer.answer = lambda connection, command: connection.abort("test")
    with pytest.raises(ConnectionLost):
        await pool.call(peer.address, REQUEST)


async def test_a_lost_connection_is_made_anew_by_the_next_call(peer: Peer, pool: ConnectionPool) -> None:
    first = await pool.connection(peer.address)
    first.abort("test")
    assert (await pool.call(peer.address, REQUEST)).offset == 7


async def test_nobody_there_is_said_with_the_address(pool: ConnectionPool) -> None:
    address = f"127.0.0.1:{free_ports()}"
    with pytest.raises(ConnectFailed, match=address):
        await pool.call(address, REQUEST)


async def test_a_closed_pool_never_reconnects(peer: Peer, pool: ConnectionPool) -> None:
    await pool.call(peer.address, REQUEST)
    await pool.close()
    with pytest.raises(Closed):
        await pool.call(peer.address, REQUEST)
    assert len(peer.requests) == 1


async def test_a_peer_that_goes_away_is_asked_again_on_a_new_connection(
    peer: Peer, pool: ConnectionPool
) -> None:
    def answer(connection: Connection, command: Command) -> None:
        code = ResponseCode.GO_AWAY if len(peer.requests) == 1 else 0
        connection.send(Command(code, command.opaque, FLAG_RESPONSE, {"offset": "3"}))

    peer.answer = answer
    assert (await pool.call(peer.address, REQUEST)).offset == 3
    assert peer.requests[0][0] is not peer.requests[1][0]


async def test_frames_cut_anywhere_are_put_together(peer: Peer) -> None:
    reader, writer = await asyncio.open_connection(*peer.address.split(":"))
    frame = encode_command(REQUEST.to_command(opaque=5))
    for i in range(len(frame)):
        writer.write(frame[i : i + 1])
        await writer.drain()
        await asyncio.sleep(0)
    length = int.from_bytes(await reader.readexactly(4), "big")
    assert b'"opaque":5' in await reader.readexactly(length)
    writer.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 64,
        b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
        b"\x00\x00\x00\x00" * 4,
    ],
)
async def test_garbage_ends_that_connection_and_no_other(
    peer: Peer, pool: ConnectionPool, garbage: bytes
) -> None:
    await pool.call(peer.address, REQUEST)
    reader, writer = await asyncio.open_connection(*peer.address.split(":"))
    writer.write(garbage)
    assert await reader.read() == b""
    writer.close()
    assert (await pool.call(peer.address, REQUEST)).offset == 7
    assert len(peer.listener.connections) == 1


ASKED = 4000
LARGE = bytes(256 << 10)


async def asks_and_does_not_read(peer: Peer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has asked for a gigabyte, once the server takes no more of its requests."""
    peer.answer = lambda connection, command: connection.send(
        Command(0, command.opaque, FLAG_RESPONSE, {}, LARGE)
    )
    reader, writer = await asyncio.open_connection(*peer.address.split(":"), limit=1 << 16)
    writer.transport.pause_reading()
    writer.write(encode_command(REQUEST.to_command()) * ASKED)
    while not peer.requests or peer.requests[0][0].is_writable:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.01)
    assert len(peer.requests) < ASKED
    return reader, writer


async def test_a_peer_that_does_not_read_is_not_read_from(peer: Peer) -> None:
    reader, writer = await asks_and_does_not_read(peer)
    connection = peer.requests[0][0]
    assert connection.unsent_bytes < HIGH_WATER_BYTES + 64 * len(LARGE) + (1 << 20)
    writer.transport.resume_reading()
    for _ in range(ASKED):
        length = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(length)
    assert len(peer.requests) == ASKED
    writer.close()


async def test_a_peer_that_never_reads_is_cut_when_it_is_idle(peer: Peer) -> None:
    """The end does not wait for bytes that wait for the peer."""
    _, writer = await asks_and_does_not_read(peer)
    connection = peer.requests[0][0]
    peer.listener.close_idle(60)
    assert not connection.is_closed
    peer.listener.close_idle(0)
    assert connection.is_closed
    assert peer.listener.connections, "it may take what waits for it"
    peer.listener.close_idle(0)
    async with asyncio.timeout(120):
        await connection.wait_closed()
    assert not peer.listener.connections
    writer.close()


async def test_both_sides_may_ask(peer: Peer) -> None:
    asked: asyncio.Queue[Command] = asyncio.Queue()

    def serve(connection: Connection, commands: list[Command]) -> None:
        for command in commands:
            asked.put_nowait(command)
            connection.send(Command(0, command.opaque, FLAG_RESPONSE, {"offset": "9"}))

    pool = ConnectionPool(serve)
    await pool.call(peer.address, REQUEST)
    server_side = peer.requests[0][0]
    assert (await server_side.call(REQUEST)).offset == 9
    assert (await asked.get()).ext == {"topic": "T", "queueId": "0", "committed": "true"}
    await pool.close()
    assert await peer.closed.get() is server_side


async def test_frames_may_be_handled_before_requests_and_are_answered_with_them(pool: ConnectionPool) -> None:
    answer = encode_command(Command(0, 41, FLAG_RESPONSE))
    begun = encode_command(Command(7, 41))
    seen: list[str] = []

    def on_frames(connection: Connection, data: bytes) -> int:
        if not data.startswith(begun):
            return 0
        seen.append("frame")
        connection.send_frame(answer)
        return len(begun)

    def on_requests(connection: Connection, commands: list[Command]) -> None:
        for command in commands:
            seen.append(f"request {command.code}")
            connection.send(Command(0, command.opaque, FLAG_RESPONSE))

    listener = Listener(on_requests, lambda connection: None, on_frames=on_frames)
    port = free_ports()
    await listener.listen("127.0.0.1", port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    splitter = FrameSplitter()

    async def answers(count: int) -> list[int]:
        found: list[Command] = []
        while len(found) < count:
            found += splitter.feed(await reader.read(1 << 16))
        return [command.opaque for command in found]

    writer.write(begun)
    assert await answers(1) == [41]
    writer.write(begun + encode_command(Command(8, 42)) + begun)
    assert await answers(3) == [41, 42, 41]
    # Behind a request nothing is taken any more: the order stays.
    assert seen == ["frame", "frame", "request 8", "request 7"]
    writer.close()
    await listener.close()


class Takes:
    """An `on_frames` that takes a frame at a time, and answers each with so many bytes."""

    def __init__(self, answer_bytes: int, admitted: int | None = None) -> None:
        self.offered: list[int] = []
        self.requests: list[int] = []
        self.transport = Transport()
        self._answer = encode_command(Command(0, 1, FLAG_RESPONSE, body=bytes(answer_bytes)))
        self.connection = Connection(
            self._on_requests,
            on_frames=self._on_frames,
            admit=None if admitted is None else lambda connection, data: admitted,
        )
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def _on_frames(self, connection: Connection, data: bytes) -> int:
        self.offered.append(len(data))
        connection.send_frame(self._answer)
        return 4 + int.from_bytes(data[:4], "big")

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        self.requests += [command.opaque for command in commands]


def frames(count: int) -> tuple[bytes, int]:
    """So many frames, and the size of each."""
    made = [encode_command(Command(7, 10 + number)) for number in range(count)]
    return b"".join(made), len(made[0])


async def test_what_is_left_of_a_read_is_offered_again() -> None:
    takes = Takes(100)
    data, size = frames(3)
    takes.connection.data_received(data)
    assert takes.offered == [3 * size, 2 * size, size]
    assert not takes.requests
    assert len(takes.transport.written) == 1


async def test_no_more_of_a_read_is_offered_than_is_admitted() -> None:
    data, size = frames(3)
    for admitted in (0, size, 2 * size, 3 * size):
        takes = Takes(100, admitted)
        takes.connection.data_received(data)
        assert takes.offered == list(range(admitted, 0, -size))
        assert takes.requests == [10, 11, 12][admitted // size :]


async def test_half_a_frame_is_offered_once_it_is_whole() -> None:
    takes = Takes(100)
    data, size = frames(2)
    takes.connection.data_received(data[: size + 10])
    assert takes.offered == [size + 10]
    takes.connection.data_received(data[size + 10 :])
    assert takes.offered == [size + 10, size]
    assert not takes.requests


async def test_a_peer_that_does_not_take_its_answers_is_answered_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    takes = Takes(JOIN_BYTES)
    connection, transport = takes.connection, takes.transport
    monkeypatch.setattr(transport, "write", lambda data: connection.pause_writing())
    data, size = frames(3)
    connection.data_received(data)
    assert takes.offered == [3 * size]
    assert not takes.requests
    connection.resume_writing()
    assert takes.requests == [11, 12]


async def test_a_read_that_takes_long_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    takes = Takes(100)
    clock = itertools.count(step=TURN_SECONDS * 0.6)
    monkeypatch.setattr("orbitmq.net.connection.time.monotonic", lambda: next(clock))
    data, _ = frames(300)
    takes.connection.data_received(data)
    assert len(takes.offered) == 2
    assert len(takes.requests) < 298
    takes.transport.written.clear()
    await drain(lambda: len(takes.requests) == 298)
    assert takes.requests == list(range(12, 310))

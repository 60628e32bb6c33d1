"""The turn of a server: what is handled as frames, and what follows it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

from orbitmq.handling.call import Bound, Call, FastPath, HandledFrames, Peer, in_turns
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.remoting.command import Command, Oversized
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.schema import fastjson
from orbitmq.protocol.schema.declare import Reply, Void
from orbitmq.server.turn.dispatcher import Dispatcher
from orbitmq.server.turn.pending_replies import PendingReplies

NOW = 7


@dataclass
class FakeConnection:
    """A peer that keeps what it is sent."""

    id: int = 1
    local_port: int = 10911
    peer: Peer = field(default_factory=lambda: Peer(1, b"", ""))
    sent: list[bytes] = field(default_factory=list)
    age_ms: float = 0.0

    def send_frame(self, frame: bytes) -> None:
        self.sent.append(frame)


@pytest.mark.parametrize("concerns_others", [True, False])
async def test_a_turn_ends_with_what_others_have_to_hear_of(concerns_others: bool) -> None:
    def take(data: bytes, peer: Peer, now: int) -> HandledFrames:
        return HandledFrames(len(data), b"answer", 1, {11: (1, 0)}, concerns_others=concerns_others)

    told: list[int] = []
    bound = Bound({}, fast_paths=[FastPath((b"{",), take, 11)])
    dispatcher = Dispatcher(bound, PendingReplies(lambda: NOW), after_turn=told.append)
    connection: Any = FakeConnection()
    data = bytes(8) + b"{}"
    assert dispatcher.on_frames(connection, data) == len(data)
    assert connection.sent == [b"answer"]
    assert told == ([NOW] if concerns_others else [])


class Answered(FakeConnection):
    """A peer that keeps its answers, and when there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: asyncio.Queue[Command] = asyncio.Queue()

    def send(self, command: Command) -> None:
        self.commands.put_nowait(command)


def reading(handled: list[Any]) -> tuple[Dispatcher, Answered]:
    """A dispatcher of heartbeats, and a peer of it."""

    def handle(call: Call[Heartbeat], now: int) -> Reply:
        handled.append((call.request, threading.get_ident()))
        return Void()

    return Dispatcher(Bound({Heartbeat.CODE: handle}), PendingReplies(lambda: NOW)), Answered()


def beat(topics: int) -> bytes:
    subscriptions = [SubscriptionData(f"Topic{number}", "*") for number in range(topics)]
    consumer = ConsumerData("G", subscription_data_set=subscriptions)
    return HeartbeatData("client", consumer_data_set=[consumer]).to_json()


@pytest.mark.parametrize(("topics", "in_thread"), [(2, False), (3000, True)])
async def test_a_large_body_is_read_in_a_thread_and_handled_on_the_loop(
    topics: int, in_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[Any] = []
    read_in: list[int] = []
    plain = fastjson.parse

    def parse(data: Any) -> Any:
        read_in.append(threading.get_ident())
        return plain(data)

    monkeypatch.setattr(fastjson, "parse", parse)
    dispatcher, connection = reading(handled)
    dispatcher.on_requests(connection, [Command(Heartbeat.CODE, 5, body=beat(topics))])  # type: ignore[arg-type]
    answer = await connection.commands.get()
    assert (answer.code, answer.opaque) == (0, 5)
    ((request, handled_in),) = handled
    assert len(request.body.consumer_data_set[0].subscription_data_set) == topics
    assert handled_in == threading.get_ident()
    assert (read_in[0] != handled_in) is in_thread


HOSTILE = {
    "too long": b" " * (Heartbeat.MAX_BODY + 1),
    "too many elements": b'{"a":[' + b"[]," * 150_000 + b"1]}",
    "too deep": b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    "deeper than a stack": b"[" * 400_000,
    "too deep in fastjson's dialect": b"{1:" + b"[" * 500 + b"]" * 500 + b"}",
    "a number of too many digits": b'{"a":' + b"9" * 100_000 + b"}",
    "a number beyond a double": b'{"clientID":"c","heartbeatFingerprint":1e999}' + b" " * 20_000,
    "not JSON": b"x" * 100_000,
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=list(HOSTILE))
async def test_hostile_bodies_are_refused_by_what_they_are(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    dispatcher, connection = reading([])
    dispatcher.on_requests(connection, [Command(Heartbeat.CODE, 5, body=body)])  # type: ignore[arg-type]
    answer = await connection.commands.get()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("the request body ")
    assert not caplog.records  # no traceback


async def test_a_body_that_was_passed_over_is_refused() -> None:
    dispatcher, connection = reading([])
    oversized = Oversized(Command(Heartbeat.CODE, 5), 14 << 20)
    dispatcher.on_requests(connection, [oversized])  # type: ignore[arg-type]
    answer = await connection.commands.get()
    assert (
        answer.remark == "the request body has 14680064 bytes, more than the 1048576 that HEART_BEAT may have"
    )


async def test_what_has_waited_for_too_long_is_refused_and_the_rest_is_not() -> None:
    def take(data: bytes, peer: Peer, now: int) -> HandledFrames:
        return HandledFrames(len(data), b"answer", 1, {10: (1, 0)})

    handled: list[int] = []

    def together(commands: list[Command], peer: Peer, now: int) -> list[None]:
        handled.extend(command.opaque for command in commands)
        return [None] * len(commands)

    dispatcher = Dispatcher(
        Bound({}, {10: together, 11: together}, [FastPath((b"{",), take, 10)]),
        PendingReplies(lambda: NOW),
        max_age_ms=lambda code: 200 if code == 10 else 5000,
    )
    connection: Any = Answered()
    frames = bytes(8) + b"{}"
    requests = [Command(10, 1), Command(11, 2), Command(10, 3, 2)]
    connection.age_ms = 200.0
    assert dispatcher.on_frames(connection, frames) == len(frames)
    dispatcher.on_requests(connection, requests)
    assert handled == [1, 2, 3]
    connection.age_ms = 201.4
    assert dispatcher.on_frames(connection, frames) == 0
    dispatcher.on_requests(connection, requests)
    assert handled == [1, 2, 3, 2]
    refused = connection.commands.get_nowait()
    assert (refused.opaque, refused.code) == (1, ResponseCode.SYSTEM_BUSY)
    assert refused.remark == (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
        "period in queue: 201ms, size of queue: 3"
    )
    assert connection.commands.empty()  # one-way requests are not answered


@pytest.mark.parametrize("topics", [2, 3000])
async def test_what_is_handled_in_later_turns_is_heard_of_as_well(topics: int) -> None:
    """A long body is read in a thread first; either request is handled in three turns."""
    done: list[int] = []
    heard: list[list[int]] = []

    def work() -> Generator[None, None, Reply]:
        for part in range(3):
            done.append(part)
            yield
        return Void()

    dispatcher = Dispatcher(
        Bound({Heartbeat.CODE: lambda call, now: in_turns(work(), now)}),
        PendingReplies(lambda: NOW),
        after_turn=lambda now: heard.append(list(done)),
    )
    connection = Answered()
    dispatcher.on_requests(connection, [Command(Heartbeat.CODE, 5, body=beat(topics))])  # type: ignore[arg-type]
    assert (await connection.commands.get()).code == 0
    await asyncio.sleep(0)
    assert [0] in heard
    assert [0, 1] in heard
    assert heard[-1] == [0, 1, 2]

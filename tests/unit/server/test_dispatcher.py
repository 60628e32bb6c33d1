"""The turn of a server: what is handled as frames, and what follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from orbitmq.protocol.call import Peer, TakeFrames, Taken
from orbitmq.server.dispatcher import Dispatcher
from orbitmq.server.waits import Waits

NOW = 7


@dataclass
class FakeConnection:
    """A peer that keeps what it is sent."""

    id: int = 1
    local_port: int = 10911
    peer: Peer = field(default_factory=lambda: Peer(1, b"", ""))
    sent: list[bytes] = field(default_factory=list)

    def send_frame(self, frame: bytes) -> None:
        self.sent.append(frame)


@pytest.mark.parametrize("concerns_others", [True, False])
async def test_a_turn_ends_with_what_others_have_to_hear_of(concerns_others: bool) -> None:
    def take(data: bytes, peer: Peer, now: int) -> Taken:
        return Taken(len(data), b"answer", 1, {11: (1, 0)}, concerns_others=concerns_others)

    told: list[int] = []
    waits = Waits(lambda: NOW, lambda answer, timeout_ms, then: None, lambda condition, then: None)
    dispatcher = Dispatcher(
        {},
        {},
        now=lambda: NOW,
        waits=waits,
        take_frames=[TakeFrames((b"{",), take, 11)],
        after_turn=told.append,
    )
    connection: Any = FakeConnection()
    data = bytes(8) + b"{}"
    assert dispatcher.on_frames(connection, data) == len(data)
    assert connection.sent == [b"answer"]
    assert told == ([NOW] if concerns_others else [])

"""`async for` over a consumer: when a message counts as done, and what could never give one."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.consumer.iterating import Messages
from orbitmq.client.core.errors import CannotIterate
from orbitmq.client.core.message import ReceivedMessage


async def handle(message: ReceivedMessage) -> None: ...


class Held:
    """Messages that wait; anything that can be told apart will do."""

    def __init__(self, *messages: Any) -> None:
        self.waiting = list(messages)
        self.done: list[Any] = []

    async def take(self) -> Any:
        return self.waiting.pop(0) if self.waiting else None

    async def ack(self, message: Any) -> None:
        self.done.append(message)


async def test_a_message_is_done_when_the_next_one_is_asked_for() -> None:
    held = Held("one", "two")
    messages = Messages(held.take, held.ack)
    assert await anext(messages) == "one"
    assert held.done == []
    assert await anext(messages) == "two"
    assert held.done == ["one"]
    with pytest.raises(StopAsyncIteration):
        await anext(messages)
    assert held.done == ["one", "two"]


async def test_the_message_in_hand_is_not_done_when_the_loop_is_left() -> None:
    held = Held("one", "two")
    async for message in Messages(held.take, held.ack):
        assert message == "one"
        break
    assert held.done == []


def test_what_could_never_give_a_message_is_refused() -> None:
    with pytest.raises(CannotIterate, match="nothing is subscribed to"):
        aiter(PushConsumer("G"))
    consumer = PushConsumer("G")
    consumer.subscribe("T", handler=handle)
    with pytest.raises(CannotIterate, match="every topic has a handler"):
        aiter(consumer)
    consumer.subscribe("U")
    aiter(consumer)
    ordered = PushConsumer("G", ordered=True)
    ordered.subscribe("T", handler=handle)
    with pytest.raises(CannotIterate, match="an ordered consumer needs handlers"):
        aiter(ordered)

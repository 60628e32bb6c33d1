"""Messages without a handler: `async for` over a consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from orbitmq.client.consumer.context import Subscription
from orbitmq.client.core.errors import CannotIterate
from orbitmq.client.core.message import ReceivedMessage


def check_iterable(subscriptions: Iterable[Subscription], *, ordered: bool) -> None:
    """Raises CannotIterate where no message of these subscriptions could ever come."""
    if ordered:
        raise CannotIterate("an ordered consumer needs handlers")
    rows = list(subscriptions)
    if not rows:
        raise CannotIterate("nothing is subscribed to: call subscribe(topic) first")
    if all(row.handler is not None for row in rows):
        raise CannotIterate("every topic has a handler: subscribe(topic) without one is for iterating")


class Messages(AsyncIterator[ReceivedMessage]):
    """One `async for`: asking for a message acknowledges the one before.

    `take()` waits for a message; None when the consumer is closed.
    """

    def __init__(
        self,
        take: Callable[[], Awaitable[ReceivedMessage | None]],
        ack: Callable[[ReceivedMessage], Awaitable[None]],
    ) -> None:
        self._take = take
        self._ack = ack
        self._current: ReceivedMessage | None = None

    async def __anext__(self) -> ReceivedMessage:
        if self._current is not None:
            done, self._current = self._current, None
            await self._ack(done)
        message = await self._take()
        if message is None:
            raise StopAsyncIteration
        self._current = message
        return message

"""Sends that begin in one turn of the event loop: those to one queue, or to any, share one request.

A message has its own place and result all the same. If a broker refuses the request, each message is sent
again by itself, under the id that it has, so that one which no broker takes fails alone.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from orbitmq.client.core.errors import CancelledFromOutside
from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.core.options import ProducerOptions
from orbitmq.client.sending.batching_cy import ENTRY_BYTES
from orbitmq.client.sending.delivery import Courier
from orbitmq.client.sending.preparing import Preparation
from orbitmq.client.sending.results import batch_results, single_result
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.records.batch_cy import encode_batch

MAX_MESSAGES = 128
MAX_BYTES = 256 << 10
"""Limits of one request; what is over begins the next one."""


class _Joined:
    """Messages of one topic that share a request."""

    __slots__ = ("entries", "futures", "ids", "messages", "queue", "room_bytes")

    def __init__(self, queue: MessageQueue | None, room_bytes: int) -> None:
        self.queue = queue
        self.room_bytes = room_bytes
        self.messages: list[Message] = []
        self.ids: list[str] = []
        self.entries: list[tuple[int, bytes, bytes]] = []
        self.futures: list[asyncio.Future[SendResult]] = []


class Joiner:
    """Sends of one producer that may share requests."""

    def __init__(
        self,
        courier: Courier,
        preparation: Preparation,
        options: ProducerOptions,
        now_ms: Callable[[], int],
    ) -> None:
        self._courier = courier
        self._preparation = preparation
        self._now_ms = now_ms
        self._max_bytes = min(MAX_BYTES, options.max_message_size_bytes)
        self._max_body = min(options.compress_msg_body_over_bytes, self._max_bytes // 4)
        self._loop = asyncio.get_running_loop()
        self._open: dict[tuple[str, MessageQueue | None, bool], _Joined] = {}
        self._full: list[_Joined] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def may_join(self, message: Message) -> bool:
        """True for a message that a batch can hold as it is, and that is too small to be compressed."""
        return (
            len(message.body) < self._max_body
            and not message.goes_alone
            and not message.topic.startswith(RETRY_PREFIX)
        )

    def send(self, message: Message, queue: MessageQueue | None) -> asyncio.Future[SendResult]:
        """Takes a message along in the request of this turn; the future gives where it went.

        Raises IllegalMessage, IllegalName. The future fails as `Courier.deliver` does. A message whose future
        is cancelled within the turn is not sent.
        """
        unique_id, properties = self._preparation.entry(message, self._now_ms())
        key = (message.topic, queue, message.wait_store_ok)
        if not self._open and not self._full:
            self._loop.call_soon(self._send_gathered)
        joined = self._open.get(key)
        size = ENTRY_BYTES + len(message.body) + len(properties)
        if joined is None or size > joined.room_bytes or len(joined.ids) >= MAX_MESSAGES:
            if joined is not None:
                self._full.append(joined)
            joined = self._open[key] = _Joined(queue, self._max_bytes)
        joined.room_bytes -= size
        joined.messages.append(message)
        joined.ids.append(unique_id)
        joined.entries.append((message.flag, message.body, properties))
        future: asyncio.Future[SendResult] = self._loop.create_future()
        joined.futures.append(future)
        return future

    async def ended(self) -> None:
        """Returns when every request has come to its end, after the client was closed."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _send_gathered(self) -> None:
        """The turn is over: what has gathered leaves."""
        leaving = [*self._full, *self._open.values()]
        self._full.clear()
        self._open.clear()
        for joined in leaving:
            task = self._loop.create_task(self._send(joined))
            self._tasks.add(task)
            task.add_done_callback(functools.partial(self._ended, joined))

    def _ended(self, joined: _Joined, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            _fail(joined, interrupted())

    async def _send(self, joined: _Joined) -> None:
        try:
            if any(future.done() for future in joined.futures):
                _drop_cancelled(joined)
            if len(joined.ids) > 1:
                first = joined.messages[0]
                request = self._preparation.batch_of(
                    first.topic, first.wait_store_ok, encode_batch(joined.entries), self._now_ms()
                )
                try:
                    chosen, reply = await self._courier.deliver(request, joined.queue)
                except BrokerRefused:
                    pass  # each by itself, below
                else:
                    results = batch_results(reply, chosen, joined.ids)
                    for future, result in zip(joined.futures, results, strict=True):
                        if not future.done():
                            # A send by itself is answered so, and the two shall look alike.
                            result.transaction_id = result.message_id
                            future.set_result(result)
                    return
            for message, unique_id, future in zip(joined.messages, joined.ids, joined.futures, strict=True):
                await self._send_alone(message, unique_id, joined.queue, future)
        except Exception as error:
            _fail(joined, error)

    async def _send_alone(
        self, message: Message, unique_id: str, queue: MessageQueue | None, future: asyncio.Future[SendResult]
    ) -> None:
        try:
            single, _ = self._preparation.single(message, self._now_ms(), unique_id=unique_id)
            chosen, reply = await self._courier.deliver(single, queue)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(single_result(reply, chosen, unique_id))


def interrupted() -> CancelledFromOutside:
    """The failure of a send whose task somebody else has cancelled."""
    return CancelledFromOutside("something outside of the client cancelled the send: it may be stored")


def _fail(joined: _Joined, error: Exception) -> None:
    for future in joined.futures:
        if not future.done():
            future.set_exception(error)


def _drop_cancelled(joined: _Joined) -> None:
    kept = [
        row
        for row in zip(joined.messages, joined.ids, joined.entries, joined.futures, strict=True)
        if not row[3].done()
    ]
    joined.messages, joined.ids, joined.entries, joined.futures = (
        [row[0] for row in kept],
        [row[1] for row in kept],
        [row[2] for row in kept],
        [row[3] for row in kept],
    )

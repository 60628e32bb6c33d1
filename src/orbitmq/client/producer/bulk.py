"""Sending a stream of messages in batches: all queues at a time, one batch under way per queue.

A queue's messages wait in its sender while the batch before them is under way, so batches grow with the load
and are small where there is none. One batch at a time is what keeps the order within a queue, and with it
that of messages with one sharding key, also when a batch has to be sent again.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias

from orbitmq.client.core.errors import SendFailed
from orbitmq.client.core.message import Message, SendResult, check_message
from orbitmq.client.sending.attempts import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Sender
from orbitmq.client.sending.preparing import Preparation
from orbitmq.client.sending.queue_choice import queue_of_key
from orbitmq.client.sending.results import batch_results
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.requests.send import SendBatchMessage, SendReply

OnSent: TypeAlias = Callable[[list[SendResult]], None]
Traced: TypeAlias = Callable[[list[Message], list[SendResult], int, SendReply], None]
SendBatch: TypeAlias = Callable[[list[Message]], Awaitable[list[SendResult]]]
Through: TypeAlias = Callable[[list[Message], SendBatch], Awaitable[list[SendResult]]]
"""The middleware around the send of a batch."""


@dataclass(eq=False, repr=False)
class BulkSend:
    """One call of `Producer.send_all`."""

    _sender: Sender
    _preparation: Preparation
    _now_ms: Callable[[], int]
    _: KW_ONLY
    batch_size: int
    batch_bytes: int
    try_timeout_ms: float
    timeout_ms: float
    on_sent: OnSent | None
    traced: Traced | None = None
    middleware: Through | None = None

    def __post_init__(self) -> None:
        self._senders: dict[MessageQueue, _QueueSender] = {}
        self._queues: dict[str, Sequence[MessageQueue]] = {}
        self._turns: dict[str, int] = {}
        self._error: Exception | None = None
        self.sent = 0

    async def run(self, messages: Iterable[Message] | AsyncIterable[Message]) -> int:
        """Sends all of them; gives their number."""
        try:
            await self._read(messages)
            await self._emptied()
        except asyncio.CancelledError:
            for sender in self._senders.values():
                sender.cancel()
            raise
        except BaseException:
            await self._emptied()
            raise
        if self._error is not None:
            raise self._error
        return self.sent

    async def _read(self, messages: Iterable[Message] | AsyncIterable[Message]) -> None:
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                check_message(message)
                if not await self._join(message):
                    return
        else:
            for message in messages:
                check_message(message)
                # Most messages only join their sender: no reason to wait for anything.
                sender = self._sender_of(message)
                joined = sender is not None and sender.join(message)
                if not joined and not await self._join(message):
                    return

    async def _emptied(self) -> None:
        """Returns when nothing is under way."""
        for sender in self._senders.values():
            await sender.emptied()

    async def _join(self, message: Message) -> bool:
        """Waits until the message has joined its sender; false once something has failed."""
        if message.topic not in self._queues:
            self._queues[message.topic] = await self._sender.queues(message.topic)
        while self._error is None:
            sender = self._sender_of(message)
            assert sender is not None
            if sender.join(message):
                return True
            await sender.room()
        return False

    def _sender_of(self, message: Message) -> _QueueSender | None:
        queues = self._queues.get(message.topic)
        if queues is None:
            return None
        if message.sharding_key is not None:
            queue = queue_of_key(queues, message.sharding_key)
        else:
            # A whole batch to one queue, then to the next: batches of a few are what costs.
            turn = self._turns[message.topic] = self._turns.get(message.topic, -1) + 1
            queue = queues[turn // self.batch_size % len(queues)]
        sender = self._senders.get(queue)
        if sender is None:
            sender = self._senders[queue] = _QueueSender(self, queue)
        return sender

    def failed(self, error: Exception) -> None:
        """A sender has given up; the first reason is the one that is reported."""
        if self._error is None:
            self._error = error

    @property
    def has_failed(self) -> bool:
        """True if nothing more should be sent."""
        return self._error is not None

    async def send(self, queue: MessageQueue, messages: list[Message]) -> None:
        """Sends what a sender held; all of it, in as many batches as the size limit asks for."""
        if self.middleware is None:
            await self._send(queue, messages)
            return
        await self.middleware(messages, functools.partial(self._send, queue))

    async def _send(self, queue: MessageQueue, messages: list[Message]) -> list[SendResult]:
        """The results too, where anybody wants them."""
        everything: list[SendResult] = []
        for request, unique_ids in self._preparation.batches(messages, self._now_ms()):
            began_ms = self._now_ms()
            reply = await self._send_until_stored(request, queue)
            part, messages = messages[: len(unique_ids)], messages[len(unique_ids) :]
            self.sent += len(unique_ids)
            if self.on_sent is None and self.traced is None and self.middleware is None:
                continue
            results = batch_results(reply, queue, unique_ids)
            everything += results
            if self.traced is not None:
                self.traced(part, results, self._now_ms() - began_ms, reply)
            if self.on_sent is not None:
                self.on_sent(results)
        return everything

    async def _send_until_stored(self, request: SendBatchMessage, queue: MessageQueue) -> SendReply:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_ms / 1000
        pause = FIRST_PAUSE_SECONDS
        while True:
            left_ms = (deadline - loop.time()) * 1000
            try:
                return (await self._sender.send(request, queue, min(left_ms, self.try_timeout_ms)))[1]
            except SendFailed:
                if loop.time() + pause >= deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def is_full(self, count: int, size_bytes: int) -> bool:
        """True if a sender holds a batch."""
        return count >= self.batch_size or size_bytes >= self.batch_bytes


class _QueueSender:
    """Messages on their way to one queue."""

    def __init__(self, bulk: BulkSend, queue: MessageQueue) -> None:
        self._bulk = bulk
        self._queue = queue
        self._held: list[Message] = []
        self._held_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._has_room = asyncio.Event()

    def join(self, message: Message) -> bool:
        """Takes a message in, unless a whole batch waits already."""
        if self._bulk.is_full(len(self._held), self._held_bytes):
            return False
        self._held.append(message)
        self._held_bytes += len(message.body)
        if self._task is None:
            self._task = asyncio.create_task(self._empty(), name="bulk send")
        return True

    async def room(self) -> None:
        """Returns when the batch that waits has left."""
        self._has_room.clear()
        await self._has_room.wait()

    async def _empty(self) -> None:
        try:
            while self._held and not self._bulk.has_failed:
                batch, self._held = self._held, []
                self._held_bytes = 0
                self._has_room.set()
                await self._bulk.send(self._queue, batch)
        except Exception as error:
            self._bulk.failed(error)
        finally:
            self._task = None
            self._has_room.set()

    async def emptied(self) -> None:
        """Returns when nothing of this sender is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Stops waiting for what is under way, and forgets the rest."""
        if self._task is not None:
            self._task.cancel()

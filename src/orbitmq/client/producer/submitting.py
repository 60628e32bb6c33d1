"""Sends that nobody waits for one by one: messages gather in senders and go in batches, each with a result.

A sender has one batch under way, so batches grow with the load and are small where there is none. Messages
with a sharding key have their queue's sender, where they keep their order; the others are spread over as many
senders as there are queues, and may go to any queue that takes them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from orbitmq.client.core.errors import IllegalMessage
from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.sending.attempts import Sender
from orbitmq.client.sending.delivery import Courier
from orbitmq.client.sending.in_flight import InFlight
from orbitmq.client.sending.preparing import Preparation
from orbitmq.client.sending.queue_choice import queue_of_key
from orbitmq.client.sending.results import batch_results, single_result
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.requests.send import SendReply

MAX_UNSEEN = 1000
"""Failed deliveries that nobody awaited, kept for `flush`; of more than that only the first are."""

Traced: TypeAlias = Callable[[list[Message], list[SendResult], int, SendReply], None]


class Delivery:
    """A submitted message: `await delivery` gives where it went, or raises why it was not stored."""

    __slots__ = ("_future", "_is_watched", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        self._is_watched = False

    def __await__(self) -> Generator[Any, None, SendResult]:
        self._is_watched = True
        # One who stops waiting does not take the message back.
        return asyncio.shield(self._future).__await__()

    def done(self) -> bool:
        """True if the fate of the message is known."""
        return self._future.done()

    def result(self) -> SendResult:
        """Where the message went. Raises why it was not stored, InvalidStateError before it is done."""
        self._is_watched = True
        return self._future.result()

    def exception(self) -> BaseException | None:
        """Why the message was not stored, None where it was. Raises InvalidStateError before it is done."""
        self._is_watched = True
        return self._future.exception()

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Has `function` called with this delivery, on the event loop, once it is done."""
        self._is_watched = True
        self._future.add_done_callback(lambda _: function(self))

    def when_done(self, function: Callable[[SendResult | BaseException], object]) -> None:
        """Hands the outcome on, without counting as one who asked."""
        self._future.add_done_callback(lambda done: function(done.exception() or done.result()))

    def watch(self) -> None:
        """Counts as asking what became of the message."""
        self._is_watched = True

    @property
    def is_unseen(self) -> bool:
        """True if it failed and nobody asked."""
        return not self._is_watched and self._future.done() and self._future.exception() is not None

    def settle(self, outcome: SendResult | Exception) -> None:
        """Says what became of the message."""
        if self._future.done():
            return
        if isinstance(outcome, Exception):
            self._future.set_exception(outcome)
            self._future.exception()  # `flush` tells of those that nobody awaits
        else:
            self._future.set_result(outcome)


class Submitter:
    """Messages that `submit` gave to one producer."""

    def __init__(
        self,
        sender: Sender,
        courier: Courier,
        preparation: Preparation,
        now_ms: Callable[[], int],
        traced: Traced,
        *,
        max_messages: int,
        max_bytes: int,
        batch_size: int,
        batch_bytes: int,
    ) -> None:
        self._sender = sender
        self._courier = courier
        self._preparation = preparation
        self._now_ms = now_ms
        self._traced = traced
        self._room = InFlight(max_messages, max_bytes)
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._senders: dict[tuple[str, MessageQueue | int], _QueueSender] = {}
        self._turns: dict[str, int] = {}
        self._unseen: list[Delivery] = []

    async def submit(
        self, message: Message, queue: MessageQueue | None, sharding_key: str | None
    ) -> Delivery:
        """Takes a message in, once there is room."""
        self._preparation.check(message)
        if queue is None:
            queues = await self._sender.queues(message.topic)
            key = sharding_key or message.sharding_key
            if key is not None:
                queue = queue_of_key(queues, key)
        size = len(message.body)
        await self._room.enter(size)
        place: MessageQueue | int
        if queue is None:
            # A whole batch to one sender, then to the next: batches of a few are what costs.
            turn = self._turns[message.topic] = self._turns.get(message.topic, -1) + 1
            place = turn // self._batch_size % len(queues)
        else:
            place = queue
        sender = self._senders.get((message.topic, place))
        if sender is None:
            sender = self._senders[message.topic, place] = _QueueSender(self, queue)
        delivery = Delivery(message)
        sender.put(delivery)
        return delivery

    async def flush(self) -> None:
        """Returns when nothing is under way. Raises the first failure of deliveries that nobody awaited."""
        await self._room.emptied()
        unseen = [delivery for delivery in self._unseen if delivery.is_unseen]
        self._unseen.clear()
        if unseen:
            error = unseen[0].exception()
            assert error is not None
            if len(unseen) > 1:
                error.add_note(
                    f"{len(unseen)} submitted messages were not stored; this is the first's reason."
                )
            raise error

    async def emptied(self) -> None:
        """Returns when nothing is under way."""
        await self._room.emptied()

    async def ended(self) -> None:
        """Returns when every sender has come to its end, after the client was closed."""
        if tasks := [sender.task for sender in self._senders.values() if sender.task is not None]:
            await asyncio.wait(tasks)

    # Called by senders.

    def take_batch(self, waiting: deque[Delivery]) -> list[Delivery]:
        """The first messages of a sender that may go together."""
        first = waiting.popleft()
        batch, size = [first], len(first.message.body)
        while waiting and not first.message.is_delayed and len(batch) < self._batch_size:
            message = waiting[0].message
            size += len(message.body)
            alike = message.wait_store_ok is first.message.wait_store_ok and not message.is_delayed
            if not alike or size > self._batch_bytes:
                break
            batch.append(waiting.popleft())
        return batch

    async def send(self, queue: MessageQueue | None, batch: list[Delivery]) -> None:
        """Sends what may go together, and tells every delivery what became of it."""
        if len(batch) > 1:
            try:
                parts = list(
                    self._preparation.batches([delivery.message for delivery in batch], self._now_ms())
                )
            except IllegalMessage:
                parts = []  # one of them is: each goes alone, and that one's delivery tells
            for request, unique_ids in parts:
                part, batch = batch[: len(unique_ids)], batch[len(unique_ids) :]
                began_ms = self._now_ms()
                try:
                    chosen, reply = await self._courier.deliver(request, queue)
                except Exception as error:
                    self._settle(part, [error] * len(part))
                    continue
                results = batch_results(reply, chosen, unique_ids)
                self._traced([row.message for row in part], results, self._now_ms() - began_ms, reply)
                self._settle(part, results)
        for delivery in batch:
            began_ms = self._now_ms()
            try:
                single, unique_id = self._preparation.single(delivery.message, began_ms)
                chosen, reply = await self._courier.deliver(single, queue)
            except Exception as error:
                self._settle([delivery], [error])
                continue
            result = single_result(reply, chosen, unique_id)
            self._traced([delivery.message], [result], self._now_ms() - began_ms, reply)
            self._settle([delivery], [result])

    def _settle(self, deliveries: list[Delivery], outcomes: Sequence[SendResult | Exception]) -> None:
        for delivery, outcome in zip(deliveries, outcomes, strict=True):
            delivery.settle(outcome)
            if delivery.is_unseen and len(self._unseen) < MAX_UNSEEN:
                self._unseen.append(delivery)
            self._room.leave(len(delivery.message.body))


class _QueueSender:
    """Messages on their way to one queue, or to any."""

    def __init__(self, submitter: Submitter, queue: MessageQueue | None) -> None:
        self._submitter = submitter
        self._queue = queue
        self._waiting: deque[Delivery] = deque()
        self.task: asyncio.Task[None] | None = None

    def put(self, delivery: Delivery) -> None:
        self._waiting.append(delivery)
        if self.task is None:
            self.task = asyncio.create_task(self._empty(), name="submitted messages")

    async def _empty(self) -> None:
        try:
            while self._waiting:
                batch = self._submitter.take_batch(self._waiting)
                await self._submitter.send(self._queue, batch)
        finally:
            self.task = None

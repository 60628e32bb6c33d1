"""Sends that are not awaited one by one: messages gather in senders and go in batches, each with a result.

A sender has one batch under way, so batches grow with the load and are small where there is none. Messages
with a sharding key have their queue's sender, where they keep their order; the others are spread over as many
senders as there are queues, and may go to any queue that takes them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import TypeAlias

from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.producer.deliveries_cy import Delivery, body_of, complete_stored, delivery_of, take_batch
from orbitmq.client.sending.attempts import Sender
from orbitmq.client.sending.delivery import Courier
from orbitmq.client.sending.in_flight import InFlight
from orbitmq.client.sending.joining import interrupted
from orbitmq.client.sending.preparing import Preparation
from orbitmq.client.sending.queue_choice import queue_of_key, queue_of_lite_topic
from orbitmq.client.sending.results import BatchResults, single_result
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.send import SendReply

MAX_UNSEEN = 1000
"""Failed deliveries that were not awaited, kept for `flush`; of more than that only the first are."""

Traced: TypeAlias = Callable[[list[Message], list[SendResult], int, SendReply], None]
SendOn: TypeAlias = Callable[[list[Message]], Awaitable[list[SendResult]]]
Through: TypeAlias = Callable[[SendOn], Awaitable[list[SendResult]]]
"""The middleware around one send: given what sends at last, the results."""


@dataclass(eq=False, repr=False)
class Submitter:
    """Messages that `submit` gave to one producer."""

    _sender: Sender
    _courier: Courier
    _preparation: Preparation
    _now_ms: Callable[[], int]
    _trace: Traced | None
    _: KW_ONLY
    max_messages: InitVar[int]
    max_bytes: InitVar[int]
    batch_size: int
    batch_bytes: int

    def __post_init__(self, max_messages: int, max_bytes: int) -> None:
        self._room = InFlight(max_messages, max_bytes)
        self._new_id = self._preparation.new_id
        self._of_queue: dict[tuple[str, MessageQueue], _QueueSender] = {}
        self._of_any_queue: dict[str, _SendersInTurn] = {}
        """By topic, for messages that may go to any of its queues."""
        self._unseen: list[Delivery] = []
        self._wrapped: set[asyncio.Task[None]] = set()
        """Sends that pass middleware, and have not ended there."""

    def take(self, message: Message, queue: MessageQueue | None, sharding_key: str | None) -> Delivery | None:
        """Takes a message in; None where that needs a look-up, or room that is not there yet.

        Raises IllegalMessage, IllegalName.
        """
        self._preparation.check(message)
        queues: Sequence[MessageQueue] = ()
        if queue is None:
            known = self._sender.known_queues(message.topic)
            if known is None:
                return None
            queues = known
        size = len(message.body)
        if not self._room.enters(size):
            return None
        return self._put(message, size, queue, queues, sharding_key)

    async def submit(
        self, message: Message, queue: MessageQueue | None, sharding_key: str | None
    ) -> Delivery:
        """Takes a message in, once there is room. Raises what `take` raises; TopicNotFound, NoNameServer."""
        self._preparation.check(message)
        queues: Sequence[MessageQueue] = ()
        if queue is None:
            queues = await self._sender.queues(message.topic)
        size = len(message.body)
        await self._room.enter(size)
        return self._put(message, size, queue, queues, sharding_key)

    async def submit_through(
        self,
        through: Through,
        message: Message,
        queue: MessageQueue | None,
        sharding_key: str | None,
    ) -> Delivery:
        """The same through middleware: returns once the message is taken in, or the middleware has ended.

        The delivery has the outcome that the middleware gives. Raises what it raises before the message is
        taken in.
        """
        taken_in = asyncio.Event()
        outer = Delivery(message)

        async def send(messages: list[Message]) -> list[SendResult]:
            deliveries = [await self.submit(one, queue, sharding_key) for one in messages]
            outer.unique_id, outer.properties = deliveries[0].unique_id, deliveries[0].properties
            taken_in.set()
            return [await one for one in deliveries]

        async def work() -> None:
            try:
                outer.complete((await through(send))[0])
            except asyncio.CancelledError:
                outer.complete(RuntimeError("the send was cancelled in middleware"))
                raise
            except Exception as error:
                outer.complete(error)
                if taken_in.is_set() and outer.is_unseen and len(self._unseen) < MAX_UNSEEN:
                    self._unseen.append(outer)
            finally:
                taken_in.set()

        task = asyncio.create_task(work(), name="submitted message in middleware")
        self._wrapped.add(task)
        task.add_done_callback(self._wrapped.discard)
        try:
            await taken_in.wait()
        except asyncio.CancelledError:
            if not outer.unique_id:
                task.cancel()
            raise
        if not outer.unique_id and outer.done():
            outer.result()
        return outer

    def _put(
        self,
        message: Message,
        size: int,
        queue: MessageQueue | None,
        queues: Sequence[MessageQueue],
        sharding_key: str | None,
    ) -> Delivery:
        try:
            delivery = delivery_of(message, self._new_id(self._now_ms()))
        except BaseException:
            self._room.leave(size)
            raise
        topic = message.topic
        if queue is None and message.lite_topic is not None:
            queue = queue_of_lite_topic(queues, message.lite_topic)
        elif queue is None and (key := sharding_key or message.sharding_key) is not None:
            queue = queue_of_key(queues, key)
        if queue is None:
            in_turn = self._of_any_queue.get(topic)
            if in_turn is None:
                in_turn = self._of_any_queue[topic] = _SendersInTurn(self)
            sender = in_turn.next(len(queues))
        else:
            known = self._of_queue.get((topic, queue))
            sender = known or self._of_queue.setdefault((topic, queue), _QueueSender(self, queue))
        sender.put(delivery)
        return delivery

    async def flush(self) -> None:
        """Returns when nothing is under way. Raises the first failure of deliveries that were not awaited."""
        await self.emptied()
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
        if self._wrapped:
            await asyncio.wait(tuple(self._wrapped))
        await self._room.emptied()

    async def ended(self) -> None:
        """Returns when every sender has come to its end, after the client was closed."""
        senders = [*self._of_queue.values()]
        for in_turn in self._of_any_queue.values():
            senders += in_turn.senders
        tasks = [sender.task for sender in senders if sender.task is not None]
        if tasks or self._wrapped:
            await asyncio.wait([*tasks, *self._wrapped])

    # Called by senders.

    async def send(self, queue: MessageQueue | None, batch: list[Delivery]) -> None:
        """Sends what may go together, and completes every delivery with its outcome."""
        if len(batch) > 1:
            began_ms = self._now_ms()
            first = batch[0].message
            request = self._preparation.batch_of(first.topic, first.wait_store_ok, body_of(batch), began_ms)
            try:
                chosen, reply = await self._courier.deliver(request, queue)
            except BrokerRefused:
                pass  # one of them is what no broker takes: each goes alone, and that one's delivery fails
            except Exception as error:
                self._complete(batch, [error] * len(batch))
                return
            else:
                results = BatchResults(reply, chosen, len(batch))
                if self._trace is not None:
                    listed = [results.of(place, one.unique_id) for place, one in enumerate(batch)]
                    self._traced(batch, listed, began_ms, reply)
                self._room.leave(complete_stored(batch, results), len(batch))
                return
        for delivery in batch:
            began_ms = self._now_ms()
            try:
                single, unique_id = self._preparation.single(
                    delivery.message, began_ms, unique_id=delivery.unique_id
                )
                chosen, reply = await self._courier.deliver(single, queue)
            except Exception as error:
                self._complete([delivery], [error])
                continue
            result = single_result(reply, chosen, unique_id)
            self._traced([delivery], [result], began_ms, reply)
            self._complete([delivery], [result])

    def interrupted(self, deliveries: list[Delivery]) -> None:
        """Fails those that are not complete: somebody else has cancelled the task that sends them."""
        left = [delivery for delivery in deliveries if not delivery.done()]
        self._complete(left, [interrupted()] * len(left))

    def _traced(
        self, deliveries: list[Delivery], results: list[SendResult], began_ms: int, reply: SendReply
    ) -> None:
        if self._trace is not None:
            took_ms = self._now_ms() - began_ms
            self._trace([delivery.message for delivery in deliveries], results, took_ms, reply)

    def _complete(self, deliveries: list[Delivery], outcomes: Sequence[SendResult | Exception]) -> None:
        size = 0
        for delivery, outcome in zip(deliveries, outcomes, strict=True):
            delivery.complete(outcome)
            if delivery.is_unseen and len(self._unseen) < MAX_UNSEEN:
                self._unseen.append(delivery)
            size += len(delivery.message.body)
        self._room.leave(size, len(deliveries))


class _QueueSender:
    """Messages on their way to one queue, or to any."""

    def __init__(self, submitter: Submitter, queue: MessageQueue | None) -> None:
        self._submitter = submitter
        self._queue = queue
        self._waiting: deque[Delivery] = deque()
        self._batch: list[Delivery] = []
        self.task: asyncio.Task[None] | None = None

    def put(self, delivery: Delivery) -> None:
        self._waiting.append(delivery)
        if self.task is None:
            self._begin()

    def _begin(self) -> None:
        self.task = asyncio.create_task(self._empty(), name="submitted messages")
        self.task.add_done_callback(self._ended)

    async def _empty(self) -> None:
        submitter = self._submitter
        while self._waiting:
            self._batch = take_batch(self._waiting, submitter.batch_size, submitter.batch_bytes)
            await submitter.send(self._queue, self._batch)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.task = None
        if task.cancelled():
            self._submitter.interrupted([*self._batch, *self._waiting])
            self._waiting.clear()
        elif self._waiting:
            self._begin()


class _SendersInTurn:
    """Senders of messages that may go to any queue: as many as there are queues.

    A whole batch to one sender, then to the next: batches of a few are what costs.
    """

    def __init__(self, submitter: Submitter) -> None:
        self._submitter = submitter
        self.senders: list[_QueueSender] = []
        self._place = -1
        self._left = 0
        """Messages that the sender in turn still gets."""

    def next(self, count: int) -> _QueueSender:
        """The sender of the next message, where there are `count` queues."""
        if not self._left:
            self._left = self._submitter.batch_size
            self._place = (self._place + 1) % count
            if self._place == len(self.senders):
                self.senders.append(_QueueSender(self._submitter, None))
        self._left -= 1
        return self.senders[self._place]

"""Sends that nobody waits for one by one: messages gather in senders and go in batches, each with a result.

A sender has one batch under way, so batches grow with the load and are small where there is none. Messages
with a sharding key have their queue's sender, where they keep their order; the others are spread over as many
senders as there are queues, and may go to any queue that takes them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeAlias

from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.sending.attempts import Sender
from orbitmq.client.sending.delivery import Courier
from orbitmq.client.sending.in_flight import InFlight
from orbitmq.client.sending.preparing import ENTRY_BYTES, Preparation
from orbitmq.client.sending.queue_choice import queue_of_key
from orbitmq.client.sending.results import batch_results, single_result
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.requests.send import SendReply

MAX_UNSEEN = 1000
"""Failed deliveries that nobody awaited, kept for `flush`; of more than that only the first are."""

Traced: TypeAlias = Callable[[list[Message], list[SendResult], int, SendReply], None]
SendOn: TypeAlias = Callable[[list[Message]], Awaitable[list[SendResult]]]
Through: TypeAlias = Callable[[SendOn], Awaitable[list[SendResult]]]
"""The middleware around one send: given what sends at last, the results."""


class Delivery:
    """A submitted message: `await delivery` returns its result, or raises the reason of a failure."""

    __slots__ = ("_future", "_is_watched", "_outcome", "message", "properties", "unique_id")

    def __init__(self, message: Message, unique_id: str = "", properties: bytes = b"") -> None:
        self.message = message
        self.unique_id = unique_id
        """The id that it is sent under, and that its result names."""
        self.properties = properties
        """Everything that travels beside the body, as it was when the message was submitted."""
        self._outcome: SendResult | Exception | None = None
        self._future: asyncio.Future[SendResult] | None = None
        """Made for those who wait; of most messages nobody asks one by one."""
        self._is_watched = False

    def __await__(self) -> Generator[Any, None, SendResult]:
        self._is_watched = True
        # One who stops waiting does not take the message back.
        return asyncio.shield(self._awaited()).__await__()

    def _awaited(self) -> asyncio.Future[SendResult]:
        future = self._future
        if future is None:
            future = self._future = asyncio.get_running_loop().create_future()
            if self._outcome is not None:
                _set_outcome(future, self._outcome)
        return future

    def done(self) -> bool:
        """True if the message is stored or has failed."""
        return self._outcome is not None

    def result(self) -> SendResult:
        """The result of the send. Raises the reason of a failure; InvalidStateError before it is done."""
        self._is_watched = True
        outcome = self._known()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def exception(self) -> BaseException | None:
        """The reason of a failure; None if it is stored. Raises InvalidStateError before it is done."""
        self._is_watched = True
        outcome = self._known()
        return outcome if isinstance(outcome, Exception) else None

    def _known(self) -> SendResult | Exception:
        if self._outcome is None:
            raise asyncio.InvalidStateError("the message is still being sent")
        return self._outcome

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Call `function` with this delivery, on the event loop, once it is done."""
        self._is_watched = True
        self._awaited().add_done_callback(lambda _: function(self))

    def when_done(self, function: Callable[[SendResult | BaseException], object]) -> None:
        """Hands the outcome on, without counting as one who asked."""
        self._awaited().add_done_callback(lambda done: function(done.exception() or done.result()))

    def watch(self) -> None:
        """Counts as asking what became of the message."""
        self._is_watched = True

    @property
    def is_unseen(self) -> bool:
        """True if it failed and nobody asked."""
        return not self._is_watched and isinstance(self._outcome, Exception)

    def complete(self, outcome: SendResult | Exception) -> None:
        """Says what became of the message."""
        if self._outcome is None:
            self._outcome = outcome
            if self._future is not None:
                _set_outcome(self._future, outcome)


def _set_outcome(future: asyncio.Future[SendResult], outcome: SendResult | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
        future.exception()  # `flush` reports those that nobody awaits
    else:
        future.set_result(outcome)


class Submitter:
    """Messages that `submit` gave to one producer."""

    def __init__(
        self,
        sender: Sender,
        courier: Courier,
        preparation: Preparation,
        now_ms: Callable[[], int],
        trace: Traced | None,
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
        self._trace = trace
        self._room = InFlight(max_messages, max_bytes)
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._senders: dict[tuple[str, MessageQueue | int], _QueueSender] = {}
        self._turns: dict[str, int] = {}
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
            unique_id, properties = self._preparation.entry(message, self._now_ms())
        except BaseException:
            self._room.leave(size)
            raise
        topic = message.topic
        if queue is None and (key := sharding_key or message.sharding_key) is not None:
            queue = queue_of_key(queues, key)
        place: MessageQueue | int
        if queue is None:
            # A whole batch to one sender, then to the next: batches of a few are what costs.
            turn = self._turns[topic] = self._turns.get(topic, -1) + 1
            place = turn // self._batch_size % len(queues)
        else:
            place = queue
        sender = self._senders.get((topic, place))
        if sender is None:
            sender = self._senders[topic, place] = _QueueSender(self, queue)
        delivery = Delivery(message, unique_id, properties)
        sender.put(delivery)
        return delivery

    async def flush(self) -> None:
        """Returns when nothing is under way. Raises the first failure of deliveries that nobody awaited."""
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
        tasks = [sender.task for sender in self._senders.values() if sender.task is not None]
        if tasks or self._wrapped:
            await asyncio.wait([*tasks, *self._wrapped])

    # Called by senders.

    def take_batch(self, waiting: deque[Delivery]) -> list[Delivery]:
        """The first messages of a sender that may go together."""
        first = waiting.popleft()
        batch = [first]
        head = first.message
        if not waiting or head.is_delayed or head.topic.startswith(RETRY_PREFIX):
            return batch
        room = self._batch_bytes - ENTRY_BYTES - len(head.body) - len(first.properties)
        wait_store_ok = head.wait_store_ok
        while waiting and len(batch) < self._batch_size:
            delivery = waiting[0]
            message = delivery.message
            room -= ENTRY_BYTES + len(message.body) + len(delivery.properties)
            if room < 0 or message.wait_store_ok is not wait_store_ok or message.is_delayed:
                break
            batch.append(waiting.popleft())
        return batch

    async def send(self, queue: MessageQueue | None, batch: list[Delivery]) -> None:
        """Sends what may go together, and completes every delivery with its outcome."""
        if len(batch) > 1:
            began_ms = self._now_ms()
            first = batch[0].message
            entries = [(one.message.flag, one.message.body, one.properties) for one in batch]
            request = self._preparation.batch_of(first.topic, first.wait_store_ok, entries, began_ms)
            try:
                chosen, reply = await self._courier.deliver(request, queue)
            except BrokerRefused:
                pass  # one of them is what no broker takes: each goes alone, and that one's delivery fails
            except Exception as error:
                self._complete(batch, [error] * len(batch))
                return
            else:
                results = batch_results(reply, chosen, [one.unique_id for one in batch])
                self._traced(batch, results, began_ms, reply)
                self._complete(batch, results)
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

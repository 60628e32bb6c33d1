"""Sending messages."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from orbitmq.client.core.checking import check_number, check_queue, check_route
from orbitmq.client.core.errors import (
    ClientError,
    IllegalMessage,
    InvalidArgument,
    NotRunning,
    RequestTimeout,
    SendFailed,
)
from orbitmq.client.core.instance import ClientInstance, now_ms
from orbitmq.client.core.message import Message, ReceivedMessage, SendResult, check_message
from orbitmq.client.core.middleware import SendCall, send_through
from orbitmq.client.core.names import INNER_PRODUCER_GROUP
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.option_help import documented
from orbitmq.client.core.options import ProducerOptions
from orbitmq.client.producer.bulk import BulkSend
from orbitmq.client.producer.deliveries_cy import Delivery
from orbitmq.client.producer.request_reply import Questions, read_reply
from orbitmq.client.producer.submitting import Submitter
from orbitmq.client.sending.attempts import Sender
from orbitmq.client.sending.delivery import Courier
from orbitmq.client.sending.in_flight import InFlight
from orbitmq.client.sending.joining import Joiner
from orbitmq.client.sending.preparing import Preparation
from orbitmq.client.sending.queue_choice import QueueSelector, queue_of_key, queue_of_lite_topic
from orbitmq.client.sending.results import batch_results, single_result
from orbitmq.client.trace.tracing import Tracer
from orbitmq.net.connection import Connection
from orbitmq.net.errors import NoNameServer
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.handles.recall import MalformedHandle, RecallHandle
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.send import SendReply

SUBMITTED_BATCH_SIZE = 128
SUBMITTED_BATCH_BYTES = 256 << 10
LITE_TOPIC_SAYS = "the lite topic of a message says its queue: give no queue, selector or sharding_key"
BULK_TIMEOUT_MS = 30_000
"""Time that `send_all` tries to get a batch stored."""


class BatchPartlySent(SendFailed):
    """Some parts of a batch were stored, and then one was not; the parts after it were not tried."""

    def __init__(self, sent: list[SendResult], error: Exception) -> None:
        if isinstance(error, SendFailed):
            super().__init__(error.topic, error.failures, error.code or 0)
        else:
            code = getattr(error, "code", None) or 0
            super().__init__(sent[0].queue.topic, [(sent[-1].queue.broker_name, error)], code)
        self.sent = sent
        """Places of the first messages of the batch, in their order."""


@documented()
@dataclass(eq=False)
class Producer(ProducerOptions):
    """Sends messages to any topic of a cluster.

        async with Producer("orders") as producer:
            result = await producer.send(Message("orders", b"{...}", tags="new", keys="17"))

    Many sends can run concurrently (`asyncio.gather`, tasks); they share one connection per broker. A
    producer belongs to the event loop in which it was started, and to its process: create another one
    after a fork.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._instance: ClientInstance | None = None
        self._sender: Sender | None = None
        self._preparation: Preparation | None = None
        self._questions = Questions()
        self._courier: Courier
        self._joiner: Joiner
        self._submitter: Submitter
        self._errors: dict[str, Exception] = {}
        self._tracer: Tracer | None = None
        self._in_flight = InFlight(self.max_in_flight, self.max_in_flight_bytes)

    # Life.

    async def start(self) -> Self:
        """Start the producer. `async with` does this."""
        if self._instance is not None:
            raise NotRunning("a producer is started once: make another one")
        self._instance = ClientInstance(
            self,
            await self.own_ip(),
            producer_groups=[self.group, INNER_PRODUCER_GROUP],
            on_requests=self._on_requests,
            on_error=self._errors.__setitem__,
            on_recovered=self._on_recovered,
        )
        self._preparation = Preparation(self, self._instance.unique_ids)
        self._sender = Sender(self._instance, self)
        self._courier = Courier(self._instance, self._sender, self)
        self._joiner = Joiner(self._courier, self._preparation, self, now_ms)
        self._submitter = Submitter(
            self._sender,
            self._courier,
            self._preparation,
            now_ms,
            self._trace_batch if self.trace else None,
            max_messages=self.max_submitted,
            max_bytes=self.max_in_flight_bytes,
            batch_size=SUBMITTED_BATCH_SIZE,
            batch_bytes=min(SUBMITTED_BATCH_BYTES, self.max_message_size_bytes),
        )
        self._instance.start()
        if self.trace:
            self._tracer = Tracer(self, self._instance, "PRODUCE")
            self._tracer.start()
        return self

    async def close(self) -> None:
        """Close the producer, after the sends in flight have been answered or have timed out."""
        if self._instance is None or self._instance.is_closed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self.delivery_timeout_ms, self.send_msg_timeout_ms) / 1000):
                await self._submitter.emptied()
                await self._in_flight.emptied()
        self._questions.close()
        if self._tracer is not None:
            await self._tracer.close()
        await self._instance.close()
        await self._joiner.ended()
        await self._submitter.ended()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._running()[0].client_id

    @property
    def healthy(self) -> bool:
        """True if it runs and nothing fails at present: for probes."""
        return self._instance is not None and not self._instance.is_closed and not self._errors

    @property
    def errors(self) -> Mapping[str, Exception]:
        """Failures at present, by subject: deliveries, heartbeats, routes; empty when all is well."""
        return dict(self._errors)

    def _on_recovered(self, subject: str) -> None:
        self._errors.pop(subject, None)

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        self._questions.on_requests(connection, commands)

    def _running(self) -> tuple[ClientInstance, Sender, Preparation]:
        if self._instance is None or self._sender is None or self._preparation is None:
            raise NotRunning("the producer has not been started: use `async with`, or start()")
        self._instance.check_running()
        return self._instance, self._sender, self._preparation

    # Sending.

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that can be sent to. Raises TopicNotFound, NoNameServer."""
        return await self._running()[1].queues(topic)

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        lite_topic: str | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send one message, and return its queue and offset.

        The message goes to `queue`, or to the queue that `selector` returns, or to the queue of
        `sharding_key` or `lite_topic` (or of the message's own). Otherwise it goes to any queue, and to
        another broker if one fails. While no broker answers, the send is repeated for `timeout_ms`
        (`delivery_timeout_ms`). Sends that begin at the same time may share a request (`join_sends`), save
        those of lite topics. With a status other than SEND_OK the
        message is stored, but less safely than the broker is configured to store it.

        Raises IllegalMessage and IllegalName before anything is sent; SendFailed if every try failed (the
        message may be stored nevertheless); BrokerRefused if a broker refuses it; TopicNotFound,
        NoNameServer; NotRunning.
        """
        self._running()
        check_route("send", queue, selector, sharding_key, timeout_ms)
        if lite_topic is not None:
            check_message(message)
            message = message.of_lite_topic(lite_topic)
        if queue is not None:
            self._check_queue("send", message, queue)
        if not self.middleware:
            return await self._send(message, queue, selector, sharding_key, timeout_ms)

        async def send(one: Message) -> SendResult:
            self._running()  # middleware may have waited for long
            return await self._send(one, queue, selector, sharding_key, timeout_ms)

        return await self._send_through("send", message, send)

    async def _send_through(
        self, operation: str, message: Message, send: Callable[[Message], Awaitable[SendResult]]
    ) -> SendResult:
        """The result of one message's send, through the middleware if there is any."""
        if not self.middleware:
            return await send(message)
        check_message(message)

        async def send_all(messages: list[Message]) -> list[SendResult]:
            return [await send(one) for one in messages]

        call = SendCall(operation, self.shown_group, [message])
        return (await send_through(self.middleware, call, send_all))[0]

    async def _send(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | None,
        timeout_ms: float | None,
    ) -> SendResult:
        preparation, in_flight = self._preparation, self._in_flight
        assert preparation is not None
        if in_flight.count and timeout_ms is None and self.join_sends and self._tracer is None:
            check_message(message)
            if self._joiner.may_join(message):
                return await self._send_joined(message, queue, selector, sharding_key)
        request, unique_id = preparation.single(message, now_ms())
        size = len(request.body)
        if not in_flight.enters(size):
            await in_flight.enter(size)
        began_ms = now_ms()
        try:
            queue = await self._route(message, queue, selector, sharding_key)
            chosen, reply = await self._courier.deliver(request, queue, timeout_ms)
        finally:
            in_flight.leave(size)
        result = single_result(reply, chosen, unique_id)
        if self._tracer is not None:
            self._tracer.sent([message], [result], [size], now_ms() - began_ms, reply.extra)
        return result

    async def _send_joined(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | None,
    ) -> SendResult:
        """The same in one request with others: where sends are under way, others may begin right now."""
        size = len(message.body)
        if not self._in_flight.enters(size):
            await self._in_flight.enter(size)
        try:
            queue = await self._route(message, queue, selector, sharding_key)
            return await self._joiner.send(message, queue)
        finally:
            self._in_flight.leave(size)

    async def submit(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Queue one message, to be sent soon in a batch with others, without waiting until it is stored.

            delivery = await producer.submit(message)
            result = await delivery  # or later, or never: `flush` waits for all

        Returns at once, or when there is room if `max_submitted` messages or `max_in_flight_bytes` wait.
        Messages of one sharding key, or one `queue`, keep their order. `on_delivery` is called with the
        delivery when the message is stored or has failed. Sends are repeated as those of `send`.

        Raises IllegalMessage, IllegalName, TopicNotFound, NoNameServer; NotRunning. Later failures are raised
        where the delivery is awaited; `flush` raises the first failure that was not awaited.
        """
        self._running()
        if queue is not None or sharding_key is not None:
            check_route("submit", queue, None, sharding_key)
            check_message(message)
            if message.lite_topic is not None:
                raise IllegalMessage(LITE_TOPIC_SAYS)
            if queue is not None:
                self._check_queue("submit", message, queue)
        if not self.middleware:
            taken = self._submitter.take(message, queue, sharding_key)
            delivery = taken or await self._submitter.submit(message, queue, sharding_key)
        else:
            check_message(message)
            through = functools.partial(
                send_through, self.middleware, SendCall("submit", self.shown_group, [message])
            )
            delivery = await self._submitter.submit_through(through, message, queue, sharding_key)
        if on_delivery is not None:
            delivery.add_done_callback(on_delivery)
        return delivery

    async def flush(self) -> None:
        """Returns when everything that was submitted is stored or has failed.

        Raises the first failure of deliveries that were not awaited.
        """
        self._running()
        await self._submitter.flush()

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: float | None = None,
    ) -> ReceivedMessage:
        """Send one message, and wait for the reply of its handler (one that returns `Reply`).

        `timeout_ms` (`send_msg_timeout_ms`) covers sending, handling and the reply. Handlers may be those of
        Java clients. A message may be handled more than once: the first reply counts.

        Raises RequestTimeout if no reply came in time, UnreadableBody if its body cannot be inflated
        (BodyTooLarge: not within `max_inflated_body_bytes`), and what `send` raises.
        """
        instance, sender, preparation = self._running()
        check_route("request", queue, selector, sharding_key, timeout_ms)
        if queue is not None:
            self._check_queue("request", message, queue)
        check_message(message)
        timeout_ms = timeout_ms or self.send_msg_timeout_ms
        properties, reply = self._questions.ask(instance.client_id, timeout_ms)

        async def send(one: Message) -> SendResult:
            request, unique_id = preparation.single(one, now_ms(), properties)
            # The broker has to know to whom the reply goes before it comes.
            masters = {instance.routes.master_of(queue) for queue in await sender.queues(one.topic)}
            await instance.introduce([address for address in masters if address is not None])
            chosen = await self._route(one, queue, selector, sharding_key)
            began_ms = now_ms()
            chosen, stored = await self._courier.deliver(request, chosen, timeout_ms)
            result = single_result(stored, chosen, unique_id)
            if self._tracer is not None:
                took_ms = now_ms() - began_ms
                self._tracer.sent([one], [result], [len(request.body)], took_ms, stored.extra)
            return result

        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._send_through("request", message, send)
                record = await reply
        except TimeoutError:
            raise RequestTimeout(f"no reply from {message.topic} within {timeout_ms:g} ms") from None
        finally:
            self._questions.forget(properties)
        return await read_reply(record, self.max_inflated_body_bytes)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
    ) -> None:
        """Send one message without waiting for an answer: it may be lost without notice.

        Raises what `send` raises before anything is sent; ConnectFailed if there is no connection.
        """
        _, sender, preparation = self._running()
        check_route("send_oneway", queue, selector, sharding_key)
        if queue is not None:
            self._check_queue("send_oneway", message, queue)

        async def send(messages: list[Message]) -> list[SendResult]:
            for one in messages:
                request, _ = preparation.single(one, now_ms())
                chosen = await self._route(one, queue, selector, sharding_key)
                await sender.send_oneway(request, chosen)
            return []

        check_message(message)
        await send_through(self.middleware, SendCall("send_oneway", self.shown_group, [message]), send)

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        timeout_ms: float | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic to one queue together, and return a result for each, in order.

        Messages that exceed `max_message_size_bytes` together go in several parts, one after the other, each
        within `timeout_ms`; without `queue` or `sharding_key` the parts may go to different queues. An empty
        batch gives an empty list.

        Raises what `send` raises; BatchPartlySent if a later part failed.
        """
        self._running()
        check_route("send_batch", queue, None, sharding_key, timeout_ms)
        listed = list(messages)
        if not listed:
            return []
        if queue is not None:
            self._check_queue("send_batch", listed[0], queue)
        if not self.middleware:
            return await self._send_batch(listed, queue, sharding_key, timeout_ms)
        for message in listed:
            check_message(message)

        async def send(these: list[Message]) -> list[SendResult]:
            return await self._send_batch(these, queue, sharding_key, timeout_ms)

        return await send_through(self.middleware, SendCall("send_batch", self.shown_group, listed), send)

    async def _send_batch(
        self,
        listed: list[Message],
        queue: MessageQueue | None,
        sharding_key: str | None,
        timeout_ms: float | None,
    ) -> list[SendResult]:
        instance, sender, preparation = self._running()
        parts = preparation.batches(listed, now_ms())
        key = sharding_key or listed[0].sharding_key
        if sharding_key is None and any(message.sharding_key != key for message in listed):
            raise IllegalMessage(
                "a batch goes to one queue: send messages of several sharding keys by send_all"
            )
        if queue is None and key is not None:
            queue = queue_of_key(await sender.queues(listed[0].topic), key)
        results: list[SendResult] = []
        for request, unique_ids in parts:
            size = len(request.body)
            await self._in_flight.enter(size)
            began_ms = now_ms()
            try:
                instance.check_running()
                chosen, reply = await self._courier.deliver(request, queue, timeout_ms)
            except (ClientError, NoNameServer, BrokerRefused) as error:
                if not results:
                    raise
                raise BatchPartlySent(results, error) from error
            finally:
                self._in_flight.leave(size)
            part = listed[len(results) : len(results) + len(unique_ids)]
            stored = batch_results(reply, chosen, unique_ids)
            self._trace_batch(part, stored, now_ms() - began_ms, reply)
            results += stored
        return results

    def _trace_batch(
        self, messages: list[Message], results: list[SendResult], took_ms: int, reply: SendReply
    ) -> None:
        if self._tracer is not None:
            sizes = [len(message.body) for message in messages]
            self._tracer.sent(messages, results, sizes, took_ms, reply.extra)

    async def send_all(
        self,
        messages: Iterable[Message] | AsyncIterable[Message],
        *,
        batch_size: int = 128,
        batch_bytes: int = 256 << 10,
        timeout_ms: float | None = None,
        on_sent: Callable[[list[SendResult]], None] | None = None,
    ) -> int:
        """Send a stream of messages as fast as the brokers accept them, and return their number.

        Messages go in batches, one in flight per queue, to all queues in parallel. Messages of one sharding
        key keep their order; the others go to the queues in turn. A batch that fails is repeated for
        `timeout_ms` (30 s) on its own queue: a message may be stored twice, but never out of order.
        `on_sent` is called for every stored batch. The source is read no faster than brokers accept
        messages, except for one batch per queue.

        Raises what `send` raises, after the batches in flight have ended; messages read until then may not
        have been sent.
        """
        _, sender, preparation = self._running()
        check_number("send_all", "batch_size", batch_size, 1)
        check_number("send_all", "batch_bytes", batch_bytes, 1)
        check_route("send_all", None, None, None, timeout_ms)
        bulk = BulkSend(
            sender,
            preparation,
            now_ms,
            batch_size=batch_size,
            batch_bytes=min(batch_bytes, self.max_message_size_bytes),
            try_timeout_ms=self.send_msg_timeout_ms,
            timeout_ms=timeout_ms or BULK_TIMEOUT_MS,
            on_sent=on_sent,
            traced=self._trace_batch if self._tracer is not None else None,
            middleware=self._batch_through if self.middleware else None,
        )
        return await bulk.run(messages)

    async def _batch_through(
        self, messages: list[Message], send: Callable[[list[Message]], Awaitable[list[SendResult]]]
    ) -> list[SendResult]:
        return await send_through(self.middleware, SendCall("send_all", self.shown_group, messages), send)

    async def recall(self, recall_handle: str, *, timeout_ms: float | None = None) -> str:
        """Recall a delayed message before its delivery, and return its id.

        The result of `send` has the handle.
        A message that was delivered already stays delivered, and the answer does not say so. Raises
        IllegalMessage for text that is no handle; BrokerRefused if the broker does not allow recalls
        (`recallMessageEnable`) or the time is over; TopicNotFound, NoNameServer, BrokerUnknown, and what a
        call can end with.
        """
        _, sender, _ = self._running()
        check_route("recall", None, None, None, timeout_ms)
        try:
            handle = RecallHandle.decode(recall_handle)
        except MalformedHandle as error:
            raise IllegalMessage(str(error)) from None
        return await sender.recall(handle, recall_handle, timeout_ms or self.send_msg_timeout_ms)

    async def _route(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | None,
    ) -> MessageQueue | None:
        """The queue that a message has to go to; None for any."""
        key = sharding_key or message.sharding_key
        if message.lite_topic is not None:
            if queue is not None or selector is not None or key is not None:
                raise IllegalMessage(LITE_TOPIC_SAYS)
            return queue_of_lite_topic(await self._running()[1].queues(message.topic), message.lite_topic)
        if queue is not None or (selector is None and key is None):
            return queue
        queues = await self._running()[1].queues(message.topic)
        if selector is not None:
            chosen = selector(queues, message)
            self._check_queue("selector", message, chosen)
            return chosen
        assert key is not None
        return queue_of_key(queues, key)

    def _check_queue(self, owner: str, message: Message, queue: MessageQueue) -> None:
        """Raises InvalidArgument for a queue of another topic: the message would not be in it."""
        check_message(message)
        check_queue(owner, queue)
        if queue.topic not in (message.topic, wrap(self.namespace, message.topic)):
            raise InvalidArgument(
                f"{owner}: the queue is one of topic {queue.topic}, the message is for {message.topic}"
            )

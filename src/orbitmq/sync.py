"""Producers and consumers for programs without an event loop: the classes of `orbitmq`, waiting for you.

    from orbitmq.sync import Message, Producer

    with Producer("orders") as producer:
        producer.send(Message("orders", b"{...}"))

One thread in the background runs one event loop for all of them; every method here has its namesake do the
work there and waits for it: both faces have the same arguments, results and exceptions. They may be used from
any thread. Handlers of a consumer run on the loop when they are async, else in threads.

After a fork the child has no such thread: what was made before the fork raises NotRunning there. Make
producers and consumers in the process that uses them.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from orbitmq import admin, client
from orbitmq.client import (
    FIRST_OFFSET,
    LAST_OFFSET,
    RETRY,
    TIMESTAMP,
    BadAddress,
    BatchPartlySent,
    BrokerUnknown,
    CannotIterate,
    ClientError,
    ClientEvent,
    ClientEventKind,
    Compression,
    DeadLetterPolicy,
    DeserializationFailed,
    HandleNext,
    HandlerCall,
    HandlerTimeout,
    IllegalMessage,
    IllegalName,
    InvalidArgument,
    InvalidResult,
    Message,
    MessageQueue,
    MessageTooLarge,
    Middleware,
    NoNameServer,
    NoPermission,
    NotRunning,
    Outcome,
    Pulled,
    ReceivedMessage,
    Reply,
    RequestTimeout,
    Retry,
    SeekFailed,
    SendCall,
    SendFailed,
    SendNext,
    SendResult,
    SendStatus,
    Sql,
    TopicNotFound,
    TransactionResult,
    TransactionState,
    WrongEventLoop,
)
from orbitmq.client.blocking import SyncWrapper, constructor_of, get_background, later, waiting
from orbitmq.client.consumer.consumer import HandlerT
from orbitmq.client.core.option_help import documented
from orbitmq.client.core.serializer import Serializer
from orbitmq.client.core.subscription import Wanted
from orbitmq.client.running import CUT_SHORT, DONE, Watched, check_clients, health_served, signals
from orbitmq.client.sending.queue_choice import QueueSelector

__all__ = [
    "FIRST_OFFSET",
    "LAST_OFFSET",
    "RETRY",
    "TIMESTAMP",
    "Admin",
    "BadAddress",
    "BatchPartlySent",
    "BrokerUnknown",
    "CannotIterate",
    "ClientError",
    "ClientEvent",
    "ClientEventKind",
    "Compression",
    "DeadLetterPolicy",
    "Delivery",
    "DeserializationFailed",
    "HandleNext",
    "HandlerCall",
    "HandlerTimeout",
    "IllegalMessage",
    "IllegalName",
    "InvalidArgument",
    "InvalidResult",
    "Message",
    "MessageQueue",
    "MessageTooLarge",
    "Middleware",
    "NoNameServer",
    "NoPermission",
    "NotRunning",
    "Outcome",
    "Producer",
    "PullConsumer",
    "Pulled",
    "PushConsumer",
    "ReceivedMessage",
    "Reply",
    "RequestTimeout",
    "Retry",
    "SeekFailed",
    "SendCall",
    "SendFailed",
    "SendNext",
    "SendResult",
    "SendStatus",
    "Sql",
    "TopicNotFound",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "WrongEventLoop",
    "run",
]


class Delivery:
    """A submitted message, for threads: `result()` waits until it is known what became of it."""

    def __init__(self, core: client.Delivery) -> None:
        self._core = core
        self._done: concurrent.futures.Future[SendResult] = concurrent.futures.Future()
        core.when_done(self._complete)

    def _complete(self, outcome: SendResult | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self._done.set_exception(outcome)
        else:
            self._done.set_result(outcome)

    @property
    def message(self) -> Message:
        """The message that was submitted."""
        return self._core.message

    def done(self) -> bool:
        """True if the fate of the message is known."""
        return self._done.done()

    def result(self, timeout_seconds: float | None = None) -> SendResult:
        """The message's place. Raises the reason of a failure; TimeoutError while that is unknown."""
        self._core.watch()
        return self._done.result(timeout_seconds)


@documented(client.Producer)
class Producer(SyncWrapper[client.Producer]):
    """`orbitmq.Producer`, waiting for every answer. Several threads may share one."""

    @constructor_of(client.Producer)
    def __init__(self) -> None: ...

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._core.client_id

    @property
    def healthy(self) -> bool:
        """True if it runs and nothing fails at present: for probes."""
        return self._core.healthy

    @property
    def errors(self) -> dict[str, Exception]:
        """Failures at present, by subject."""
        return dict(self._core.errors)

    queues = waiting(client.Producer.queues)
    send = waiting(client.Producer.send)
    flush = waiting(client.Producer.flush)
    request = waiting(client.Producer.request)
    send_oneway = waiting(client.Producer.send_oneway)
    send_batch = waiting(client.Producer.send_batch)
    send_all = waiting(client.Producer.send_all)
    recall = waiting(client.Producer.recall)
    close = waiting(client.Producer.close)

    def submit(
        self, message: Message, *, queue: MessageQueue | None = None, sharding_key: str | None = None
    ) -> Delivery:
        """Takes one message to be sent soon; see `orbitmq.Producer.submit`."""
        return self._run(_submitted(self._core, message, queue, sharding_key))


@documented(client.TransactionProducer)
class TransactionProducer(SyncWrapper[client.TransactionProducer]):
    """`orbitmq.TransactionProducer`, waiting for every answer. Local transactions run in the caller's thread,
    so that a database connection may belong to it; `check` runs in other threads.
    """

    @constructor_of(client.TransactionProducer)
    def __init__(self) -> None: ...

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._core.client_id

    @property
    def healthy(self) -> bool:
        """True if it runs and nothing fails at present: for probes."""
        return self._core.healthy

    @property
    def errors(self) -> dict[str, Exception]:
        """Failures at present, by subject."""
        return dict(self._core.errors)

    queues = waiting(client.TransactionProducer.queues)
    send = waiting(client.TransactionProducer.send)
    flush = waiting(client.TransactionProducer.flush)
    send_oneway = waiting(client.TransactionProducer.send_oneway)
    send_batch = waiting(client.TransactionProducer.send_batch)
    send_all = waiting(client.TransactionProducer.send_all)
    recall = waiting(client.TransactionProducer.recall)
    request = waiting(client.TransactionProducer.request)
    send_half = waiting(client.TransactionProducer.send_half)
    end_transaction = waiting(client.TransactionProducer.end_transaction)
    close = waiting(client.TransactionProducer.close)

    def submit(
        self, message: Message, *, queue: MessageQueue | None = None, sharding_key: str | None = None
    ) -> Delivery:
        """Takes one message to be sent soon; see `orbitmq.Producer.submit`."""
        return self._run(_submitted(self._core, message, queue, sharding_key))

    def send_in_transaction(
        self,
        message: Message,
        execute: Callable[[SendResult], TransactionState],
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        timeout_ms: float | None = None,
    ) -> TransactionResult:
        """Sends a half message, runs `execute`, a plain function, in this thread, and has the message
        published or dropped; see `orbitmq.TransactionProducer.send_in_transaction`.
        """
        sent = self.send_half(
            message, queue=queue, selector=selector, sharding_key=sharding_key, timeout_ms=timeout_ms
        )
        state = TransactionState.ROLLBACK
        if sent.status is SendStatus.SEND_OK:
            state = TransactionState(execute(sent))
        return self.end_transaction(sent, state)


@documented(client.PushConsumer)
class PushConsumer(SyncWrapper[client.PushConsumer]):
    """`orbitmq.PushConsumer`; messages without a handler come by `for message in consumer`."""

    @constructor_of(client.PushConsumer)
    def __init__(self) -> None: ...

    def subscribe(
        self,
        topic: str,
        tags: Wanted = "*",
        handler: client.Handler | client.BatchHandler | None = None,
        *,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        max_wait_ms: float = 0,
        manual_ack: bool = False,
        serializer: Serializer[Any] | None = None,
    ) -> None:
        """Asks for messages of a topic; see `orbitmq.PushConsumer.subscribe`."""
        subscribe = functools.partial(
            self._core.subscribe,
            timeout_ms=timeout_ms,
            max_messages=max_messages,
            max_wait_ms=max_wait_ms,
            manual_ack=manual_ack,
            serializer=serializer,
        )
        self._run(later(subscribe, topic, tags, handler))

    def unsubscribe(self, topic: str) -> None:
        """Gives a topic up."""
        self._run(later(self._core.unsubscribe, topic))

    def pause(self, *queues: MessageQueue) -> None:
        """Has nothing more pulled until `resume`; see `orbitmq.PushConsumer.pause`."""
        self._run(later(self._core.pause, *queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Goes on after `pause`."""
        self._run(later(self._core.resume, *queues))

    @property
    def is_paused(self) -> bool:
        """True if nothing more is pulled."""
        return self._core.is_paused

    def on(
        self,
        topic: str,
        tags: Wanted = "*",
        *,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        max_wait_ms: float = 0,
        manual_ack: bool = False,
        serializer: Serializer[Any] | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """A decorator that subscribes; see `orbitmq.PushConsumer.on`."""

        def subscribed(handler: HandlerT) -> HandlerT:
            self.subscribe(
                topic,
                tags,
                handler,
                timeout_ms=timeout_ms,
                max_messages=max_messages,
                max_wait_ms=max_wait_ms,
                manual_ack=manual_ack,
                serializer=serializer,
            )
            return handler

        return subscribed

    def hurry(self) -> None:
        """Cancels the handlers that `close` is waiting for."""
        self._run(later(self._core.hurry))

    seek = waiting(client.PushConsumer.seek)
    drain = waiting(client.PushConsumer.drain)
    ack = waiting(client.PushConsumer.ack)
    retry = waiting(client.PushConsumer.retry)
    reply = waiting(client.PushConsumer.reply)
    wait_closed = waiting(client.PushConsumer.wait_closed)
    close = waiting(client.PushConsumer.close)

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._core.client_id

    @property
    def healthy(self) -> bool:
        """True if it runs and nothing fails at present."""
        return self._core.healthy

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now, sorted, without those of retry topics."""
        return self._core.queues

    @property
    def errors(self) -> dict[str, Exception]:
        """Failures at present, by subject."""
        return dict(self._core.errors)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Messages of topics that have no handler; each is done when the next one is asked for."""
        messages: AsyncIterator[ReceivedMessage] = self._run(later(self._core.__aiter__))
        while True:
            message = self._run(_next(messages))
            if message is None:
                return
            yield message


async def _submitted(
    core: client.Producer, message: Message, queue: MessageQueue | None, sharding_key: str | None
) -> Delivery:
    return Delivery(await core.submit(message, queue=queue, sharding_key=sharding_key))


async def _next(messages: AsyncIterator[ReceivedMessage]) -> ReceivedMessage | None:
    """The next message, None when there are no more."""
    return await anext(messages, None)


def run(*clients: Producer | PushConsumer, timeout_ms: float | None = None, health: str | None = None) -> int:
    """Starts consumers, and producers that their handlers need, and runs them until they are to stop.

    See `orbitmq.run`. Has to be called in the main thread.
    """
    check_clients(clients, (Producer, PushConsumer))
    consumers = [one for one in clients if isinstance(one, PushConsumer)]
    asked = threading.Event()

    def stop() -> None:
        if asked.is_set():
            for consumer in consumers:
                consumer.hurry()
        asked.set()

    with signals(stop), contextlib.ExitStack() as opened:
        if health is not None:
            opened.enter_context(_health_served(clients, health))
        for client_ in sorted(clients, key=lambda one: isinstance(one, PushConsumer)):
            opened.enter_context(client_)
        for consumer in consumers:
            get_background().start(consumer._core.wait_closed()).add_done_callback(lambda _: asked.set())
        asked.wait()
        draining = [get_background().start(consumer._core.drain(timeout_ms)) for consumer in consumers]
        in_time = [drained.result() for drained in draining]
    return DONE if all(in_time) else CUT_SHORT


@contextlib.contextmanager
def _health_served(clients: Sequence[Watched], address: str) -> Iterator[None]:
    served = health_served(clients, address)
    get_background().run(served.__aenter__())
    try:
        yield
    finally:
        get_background().run(served.__aexit__(None, None, None))


@documented(client.PullConsumer)
class PullConsumer(SyncWrapper[client.PullConsumer]):
    """`orbitmq.PullConsumer`, waiting for every answer."""

    @constructor_of(client.PullConsumer)
    def __init__(self) -> None: ...

    queues = waiting(client.PullConsumer.queues)
    pull = waiting(client.PullConsumer.pull)
    min_offset = waiting(client.PullConsumer.min_offset)
    max_offset = waiting(client.PullConsumer.max_offset)
    offset_at = waiting(client.PullConsumer.offset_at)
    committed = waiting(client.PullConsumer.committed)
    commit = waiting(client.PullConsumer.commit)
    close = waiting(client.PullConsumer.close)


class Admin(SyncWrapper[admin.Admin]):
    """`orbitmq.Admin`, waiting for every answer."""

    @constructor_of(admin.Admin)
    def __init__(self) -> None: ...

    create_topic = waiting(admin.Admin.create_topic)
    delete_topic = waiting(admin.Admin.delete_topic)
    topics = waiting(admin.Admin.topics)
    topic_route = waiting(admin.Admin.topic_route)
    topic_status = waiting(admin.Admin.topic_status)
    set_topic_perm = waiting(admin.Admin.set_topic_perm)
    create_group = waiting(admin.Admin.create_group)
    delete_group = waiting(admin.Admin.delete_group)
    group_connections = waiting(admin.Admin.group_connections)
    broker_status = waiting(admin.Admin.broker_status)
    groups = waiting(admin.Admin.groups)
    group_progress = waiting(admin.Admin.group_progress)
    reset_offsets = waiting(admin.Admin.reset_offsets)
    set_offset = waiting(admin.Admin.set_offset)
    view_message = waiting(admin.Admin.view_message)
    message_at = waiting(admin.Admin.message_at)
    query_messages = waiting(admin.Admin.query_messages)
    cluster_list = waiting(admin.Admin.cluster_list)
    broker_config = waiting(admin.Admin.broker_config)
    set_broker_config = waiting(admin.Admin.set_broker_config)
    close = waiting(admin.Admin.close)

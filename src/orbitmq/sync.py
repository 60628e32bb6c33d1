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

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

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


class _Core(Protocol):
    async def start(self) -> Any: ...

    async def close(self) -> None: ...


P = ParamSpec("P")
R = TypeVar("R")
CoreT = TypeVar("CoreT", bound=_Core)
WrapperT = TypeVar("WrapperT", bound="_SyncWrapper[Any]")


class _Background:
    """The thread with the event loop, a daemon: a program that forgets to close something still ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="orbitmq event loop", daemon=True)
        thread.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Has `work` done on the loop and gives its result. An interrupt cancels it."""
        if self.pid != os.getpid():
            work.close()
            raise NotRunning("made before this process was forked: make another one here")
        if asyncio._get_running_loop() is self._loop:
            work.close()
            raise RuntimeError("an async handler runs on the event loop: it must not wait for it")
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        """Has `work` done on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


_background: _Background | None = None
_starting = threading.Lock()


def _get_background() -> _Background:
    global _background, _starting
    if _background is not None and _background.pid == os.getpid():
        return _background
    if _background is not None:
        _starting = threading.Lock()  # the one of the parent may have been held when it forked
        _background = None
    with _starting:
        if _background is None:
            _background = _Background()
    return _background


class _SyncWrapper(Generic[CoreT]):
    """The common part of the blocking forms."""

    _make: Callable[..., CoreT]

    def _set_up(self, core: CoreT) -> None:
        self._core = core
        self._background: _Background | None = None

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        background = self._background or _get_background()
        return background.run(work)

    def start(self) -> Self:
        """Makes it ready. `with` does so."""
        self._background = _get_background()
        self._run(self._core.start())
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._core.close())


def _like(
    make: Callable[P, Any],
) -> Callable[[Callable[[WrapperT], None]], Callable[Concatenate[WrapperT, P], None]]:
    """A constructor with the arguments of the class behind it."""

    def constructor(_: Callable[[WrapperT], None]) -> Callable[Concatenate[WrapperT, P], None]:
        def init(self: WrapperT, /, *args: P.args, **kwargs: P.kwargs) -> None:
            self._set_up(make(*args, **kwargs))

        # For `help` and editors: the names and defaults, which `*args` does not show.
        taken = inspect.signature(make)
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        shown: Any = init
        shown.__signature__ = taken.replace(
            parameters=[own, *taken.parameters.values()], return_annotation=None
        )

        return init

    return constructor


def _waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """A method that has its namesake done on the loop."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._run(method(self._core, *args, **kwargs))
        return result

    return call


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
class Producer(_SyncWrapper[client.Producer]):
    """`orbitmq.Producer`, waiting for every answer. Several threads may share one."""

    @_like(client.Producer)
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

    queues = _waiting(client.Producer.queues)
    send = _waiting(client.Producer.send)
    flush = _waiting(client.Producer.flush)
    request = _waiting(client.Producer.request)
    send_oneway = _waiting(client.Producer.send_oneway)
    send_batch = _waiting(client.Producer.send_batch)
    send_all = _waiting(client.Producer.send_all)
    recall = _waiting(client.Producer.recall)
    close = _waiting(client.Producer.close)

    def submit(
        self, message: Message, *, queue: MessageQueue | None = None, sharding_key: str | None = None
    ) -> Delivery:
        """Takes one message to be sent soon; see `orbitmq.Producer.submit`."""
        return self._run(_submitted(self._core, message, queue, sharding_key))


@documented(client.TransactionProducer)
class TransactionProducer(_SyncWrapper[client.TransactionProducer]):
    """`orbitmq.TransactionProducer`, waiting for every answer. Local transactions run in the caller's thread,
    so that a database connection may belong to it; `check` runs in other threads.
    """

    @_like(client.TransactionProducer)
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

    queues = _waiting(client.TransactionProducer.queues)
    send = _waiting(client.TransactionProducer.send)
    flush = _waiting(client.TransactionProducer.flush)
    send_oneway = _waiting(client.TransactionProducer.send_oneway)
    send_batch = _waiting(client.TransactionProducer.send_batch)
    send_all = _waiting(client.TransactionProducer.send_all)
    recall = _waiting(client.TransactionProducer.recall)
    request = _waiting(client.TransactionProducer.request)
    send_half = _waiting(client.TransactionProducer.send_half)
    end_transaction = _waiting(client.TransactionProducer.end_transaction)
    close = _waiting(client.TransactionProducer.close)

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
class PushConsumer(_SyncWrapper[client.PushConsumer]):
    """`orbitmq.PushConsumer`; messages without a handler come by `for message in consumer`."""

    @_like(client.PushConsumer)
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
        self._run(_later(subscribe, topic, tags, handler))

    def unsubscribe(self, topic: str) -> None:
        """Gives a topic up."""
        self._run(_later(self._core.unsubscribe, topic))

    def pause(self, *queues: MessageQueue) -> None:
        """Has nothing more pulled until `resume`; see `orbitmq.PushConsumer.pause`."""
        self._run(_later(self._core.pause, *queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Goes on after `pause`."""
        self._run(_later(self._core.resume, *queues))

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
        self._run(_later(self._core.hurry))

    seek = _waiting(client.PushConsumer.seek)
    drain = _waiting(client.PushConsumer.drain)
    ack = _waiting(client.PushConsumer.ack)
    retry = _waiting(client.PushConsumer.retry)
    reply = _waiting(client.PushConsumer.reply)
    wait_closed = _waiting(client.PushConsumer.wait_closed)
    close = _waiting(client.PushConsumer.close)

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
        messages: AsyncIterator[ReceivedMessage] = self._run(_later(self._core.__aiter__))
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


async def _later(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """A plain call, made on the loop: what it touches belongs to the loop's thread."""
    return function(*args, **kwargs)


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
            _get_background().start(consumer._core.wait_closed()).add_done_callback(lambda _: asked.set())
        asked.wait()
        draining = [_get_background().start(consumer._core.drain(timeout_ms)) for consumer in consumers]
        in_time = [drained.result() for drained in draining]
    return DONE if all(in_time) else CUT_SHORT


@contextlib.contextmanager
def _health_served(clients: Sequence[Watched], address: str) -> Iterator[None]:
    served = health_served(clients, address)
    _get_background().run(served.__aenter__())
    try:
        yield
    finally:
        _get_background().run(served.__aexit__(None, None, None))


@documented(client.PullConsumer)
class PullConsumer(_SyncWrapper[client.PullConsumer]):
    """`orbitmq.PullConsumer`, waiting for every answer."""

    @_like(client.PullConsumer)
    def __init__(self) -> None: ...

    queues = _waiting(client.PullConsumer.queues)
    pull = _waiting(client.PullConsumer.pull)
    min_offset = _waiting(client.PullConsumer.min_offset)
    max_offset = _waiting(client.PullConsumer.max_offset)
    offset_at = _waiting(client.PullConsumer.offset_at)
    committed = _waiting(client.PullConsumer.committed)
    commit = _waiting(client.PullConsumer.commit)
    close = _waiting(client.PullConsumer.close)


class Admin(_SyncWrapper[admin.Admin]):
    """`orbitmq.Admin`, waiting for every answer."""

    @_like(admin.Admin)
    def __init__(self) -> None: ...

    create_topic = _waiting(admin.Admin.create_topic)
    delete_topic = _waiting(admin.Admin.delete_topic)
    topics = _waiting(admin.Admin.topics)
    topic_route = _waiting(admin.Admin.topic_route)
    topic_status = _waiting(admin.Admin.topic_status)
    set_topic_perm = _waiting(admin.Admin.set_topic_perm)
    create_group = _waiting(admin.Admin.create_group)
    delete_group = _waiting(admin.Admin.delete_group)
    group_connections = _waiting(admin.Admin.group_connections)
    broker_status = _waiting(admin.Admin.broker_status)
    groups = _waiting(admin.Admin.groups)
    group_progress = _waiting(admin.Admin.group_progress)
    reset_offsets = _waiting(admin.Admin.reset_offsets)
    set_offset = _waiting(admin.Admin.set_offset)
    view_message = _waiting(admin.Admin.view_message)
    message_at = _waiting(admin.Admin.message_at)
    query_messages = _waiting(admin.Admin.query_messages)
    cluster_list = _waiting(admin.Admin.cluster_list)
    broker_config = _waiting(admin.Admin.broker_config)
    set_broker_config = _waiting(admin.Admin.set_broker_config)
    close = _waiting(admin.Admin.close)

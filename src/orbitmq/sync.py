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
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from orbitmq import client
from orbitmq.client import (
    FIRST_OFFSET,
    LAST_OFFSET,
    RETRY,
    TIMESTAMP,
    BatchPartlySent,
    ClientError,
    Compression,
    IllegalMessage,
    Message,
    MessageQueue,
    MessageTooLarge,
    NoNameServer,
    NotRunning,
    Pulled,
    ReceivedMessage,
    Reply,
    RequestTimeout,
    Retry,
    SendFailed,
    SendResult,
    SendStatus,
    Sql,
    TopicNotFound,
    TransactionResult,
    TransactionState,
)
from orbitmq.client.queue_choice import QueueSelector
from orbitmq.client.subscription import Wanted

__all__ = [
    "FIRST_OFFSET",
    "LAST_OFFSET",
    "RETRY",
    "TIMESTAMP",
    "BatchPartlySent",
    "ClientError",
    "Compression",
    "IllegalMessage",
    "Message",
    "MessageQueue",
    "MessageTooLarge",
    "NoNameServer",
    "NotRunning",
    "Producer",
    "PullConsumer",
    "Pulled",
    "PushConsumer",
    "ReceivedMessage",
    "Reply",
    "RequestTimeout",
    "Retry",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "Sql",
    "TopicNotFound",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]


class _Core(Protocol):
    async def start(self) -> Any: ...

    async def close(self) -> None: ...


P = ParamSpec("P")
R = TypeVar("R")
CoreT = TypeVar("CoreT", bound=_Core)
FaceT = TypeVar("FaceT", bound="_Face[Any]")


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
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise


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


class _Face(Generic[CoreT]):
    """What the blocking forms have in common."""

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
) -> Callable[[Callable[[FaceT], None]], Callable[Concatenate[FaceT, P], None]]:
    """A constructor with the arguments of the class behind it."""

    def constructor(_: Callable[[FaceT], None]) -> Callable[Concatenate[FaceT, P], None]:
        def init(self: FaceT, /, *args: P.args, **kwargs: P.kwargs) -> None:
            self._set_up(make(*args, **kwargs))

        return init

    return constructor


def _waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """A method that has its namesake done on the loop."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._run(method(self._core, *args, **kwargs))
        return result

    return call


class Producer(_Face[client.Producer]):
    """`orbitmq.Producer`, waiting for every answer. Several threads may share one."""

    @_like(client.Producer)
    def __init__(self) -> None: ...

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._core.client_id

    queues = _waiting(client.Producer.queues)
    send = _waiting(client.Producer.send)
    request = _waiting(client.Producer.request)
    send_oneway = _waiting(client.Producer.send_oneway)
    send_batch = _waiting(client.Producer.send_batch)
    send_all = _waiting(client.Producer.send_all)
    recall = _waiting(client.Producer.recall)
    close = _waiting(client.Producer.close)


class TransactionProducer(_Face[client.TransactionProducer]):
    """`orbitmq.TransactionProducer`, waiting for every answer. Local transactions run in the caller's thread,
    so that a database connection may belong to it; `check` runs in other threads.
    """

    @_like(client.TransactionProducer)
    def __init__(self) -> None: ...

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._core.client_id

    queues = _waiting(client.TransactionProducer.queues)
    send = _waiting(client.TransactionProducer.send)
    send_oneway = _waiting(client.TransactionProducer.send_oneway)
    send_batch = _waiting(client.TransactionProducer.send_batch)
    send_all = _waiting(client.TransactionProducer.send_all)
    recall = _waiting(client.TransactionProducer.recall)
    request = _waiting(client.TransactionProducer.request)
    send_half = _waiting(client.TransactionProducer.send_half)
    settle = _waiting(client.TransactionProducer.settle)
    close = _waiting(client.TransactionProducer.close)

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
        return self.settle(sent, state)


class PushConsumer(_Face[client.PushConsumer]):
    """`orbitmq.PushConsumer`; messages without a handler come by `for message in consumer`."""

    @_like(client.PushConsumer)
    def __init__(self) -> None: ...

    def subscribe(self, topic: str, tags: Wanted = "*", handler: client.Handler | None = None) -> None:
        """Asks for messages of a topic; see `orbitmq.PushConsumer.subscribe`."""
        self._run(_later(self._core.subscribe, topic, tags, handler))

    def unsubscribe(self, topic: str) -> None:
        """Gives a topic up."""
        self._run(_later(self._core.unsubscribe, topic))

    def pause(self) -> None:
        """Has nothing more pulled until `resume`; see `orbitmq.PushConsumer.pause`."""
        self._run(_later(self._core.pause))

    def resume(self) -> None:
        """Goes on after `pause`."""
        self._run(_later(self._core.resume))

    @property
    def is_paused(self) -> bool:
        """Whether nothing more is pulled."""
        return self._core.is_paused

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
        """Whether it runs and nothing fails at present."""
        return self._core.healthy

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now, sorted, without those of retry topics."""
        return self._core.queues

    @property
    def trouble(self) -> dict[str, Exception]:
        """What fails at present, by subject."""
        return dict(self._core.trouble)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Messages of topics that have no handler; each is done when the next one is asked for."""
        messages: AsyncIterator[ReceivedMessage] = self._run(_later(self._core.__aiter__))
        while True:
            message = self._run(_next(messages))
            if message is None:
                return
            yield message


async def _next(messages: AsyncIterator[ReceivedMessage]) -> ReceivedMessage | None:
    """The next message, None when there are no more."""
    return await anext(messages, None)


async def _later(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """A plain call, made on the loop: what it touches belongs to the loop's thread."""
    return function(*args, **kwargs)


class PullConsumer(_Face[client.PullConsumer]):
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

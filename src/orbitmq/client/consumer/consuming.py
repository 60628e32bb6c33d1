"""Handing messages to handlers, any number at a time, and what follows from what they say."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from orbitmq.client.consumer.by_key import KeyLimit, key_of
from orbitmq.client.consumer.closable_queue import Ready
from orbitmq.client.consumer.closing import Closers
from orbitmq.client.consumer.context import ConsumerContext, Subscription
from orbitmq.client.consumer.gathering import Gathering, Taken, parts
from orbitmq.client.consumer.process_queue import ProcessQueue
from orbitmq.client.consumer.replying import send_reply
from orbitmq.client.consumer.sending_back import SendBack
from orbitmq.client.core.background import Kept
from orbitmq.client.core.calling import LET_OUT, call, is_cancelled
from orbitmq.client.core.errors import HandlerTimeout
from orbitmq.client.core.handlers import HoldBack, Outcome, Reply, Retry, checked
from orbitmq.client.core.instance import HANDLER, now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.middleware import HandlerCall, handle_through
from orbitmq.client.trace.records import Handled
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import KEY_SEPARATOR

AGAIN_SECONDS = 5.0
"""Pause before a message is handled again that could not even be sent back."""
SLICE_SECONDS = 0.005
"""A worker whose handler never waits lets others have the loop after so long."""
EXPIRED_AT_ONCE = 16
EXPIRED_DELAY_LEVEL = 3


class Handling:
    """Calls handlers: async ones here, plain ones in threads."""

    def __init__(self, session: ConsumerContext) -> None:
        self._session = session
        self._threads: ThreadPoolExecutor | None = None

    async def handle_one(self, subscription: Subscription, message: ReceivedMessage) -> Retry | None:
        """The same as `handle` for one message: the way of nearly all, with nothing on it that they spare."""
        session = self._session
        if (
            not subscription.is_async
            or message.body_error is not None
            or subscription.timeout_ms is not None
            or session.tracer is not None
            or session.options.middleware
        ):
            return (await self.handle(subscription, [message]))[0]
        handler: Callable[[Any], Any] | None = subscription.handler
        assert handler is not None
        if subscription.serializer is not None:
            message.serializer = subscription.serializer
        message.consume_start_ms = time.time_ns() // 1_000_000
        started = time.perf_counter()
        try:
            outcome = await handler(message)
            if outcome is not None and outcome is not True:
                outcome = checked(outcome, (message,), batch=False)
        except Retry as retry:
            outcome = _unshared(retry)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            outcome = Retry()
            outcome.__cause__ = RuntimeError(LET_OUT)
        except Exception as error:
            outcome = Retry()
            outcome.__cause__ = error
        stats = session.stats.get(message.wire_topic) or session.stats_of(message.wire_topic)
        stats.consume_ms += (time.perf_counter() - started) * 1000
        if outcome is None or outcome is True:
            stats.consume_ok += 1
            return None
        if isinstance(outcome, Reply):
            await self._reply(message, outcome)
            stats.consume_ok += 1
            return None
        if isinstance(outcome.__cause__, Exception):
            self._report([message], outcome.__cause__)
        if isinstance(outcome, HoldBack):
            return _of_each(outcome, (message,))[0]
        stats.consume_failed += 1
        return outcome if outcome.messages is None or message in outcome.messages else None

    async def handle(
        self, subscription: Subscription, messages: Sequence[ReceivedMessage]
    ) -> list[Retry | None]:
        """The outcome of each of `messages`, all of one topic: they are one call of the handler.

        A `Retry` where it is to come again, its `__cause__` the reason; None where it is done.
        """
        session = self._session
        if any(message.body_error is not None for message in messages):
            return await self._handle_readable(subscription, messages)
        began_ms = now_ms()
        for message in messages:
            message.consume_start_ms = began_ms
        started = time.perf_counter()
        stats = session.stats_of(messages[0].wire_topic)
        tracer = session.tracer
        traced = None if tracer is None else [tracer.handling(message) for message in messages]
        raised = False
        try:
            outcome = await self.call(subscription, messages)
        except Exception as error:
            outcome, raised = Retry(), True
            outcome.__cause__ = error
        outcomes = _of_each(outcome, messages)
        if isinstance(outcome, Retry) and isinstance(outcome.__cause__, Exception):
            failed = [message for message, retry in zip(messages, outcomes, strict=True) if retry is not None]
            self._report(failed or messages, outcome.__cause__)
        took_ms = (time.perf_counter() - started) * 1000
        stats.consume_ms += took_ms
        if tracer is not None and traced is not None:
            for message, one, retry in zip(messages, traced, outcomes, strict=True):
                if one is not None:
                    failure = Handled.EXCEPTION if raised else Handled.FAILED
                    tracer.handled(message, one, int(took_ms), Handled.SUCCESS if retry is None else failure)
        if isinstance(outcome, Reply):
            await self._reply(messages[0], outcome)
        stats.consume_ok += outcomes.count(None)
        stats.consume_failed += sum(one is not None and not isinstance(one, HoldBack) for one in outcomes)
        return outcomes

    async def _handle_readable(
        self, subscription: Subscription, messages: Sequence[ReceivedMessage]
    ) -> list[Retry | None]:
        """The same where bodies of some cannot be read: these fail without a call of the handler."""
        readable = [message for message in messages if message.body_error is None]
        handled = iter(await self.handle(subscription, readable) if readable else ())
        outcomes = []
        for message in messages:
            if message.body_error is None:
                outcomes.append(next(handled))
                continue
            message.consume_start_ms = now_ms()
            retry = Retry()
            retry.__cause__ = message.body_error
            self._report([message], message.body_error)
            self._session.stats_of(message.wire_topic).consume_failed += 1
            outcomes.append(retry)
        return outcomes

    def _report(self, messages: Sequence[ReceivedMessage], error: Exception) -> None:
        """Logs what a handler raised, with what finds the message again, of several the first one."""
        message = messages[0]
        queue = message.queue
        details = {
            "message_id": message.message_id,
            "keys": KEY_SEPARATOR.join(message.keys) or "-",
            "queue": f"{queue.broker_name}:{queue.queue_id}:{message.queue_offset}",
            "attempt": message.reconsume_times + 1,
        }
        if len(messages) > 1:
            details["messages"] = len(messages)
        self._session.instance.report(f"{HANDLER}{message.topic}", error, lasting=False, details=details)

    async def _reply(self, message: ReceivedMessage, reply: Reply) -> None:
        """Sends a reply; if that fails the message is not handled again all the same: it would be late."""
        instance = self._session.instance
        try:
            await send_reply(self._session, message, reply)
        except OrbitError as error:
            instance.report(f"reply to a request on {message.topic}", error, lasting=False)

    async def call(
        self, subscription: Subscription, messages: Sequence[ReceivedMessage]
    ) -> Retry | Reply | None:
        """Calls the handler, through the middleware, and gives its result, a `Retry` that it raised included.

        Raises what they raise, InvalidResult for a result that is none.
        """
        middleware = self._session.options.middleware
        if not middleware:
            return await self._call(subscription, messages)

        async def handle() -> Outcome:
            return await self._call(subscription, messages)

        try:
            outcome = await handle_through(
                middleware, HandlerCall(self._session.options.shown_group, messages), handle
            )
        except Retry as retry:
            outcome = _unshared(retry)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise RuntimeError(LET_OUT) from None
        return checked(outcome, messages, batch=subscription.max_messages is not None)

    async def _call(
        self, subscription: Subscription, messages: Sequence[ReceivedMessage]
    ) -> Retry | Reply | None:
        """The same without middleware."""
        handler: Callable[[Any], Any] | None = subscription.handler
        assert handler is not None
        if subscription.serializer is not None:
            for message in messages:
                message.serializer = subscription.serializer
        batch = subscription.max_messages is not None
        given: Any = list(messages) if batch else messages[0]
        if self._threads is None and not subscription.is_async:
            self._threads = ThreadPoolExecutor(
                self._session.options.concurrency, thread_name_prefix=f"orbitmq {self._session.group}"
            )
        working = call(handler, given, asynchronous=subscription.is_async, threads=self._threads)
        try:
            if subscription.timeout_ms is None:
                outcome = await working
            else:
                outcome = await _in_time(working, subscription.timeout_ms)
        except Retry as retry:
            outcome = _unshared(retry)
        return checked(outcome, messages, batch=batch)

    def close(self) -> None:
        """Lets go of the threads; a plain function that still runs cannot be stopped."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _unshared(raised: Retry) -> Retry:
    """The same as a new one: one that is raised may be shared, as RETRY is, and keeps nothing of a call."""
    retry = (
        HoldBack(raised.pause_ms, messages=raised.messages, others=raised.others)
        if isinstance(raised, HoldBack)
        else Retry(raised.delay_level, messages=raised.messages)
    )
    retry.__cause__ = raised.__cause__
    raised.__cause__ = raised.__context__ = raised.__traceback__ = None
    return retry


def _of_each(outcome: Retry | Reply | None, messages: Sequence[ReceivedMessage]) -> list[Retry | None]:
    """The outcome of a call, for each message of it."""
    if not isinstance(outcome, Retry):
        return [None] * len(messages)
    if outcome.messages is None:
        return [outcome] * len(messages)
    named = set(outcome.messages)
    rest: list[Retry | None] = [None] * len(messages)
    if isinstance(outcome, HoldBack) and isinstance(outcome.others, Retry):
        rest = _of_each(outcome.others, messages)
    return [outcome if message in named else other for message, other in zip(messages, rest, strict=True)]


async def _in_time(working: Coroutine[Any, Any, object], timeout_ms: float) -> object:
    """The handler's result. Raises HandlerTimeout where it was cancelled; its own TimeoutErrors pass."""
    timer = asyncio.timeout(timeout_ms / 1000)
    try:
        async with timer:
            return await working
    except TimeoutError:
        if not timer.expired():
            raise
        text = f"the handler did not end within {timeout_ms:g} ms and was cancelled"
        raise HandlerTimeout(text) from None


class Ending(Protocol):
    """Messages that are being handled, as far as the end of a consumer is concerned."""

    async def finish(self, closers: Closers) -> None:
        """Takes no more messages, and returns when those being handled are done.

        Handlers among `closers`, which close their own consumer, are not waited for.
        """

    async def close(self, closers: Closers) -> None:
        """Cancels what is still being handled, save by `closers`."""


class Consumption(Ending, Protocol):
    """The order in which messages that came are worked off."""

    def start(self) -> None:
        """Begins."""

    def deliver(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Takes messages of one queue, in its order."""

    def taken(self, held: ProcessQueue) -> None:
        """A queue has become ours."""

    async def dropped(self, held: ProcessQueue) -> None:
        """A queue is no more ours; returns when nothing of it is left to be waited for."""

    async def released(self, held: ProcessQueue) -> None:
        """The broker has heard how far a queue that is no more ours is done."""


class ConcurrentConsumption:
    """Messages in any order, `concurrency` at a time; those without a handler wait for iterators."""

    def __init__(self, session: ConsumerContext, handling: Handling) -> None:
        self._session = session
        self._handling = handling
        self._send_back = SendBack(session)
        self._ready: Ready[Taken | tuple[ProcessQueue, ReceivedMessage]] = Ready()
        """Calls of handlers to come: of a list, or of a message by itself."""
        self._gathered: dict[str, Gathering] = {}
        """By topic, what waits for its batch to become full."""
        most = session.options.max_in_flight_per_key
        self._by_key = None if most is None else KeyLimit(most, self._ready.put)
        self._for_iterators: Ready[tuple[ProcessQueue, ReceivedMessage]] = Ready()
        self._workers: list[Kept] = []
        self._finishing = False

    # Life.

    def start(self) -> None:
        for number in range(self._session.options.concurrency):
            name = f"orbitmq handler {number} of {self._session.group}"
            self._workers.append(self._session.instance.tasks.keep(self._work, name, owned=False))

    async def finish(self, closers: Closers) -> None:
        self._finishing = True
        for gathering in self._gathered.values():
            gathering.cancel()
        self._ready.shut()
        self._for_iterators.shut()
        await closers.wait_for_others(worker.task for worker in self._workers)

    async def close(self, closers: Closers) -> None:
        tasks = closers.others(worker.task for worker in self._workers)
        for worker in self._workers:
            if worker.task in tasks:
                worker.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Coming in.

    def taken(self, held: ProcessQueue) -> None:
        """Nothing is to be done for a queue by itself."""

    async def dropped(self, held: ProcessQueue) -> None:
        """Messages in hand are finished by their handlers, and then not committed."""
        for gathering in self._gathered.values():
            gathering.leave_out(held)

    async def released(self, held: ProcessQueue) -> None:
        """Nothing was locked."""

    def deliver(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        if self._finishing or not messages:
            return
        topic = messages[0].wire_topic
        subscription = self._session.subscription_of(topic)
        if (
            subscription is not None
            and subscription.handler is not None
            and subscription.max_messages is None
            and self._by_key is None
            and all(message.wire_topic is topic or message.wire_topic == topic for message in messages)
        ):
            self._ready.put_all([(held, message) for message in messages])
        else:
            for message in messages:
                self._put(held, message)

    def _put(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        subscription = self._session.subscription_of(message.wire_topic)
        if subscription is None:
            return
        if subscription.handler is None:
            self._for_iterators.put((held, message))
        elif subscription.max_messages is None:
            key = None if self._by_key is None else key_of(message)
            if self._by_key is not None and key is not None:
                self._by_key.offer(key, [(held, message)])
            else:
                self._ready.put((held, message))
        else:
            gathering = self._gathered.get(message.wire_topic)
            if gathering is None:
                gathering = self._gathered[message.wire_topic] = Gathering(self._ready.put)
            gathering.add(held, message, subscription.max_messages, subscription.max_wait_ms)

    # Handlers.

    async def _work(self) -> None:
        ready, clock = self._ready, time.monotonic
        began = clock()
        while (taken := ready.pop() or await ready.take()) is not None:
            try:
                if isinstance(taken, tuple):
                    await self._handle_one(*taken)
                else:
                    await self._handle(taken)
            except asyncio.CancelledError:
                ready.put(taken)  # for those that begin again, unless this is the end
                raise
            except Exception as error:
                # A fault of this library's own: the message stays unfinished, the worker continues.
                first = taken if isinstance(taken, tuple) else taken[0]
                self._session.instance.report(f"handling of {first[1]!r}", error, lasting=False)
            if self._by_key is not None:
                first = taken if isinstance(taken, tuple) else taken[0]
                if (key := key_of(first[1])) is not None:
                    self._by_key.done(key)
            if clock() - began > SLICE_SECONDS:
                await asyncio.sleep(0)
                began = clock()

    async def _handle_one(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        """The same as `_handle` for a message by itself."""
        if held.dropped or not held.holds(message):
            return
        session, topic = self._session, message.wire_topic
        subscription = session.subscriptions.get(topic) or session.subscription_of(topic)
        if (
            subscription is None
            or subscription.handler is None
            or subscription.manual_ack
            or subscription.max_messages is not None
        ):
            await self._handle([(held, message)])
            return
        outcome = await self._handling.handle_one(subscription, message)
        if outcome is not None:
            await self.complete(held, message, outcome)
        elif not held.dropped:
            held.last_consume_ms = time.time_ns() // 1_000_000
            offset = held.finish(message)
            if offset is not None and offset > held.progress.offset:
                held.progress.offset = offset

    async def _handle(self, taken: Taken) -> None:
        ours = [(held, message) for held, message in taken if not held.dropped and held.holds(message)]
        if not ours:
            return
        subscription = self._session.subscription_of(ours[0][1].wire_topic)
        if subscription is None or subscription.handler is None:
            return
        # The topic may have been subscribed to again meanwhile, by a handler that takes fewer at a time.
        for part in parts(ours, subscription.max_messages or 1):
            if subscription.manual_ack:
                for held, message in part:
                    self._let_ack(held, message)
            outcomes = await self._handling.handle(subscription, [message for _, message in part])
            settling = [
                self.complete(held, message, outcome)
                for (held, message), outcome in zip(part, outcomes, strict=True)
                if outcome is not None or not subscription.manual_ack
            ]
            if len(settling) == 1:
                await settling[0]
            else:
                await asyncio.gather(*settling)

    def _let_ack(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        message.on_ack = functools.partial(self.complete, held, outcome=None)

    async def complete(self, held: ProcessQueue, message: ReceivedMessage, outcome: Retry | None) -> None:
        """Finishes a message, or sends it back."""
        if held.dropped:
            return
        held.last_consume_ms = now_ms()
        if isinstance(outcome, HoldBack) and held.holds(message):
            self._hand_out_after(outcome.pause_ms / 1000, held, message)
            return
        # Of broadcast messages every member has its own copy: no broker hands them out again.
        if (
            outcome is not None
            and held.holds(message)
            and not self._session.options.broadcasting
            and not await self._send_back.to_broker(message, outcome)
        ):
            message.reconsume_times += 1
            self._hand_out_after(AGAIN_SECONDS, held, message)
            return
        self._done(held, message)

    def _done(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        offset = held.finish(message)
        if offset is not None and not held.dropped:
            held.progress.advance(offset)

    def _hand_out_after(self, seconds: float, held: ProcessQueue, message: ReceivedMessage) -> None:
        message.consume_start_ms = 0
        asyncio.get_running_loop().call_later(seconds, self._again, held, message)

    def _again(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        if not held.dropped and not self._finishing:
            self._put(held, message)

    async def send_back_expired(self, held: ProcessQueue) -> None:
        """Sends back the oldest messages of a queue on which a handler works for too long."""
        limit_ms = self._session.options.consume_timeout_ms
        for message in held.oldest(EXPIRED_AT_ONCE):
            if not message.consume_start_ms or now_ms() - message.consume_start_ms <= limit_ms:
                return
            if held.dropped or not held.holds(message):
                continue
            expired = Retry(EXPIRED_DELAY_LEVEL)
            expired.__cause__ = HandlerTimeout(f"a handler worked on it for more than {limit_ms} ms")
            if await self._send_back.to_broker(message, expired):
                self._done(held, message)

    # Iterators.

    async def next_for_iterator(self) -> tuple[ProcessQueue, ReceivedMessage] | None:
        """The next message of a topic without a handler; None once there are no more."""
        while (taken := await self._for_iterators.take()) is not None:
            held, message = taken
            if not held.dropped and held.holds(message):
                message.consume_start_ms = now_ms()
                subscription = self._session.subscription_of(message.wire_topic)
                message.serializer = None if subscription is None else subscription.serializer
                self._let_ack(held, message)
                return taken
        return None

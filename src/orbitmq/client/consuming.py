"""Handing messages to handlers, any number at a time, and what follows from what they say."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from orbitmq.client.calling import call
from orbitmq.client.handlers import RETRY, Outcome, Reply, Retry
from orbitmq.client.instance import now_ms
from orbitmq.client.message import ReceivedMessage
from orbitmq.client.process_queue import ProcessQueue
from orbitmq.client.ready import Ready
from orbitmq.client.replying import send_reply
from orbitmq.client.sending_back import SendBack
from orbitmq.client.session import Session, Subscription
from orbitmq.client.trace_records import Handled
from orbitmq.protocol.errors import OrbitError

AGAIN_SECONDS = 5.0
"""Pause before a message is handled again that could not even be sent back."""
SLICE_SECONDS = 0.005
"""A worker whose handler never waits lets others have the loop after so long."""
EXPIRED_AT_ONCE = 16
EXPIRED_DELAY_LEVEL = 3


class Handling:
    """Calls handlers: async ones here, plain ones in threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._threads: ThreadPoolExecutor | None = None

    async def handle(self, subscription: Subscription, message: ReceivedMessage) -> Retry | None:
        """What the handler says; Retry() where it raises."""
        session = self._session
        message.consume_start_ms = now_ms()
        started = time.perf_counter()
        stats = session.stats_of(message.wire_topic)
        tracer = session.tracer
        traced = None if tracer is None else tracer.handling(message)
        handled = Handled.SUCCESS
        try:
            outcome = await self.call(subscription, message)
        except Exception as error:
            session.instance.report(f"handler of {message.topic}", error, lasting=False)
            outcome, handled = RETRY, Handled.EXCEPTION
        took_ms = (time.perf_counter() - started) * 1000
        stats.consume_ms += took_ms
        if tracer is not None and traced is not None:
            if isinstance(outcome, Retry) and handled is Handled.SUCCESS:
                handled = Handled.FAILED
            tracer.handled(message, traced, int(took_ms), handled)
        if isinstance(outcome, Reply):
            await self._reply(message, outcome)
        elif isinstance(outcome, Retry):
            stats.consume_failed += 1
            return outcome
        stats.consume_ok += 1
        return None

    async def _reply(self, message: ReceivedMessage, reply: Reply) -> None:
        """Sends a reply; if that fails the message is not handled again all the same: it would be late."""
        instance = self._session.instance
        try:
            await send_reply(self._session, message, reply)
        except OrbitError as error:
            instance.report(f"reply to a request on {message.topic}", error, lasting=False)

    async def call(self, subscription: Subscription, message: ReceivedMessage) -> Outcome:
        """Calls the handler and gives what it gives."""
        handler = subscription.handler
        assert handler is not None
        if self._threads is None and not subscription.is_async:
            self._threads = ThreadPoolExecutor(
                self._session.options.concurrency, thread_name_prefix=f"orbitmq {self._session.group}"
            )
        return await call(handler, message, asynchronous=subscription.is_async, threads=self._threads)

    def close(self) -> None:
        """Lets go of the threads; a plain function that still runs cannot be stopped."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class Consumption(Protocol):
    """How messages that came are worked off."""

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

    async def finish(self, caller: asyncio.Task[object] | None) -> None:
        """Takes no more messages, and returns when those being handled are done.

        `caller` is not waited for: it may be a handler that closes its consumer.
        """

    async def close(self, caller: asyncio.Task[object] | None) -> None:
        """Cancels what is still being handled, the caller excepted."""


class ConcurrentConsumption:
    """Messages in any order, `concurrency` at a time; those without a handler wait for iterators."""

    def __init__(self, session: Session, handling: Handling) -> None:
        self._session = session
        self._handling = handling
        self._send_back = SendBack(session)
        self._ready: Ready[tuple[ProcessQueue, ReceivedMessage]] = Ready()
        self._for_iterators: Ready[tuple[ProcessQueue, ReceivedMessage]] = Ready()
        self._workers: list[asyncio.Task[None]] = []
        self._finishing = False

    # Life.

    def start(self) -> None:
        for number in range(self._session.options.concurrency):
            name = f"orbitmq handler {number} of {self._session.group}"
            self._workers.append(asyncio.create_task(self._work(), name=name))

    async def finish(self, caller: asyncio.Task[object] | None) -> None:
        self._finishing = True
        self._ready.shut()
        self._for_iterators.shut()
        if workers := [worker for worker in self._workers if worker is not caller]:
            await asyncio.wait(workers)

    async def close(self, caller: asyncio.Task[object] | None) -> None:
        workers = [worker for worker in self._workers if worker is not caller]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    # Coming in.

    def taken(self, held: ProcessQueue) -> None:
        """Nothing is to be done for a queue by itself."""

    async def dropped(self, held: ProcessQueue) -> None:
        """Messages in hand are finished by their handlers, and then not committed."""

    async def released(self, held: ProcessQueue) -> None:
        """Nothing was locked."""

    def deliver(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        if self._finishing or not messages:
            return
        for message in messages:
            self._put(held, message)

    def _put(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        subscription = self._session.subscription_of(message.wire_topic)
        if subscription is not None:
            line = self._ready if subscription.handler is not None else self._for_iterators
            line.put((held, message))

    # Handlers.

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (taken := await self._ready.take()) is not None:
            held, message = taken
            try:
                await self._handle(held, message)
            except Exception as error:
                # A fault of this library's own: the message stays unfinished, the worker goes on.
                self._session.instance.report(f"handling of {message!r}", error, lasting=False)
            if loop.time() - began > SLICE_SECONDS:
                await asyncio.sleep(0)
                began = loop.time()

    async def _handle(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        if held.dropped or message not in held:
            return
        subscription = self._session.subscription_of(message.wire_topic)
        if subscription is None or subscription.handler is None:
            return
        outcome = await self._handling.handle(subscription, message)
        await self.settle(held, message, outcome)

    async def settle(self, held: ProcessQueue, message: ReceivedMessage, outcome: Retry | None) -> None:
        """Finishes a message, or sends it back."""
        if held.dropped:
            return
        held.last_consume_ms = now_ms()
        # Of broadcast messages every member has its own copy: there is nobody to hand them out again.
        if (
            outcome is not None
            and message in held
            and not self._session.options.broadcasting
            and not await self._send_back.to_broker(message, outcome.delay_level)
        ):
            message.reconsume_times += 1
            message.consume_start_ms = 0
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._again, held, message)
            return
        self._done(held, message)

    def _done(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        offset = held.finish(message)
        if offset is not None and not held.dropped:
            self._session.offsets.advance(held.queue, offset)

    def _again(self, held: ProcessQueue, message: ReceivedMessage) -> None:
        if not held.dropped and not self._finishing:
            self._put(held, message)

    async def send_back_expired(self, held: ProcessQueue) -> None:
        """Sends back the oldest messages of a queue on which a handler works for too long."""
        limit_ms = self._session.options.consume_timeout_ms
        for message in held.oldest(EXPIRED_AT_ONCE):
            if not message.consume_start_ms or now_ms() - message.consume_start_ms <= limit_ms:
                return
            if held.dropped or message not in held:
                continue
            if await self._send_back.to_broker(message, EXPIRED_DELAY_LEVEL):
                self._done(held, message)

    # Iterators.

    async def next_for_iterator(self) -> tuple[ProcessQueue, ReceivedMessage] | None:
        """The next message of a topic without a handler; None once there are no more."""
        while (taken := await self._for_iterators.take()) is not None:
            held, message = taken
            if not held.dropped and message in held:
                message.consume_start_ms = now_ms()
                return taken
        return None

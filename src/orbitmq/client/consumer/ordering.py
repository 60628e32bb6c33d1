"""Handing messages to the handler in order: one after the other of each queue, or of each key.

Only one member of a group may do so at a time: it holds a lock on the queue at the broker, which lasts for
60 s there and is renewed every 20 s; here it counts for 30 s. A message that fails stays at the head of its
queue, or of its key, until it is handled or given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable

from orbitmq.client.consumer.by_key import key_of
from orbitmq.client.consumer.closing import Closers
from orbitmq.client.consumer.consuming import SLICE_SECONDS, Handling
from orbitmq.client.consumer.context import ConsumerContext
from orbitmq.client.consumer.key_order import KeyOrder
from orbitmq.client.consumer.process_queue import ProcessQueue
from orbitmq.client.consumer.sending_back import SendBack
from orbitmq.client.core.background import AGAIN_SECONDS, Kept
from orbitmq.client.core.handlers import Retry
from orbitmq.client.core.instance import now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue, UnlockBatchRequestBody
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq

LOCK_VALID_MS = 30_000
LOCK_INTERVAL_MS = 20_000
WAIT_FOR_LOCK_SECONDS = 0.1
UNLOCK_WAIT_SECONDS = 0.5
"""Time that a queue that is given up waits for the message in hand."""


class QueueLocks:
    """The locks of one consumer."""

    def __init__(self, session: ConsumerContext) -> None:
        self._session = session
        self._asked: set[MessageQueue] = set()
        """Queues whose locks are ours, or may be: the answer was not waited for."""
        self._closed = False

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Locks queues, or renews their locks; gives those that are ours now."""
        session = self._session
        if self._closed:
            return set()
        by_broker: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            by_broker[session.instance.routes.broker_of(queue)].append(queue)
        held: set[MessageQueue] = set()
        for broker, wanted in by_broker.items():
            address = session.instance.routes.master(broker)
            if address is None:
                continue
            body = LockBatchRequestBody(session.group, session.instance.client_id, False, wanted)
            self._asked.update(wanted)
            try:
                reply = await session.instance.call(address, LockBatchMq(body))
            except OrbitError as error:
                session.instance.report(f"locks at {broker}", error, at=address)
            else:
                session.instance.recovered(f"locks at {broker}")
                held.update(reply.body.lock_ok_mq_set)
                self._asked.difference_update(set(wanted) - held)
        return held

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Gives locks up, so that the next member need not wait for their end."""
        session = self._session
        for queue in queues:
            self._asked.discard(queue)
            address = session.instance.routes.master_of(queue)
            if address is None:
                continue
            body = UnlockBatchRequestBody(session.group, session.instance.client_id, False, [queue])
            try:
                await session.instance.send_oneway(address, UnlockBatchMq(body))
            except OrbitError as error:
                session.instance.report(f"locks at {address}", error, at=address)

    async def close(self) -> None:
        """Gives every lock up, those that are still being asked for, too, and takes no more."""
        self._closed = True
        await self.unlock(list(self._asked))


class LockedConsumption(ABC):
    """The common part of both orders: queues are worked off while they are locked."""

    def __init__(self, session: ConsumerContext, handling: Handling, locks: QueueLocks) -> None:
        self._session = session
        self._handling = handling
        self._locks = locks
        self._send_back = SendBack(session)
        self._at_a_time = asyncio.Semaphore(session.options.concurrency)
        self._lines: dict[ProcessQueue, Line] = {}
        self._leaving: dict[MessageQueue, Line] = {}
        """Queues that are no more ours, but still locked: a message of theirs is in hand."""
        self._finishing = False

    def start(self) -> None:
        self._session.instance.tasks.every(
            LOCK_INTERVAL_MS, self._renew, "renewal of queue locks", first_ms=1000
        )

    async def _renew(self) -> None:
        lines = [held for held in self._lines if not held.dropped]
        ours = await self._locks.lock(held.queue for held in lines)
        for held in lines:
            self.locked(held, held.queue in ours)

    def locked(self, held: ProcessQueue, ours: bool) -> None:
        """Notes whether a queue's lock is ours."""
        held.locked = ours
        if ours:
            held.last_lock_ms = now_ms()

    def taken(self, held: ProcessQueue) -> None:
        line = self._lines[held] = Line()
        line.work = self._session.instance.tasks.keep(
            lambda: self._work(held, line), f"ordered {held.queue}", owned=False
        )

    def deliver(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        line = self._lines.get(held)
        if line is not None:
            line.arrived.set()

    async def dropped(self, held: ProcessQueue) -> None:
        """Waits a little for the message in hand, so that it counts as done for whoever is next."""
        line = self._lines.get(held)
        if line is not None and (tasks := line.tasks()):
            self._stop(line)
            await asyncio.wait(tasks, timeout=UNLOCK_WAIT_SECONDS)

    async def released(self, held: ProcessQueue) -> None:
        """Unlocks the queue; where a message is still in hand once that is done.

        An unlocked queue is another member's, who would begin beside our handler. The broker gives it away in
        any case once the lock has not been renewed for long enough.
        """
        line = self._lines.pop(held, None)
        if line is None:
            return
        self._leaving[held.queue] = line
        work = self._unlock_when_done(held.queue, line)
        if line.is_done:
            await work
        else:
            self._session.instance.tasks.start(work, f"unlocking of {held.queue}")

    async def _unlock_when_done(self, queue: MessageQueue, line: Line) -> None:
        await line.wait()
        if self._leaving.get(queue) is line:
            del self._leaving[queue]
            if not any(held.queue == queue for held in self._lines):
                await self._locks.unlock([queue])

    async def finish(self, closers: Closers) -> None:
        self._finishing = True
        for line in self._lines.values():
            self._stop(line)
        await closers.wait_for_others(task for line in self._all() for task in line.tasks())

    def _all(self) -> list[Line]:
        return [*self._lines.values(), *self._leaving.values()]

    async def close(self, closers: Closers) -> None:
        tasks = closers.others(task for line in self._all() for task in line.tasks())
        for line in self._all():
            line.cancel(tasks)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def unlock_all(self) -> None:
        """Gives every lock up."""
        await self._locks.close()

    @abstractmethod
    async def _work(self, held: ProcessQueue, line: Line) -> None:
        """Has the messages of one queue handled until it is dropped, or the consumer ends."""

    def _stop(self, line: Line) -> None:
        """Has the work on a queue end, once nothing of it is in hand."""
        line.arrived.set()

    def _goes_on(self, held: ProcessQueue) -> bool:
        return not (held.dropped or self._finishing)

    async def _wait_for_earlier(self, held: ProcessQueue) -> None:
        """Returns when what was in hand of this queue, when it was given up, is done."""
        if (before := self._leaving.get(held.queue)) is not None:
            await before.wait()

    @staticmethod
    def _lock_holds(held: ProcessQueue) -> bool:
        return held.locked and now_ms() - held.last_lock_ms <= LOCK_VALID_MS

    async def _is_ours(self, held: ProcessQueue) -> bool:
        """True while the queue's lock is ours; asks for it if it has not been renewed for too long."""
        if not self._lock_holds(held):
            self.locked(held, held.queue in await self._locks.lock([held.queue]))
        if not held.locked:
            await asyncio.sleep(WAIT_FOR_LOCK_SECONDS)
        return held.locked

    async def _handle_or_wait(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> float:
        """Hands messages over; gives the seconds to wait before any are repeated, 0 when all are done."""
        try:
            return await self._handle(held, messages)
        except Exception as error:
            # A fault of this library's own: the queue may not stand still for it.
            self._session.instance.report(f"handling of {messages[0]!r}", error, lasting=False)
            return self._session.options.suspend_current_queue_time_ms / 1000

    async def _handle(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> float:
        session = self._session
        subscription = session.subscription_of(messages[0].wire_topic)
        if subscription is None or subscription.handler is None:
            return WAIT_FOR_LOCK_SECONDS
        # The topic may have been subscribed to again meanwhile, by a handler that takes fewer at a time.
        messages = messages[: subscription.max_messages or 1]
        outcomes = await self._handling.handle(subscription, messages)
        pauses = [
            await self._complete(held, message, outcome)
            for message, outcome in zip(messages, outcomes, strict=True)
        ]
        return max(pauses)

    async def _complete(self, held: ProcessQueue, message: ReceivedMessage, outcome: Retry | None) -> float:
        """Lets go of a message that is done, or given up; gives the seconds to wait before it is repeated."""
        if held not in self._lines or not held.holds(message):
            return 0
        held.last_consume_ms = now_ms()
        if pause := await self._send_back.in_place(message, outcome):
            return pause
        offset = held.finish(message)
        if offset is not None:
            held.progress.advance(offset)
        return 0


class OrderedConsumption(LockedConsumption):
    """One message of a queue at a time, `concurrency` queues at a time."""

    async def _work(self, held: ProcessQueue, line: Line) -> None:
        await self._wait_for_earlier(held)
        loop = asyncio.get_running_loop()
        while self._goes_on(held):
            line.arrived.clear()
            began = loop.time()
            while self._goes_on(held) and (head := await self._head(held, line)):
                if not await self._is_ours(held):
                    continue
                async with self._at_a_time:
                    if not self._goes_on(held):
                        return
                    if not self._lock_holds(held):
                        continue  # it was lost while the queue waited for its turn
                    pause = await self._handle_or_wait(held, head)
                if pause:
                    await self._pause(held, line, pause)
                elif loop.time() - began > SLICE_SECONDS:
                    await asyncio.sleep(0)
                    began = loop.time()
            if self._goes_on(held):
                await line.arrived.wait()

    async def _head(self, held: ProcessQueue, line: Line) -> list[ReceivedMessage]:
        """Messages that the handler gets next: the oldest message, or as many of its topic as it takes."""
        head = held.oldest(1)
        subscription = self._session.subscription_of(head[0].wire_topic) if head else None
        if subscription is None or subscription.max_messages is None:
            return head
        if subscription.max_wait_ms:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(subscription.max_wait_ms / 1000):
                    while len(held) < subscription.max_messages and self._goes_on(held):
                        line.arrived.clear()
                        await line.arrived.wait()
        topic = head[0].wire_topic
        oldest = held.oldest(subscription.max_messages)
        return list(itertools.takewhile(lambda message: message.wire_topic == topic, oldest))

    async def _pause(self, held: ProcessQueue, line: Line, seconds: float) -> None:
        """Waits, but not for longer than the queue is ours."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._goes_on(held):
                    line.arrived.clear()
                    await line.arrived.wait()


class KeyOrderedConsumption(LockedConsumption):
    """One message of a key at a time, `concurrency` messages at a time, whatever their queues."""

    def deliver(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        if (line := self._lines.get(held)) is not None:
            for message in messages:
                line.order.add(key_of(message), message)
            line.arrived.set()

    async def _work(self, held: ProcessQueue, line: Line) -> None:
        await self._wait_for_earlier(held)
        clock = asyncio.get_running_loop().time
        while self._goes_on(held):
            line.arrived.clear()
            now = clock()
            if (at := line.order.next_at(now)) is None or at > now:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if at is None else at - now):
                        await line.arrived.wait()
                continue
            if not await self._is_ours(held):
                continue
            await self._at_a_time.acquire()
            may_begin = self._goes_on(held) and self._lock_holds(held)
            if not may_begin or (taken := line.order.take(clock())) is None:
                self._at_a_time.release()
                continue
            self._begin(held, line, *taken)

    def _stop(self, line: Line) -> None:
        if line.work is not None:
            line.work.cancel()  # it may be waiting for a handler that waits for the end

    def _begin(self, held: ProcessQueue, line: Line, key: str | None, message: ReceivedMessage) -> None:
        clock = asyncio.get_running_loop().time

        async def handle() -> None:
            if pause := await self._handle_or_wait(held, [message]):
                line.order.pause(key, clock() + pause)
            else:
                line.order.done(key)

        def ended(task: asyncio.Task[None]) -> None:
            self._at_a_time.release()
            line.in_hand.discard(task)
            if task.cancelled():  # at the end, or by somebody else: then it begins again
                line.order.pause(key, clock() + AGAIN_SECONDS)
            line.arrived.set()

        name = f"orbitmq handler of {held.queue}"
        task = self._session.instance.tasks.begin(handle(), name, owned=False)
        line.in_hand.add(task)
        task.add_done_callback(ended)


class Line:
    """Messages and tasks of one queue."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        """Set whenever there may be more to do, or nothing is to be done any more."""
        self.work: Kept | None = None
        """The task that has messages handled, or handles them itself."""
        self.in_hand: set[asyncio.Task[None]] = set()
        """Tasks of handlers beside it."""
        self.order: KeyOrder[ReceivedMessage] = KeyOrder()

    def tasks(self) -> list[asyncio.Task[None]]:
        """All of them."""
        return [*([] if self.work is None else [self.work.task]), *self.in_hand]

    @property
    def is_done(self) -> bool:
        """True if none of them runs."""
        return all(task.done() for task in self.tasks())

    async def wait(self) -> None:
        """Returns when all of them have ended."""
        while pending := [task for task in self.tasks() if not task.done()]:
            await asyncio.wait(pending)

    def cancel(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Cancels those that are among `tasks`, for good."""
        if self.work is not None and self.work.task in tasks:
            self.work.cancel()
        for task in self.in_hand.intersection(tasks):
            task.cancel()

"""Orders from a topic of RocketMQ. The service has the positions; the group's offsets follow for people."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass

from orbitmq.admin import Admin
from orbitmq.client import MessageQueue, PullConsumer, ReceivedMessage, TopicNotFound
from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.options import DDMQ, ClusterAt
from orbitmq.delay_service.rules import ddmq
from orbitmq.delay_service.rules.forms import split_properties
from orbitmq.delay_service.rules.intake import Queue, SourceMessage
from orbitmq.delay_service.rules.sharing import RECORD
from orbitmq.delay_service.sources.reading import SourceState, Taker, begin_at
from orbitmq.delay_service.store.records import Content
from orbitmq.protocol.errors import OrbitError

log = logging.getLogger(__name__)

GROUP = "orbitmq_delay"
PULL_MESSAGES = 1000
PULL_BYTES = 4 << 20
HELD_MS = 15_000
ROUTE_SECONDS = 10.0
COMMIT_SECONDS = 5.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
MAKE_TRIES, MAKE_SECONDS = 20, 0.1
"""Looks for a topic that was made, until the name servers know it."""


@dataclass(eq=False, repr=False)
class RocketSource:
    """Reads all queues of a topic for as long as it runs."""

    _cluster: ClusterAt
    _topic: str
    form: InitVar[str]
    _taker: Taker
    _: KW_ONLY
    queues: int
    make_topic: bool
    group: str = GROUP

    def __post_init__(self, form: str) -> None:
        self._read: Callable[[ReceivedMessage], SourceMessage] = read_ddmq if form == DDMQ else read_native
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._problems: dict[MessageQueue | None, str] = {}
        """Queues that cannot be read; under None the cluster or topic that cannot be found."""
        self.state = SourceState(f"{self._cluster.name}/{self._topic}")

    async def run(self) -> None:
        """Reads until it is cancelled."""
        pause = 0.0
        while True:
            try:
                async with PullConsumer(
                    self.group,
                    self._cluster.addresses,
                    instance_name="delay",
                    **self._cluster.access.options,
                ) as consumer:
                    try:
                        await self._follow(consumer)
                    finally:
                        await self._end()  # before the connections: else each queue's pull fails
            except OrbitError as error:
                pause = self._failed(None, error, pause)
            await asyncio.sleep(pause)

    def _failed(self, queue: MessageQueue | None, error: Exception, pause: float) -> float:
        """Notes a failure; gives the pause after it, longer with each one in a row."""
        text = str(error)
        worked = queue not in self._problems
        if text not in self._problems.values():
            log.warning("source %s: %s", self.state.name, text)
        self._problems[queue] = self.state.problem = text
        return FIRST_PAUSE_SECONDS if worked else min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _works(self, queue: MessageQueue | None) -> None:
        self._problems.pop(queue, None)
        self.state.problem = next(iter(self._problems.values()), "")

    async def _end(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        self._problems = {queue: text for queue, text in self._problems.items() if queue is None}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, consumer: PullConsumer) -> None:
        """Reads every queue, and looks for new ones."""
        tries = 0
        while True:
            try:
                found = await consumer.queues(self._topic)
            except TopicNotFound:
                if not self.make_topic or tries == MAKE_TRIES:
                    raise
                if not tries:
                    await ensure_topics(self._cluster, [self._topic], self.queues)
                tries += 1
                await asyncio.sleep(MAKE_SECONDS)
                continue
            for queue in found:
                if queue not in self._tasks:
                    self.state.behind.setdefault(self._named(queue), True)
                    self._tasks[queue] = asyncio.create_task(self._read_queue(consumer, queue))
            self._works(None)
            ended = [task for task in self._tasks.values() if task.done()]
            for task in ended:
                task.result()  # raises what ended it: the store's errors
            await asyncio.sleep(ROUTE_SECONDS)

    def _named(self, queue: MessageQueue) -> Queue:
        return Queue(self._cluster.name, self._topic, f"{queue.broker_name}:{queue.queue_id}")

    async def _read_queue(self, consumer: PullConsumer, queue: MessageQueue) -> None:
        named = self._named(queue)
        pause = 0.0
        while True:
            try:
                await self._pull(consumer, queue, named)
            except OrbitError as error:
                pause = self._failed(queue, error, pause)
            await asyncio.sleep(pause)

    async def _pull(self, consumer: PullConsumer, queue: MessageQueue, named: Queue) -> None:
        end = await consumer.max_offset(queue)
        first = await consumer.min_offset(queue)
        offset = begin_at(self.state, self._taker, named, first, end)
        committed, commit_at = -1, time.monotonic()
        held_ms = 0  # the first answer, which says whether it may be read, comes at once
        while True:
            found = await consumer.pull(
                queue,
                offset,
                PULL_MESSAGES,
                max_bytes=PULL_BYTES,
                wait_ms=held_ms,
                timeout_ms=HELD_MS + 10_000,
            )
            self._works(queue)
            held_ms = HELD_MS
            if found.moved:
                raise TopicNotFound(self._topic, f"offset {offset} of {named} is not there any more")
            if found.next_offset > offset:
                await self._taker.take(named, [self._read(one) for one in found], found.next_offset)
                offset = found.next_offset
            if offset >= end:
                self.state.behind[named] = False
            if offset != committed and time.monotonic() >= commit_at:
                await self._taker.synced()
                await consumer.commit(queue, offset)
                committed, commit_at = offset, time.monotonic() + COMMIT_SECONDS


def read_native(message: ReceivedMessage) -> SourceMessage:
    """A message with control properties."""
    problem = ""
    try:
        body = message.body
    except OrbitError as error:
        body, problem = message.record.body, f"the body cannot be read: {error}"
    control, content = split_properties(message.properties, body, message.flag)
    order, id = None, ""
    if ddmq.ORDER in control:
        try:
            order, id = ddmq.read_order(control)
        except NotSchedulable as error:
            problem = problem or str(error)
    return SourceMessage(
        message.queue_offset,
        message.store_timestamp_ms,
        control,
        content,
        problem,
        message.born_timestamp_ms,
        order=order,
        ddmq=id,
    )


def read_ddmq(message: ReceivedMessage) -> SourceMessage:
    """A message in DDMQ's form, or an action or a record in ours."""
    if "delay.action" in message.properties or RECORD in message.properties:
        return read_native(message)  # written by the service itself, or by its API
    stored, sent = message.store_timestamp_ms, message.born_timestamp_ms
    try:
        body = message.body
        order, content, id = ddmq.read_body(body)
    except (NotSchedulable, OrbitError) as error:
        content = Content(
            message.record.body, dict(split_properties(message.properties, b"", 0)[1].properties or {})
        )
        return SourceMessage(message.queue_offset, stored, {}, content, str(error), sent)
    return SourceMessage(message.queue_offset, stored, {}, content, "", sent, order=order, ddmq=id)


async def ensure_topics(cluster: ClusterAt, topics: Sequence[str], queues: int) -> None:
    """Makes topics that are missing. Raises OrbitError."""
    async with Admin(cluster.addresses, **cluster.access.options) as admin:
        there = await admin.topics(everything=True)
        for topic in topics:
            if topic not in there:
                await admin.create_topic(topic, queues=queues)
                log.info("topic %s was made in cluster %s", topic, cluster.name)

"""Consuming messages as a member of a group: queues are shared, offsets kept, failures handed out again."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.client.consumer.assignment import Assignment, filters_of, offsets_of, sharing_of
from orbitmq.client.consumer.consuming import ConcurrentConsumption, Consumption, Handling
from orbitmq.client.consumer.context import ConsumerContext, Subscription
from orbitmq.client.consumer.group_member import GroupMember
from orbitmq.client.consumer.iterating import Messages, check_iterable
from orbitmq.client.consumer.local_offsets import LocalOffsetTable
from orbitmq.client.consumer.offsets import OffsetTable
from orbitmq.client.consumer.ordering import (
    KeyOrderedConsumption,
    LockedConsumption,
    OrderedConsumption,
    QueueLocks,
)
from orbitmq.client.consumer.replying import send_reply
from orbitmq.client.consumer.request_handler import Serving
from orbitmq.client.consumer.retention import dead_letter_retention_ms
from orbitmq.client.consumer.stats import SLOT_MS
from orbitmq.client.consumer.subscribing import Asked, SubscribesFunctions
from orbitmq.client.core.background import Kept
from orbitmq.client.core.checking import check_number, check_queue
from orbitmq.client.core.errors import InvalidArgument, NotRunning
from orbitmq.client.core.handlers import BackgroundHandler, BatchHandler, Handler, Reply, Retry
from orbitmq.client.core.instance import ClientInstance, now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.option_help import documented
from orbitmq.client.core.options import ConsumerOptions
from orbitmq.client.core.serializer import Serializer
from orbitmq.client.core.subscription import Sql, Wanted, check_filter, subscription
from orbitmq.net.connection import Connection
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import NoPermission, OrbitError
from orbitmq.protocol.names import retry_topic
from orbitmq.protocol.remoting.command import Command

FIRST_COMMIT_MS = 10_000
EXPIRY_CHECKS = 10
"""Number of times within `consume_timeout_ms` that the consumer looks for messages on which a handler works
for too long."""


@documented()
@dataclass(eq=False)
class PushConsumer(SubscribesFunctions, GroupMember, ConsumerOptions):
    """A member of a consumer group.

        async def handle(message: ReceivedMessage) -> None:
            print(message.topic, message.body)

        async with PushConsumer("readers") as consumer:
            consumer.subscribe("orders", "new || changed", handle)
            await consumer.wait_closed()

    Every message goes to one member of the group, and comes again where its handler raises, returns `Retry`
    or never ends: handlers have to bear the same message twice. Without a handler messages are there for
    `async for message in consumer`: each is done when the next one is asked for, or `ack` is called. With
    `broadcasting=True` every member gets every message, once.

    Belongs to the event loop in which it was started, and to the process: after a fork make another one.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._subscriptions: dict[str, Subscription] = {}
        self._paused = False
        self._paused_queues: set[MessageQueue] = set()
        self._assignment: Assignment | None = None
        self._consumption: Consumption | None = None
        self._serving: Serving | None = None
        self._rebalancing: Kept | None = None

    # Subscribing.

    def subscribe(
        self,
        topic: str,
        tags: Wanted = "*",
        handler: Handler | BatchHandler | None = None,
        *,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        max_wait_ms: float = 0,
        manual_ack: bool = False,
        serializer: Serializer[Any] | None = None,
    ) -> None:
        """Asks for messages of a topic: all of them, those with certain tags (`A || B`, or several), or those
        for which an expression over their properties is true (`Sql`).

        A broker reads the expression when the consumer starts; one that comes later and is wrong is reported
        to `on_error`.

        `handler` is an async function, or a plain one, which runs in a thread; at most `concurrency` run at
        a time. Without one the messages are for `async for`. May be called before the start and after it;
        `unsubscribe` comes first where tags or handler of a topic are to be others. All members of a group
        have to subscribe to the same. An async handler that takes longer than `timeout_ms` for a message is
        cancelled, and the message comes again.

        With `max_messages` the handler gets a list of up to so many messages of the topic, and may say which
        of them are to come again: `Retry(messages=failed)`. A list that is not full waits for more, for
        `max_wait_ms` since its first message. An ordered consumer's lists hold messages of one queue.

        With `manual_ack` a message is done when `message.ack()` is awaited, or `consumer.ack(message)`, be it
        long after the handler has ended. The offset stays before what is not acknowledged; after
        `consume_timeout_ms` that is handed out again.

        With a `serializer` (`orbitmq.serializers`, or your own) `message.value` is the body as it reads it. A
        body that it cannot read raises where the handler asks for the value.

        Raises IllegalName, InvalidArgument, NotRunning once closed.
        """
        if self._closing is not None or self._closed.is_set():
            raise NotRunning("the consumer is closed")
        asked = Asked(topic, tags, handler, timeout_ms, max_messages, max_wait_ms, manual_ack, serializer)
        asked.check(self, self._subscriptions)
        topic = wrap(self.namespace, topic)
        self._subscriptions[topic] = subscribed = asked.subscription(topic, self.shown_group, now_ms())
        own = retry_topic(self.group)
        if own not in self._subscriptions and not self.broadcasting:
            self._subscriptions[own] = Subscription(subscription(own, "*", now_ms()), None)
        self._subscriptions_changed()
        self._start_background_of(subscribed)
        if isinstance(tags, Sql) and self._session is not None:
            self._session.instance.tasks.start(self._check_filter(subscribed.data), filter_of(topic))

    def _start_background_of(self, subscribed: Subscription) -> None:
        """Starts the own work of a handler that has some, once the consumer runs."""
        handler, session = subscribed.handler, self._session
        if session is not None and isinstance(handler, BackgroundHandler):
            ask = functools.partial(dead_letter_retention_ms, session)
            subject = f"background work of the handler of {subscribed.data.topic}"
            session.instance.tasks.start(handler.run_in_background(ask), subject)

    async def _check_filter(self, row: SubscriptionData) -> None:
        instance = self._running().instance
        try:
            await check_filter(instance, self.group, row)
        except OrbitError as error:
            instance.report(filter_of(row.topic), error)
        else:
            instance.recovered(filter_of(row.topic))

    def unsubscribe(self, topic: str) -> None:
        """Gives a topic up: its queues are left to others, what is held of them is not handled any more."""
        topic = wrap(self.namespace, topic)
        self._subscriptions.pop(topic, None)
        self._subscriptions_changed()
        if self._session is not None:
            for subject in (sharing_of(topic), offsets_of(topic), filter_of(topic), filters_of(topic)):
                self._session.instance.forget(subject)

    # Pausing.

    def pause(self, *queues: MessageQueue) -> None:
        """Has nothing more pulled until `resume`: while what handlers need is out of order, for example.

        With `queues`, of these alone. The queues stay this member's. Messages that are held here are still
        handled, and so are those that brokers are being asked for. May be called before the start.
        """
        for queue in queues:
            check_queue("pause", queue)
        self._paused_queues.update(queues)
        self._set_paused(self._paused or not queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Continues after `pause`: with `queues` with these, else with everything."""
        self._paused_queues.difference_update(queues or list(self._paused_queues))
        self._set_paused(self._paused and bool(queues))

    async def seek(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continues at other queue offsets, for the whole group: back to see messages again, or past them.

        `offsets` are for queues that are this member's (`queues`). Messages held of them are dropped;
        handlers that run may end, but what they handle does not count. An offset outside of a queue leads to
        its end.

        Raises InvalidArgument for queues that are not this member's, SeekFailed and what a call can end with
        where a broker does not take the offsets; NotRunning.
        """
        self._running()
        assert self._assignment is not None
        for queue, offset in offsets.items():
            check_queue("seek", queue)
            check_number("seek", "offset", offset, 0)
        if strangers := offsets.keys() - set(self.queues):
            raise InvalidArgument(f"seek: {min(strangers)} is not this member's: see `queues`, on_assigned")
        await self._assignment.seek(offsets)

    @property
    def is_paused(self) -> bool:
        """True if nothing more is pulled."""
        return self._paused

    def _set_paused(self, paused: bool) -> None:
        self._paused = paused
        if self._session is not None and self._assignment is not None:
            self._session.paused = paused
            self._assignment.pull_again()

    def _subscriptions_changed(self) -> None:
        if self._session is not None and self._assignment is not None:
            self._session.instance.send_heartbeat_soon()
            self._assignment.wake.set()

    # Life.

    def _new_session(self, instance: ClientInstance) -> ConsumerContext:
        session = ConsumerContext(
            self, instance, self._subscriptions, self._offset_table(instance), paused=self._paused
        )
        session.paused_queues = self._paused_queues
        return session

    def _offset_table(self, instance: ClientInstance) -> OffsetTable:
        if self.broadcasting:
            return LocalOffsetTable(instance, self.group, Path(self.local_offsets_folder).expanduser())
        return OffsetTable(instance, self.group)

    async def _prepare(self, session: ConsumerContext, handling: Handling) -> None:
        """Looks up the routes of all topics, and has brokers read the expressions."""
        for topic, subscribed in list(self._subscriptions.items()):
            await session.instance.routes.refresh(topic)
            await check_filter(session.instance, self.group, subscribed.data)

    async def _begin(self, session: ConsumerContext, handling: Handling) -> None:
        assignment, consumption = self._join(session, handling)
        consumption.start()
        for subscribed in list(self._subscriptions.values()):
            self._start_background_of(subscribed)
        await self._first_pass(session.instance, assignment)
        for error in session.errors.values():
            if isinstance(error, NoPermission):
                await self.close()
                raise error

    def _join(
        self, session: ConsumerContext, handling: Handling
    ) -> tuple[Assignment, ConcurrentConsumption | LockedConsumption]:
        """Makes the parts that consume."""
        locks = QueueLocks(session) if self.in_order else None
        assignment = Assignment(session, locks)
        consumption: ConcurrentConsumption | LockedConsumption
        if locks is not None:
            kind = OrderedConsumption if self.ordered else KeyOrderedConsumption
            consumption = kind(session, handling, locks)
        else:
            consumption = ConcurrentConsumption(session, handling)
            session.instance.tasks.every(
                max(self.consume_timeout_ms / EXPIRY_CHECKS, 10),
                self._send_back_expired,
                "messages handled for too long",
            )
        assignment.feed(consumption)
        self._assignment, self._consumption = assignment, consumption
        self._serving = Serving(session, assignment, handling)
        return assignment, consumption

    async def _first_pass(self, instance: ClientInstance, assignment: Assignment) -> None:
        """Starts the tasks that run until the end, and waits until queues were divided once."""
        instance.tasks.every(
            self.persist_consumer_offset_interval_ms,
            assignment.commit,
            "offset commits",
            first_ms=min(FIRST_COMMIT_MS, self.persist_consumer_offset_interval_ms),
        )
        instance.tasks.every(SLOT_MS, self._remember_stats, "statistics")
        first_pass = asyncio.Event()
        self._rebalancing = instance.tasks.keep(lambda: assignment.run(first_pass), "rebalance")
        try:
            await first_pass.wait()
        except BaseException:
            await self.close(0)
            raise

    async def _stop(self) -> None:
        if self._rebalancing is not None:
            self._rebalancing.cancel()
        if self._assignment is not None:
            await self._assignment.close()

    async def _settle(self) -> None:
        assignment, consumption = self._assignment, self._consumption
        if assignment is not None:
            await assignment.commit(confirmed=True)
            assignment.report_revoked(assignment.queues)
        if isinstance(consumption, LockedConsumption):
            await consumption.unlock_all()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now, sorted, without those of retry topics."""
        if self._assignment is None or self._closing is not None:
            return []
        own = retry_topic(self.group)
        return sorted(queue for queue in self._assignment.queues if queue.topic != own)

    # Messages without a handler.

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Messages of topics that have no handler. Several iterators share them.

        A message is done when the next one is asked for. The one in hand when the loop is left is not, and
        comes again, unless `ack` is called. Raises CannotIterate where nothing could ever come.
        """
        own = retry_topic(self.group)
        rows = (row for topic, row in self._subscriptions.items() if topic != own)
        check_iterable(rows, ordered=self.in_order)
        return Messages(self._next, self.ack)

    async def ack(self, message: ReceivedMessage) -> None:
        """Says that a message is done: from `async for`, or of a topic with `manual_ack=True`.

        Of one that is no more ours nothing is done.
        """
        await self._complete(message, None)

    async def retry(
        self, message: ReceivedMessage, delay_level: int = 0, *, error: BaseException | None = None
    ) -> None:
        """Has a message that `ack` is for handed out again, as a handler does with `Retry(delay_level)`.

        `error` is why, for the dead letter.
        """
        retry = Retry(delay_level)
        retry.__cause__ = error
        await self._complete(message, retry)

    async def reply(self, message: ReceivedMessage, reply: Reply) -> None:
        """Answers a message from `async for` that was sent as a request. It is not done by that: see `ack`.

        Raises IllegalMessage for a message without a waiting sender, BrokerRefused if that one has gone.
        """
        await send_reply(self._running(), message, reply)

    async def _complete(self, message: ReceivedMessage, outcome: Retry | None) -> None:
        if isinstance(self._consumption, ConcurrentConsumption) and self._assignment is not None:
            held = self._assignment.held(message.queue)
            if held is not None:
                await self._consumption.complete(held, message, outcome)

    async def _next(self) -> ReceivedMessage | None:
        if not isinstance(self._consumption, ConcurrentConsumption):
            raise NotRunning("the consumer has not been started: use `async with`, or start()")
        taken = await self._consumption.next_for_iterator()
        return taken[1] if taken is not None else None

    # Called by the parts.

    def _consumer_data(self) -> list[ConsumerData]:
        return [
            ConsumerData(
                group_name=self.group,
                consume_type=ConsumeType.CONSUME_PASSIVELY,
                message_model=MessageModel.BROADCASTING if self.broadcasting else MessageModel.CLUSTERING,
                consume_from_where=self.consume_from_where,
                subscription_data_set=[row.data for row in self._subscriptions.values()],
            )
        ]

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        if self._serving is not None and self._closing is None:
            self._serving.on_requests(connection, commands)

    def _on_route_change(self, topic: str) -> None:
        if self._assignment is not None and self._session is not None:
            self._session.instance.send_heartbeat_soon()
            self._assignment.wake.set()

    async def _remember_stats(self) -> None:
        if self._session is not None:
            for stats in self._session.stats.values():
                stats.remember(now_ms())

    async def _send_back_expired(self) -> None:
        consumption, assignment = self._consumption, self._assignment
        if self.broadcasting:
            return
        if isinstance(consumption, ConcurrentConsumption) and assignment is not None:
            for queue in assignment.queues:
                held = assignment.held(queue)
                if held is not None:
                    await consumption.send_back_expired(held)


def filter_of(topic: str) -> str:
    """Name in `errors` of an expression that a broker cannot read."""
    return f"filter of {topic}"

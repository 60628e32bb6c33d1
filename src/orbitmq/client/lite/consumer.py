"""Consuming lite topics: queues within a topic that exist as soon as a message names them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields

from orbitmq.client.consumer.consuming import Handling
from orbitmq.client.consumer.context import ConsumerContext, Subscription
from orbitmq.client.consumer.group_member import GroupMember
from orbitmq.client.consumer.offsets import OffsetTable
from orbitmq.client.core.calling import is_async
from orbitmq.client.core.checking import check_within
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.handlers import Handler
from orbitmq.client.core.instance import ClientInstance, now_ms
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.option_help import documented
from orbitmq.client.core.options import ClientOptions, ConsumerOptions
from orbitmq.client.core.subscription import subscription
from orbitmq.client.lite.popping import LiteConsumption
from orbitmq.client.lite.subscribing import LiteSubscriptions, check_lite_topics
from orbitmq.net.connection import Connection
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Malformed, OrbitError, Refused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.lite import NotifyUnsubscribeLite

log = logging.getLogger(__name__)

LEAVE_SECONDS = 2.0
SYNC_AGAIN_SECONDS = 1.0
"""Pause before brokers are told the lite topics again, where one of them did not hear it."""


@documented()
@dataclass(eq=False)
class LiteConsumer(GroupMember):
    """A member of a group that consumes lite topics, for sessions, conversations and streams of requests.

        async def handle(message: ReceivedMessage) -> None:
            print(message.lite_topic, message.body)

        async with LiteConsumer("agents", topic="sessions", handler=handle) as consumer:
            await consumer.subscribe("session-42")
            await consumer.wait_closed()

    The topic has the attribute `message.type` LITE, the group the attribute `lite.bind.topic` with its name.
    Messages of one lite topic are handled one after the other, those of several at the same time. One that
    fails is repeated in place and holds up its lite topic alone. Handlers have to bear the same message
    twice.

    Belongs to the event loop in which it was started, and to the process: after a fork make another one.
    """

    _: KW_ONLY
    topic: str
    """The topic whose lite topics are consumed."""
    handler: Handler
    """An async function, or a plain one, which runs in a thread. Its results are those of PushConsumer's."""
    initial_lite_topics: Sequence[str] = ()
    """Lite topics that it subscribes to as it starts; `subscribe` adds others."""
    concurrency: int = 20
    """Maximum of lite topics whose messages are handled at the same time."""
    max_lite_topics: int = 2000
    """Maximum of lite topics that this consumer subscribes to."""
    max_reconsume_times: int = 16
    """Number of retries before a message goes to the dead-letter topic; -1: no limit."""
    dead_letter_policy: DeadLetterPolicy | None = None
    """Number of attempts, waits between them, exceptions without a retry. Replaces `max_reconsume_times`."""
    suspend_current_queue_time_ms: int = 1000
    """Pause of a lite topic before a message that failed is repeated (10 to 30000), unless handler or policy
    choose a delay level."""
    invisible_ms: int = 60_000
    """Time after which the group gets messages again that a consumer has got and that is gone. It is extended
    for as long as the consumer works on them."""
    broker_suspend_max_time_ms: int = 15_000
    """Time that a broker may hold a request while there is no message."""
    sync_interval_ms: int = 30_000
    """Interval at which brokers are told all lite topics again; they forget a client after 180 s without."""
    on_unsubscribed: Callable[[str], object] | None = None
    """Called on the event loop with a lite topic that a broker has given to another member (of a group with
    `lite.sub.model` Exclusive). It must not raise or block."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_within(self, "max_lite_topics", 1, 10_000_000)
        check_within(self, "invisible_ms", 1000, 43_200_000)
        check_within(self, "broker_suspend_max_time_ms", 100, 3_600_000)
        check_within(self, "sync_interval_ms", 10, 170_000)
        inherited = {row.name: getattr(self, row.name) for row in fields(ClientOptions)}
        self._options = ConsumerOptions(
            **{**inherited, "group": self.shown_group},
            ordered=True,
            concurrency=self.concurrency,
            max_reconsume_times=self.max_reconsume_times if self.dead_letter_policy is None else -1,
            dead_letter_policy=self.dead_letter_policy,
            suspend_current_queue_time_ms=self.suspend_current_queue_time_ms,
        )
        self._row = subscription(wrap(self.namespace, self.topic), "*", now_ms())
        check_lite_topics(f"{type(self).__name__}: initial_lite_topics", self.initial_lite_topics)
        self._subscriptions: LiteSubscriptions | None = None
        self._consumption: LiteConsumption | None = None
        self._resync = asyncio.Event()

    # Subscribing.

    async def subscribe(self, *lite_topics: str) -> None:
        """Asks for messages of lite topics, besides those that it has; they need not exist yet.

        The group continues where it was; in a lite topic that is new to it, with the oldest message that the
        broker has in memory. Members of a wildcard group get all lite topics, and subscribe to none.

        Raises InvalidArgument for what is no name of a lite topic, LiteQuotaExceeded above `max_lite_topics`
        or where a broker has no room, BrokerRefused, NoNameServer, and what a call can end with; NotRunning.
        """
        self._running()
        subscriptions, _ = self._parts()
        await subscriptions.add(lite_topics)

    async def unsubscribe(self, *lite_topics: str) -> None:
        """Gives lite topics up, and leaves what is held of them to others, save the message in hand.

        Raises what a call can end with; then brokers hear of it within `sync_interval_ms`. NotRunning.
        """
        self._running()
        subscriptions, consumption = self._parts()
        for name in lite_topics:
            consumption.give_up(name)
        await subscriptions.remove(lite_topics)

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics that it subscribes to now."""
        return frozenset() if self._subscriptions is None else frozenset(self._subscriptions.names)

    def _parts(self) -> tuple[LiteSubscriptions, LiteConsumption]:
        assert self._subscriptions is not None
        assert self._consumption is not None
        return self._subscriptions, self._consumption

    # Life.

    def _new_session(self, instance: ClientInstance) -> ConsumerContext:
        return ConsumerContext(self._options, instance, {}, OffsetTable(instance, self.group))

    async def _prepare(self, session: ConsumerContext, handling: Handling) -> None:
        """Has every broker of the topic say that topic and group fit, and take the first lite topics."""
        self._subscriptions = LiteSubscriptions(
            session.instance, self.group, self._row.topic, self.max_lite_topics
        )
        self._consumption = LiteConsumption(
            session,
            handling,
            Subscription(self._row, self.handler, is_async(self.handler)),
            self.invisible_ms,
            self.broker_suspend_max_time_ms,
            self._resync,
        )
        brokers = await self._subscriptions.brokers()
        await asyncio.gather(*(self._consumption.check(name) for name in brokers))
        await self._subscriptions.add(self.initial_lite_topics)
        await self._subscriptions.sync()

    async def _begin(self, session: ConsumerContext, handling: Handling) -> None:
        subscriptions, consumption = self._parts()
        consumption.fetch_from(await subscriptions.brokers())
        session.instance.tasks.every(
            self.sync_interval_ms, self._sync, "lite subscriptions", wake=self._resync
        )

    async def _sync(self) -> None:
        subscriptions, consumption = self._parts()
        try:
            consumption.fetch_from(await subscriptions.brokers())
            await subscriptions.sync()
        except OrbitError:
            # A broker that has just come back gives nothing to a client that it does not know.
            asyncio.get_running_loop().call_later(SYNC_AGAIN_SECONDS, self._resync.set)
            raise

    async def _stop(self) -> None:
        subscriptions, _ = self._parts()
        with contextlib.suppress(OrbitError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await subscriptions.leave()

    # Called by the parts.

    def _consumer_data(self) -> list[ConsumerData]:
        return [
            ConsumerData(
                group_name=self.group,
                consume_type=ConsumeType.CONSUME_PASSIVELY,
                message_model=MessageModel.CLUSTERING,
                consume_from_where=self._options.consume_from_where,
                subscription_data_set=[self._row],
            )
        ]

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        for command in commands:
            if command.code == NotifyUnsubscribeLite.CODE:
                try:
                    self._on_notice(NotifyUnsubscribeLite.from_command(command))
                except Malformed as error:
                    log.warning("a notice of %s cannot be read: %s", connection.peer.address, error)
            elif not command.is_oneway:
                text = f" request type {command.code} not supported"
                refused = Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)
                connection.send(Command.refusal(refused, command.opaque))

    def _on_notice(self, notice: NotifyUnsubscribeLite) -> None:
        session, subscriptions, consumption = self._session, self._subscriptions, self._consumption
        if session is None or subscriptions is None or consumption is None:
            return
        if (notice.consumer_group, notice.client_id) != (self.group, session.instance.client_id):
            return
        if notice.lite_topic not in subscriptions.names:
            return
        subscriptions.names.discard(notice.lite_topic)
        consumption.give_up(notice.lite_topic)
        log.info("%s: another member has taken over lite topic %s", self.group, notice.lite_topic)
        if self.on_unsubscribed is not None:
            try:
                self.on_unsubscribed(notice.lite_topic)
            except Exception:
                log.exception("on_unsubscribed raised")

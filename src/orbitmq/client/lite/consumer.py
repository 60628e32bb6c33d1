"""Consuming lite topics: queues within a topic that exist as soon as a message names them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from types import TracebackType
from typing import Self

from orbitmq.client.consumer.closing import Closers
from orbitmq.client.consumer.consuming import Handling
from orbitmq.client.consumer.context import ConsumerContext, Subscription
from orbitmq.client.consumer.offsets import OffsetTable
from orbitmq.client.core.calling import is_async, waiting_task
from orbitmq.client.core.checking import check_number, check_within
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.errors import NotRunning
from orbitmq.client.core.handlers import Handler
from orbitmq.client.core.instance import ClientInstance, now_ms
from orbitmq.client.core.names import INNER_PRODUCER_GROUP
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.option_help import documented
from orbitmq.client.core.options import ClientOptions, ConsumerOptions
from orbitmq.client.core.subscription import subscription
from orbitmq.client.lite.popping import LiteConsumption
from orbitmq.client.lite.subscribing import LiteSubscriptions
from orbitmq.client.trace.tracing import Tracer
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
class LiteConsumer(ClientOptions):
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
    close_timeout_ms: int = 30_000
    """Time that `close` waits for handlers before it cancels them."""

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
            close_timeout_ms=self.close_timeout_ms,
        )
        self._parent = wrap(self.namespace, self.topic)
        self._row = subscription(self._parent, "*", now_ms())
        self._session: ConsumerContext | None = None
        self._handling: Handling | None = None
        self._subscriptions: LiteSubscriptions | None = None
        self._consumption: LiteConsumption | None = None
        self._resync = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._closers = Closers()
        self._closed = asyncio.Event()

    # Subscribing.

    async def subscribe(self, *lite_topics: str) -> None:
        """Asks for messages of lite topics, besides those that it has; they need not exist yet.

        The group goes on where it was; in a lite topic that is new to it, with the oldest message that the
        broker has in memory. Members of a wildcard group get all lite topics, and subscribe to none.

        Raises InvalidArgument for what is no name of a lite topic, LiteQuotaExceeded above `max_lite_topics`
        or where a broker has no room, BrokerRefused, NoNameServer, and what a call can end with; NotRunning.
        """
        _, subscriptions, _ = self._running()
        await subscriptions.add(lite_topics)

    async def unsubscribe(self, *lite_topics: str) -> None:
        """Gives lite topics up, and leaves what is held of them to others, save the message in hand.

        Raises what a call can end with; then brokers hear of it within `sync_interval_ms`. NotRunning.
        """
        _, subscriptions, consumption = self._running()
        for name in lite_topics:
            consumption.give_up(name)
        await subscriptions.remove(lite_topics)

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics that it subscribes to now."""
        return frozenset() if self._subscriptions is None else frozenset(self._subscriptions.names)

    # Life.

    async def start(self) -> Self:
        """Joins the group. `async with` does so.

        Raises TopicNotFound, NoNameServer, NoPermission; BrokerRefused where the topic has no lite topics or
        the group is not bound to it; what a call can end with.
        """
        if self._session is not None or self._closed.is_set():
            raise NotRunning("a consumer is started once: make another one")
        instance = ClientInstance(
            self,
            await self.own_ip(),
            producer_groups=[INNER_PRODUCER_GROUP],
            consumers=self._consumer_data,
            on_requests=self._on_requests,
            on_error=self._on_error,
            on_recovered=self._on_recovered,
        )
        handler = Subscription(self._row, self.handler, is_async(self.handler))
        session = ConsumerContext(self._options, instance, {}, OffsetTable(instance, self.group))
        handling = Handling(session)
        subscriptions = LiteSubscriptions(instance, self.group, self._parent, self.max_lite_topics)
        consumption = LiteConsumption(
            session, handling, handler, self.invisible_ms, self.broker_suspend_max_time_ms, self._resync
        )
        try:
            brokers = await subscriptions.brokers()
            await asyncio.gather(*(consumption.check(name) for name in brokers))
            await subscriptions.sync()
        except BaseException:
            await instance.close()
            raise
        self._session, self._handling = session, handling
        self._subscriptions, self._consumption = subscriptions, consumption
        if self.trace:
            session.tracer = Tracer(self, instance, "CONSUME")
            session.tracer.start()
        instance.start()
        session.watch.start()
        consumption.fetch_from(brokers)
        instance.tasks.every(self.sync_interval_ms, self._sync, "lite subscriptions", wake=self._resync)
        return self

    async def _sync(self) -> None:
        _, subscriptions, consumption = self._running()
        try:
            consumption.fetch_from(await subscriptions.brokers())
            await subscriptions.sync()
        except OrbitError:
            # A broker that has just come back gives nothing to a client that it does not know.
            asyncio.get_running_loop().call_later(SYNC_AGAIN_SECONDS, self._resync.set)
            raise

    async def close(self, timeout_ms: float | None = None) -> None:
        """Leaves the group: no message is handed out any more, those being handled are waited for.

        Handlers that have not ended after `timeout_ms` (`close_timeout_ms`) are cancelled, and their messages
        come again. Nothing connects afterwards. May be called more than once.
        """
        if timeout_ms is not None:
            check_number("LiteConsumer.close", "timeout_ms", timeout_ms, 0)
        if self._session is None:
            self._closed.set()
            return
        if self._closed.is_set():
            return
        self._session.instance.check_loop()
        self._closers.add(waiting_task())
        if self._closing is None:
            wait_ms = self.close_timeout_ms if timeout_ms is None else timeout_ms
            self._closing = asyncio.create_task(self._close(wait_ms), name="close")
        await asyncio.shield(self._closing)

    async def _close(self, timeout_ms: float) -> None:
        session, subscriptions, consumption = self._session, self._subscriptions, self._consumption
        assert session is not None
        assert subscriptions is not None
        assert consumption is not None
        try:
            with contextlib.suppress(OrbitError, TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await subscriptions.leave()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await consumption.finish(self._closers)
            except TimeoutError:
                log.warning("%s: handlers did not end within %d ms and are cancelled", self.group, timeout_ms)
            await consumption.close(self._closers)
            if self._handling is not None:
                self._handling.close()
            if session.tracer is not None:
                await session.tracer.close()
        finally:
            session.watch.stop()
            await session.instance.close()
            self._closed.set()

    async def wait_closed(self) -> None:
        """Returns when the consumer has been closed."""
        await self._closed.wait()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Health.

    @property
    def healthy(self) -> bool:
        """True if it runs and nothing fails at present. A handler that raises does not make it unhealthy."""
        return self._session is not None and self._closing is None and not self._session.errors

    @property
    def errors(self) -> Mapping[str, Exception]:
        """Failures at present, by subject; empty when all is well."""
        return dict(self._session.errors) if self._session is not None else {}

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._running()[0].instance.client_id

    def _running(self) -> tuple[ConsumerContext, LiteSubscriptions, LiteConsumption]:
        if self._session is None or self._subscriptions is None or self._consumption is None:
            raise NotRunning("the consumer has not been started: use `async with`, or start()")
        if self._closing is not None:
            raise NotRunning("the consumer is closed")
        self._session.instance.check_loop()
        return self._session, self._subscriptions, self._consumption

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

    def _on_error(self, subject: str, error: Exception) -> None:
        if self._session is not None:
            self._session.errors[subject] = error

    def _on_recovered(self, subject: str) -> None:
        if self._session is not None:
            self._session.errors.pop(subject, None)

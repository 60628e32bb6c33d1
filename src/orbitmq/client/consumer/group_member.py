"""A member of a consumer group from its start to its end, and its health, for consumers of all kinds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Self

from orbitmq.client.consumer.closing import Closers
from orbitmq.client.consumer.consuming import Ending, Handling
from orbitmq.client.consumer.context import ConsumerContext
from orbitmq.client.core.calling import waiting_task
from orbitmq.client.core.checking import check_number, check_within
from orbitmq.client.core.errors import NotRunning
from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.names import INNER_PRODUCER_GROUP
from orbitmq.client.core.options import ClientOptions
from orbitmq.client.trace.tracing import Tracer
from orbitmq.net.connection import Connection
from orbitmq.protocol.bodies.heartbeat import ConsumerData
from orbitmq.protocol.remoting.command import Command

log = logging.getLogger(__name__)


@dataclass(eq=False)
class GroupMember(ClientOptions):
    """The course of a consumer; its kind says how it joins, what it consumes, and how it leaves."""

    _: KW_ONLY
    close_timeout_ms: int = 30_000
    """Time that `close` waits for handlers before it cancels them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_within(self, "close_timeout_ms", 0, 2**31 - 1)
        self._session: ConsumerContext | None = None
        self._handling: Handling | None = None
        self._consumption: Ending | None = None
        self._closing: asyncio.Task[None] | None = None
        self._closers = Closers()
        self._hurried = asyncio.Event()
        self._cut_short = False
        self._closed = asyncio.Event()

    # Parts of each kind of consumer.

    def _new_session(self, instance: ClientInstance) -> ConsumerContext:
        raise NotImplementedError

    async def _prepare(self, session: ConsumerContext, handling: Handling) -> None:
        """Asks brokers for what has to be there before the start. An error ends the start."""

    async def _begin(self, session: ConsumerContext, handling: Handling) -> None:
        """Begins to consume."""

    async def _stop(self) -> None:
        """Gives up what others can take over, while handlers still run."""

    async def _settle(self) -> None:
        """Tells brokers what was done, once the handlers have ended."""

    def _consumer_data(self) -> list[ConsumerData]:
        raise NotImplementedError

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        """Answers requests of brokers."""

    def _on_route_change(self, topic: str) -> None:
        """Takes note that the route of a topic is another one."""

    # Life.

    async def start(self) -> Self:
        """Joins the group, and takes its share as far as that is possible now. `async with` does so.

        Raises NoNameServer where none of the name servers answers, NoPermission where a broker does not let
        this user consume, BrokerRefused where a broker cannot read an expression that was subscribed to;
        of a LiteConsumer also TopicNotFound, LiteQuotaExceeded, BrokerRefused where the topic has no lite
        topics or the group is not bound to it, and what else a call can end with.
        """
        if self._session is not None:
            raise NotRunning("a consumer is started once: make another one")
        instance = ClientInstance(
            self,
            await self.own_ip(),
            producer_groups=[INNER_PRODUCER_GROUP],
            consumers=self._consumer_data,
            on_requests=self._on_requests,
            on_route_change=self._on_route_change,
            on_error=self._on_error,
            on_recovered=self._on_recovered,
        )
        session = self._new_session(instance)
        handling = Handling(session)
        try:
            await self._prepare(session, handling)
            if self._closed.is_set():
                raise NotRunning("the consumer was closed before it had started")
        except BaseException:
            await instance.close()
            raise
        self._session, self._handling = session, handling
        if self.trace:
            session.tracer = Tracer(self, instance, "CONSUME")
            session.tracer.start()
        instance.start()
        session.watch.start()
        await self._begin(session, handling)
        return self

    async def close(self, timeout_ms: float | None = None) -> None:
        """Leaves the group: no message is handed out any more, those being handled are waited for.

        Handlers that have not ended after `timeout_ms` (`close_timeout_ms`) are cancelled; plain functions
        end in their threads, but what they handle counts as not handled, and comes again. Then brokers are
        told what was done, and every connection is closed. Nothing connects afterwards. May be called more
        than once.
        """
        if timeout_ms is not None:
            check_number(f"{type(self).__name__}.close", "timeout_ms", timeout_ms, 0)
        if self._session is None:
            self._closed.set()
            return
        if self._closed.is_set():
            return
        self._session.instance.check_loop()
        self._closers.add(waiting_task())
        if self._closing is None:
            wait_ms = self.close_timeout_ms if timeout_ms is None else timeout_ms
            self._closing = asyncio.create_task(self._close(self._session, wait_ms), name="close")
        await asyncio.shield(self._closing)

    async def _close(self, session: ConsumerContext, timeout_ms: float) -> None:
        consumption, handling = self._consumption, self._handling
        assert consumption is not None
        assert handling is not None
        try:
            await self._stop()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._finished(consumption)
            except TimeoutError:
                self._cut_short = True
                log.warning("%s: handlers did not end within %d ms and are cancelled", self.group, timeout_ms)
            await consumption.close(self._closers)
            await self._settle()
            handling.close()
            if session.tracer is not None:
                await session.tracer.close()
        finally:
            session.watch.stop()
            await session.instance.close()
            self._closed.set()

    async def _finished(self, consumption: Ending) -> None:
        """Returns when handlers have ended. Raises TimeoutError where somebody hurries."""
        finishing = asyncio.create_task(consumption.finish(self._closers), name="handlers end")
        hurried = asyncio.create_task(self._hurried.wait(), name="close hurries")
        try:
            await asyncio.wait([finishing, hurried], return_when=asyncio.FIRST_COMPLETED)
            if not finishing.done():
                raise TimeoutError
            await finishing
        finally:
            finishing.cancel()
            hurried.cancel()

    async def drain(self, timeout_ms: float | None = None) -> bool:
        """Closes, and says whether every handler ended in time; messages of those that did not come again."""
        await self.close(timeout_ms)
        return not self._cut_short

    def hurry(self) -> None:
        """Cancels the handlers that `close` is waiting for."""
        self._hurried.set()

    async def wait_closed(self) -> None:
        """Returns when the consumer has been closed."""
        await self._closed.wait()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Health.

    @property
    def healthy(self) -> bool:
        """True if it runs and nothing fails at present: fetching, heartbeats, routes, sharing, offsets.

        A handler that raises does not make a consumer unhealthy.
        """
        return self._session is not None and self._closing is None and not self._session.errors

    @property
    def errors(self) -> Mapping[str, Exception]:
        """Failures at present, by subject; empty when all is well."""
        return dict(self._session.errors) if self._session is not None else {}

    @property
    def client_id(self) -> str:
        """The id by which brokers know it. Raises NotRunning before the start."""
        return self._running().instance.client_id

    def _running(self) -> ConsumerContext:
        if self._session is None:
            raise NotRunning("the consumer has not been started: use `async with`, or start()")
        if self._closing is not None:
            raise NotRunning("the consumer is closed")
        self._session.instance.check_loop()
        return self._session

    def _on_error(self, subject: str, error: Exception) -> None:
        if self._session is not None:
            self._session.errors[subject] = error

    def _on_recovered(self, subject: str) -> None:
        if self._session is not None:
            self._session.errors.pop(subject, None)

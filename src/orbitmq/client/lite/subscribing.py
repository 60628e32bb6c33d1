"""Subscriptions of a lite consumer to lite topics, as it tells brokers of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from orbitmq.client.core.errors import InvalidArgument, LiteQuotaExceeded, NoMasterNow
from orbitmq.client.core.instance import ClientInstance
from orbitmq.protocol.bodies.lite import LiteAction, LiteSubscriptionCtlBody, LiteSubscriptionEntry
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.lite_topics import is_lite_topic_name
from orbitmq.protocol.requests.lite import LiteSubscriptionCtl


def check_lite_topics(owner: str, names: Iterable[object]) -> None:
    """Raises InvalidArgument for what is no name of a lite topic."""
    for name in names:
        if not isinstance(name, str) or not is_lite_topic_name(name):
            raise InvalidArgument(
                f"{owner}: a lite topic has letters, digits, - and _ in its name, not {name!r}"
            )


class LiteSubscriptions:
    """The lite topics of one consumer. Brokers forget a client that does not name its lite topics again."""

    def __init__(self, instance: ClientInstance, group: str, topic: str, limit: int) -> None:
        self._instance = instance
        self._group = group
        self._topic = topic
        self._limit = limit
        self.names: set[str] = set()

    async def add(self, names: Iterable[str]) -> None:
        """Subscribes to lite topics. Raises InvalidArgument, LiteQuotaExceeded, and what a call raises.

        Where a broker refuses, those of this call are given up at all of them.
        """
        wanted = set(names)
        check_lite_topics("subscribe", wanted)
        new = wanted - self.names  # a holder that asks again would lose it to itself at Apache's brokers
        if not new:
            return
        if len(self.names) + len(new) > self._limit:
            raise LiteQuotaExceeded(
                f"{len(self.names) + len(new)} lite topics are more than max_lite_topics, {self._limit}"
            )
        self.names |= new
        try:
            await self._tell(LiteAction.PARTIAL_ADD, new)
        except BaseException as error:
            self.names -= new
            if isinstance(error, BrokerRefused):
                await self._tell(LiteAction.PARTIAL_REMOVE, new)
            raise

    async def remove(self, names: Iterable[str]) -> None:
        """Unsubscribes from lite topics. Raises what a call raises; the next sync says it again."""
        held = self.names.intersection(names)
        self.names -= held
        if held:
            await self._tell(LiteAction.PARTIAL_REMOVE, held)

    async def sync(self) -> None:
        """Tells brokers all lite topics. Raises what a call raises."""
        await self._tell(LiteAction.COMPLETE_ADD, self.names)

    async def leave(self) -> None:
        """Has others get what comes from now on. Raises what a call raises."""
        await self._tell(LiteAction.COMPLETE_REMOVE, ())

    async def brokers(self) -> list[str]:
        """Names of the brokers with queues of the topic. Raises TopicNotFound, NoNameServer."""
        routes = self._instance.routes
        route = await routes.route(self._topic)
        if route is None:
            raise await routes.not_found(self._topic)
        return sorted({queue.broker_name for queue in route.subscribe_queues})

    async def _tell(self, action: LiteAction, names: Iterable[str]) -> None:
        """Has every broker of the topic take a change. Raises the first failure, once all have ended."""
        entry = LiteSubscriptionEntry(
            action, self._instance.client_id, self._group, sorted(names), None, self._topic
        )
        masters = [self._instance.routes.master(name) for name in await self.brokers()]
        addresses = [address for address in masters if address is not None]
        if not addresses:
            raise NoMasterNow(self._topic)
        request = LiteSubscriptionCtl(LiteSubscriptionCtlBody([entry]))
        calls = (self._instance.call(address, request) for address in addresses)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BrokerRefused) and outcome.code in (
                ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                ResponseCode.LMQ_QUOTA_EXCEEDED,
            ):
                raise LiteQuotaExceeded(
                    f"the broker has no room for more lite topics: {outcome}"
                ) from outcome
            if isinstance(outcome, BaseException):
                raise outcome

"""The call SyncLiteSubscription, and what brokers say about subscriptions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.lite import LiteSubscriptionCtlBody
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.lite_topics import bound_topic
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.lite import LiteSubscriptionCtl, NotifyUnsubscribeLite
from orbitmq.proxy.checks import check_lite_topic, group_name, topic_name
from orbitmq.proxy.clients import Client, Clients
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import OK, ProxyRefused
from orbitmq.proxy.lite.rules import (
    LITE_CLIENTS,
    SPARE_NAMES,
    quota_of,
    subscription_body,
)
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)


class LiteSubscriptions:
    """Passes on to brokers what clients subscribe to."""

    def __init__(
        self, cluster: Cluster, clients: Clients, settings: ProxySettings, now: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._settings = settings
        self._now = now
        self._second, self._in_second = 0, 0

    async def sync(
        self, request: pb.SyncLiteSubscriptionRequest, caller: Caller
    ) -> pb.SyncLiteSubscriptionResponse:
        """Adds to a client's lite topics, takes from them, or replaces them; all brokers have to take it.

        Raises ProxyRefused, NetError, BrokerRefused.
        """
        topic, group = topic_name(request.topic), group_name(request.group)
        if request.action not in pb.LiteSubscriptionAction.values():
            raise ProxyRefused(pb.BAD_REQUEST, f"no action of a subscription is {request.action}")
        adds_some = request.action == pb.PARTIAL_ADD
        if adds_some:
            for name in request.lite_topic_set:
                check_lite_topic(name, self._settings.max_lite_topic_size)
        await self._check_group(topic, group, len(request.lite_topic_set))
        if adds_some and not self._is_in_time():
            raise ProxyRefused(
                pb.TOO_MANY_REQUESTS,
                f"Too many syncLiteSubscription requests, topic={topic}, group={group}, "
                f"clientId={caller.client_id}",
            )
        await self._tell(
            topic,
            subscription_body(
                pb.LiteSubscriptionAction.Name(request.action),
                caller.client_id,
                group,
                topic,
                request.lite_topic_set,
                request.offset_option if adds_some and request.HasField("offset_option") else None,
                request.version,
            ),
        )
        return pb.SyncLiteSubscriptionResponse(status=OK)

    async def _check_group(self, topic: str, group: str, count: int) -> None:
        try:
            config = await self._cluster.group(group)
        except ProxyRefused as error:
            if error.code == pb.CONSUMER_GROUP_NOT_FOUND:
                raise ProxyRefused(pb.ILLEGAL_CONSUMER_GROUP, f"group not found: {group}") from None
            raise
        bound = bound_topic(config)
        if bound is None:
            raise ProxyRefused(
                pb.ILLEGAL_TOPIC, f"{group} is no lite group: it has no attribute lite.bind.topic"
            )
        if bound != topic:
            raise ProxyRefused(
                pb.ILLEGAL_TOPIC,
                f"lite group {group} is expected to bind topic {bound}, but actual is {topic}",
            )
        quota = quota_of(config)
        if count > quota + SPARE_NAMES:
            raise ProxyRefused(
                pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, f"lite subscription quota exceeded: {quota}"
            )

    def _is_in_time(self) -> bool:
        second = self._now() // 1000
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        return self._in_second <= self._settings.max_sync_lite_subscription_rate

    async def _tell(self, topic: str, body: LiteSubscriptionCtlBody) -> None:
        brokers = await self._cluster.readable_brokers(topic)
        if not brokers:
            raise ProxyRefused(pb.FORBIDDEN, f"{topic} has no readable queue")
        addresses = [await self._cluster.master(name) for name in brokers]
        await asyncio.gather(*(self._cluster.call(one, LiteSubscriptionCtl(body)) for one in addresses))

    async def left(self, client: Client) -> None:
        """Has other members get what a client that is gone had subscribed to."""
        group = client.group
        if group is None or client.settings.client_type not in LITE_CLIENTS:
            return
        try:
            topic = bound_topic(await self._cluster.group(group))
            if topic is not None:
                name = pb.LiteSubscriptionAction.Name(pb.COMPLETE_REMOVE)
                await self._tell(topic, subscription_body(name, client.caller.client_id, group, topic))
        except (ProxyRefused, NetError, BrokerRefused) as error:
            log.warning("the end of lite client %s: %s", client.caller.client_id, error)

    def handle_requests(self, commands: list[Command]) -> None:
        """Passes on to clients that another member has taken over a lite topic of theirs."""
        for command in commands:
            if command.code != NotifyUnsubscribeLite.CODE:
                continue
            ext = command.ext or {}
            client = self._clients.get(ext.get("clientId", ""))
            if client is not None:
                told = pb.NotifyUnsubscribeLiteCommand(lite_topic=ext.get("liteTopic", ""))
                client.tell(pb.TelemetryCommand(notify_unsubscribe_lite_command=told))

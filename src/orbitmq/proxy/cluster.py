"""The brokers behind a proxy: routes, settings of topics and groups, and calls to them."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Callable, Mapping
from typing import TypeVar

from orbitmq.client.core.routes import TopicRoute
from orbitmq.net.address import parse_addresses
from orbitmq.net.connection import Connection
from orbitmq.net.errors import NetError
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import MASTER_ID
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, MalformedReply
from orbitmq.protocol.records.hashing import consistent_place
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.group import GetSubscriptiongroupConfig
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.protocol.requests.topic import GetTopicConfig
from orbitmq.protocol.schema.declare import Reply, Request
from orbitmq.proxy.cached import Cached
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.messages import topic_type
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.wire import messaging_pb2 as pb

ReplyT = TypeVar("ReplyT", bound=Reply)
_NAME_SERVER_TIMEOUT_MS = 3000
_ALL = "brokers"


class Cluster:
    """Everything that the proxy asks of name servers and brokers.

    `on_requests` gets what brokers ask of their clients: check-backs of transactions.
    """

    def __init__(
        self,
        settings: ProxySettings,
        on_requests: Callable[[Connection, list[Command]], None],
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._pool = ConnectionPool(on_requests, credentials=credentials, ssl=tls)
        addresses = list(parse_addresses(settings.namesrv_addr))
        self._names = NameServers(addresses, self._pool, _NAME_SERVER_TIMEOUT_MS)
        keep = settings.topic_route_service_cache_refresh_seconds
        most = settings.topic_route_service_cache_max_num
        self._routes = Cached(self._look_up_route, keep, most)
        self._types = Cached(
            self._look_up_type,
            settings.topic_config_cache_refresh_seconds,
            settings.topic_config_cache_max_num,
        )
        self._groups = Cached(
            self._look_up_group,
            settings.subscription_group_config_cache_refresh_seconds,
            settings.subscription_group_config_cache_max_num,
        )
        self._brokers = Cached(self._look_up_brokers, keep, 1)
        self._turns = itertools.count()

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic. Raises ProxyRefused, NetError, BrokerRefused."""
        return await self._routes.get(topic)

    async def topic_type(self, topic: str) -> str:
        """The type of a topic, such as NORMAL. Raises ProxyRefused, NetError, BrokerRefused."""
        return await self._types.get(topic)

    async def group(self, group: str) -> SubscriptionGroupConfig:
        """The configuration of a group. Raises ProxyRefused for an unknown one, NetError, BrokerRefused."""
        return await self._groups.get(group)

    async def masters(self) -> dict[str, str]:
        """The addresses of all masters by broker name. Raises NetError, BrokerRefused."""
        groups = await self._brokers.get(_ALL)
        return {name: members[MASTER_ID] for name, members in groups.items() if MASTER_ID in members}

    async def master(self, broker_name: str) -> str:
        """The address of a broker's master. Raises ProxyRefused for an unknown broker."""
        members = await self._members(broker_name)
        if MASTER_ID not in members:
            raise ProxyRefused(pb.BAD_REQUEST, f"no broker {broker_name!r} has a master now")
        return members[MASTER_ID]

    async def member(self, broker_name: str) -> str:
        """The address of a broker's master, or of the slave that can be read from while there is none.

        Raises ProxyRefused for an unknown broker.
        """
        members = await self._members(broker_name)
        if not members:
            raise ProxyRefused(pb.BAD_REQUEST, f"no broker {broker_name!r} is there now")
        return members[min(members)]

    async def _members(self, broker_name: str) -> Mapping[int, str]:
        members = (await self._brokers.get(_ALL)).get(broker_name, {})
        if MASTER_ID not in members:
            self._brokers.forget(_ALL)
            members = (await self._brokers.get(_ALL)).get(broker_name, {})
        return members

    async def queue_to_write(self, topic: str, group: str | None) -> tuple[MessageQueue, str]:
        """The queue for the next message of a topic, by its message group if it has one, and its master.

        Raises ProxyRefused for a topic that takes no messages.
        """
        route = await self.route(topic)
        queues = route.publish_queues
        if not queues:
            self._routes.forget(topic)
            raise ProxyRefused(pb.FORBIDDEN, f"{topic} has no writable queue")
        place = next(self._turns) % len(queues) if group is None else consistent_place(group, len(queues))
        queue = queues[place]
        broker = route.broker_of(queue)
        return MessageQueue(topic, broker, queue.queue_id), route.brokers[broker][MASTER_ID]

    async def readable_brokers(self, topic: str) -> list[str]:
        """Names of the brokers whose masters have readable queues of a topic."""
        route = await self.route(topic)
        return sorted(
            {
                queue.broker_name
                for queue in route.stored_queues
                if MASTER_ID in route.brokers.get(queue.broker_name, ())
            }
        )

    async def call(self, address: str, request: Request[ReplyT], timeout_ms: float | None = None) -> ReplyT:
        """Asks a broker. Raises NetError, BrokerRefused, MalformedReply."""
        return await self._pool.call(address, request, timeout_ms or self._settings.broker_timeout_ms)

    async def send_oneway(self, address: str, request: Request[Reply]) -> None:
        """Tells a broker something. Raises NetError."""
        await self._pool.send_oneway(address, request, self._settings.broker_timeout_ms)

    def forget_route(self, topic: str) -> None:
        """Has the route of a topic, and the masters, looked up at their next use."""
        self._routes.forget(topic)
        self._brokers.forget(_ALL)

    def close_idle(self) -> None:
        """Closes connections to brokers that are not used."""
        self._pool.close_idle()

    async def close(self) -> None:
        """Closes all connections."""
        await self._pool.close()

    async def _look_up_route(self, topic: str) -> TopicRoute:
        data = await self._names.route(topic)
        if data is None:
            raise ProxyRefused(pb.TOPIC_NOT_FOUND, f"no route of topic {topic}: no name server knows it")
        return TopicRoute(topic, data)

    async def _look_up_type(self, topic: str) -> str:
        route = await self.route(topic)
        failures: list[Exception] = []
        for members in route.brokers.values():
            address = members.get(MASTER_ID) or next(iter(members.values()), None)
            if address is None:
                continue
            try:
                config = (await self.call(address, GetTopicConfig(topic))).body
            except (NetError, BrokerRefused, MalformedReply) as error:
                failures.append(error)
                continue
            if config is not None:
                return topic_type(config.attributes)
        if failures:
            raise failures[0]
        raise ProxyRefused(pb.TOPIC_NOT_FOUND, f"no broker of topic {topic} is there")

    async def _look_up_group(self, group: str) -> SubscriptionGroupConfig:
        failures: list[Exception] = []
        for address in (await self.masters()).values():
            try:
                config = (await self.call(address, GetSubscriptiongroupConfig(group))).body
            except (NetError, BrokerRefused, MalformedReply) as error:
                failures.append(error)
                continue
            if config is not None:
                return config
        unknown = [
            error
            for error in failures
            if isinstance(error, BrokerRefused) and error.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        ]
        if failures and not unknown:
            raise failures[0]
        raise ProxyRefused(pb.CONSUMER_GROUP_NOT_FOUND, f"no broker knows the consumer group {group}")

    async def _look_up_brokers(self, _: str) -> dict[str, Mapping[int, str]]:
        info = (await self._names.ask(GetBrokerClusterInfo())).body
        table = (info.broker_addr_table if info is not None else None) or {}
        return {name: data.broker_addrs or {} for name, data in table.items()}

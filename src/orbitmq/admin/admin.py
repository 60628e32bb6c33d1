"""The base of all administration: name servers to ask or notify, and the brokers they know."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Self, TypeVar

from orbitmq.access import context_of, credentials_of
from orbitmq.net.address import default_namesrv, parse_address, parse_addresses
from orbitmq.net.errors import BadAddress
from orbitmq.net.name_servers import NameServers
from orbitmq.net.near_names import near_topics
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server_kinds import wrong_server
from orbitmq.protocol.bodies.route import ClusterInfo, TopicRouteData
from orbitmq.protocol.errors import OrbitError, RequestNotSupported, TopicNotExist
from orbitmq.protocol.help_pages import did_you_mean
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.requests.route import GetBrokerClusterInfo, GetRouteinfoByTopic
from orbitmq.protocol.schema.declare import Reply, Request

ReplyT = TypeVar("ReplyT", bound=Reply)
T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 32
"""Questions that are under way at the same time."""


class NotANameServer(OrbitError):
    """Another server answers at the address of a name server."""


class NoBroker(OrbitError):
    """No broker is registered that is meant."""


@dataclass(frozen=True, slots=True, order=True)
class BrokerAt:
    """One broker as name servers know it."""

    cluster: str
    name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        """True if it accepts changes."""
        return self.broker_id == 0


class Admin:
    """An operator's connections.

    `namesrv` is `host:port`, several with `;` between; empty: NAMESRV_ADDR of the environment, else
    127.0.0.1:9876. One that answers is enough to ask. Keys and `tls` are as those of producers. Bodies that
    were compressed are inflated up to `max_inflated_body_bytes`.
    """

    def __init__(
        self,
        namesrv: str = "",
        *,
        timeout_ms: int = 5000,
        access_key: str | None = None,
        secret_key: str | None = None,
        security_token: str | None = None,
        tls: bool | ssl.SSLContext = False,
        max_inflated_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
    ) -> None:
        self.max_inflated_body_bytes = max_inflated_body_bytes
        self.namesrv = parse_addresses(namesrv or default_namesrv())
        self.timeout_ms = timeout_ms
        self._pool = ConnectionPool(
            connect_timeout_ms=min(timeout_ms, 3000),
            ssl=context_of(tls),
            credentials=credentials_of(access_key, secret_key, security_token),
        )
        self._names = NameServers(self.namesrv, self._pool, timeout_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all connections."""
        await self._pool.close()

    async def call(self, address: str, request: Request[ReplyT]) -> ReplyT:
        """One question to one server. Raises BrokerRefused and NetError, WrongServer among them."""
        try:
            return await self._pool.call(address, request, self.timeout_ms)
        except RequestNotSupported:
            if (wrong := await wrong_server(self._pool, address, request, self.timeout_ms)) is not None:
                raise wrong from None
            raise

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        """One question to the first name server that answers. Raises NoNameServer, BrokerRefused."""
        return await self._names.ask(request)

    async def ask_all(self, request: Request[ReplyT]) -> ReplyT:
        """The same to every name server: they do not talk to each other. Raises what the first one
        refuses.
        """
        replies = await asyncio.gather(
            *(self.call(address, request) for address in self.namesrv), return_exceptions=True
        )
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        first = replies[0]
        assert not isinstance(first, BaseException)
        return first

    async def each(self, things: Iterable[T], act: Callable[[T], Awaitable[R]]) -> list[R]:
        """`act` for each of several things, many at a time; the results in their order."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(thing: T) -> R:
            async with limit:
                return await act(thing)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(thing)) for thing in things]
        return [task.result() for task in tasks]

    async def clusters(self) -> ClusterInfo:
        """All brokers and clusters. Raises NotANameServer."""
        try:
            return (await self.ask(GetBrokerClusterInfo())).body
        except RequestNotSupported:
            raise NotANameServer(
                f"{';'.join(self.namesrv)} answers, but not as a name server does: --namesrv takes the "
                "address of a name server (port 9876 by default), not of a broker"
            ) from None

    async def brokers(self, cluster: str | None = None, broker: str | None = None) -> list[BrokerAt]:
        """The brokers of a cluster, of a group by name, or at `host:port`; all without either.

        Raises NoBroker if there are none.
        """
        info = await self.clusters()
        found = sorted(
            BrokerAt(data.cluster, data.broker_name, broker_id, address)
            for data in (info.broker_addr_table or {}).values()
            for broker_id, address in (data.broker_addrs or {}).items()
        )
        if cluster is not None:
            found = [one for one in found if one.cluster == cluster]
        if broker is not None:
            found = [one for one in found if broker in (one.name, one.address)]
        if not found:
            meant = f" named {broker}" if broker else ""
            where = f" in cluster {cluster}" if cluster else ""
            raise NoBroker(f"no broker{meant}{where} is registered with {';'.join(self.namesrv)}")
        return found

    async def addresses(self, broker: str) -> list[str]:
        """The addresses of a broker group by name; or `broker` itself, where it is `host:port`.

        No name server is asked for that one: it may be what is out of order. Raises NoBroker.
        """
        try:
            parse_address(broker)
        except BadAddress:
            return [one.address for one in await self.brokers(broker=broker)]
        return [broker]

    async def masters(self, cluster: str | None = None, broker: str | None = None) -> list[BrokerAt]:
        """The same, masters only."""
        found = [one for one in await self.brokers(cluster, broker) if one.is_master]
        if not found:
            raise NoBroker("only slaves are registered, which take no changes")
        return found

    async def route(self, topic: str) -> TopicRouteData:
        """The route of a topic. Raises TopicNotExist, with the names of topics that are like it."""
        try:
            return (await self.ask(GetRouteinfoByTopic(topic))).body
        except TopicNotExist as error:
            near = await near_topics(self._names, topic)
            if not near:
                raise
            first, *rest = (error.remark or "").splitlines() or [""]
            remark = "\n".join([first + did_you_mean(near), *rest])
            raise TopicNotExist(error.code, remark, error.address) from None

    async def brokers_of(self, topic: str) -> list[BrokerAt]:
        """One broker of every group that has queues of a topic: the master, if it lives."""
        route = await self.route(topic)
        found = []
        for data in route.broker_datas:
            if data.broker_addrs:
                broker_id = min(data.broker_addrs)
                found.append(
                    BrokerAt(data.cluster, data.broker_name, broker_id, data.broker_addrs[broker_id])
                )
        if not found:
            raise NoBroker(f"no broker with queues of topic {topic} is alive")
        return sorted(found)

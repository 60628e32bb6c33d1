"""The name servers of a cluster: each knows everything, one is asked until it fails, then the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from orbitmq.net.errors import Closed, NetError, NoNameServer
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server_kinds import NAME_SERVER, NOT_FOR_IT, WrongServer, kind_of_server
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.schema.declare import Reply, Request

ReplyT = TypeVar("ReplyT", bound=Reply)


class NameServers:
    """Asks the first of them, or the one that answered last. `timeout_ms` is for each of them."""

    def __init__(self, addresses: Sequence[str], pool: ConnectionPool, timeout_ms: int) -> None:
        self._addresses = list(addresses)
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._chosen = 0
        self.has_answered = False
        """True once one of them has answered."""

    @property
    def addresses(self) -> list[str]:
        return self._addresses[self._chosen :] + self._addresses[: self._chosen]

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        """The first answer. Raises NoNameServer, BrokerRefused for an error answer, Closed."""
        failures: list[NetError] = []
        count = len(self._addresses)
        first = self._chosen
        for place in (number % count for number in range(first, first + count)):
            try:
                reply = await self._pool.call(self._addresses[place], request, self._timeout_ms)
                self.has_answered = True
                return reply
            except BrokerRefused as error:
                other = await self._other_kind(self._addresses[place], error)
                if other is None:
                    self.has_answered = True
                    raise
                failures.append(WrongServer(self._addresses[place], other, NAME_SERVER))
            except Closed:
                raise
            except NetError as error:
                failures.append(error)
            if self._chosen == place:  # else another question has failed there, too, and gone on
                self._chosen = (place + 1) % count
        raise NoNameServer(failures)

    async def _other_kind(self, address: str, error: BrokerRefused) -> str | None:
        """The kind of a server that refuses what every name server answers; None for a name server."""
        if error.code not in NOT_FOR_IT:
            return None
        found = await kind_of_server(self._pool, address, self._timeout_ms)
        return None if found == NAME_SERVER else found

    async def route(self, topic: str) -> TopicRouteData | None:
        """The route of a topic, None without one. Raises NoNameServer, BrokerRefused, Closed."""
        try:
            # Standard JSON can be asked for, and is read faster; name servers before 4.9.4 do not know it.
            return (await self.ask(GetRouteinfoByTopic(topic, True))).body
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise

"""Asks name servers where topics are, for the rules of a broker that want to know."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from ssl import SSLContext

from orbitmq.broker.metadata.routes import RouteTable
from orbitmq.broker.options import BrokerSettings
from orbitmq.handling.credentials import own_credentials
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import OrbitError

log = logging.getLogger(__name__)

TIMEOUT_MS = 2_000


class RouteAsker:
    """Looks up topics for the broker's table of routes."""

    def __init__(
        self,
        routes: RouteTable,
        settings: BrokerSettings,
        addresses: Sequence[str],
        *,
        ssl: SSLContext | None = None,
    ) -> None:
        self._routes = routes
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(settings))
        self._names = NameServers(addresses, self._pool, TIMEOUT_MS)

    async def ask(self, topics: Iterable[str]) -> None:
        """Looks up these topics and updates the table."""
        for topic in topics:
            await self._look_up(topic)

    async def _look_up(self, topic: str) -> None:
        try:
            self._routes.learn(topic, await self._names.route(topic))
        except OrbitError as error:
            log.debug("no name server says where %s is: %s", topic, error)
            self._routes.failed(topic)

    async def close(self) -> None:
        await self._pool.close()

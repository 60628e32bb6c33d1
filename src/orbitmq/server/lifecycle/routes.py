"""Asks name servers where topics are, for the rules of a broker that want to know."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from ssl import SSLContext

from orbitmq.broker.auth.config_values import own_credentials
from orbitmq.broker.broker import Broker
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.route import GetRouteinfoByTopic

log = logging.getLogger(__name__)

TIMEOUT_MS = 2_000


class RouteAsker:
    """Looks up topics, with the next name server where one does not answer."""

    def __init__(self, broker: Broker, addresses: Sequence[str], *, ssl: SSLContext | None = None) -> None:
        self._routes = broker.routes
        self._addresses = list(addresses)
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(broker.settings))

    async def ask(self, topics: Iterable[str]) -> None:
        """Looks up these topics and tells the table."""
        for topic in topics:
            await self._ask(topic)

    async def _ask(self, topic: str) -> None:
        for address in list(self._addresses):
            try:
                reply = await self._pool.call(address, GetRouteinfoByTopic(topic), TIMEOUT_MS)
            except BrokerRefused as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    continue
                self._routes.learn(topic, None)
            except OrbitError as error:
                log.debug("name server %s does not say where %s is: %s", address, topic, error)
                self._addresses.append(self._addresses.pop(0))
                continue
            else:
                self._routes.learn(topic, reply.body)
            return
        self._routes.failed(topic)

    async def close(self) -> None:
        """Ends the connections."""
        await self._pool.close()

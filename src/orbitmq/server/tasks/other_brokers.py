"""Requests to the masters of other broker groups, for rules that need what those hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Any

from orbitmq.broker.options import BrokerSettings
from orbitmq.handling.call import OtherBroker
from orbitmq.handling.credentials import own_credentials
from orbitmq.net.errors import ConnectFailed, NetError
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.route import MASTER_ID
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.server.tasks.background import BackgroundTasks

TIMEOUT_MS = 2_000


class OtherBrokers:
    """Finds the masters of broker groups by the name servers, and asks them."""

    def __init__(
        self, settings: BrokerSettings, name_servers: Sequence[str], *, ssl: SSLContext | None = None
    ) -> None:
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(settings))
        self._names = NameServers(name_servers, self._pool, TIMEOUT_MS)
        self._addresses: dict[str, str] = {}
        self._questions = BackgroundTasks()

    def ask(
        self, question: OtherBroker, timeout_ms: int, then: Callable[[object, Exception | None], None]
    ) -> None:
        """Calls back with the reply, or with the error."""
        self._questions.start(self._answer(question, timeout_ms, then), f"question to {question.name}")

    async def _answer(
        self, question: OtherBroker, timeout_ms: int, then: Callable[[object, Exception | None], None]
    ) -> None:
        try:
            reply = await self.call(question, timeout_ms)
        except OrbitError as error:
            then(None, error)
        else:
            then(reply, None)

    async def call(self, question: OtherBroker, timeout_ms: int) -> Any:
        """The reply to the question. Raises OrbitError."""
        known = self._addresses.get(question.name)
        if known is not None:
            try:
                return await self._pool.call(known, question.request, timeout_ms)
            except ConnectFailed:
                pass  # another one may be master by now
            except NetError:
                self._addresses.pop(question.name, None)
                raise
        address = await self._look_up(question.name)
        return await self._pool.call(address, question.request, timeout_ms)

    async def _look_up(self, name: str) -> str:
        groups = (await self._names.ask(GetBrokerClusterInfo())).body.broker_addr_table or {}
        self._addresses = {
            group: members.get(MASTER_ID) or members[min(members)]
            for group, data in groups.items()
            if (members := data.broker_addrs)
        }
        if name not in self._addresses:
            raise NetError(f"no name server knows a broker {name}")
        return self._addresses[name]

    async def close(self) -> None:
        """Ends the connections."""
        await self._questions.stop()
        await self._pool.close()

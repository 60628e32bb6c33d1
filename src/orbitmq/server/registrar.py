"""Keeps every name server informed of a broker: at start, every half minute, and when topics change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from ssl import SSLContext

from orbitmq.broker import registration
from orbitmq.broker.auth.reading import own_credentials
from orbitmq.broker.broker import Broker
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.route import RegisterBroker

log = logging.getLogger(__name__)

FAREWELL_TIMEOUT_MS = 3_000
TEXTS_PER_TURN = 1_000
"""How many topics are written out for the name servers before others have a turn: some 5 ms."""


class Registrar:
    """Registers one broker with each of its name servers, none of which waits for another."""

    def __init__(
        self,
        broker: Broker,
        addresses: list[str],
        now: Callable[[], int],
        *,
        ssl: SSLContext | None = None,
    ) -> None:
        self._broker = broker
        self._addresses = addresses
        self._now = now
        self._timeout_ms = broker.settings.register_broker_timeout_mills
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(broker.settings))
        self._tasks: set[asyncio.Task[None]] = set()
        self._unreachable: set[str] = set()

    async def register(self, *, force: bool = True) -> int:
        """Tells all name servers everything; gives how many took it.

        Without `force` a name server that has the present table is only told that the broker lives.
        """
        for _ in range(0, len(self._broker.topics.by_name), TEXTS_PER_TURN):
            if self._broker.topics.make_wire_texts(TEXTS_PER_TURN):
                break
            await asyncio.sleep(0)
        results = await asyncio.gather(*(self._register_with(address, force) for address in self._addresses))
        return sum(results)

    async def _register_with(self, address: str, force: bool) -> bool:
        broker = self._broker
        try:
            if not force:
                asked = registration.ask_data_version(broker.identity, broker.topics)
                if not (await self._pool.call(address, asked, self._timeout_ms)).changed:
                    return True
            for request in registration.register_all(
                broker.identity,
                broker.topics,
                broker.settings.broker_permission,
                split_size=broker.settings.split_registration_size
                if broker.settings.enable_split_registration
                else None,
            ):
                reply = await self._pool.call(address, request, self._timeout_ms)
                if reply.body is not None:
                    ordered = registration.ordered_topics(reply.body.table or {}, broker.identity.name)
                    broker.topics.set_order(ordered, self._now())
        except OrbitError as error:
            if address not in self._unreachable:
                self._unreachable.add(address)
                log.warning("cannot register with name server %s: %s", address, error)
            return False
        if address in self._unreachable:
            self._unreachable.discard(address)
            log.info("name server %s is back", address)
        return True

    def topics_changed(self) -> None:
        """Tells all name servers of the topics that changed since the last call, soon."""
        changed = self._broker.topics.take_changed()
        if not changed:
            return
        request = registration.register_changed(
            self._broker.identity, self._broker.topics, changed, self._broker.settings.broker_permission
        )
        for address in self._addresses:
            task = asyncio.create_task(self._tell(address, request), name=f"tell {address} of topics")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell(self, address: str, request: RegisterBroker) -> None:
        try:
            await self._pool.call(address, request, self._timeout_ms)
        except OrbitError as error:
            # The next full registration carries the change.
            log.debug("name server %s was not told of a topic: %s", address, error)

    async def unregister(self) -> None:
        """Says farewell to all name servers."""
        request = registration.unregister(self._broker.identity)

        async def leave(address: str) -> None:
            try:
                await self._pool.call(address, request, FAREWELL_TIMEOUT_MS)
            except (NetError, OrbitError) as error:
                log.debug("name server %s was not told that this broker stops: %s", address, error)

        await asyncio.gather(*(leave(address) for address in self._addresses))
        for task in list(self._tasks):
            task.cancel()
        await self._pool.close()

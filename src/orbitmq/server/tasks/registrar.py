"""Keeps every name server informed of a broker: at start, every half minute, and when topics change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass
from ssl import SSLContext

from orbitmq.broker.admin.topic_handlers import TEXTS_PER_TURN
from orbitmq.broker.metadata import registration
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.role import Role
from orbitmq.broker.role.state import RoleState
from orbitmq.handling.credentials import own_credentials
from orbitmq.net.errors import NetError
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.ha import BrokerHeartbeat
from orbitmq.protocol.requests.route import GetBrokerMemberGroup, RegisterBroker
from orbitmq.server.tasks.background import BackgroundTasks

log = logging.getLogger(__name__)

FAREWELL_TIMEOUT_MS = 3_000
GRACE_SECONDS = 0.5
"""Time that registrations under way have to end before a farewell."""


@dataclass(eq=False, repr=False)
class Registrar:
    """Registers one broker with each of its name servers, none of which waits for another."""

    _identity: BrokerIdentity
    _settings: BrokerSettings
    _topics: TopicTable
    _role: RoleState
    _addresses: list[str]
    _now: Callable[[], int]
    _: KW_ONLY
    ssl: InitVar[SSLContext | None] = None

    def __post_init__(self, ssl: SSLContext | None) -> None:
        self._timeout_ms = self._settings.register_broker_timeout_mills
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(self._settings))
        self._names = NameServers(self._addresses, self._pool, self._timeout_ms)
        self._background = BackgroundTasks()
        self._stopped = False
        self._unreachable: set[str] = set()
        self._heartbeat_timeout_ms: int | None = (
            self._settings.broker_not_active_timeout_millis
            if self._settings.enable_slave_acting_master
            else None
        )

    async def register(self, *, force: bool = True) -> int:
        """Registers all topics with all name servers; gives how many accepted it.

        Without `force` a name server that has the present table only learns that the broker lives. After
        `unregister` nothing is sent.
        """
        if self._is_away():
            return 0
        for _ in range(0, len(self._topics.by_name), TEXTS_PER_TURN):
            if self._topics.make_wire_texts(TEXTS_PER_TURN):
                break
            await asyncio.sleep(0)
        under_way = [
            self._background.start(self._register_with(address, force), f"registration with {address}")
            for address in self._addresses
        ]
        results = await asyncio.gather(*under_way, return_exceptions=True)
        return results.count(True)

    def _is_away(self) -> bool:
        """True while no route may name this broker."""
        return self._stopped or self._role.current is Role.UNKNOWN

    async def _register_with(self, address: str, force: bool) -> bool:
        identity, settings, topics = self._identity, self._settings, self._topics
        try:
            if not force:
                asked = registration.ask_data_version(identity, topics)
                if not (await self._pool.call(address, asked, self._timeout_ms)).changed:
                    return True
            for request in registration.register_all(
                identity,
                topics,
                settings.broker_permission,
                self._heartbeat_timeout_ms,
                split_size=settings.split_registration_size if settings.enable_split_registration else None,
            ):
                if self._is_away():
                    return False
                reply = await self._pool.call(address, request, self._timeout_ms)
                self._role.note_master(reply.master_addr, reply.ha_server_addr)
                if reply.body is not None:
                    ordered = registration.ordered_topics(reply.body.table or {}, identity.name)
                    topics.set_order(ordered, self._now())
        except OrbitError as error:
            if address not in self._unreachable:
                self._unreachable.add(address)
                log.warning("cannot register with name server %s: %s", address, error)
            return False
        if address in self._unreachable:
            self._unreachable.discard(address)
            log.info("name server %s is back", address)
        return True

    async def send_heartbeats(self) -> None:
        """Tells all name servers that the broker lives, and nothing else. There is no answer."""
        identity = self._identity
        beat = BrokerHeartbeat(
            identity.cluster,
            identity.address,
            identity.name,
            identity.broker_id,
            heartbeat_timeout_mills=self._heartbeat_timeout_ms,
        )
        await asyncio.gather(
            *(self._pool.send_oneway(address, beat, self._timeout_ms) for address in self._addresses),
            return_exceptions=True,
        )

    async def members(self) -> dict[int, str] | None:
        """The living members of the broker's group by id, as the first name server says that answers; None
        where none does.
        """
        identity = self._identity
        try:
            body = (await self._names.ask(GetBrokerMemberGroup(identity.cluster, identity.name))).body
        except OrbitError:
            return None
        group = body.broker_member_group
        return {} if group is None else dict(group.broker_addrs)

    def topics_changed(self) -> None:
        """Tells all name servers of the topics that changed since the last call, soon."""
        changed = self._topics.drain_changed()
        if self._is_away():
            return
        request = registration.register_changed(
            self._identity,
            self._topics,
            changed,
            self._settings.broker_permission,
            self._heartbeat_timeout_ms,
        )
        for address in self._addresses:
            self._background.start(self._notify(address, request), f"notice of topics to {address}")

    async def _notify(self, address: str, request: RegisterBroker) -> None:
        try:
            await self._pool.call(address, request, self._timeout_ms)
        except OrbitError as error:
            # The next full registration carries the change.
            log.debug("name server %s did not accept a topic: %s", address, error)

    async def unregister(self) -> None:
        """Leaves the routes for good."""
        self._stopped = True
        await self.withdraw()
        await self._pool.close()

    async def withdraw(self) -> None:
        """Takes the broker out of the routes under its present id, before it comes back under another.
        Registrations under way end before.
        """
        # A name server may take up a long registration behind a farewell that came after it.
        await self._background.stop(GRACE_SECONDS)
        request = registration.unregister(self._identity)

        async def leave(address: str) -> None:
            try:
                await self._pool.call(address, request, FAREWELL_TIMEOUT_MS)
            except (NetError, OrbitError) as error:
                log.debug("name server %s did not accept that this broker stops: %s", address, error)

        await asyncio.gather(*(leave(address) for address in self._addresses))

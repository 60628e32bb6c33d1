"""A slave that acts for its master while that is away (enableSlaveActingMaster), and a master's return.

Name servers know which member of a group has the smallest id, and a slave asks them every second. While it
is the one, clients read, lock and commit at it as they would at the master. It stores nothing itself: what is
due goes to another master of its topic, by a send like any producer's (enableRemoteEscape). The master that
comes back delivers nothing until the slave has stopped and has said how far it got.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from ssl import SSLContext

from orbitmq.broker.auth.config_values import own_credentials
from orbitmq.broker.broker import Broker
from orbitmq.broker.ha.role import Role
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.codes import PERM_WRITE
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.records.properties import decode_properties, encode_properties
from orbitmq.protocol.requests.offset import GetAllDelayOffset
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.server.lifecycle.registrar import Registrar
from orbitmq.store import PendingMessage

log = logging.getLogger(__name__)

DELIVERY_STEP_SECONDS = 0.1
TIMEOUT_MS = 3_000
ROUTE_MS = 1_000
MAX_ROUTES_KEPT = 1_000
MASTER_ID = 0
RETURN_PERIODS = 3
"""So many periods of its look at the group a slave has to notice that its master is back."""
ESCAPE_GROUP = "CID_RMQ_SYS_INNER_ESCAPE"
WAITING_PROPERTIES = ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")


class ActingMaster:
    """Runs until its task ends, on every member of a group that has the option."""

    def __init__(
        self,
        broker: Broker,
        registrar: Registrar,
        name_servers: list[str],
        now: Callable[[], int],
        *,
        ssl: SSLContext | None = None,
    ) -> None:
        self._broker = broker
        self._registrar = registrar
        self._now = now
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(broker.settings))
        self._names = NameServers(name_servers, self._pool, TIMEOUT_MS)
        self._said = ""
        self._turn = 0
        self._routes: dict[str, tuple[int, TopicRouteData]] = {}
        """Topic -> when it was asked for, and the answer."""

    async def run(self) -> None:
        """Beats, looks at the group, and delivers while it acts."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat(), name="heartbeats")
                tasks.create_task(self._come_back(), name="return as master")
                tasks.create_task(self._look(), name="members of the group")
                tasks.create_task(self._deliver(), name="deliver for the master")
        finally:
            await self._pool.close()

    async def _beat(self) -> None:
        while True:
            await self._registrar.send_heartbeats()
            await asyncio.sleep(self._broker.settings.broker_heartbeat_interval / 1000)

    async def _look(self) -> None:
        broker = self._broker
        period = broker.settings.sync_broker_member_group_period / 1000
        while True:
            await asyncio.sleep(period)
            members = await self._registrar.members()
            is_slave = broker.replication.role is Role.SLAVE
            # Where no name server answers, nobody is told of an acting master either.
            acts = bool(members) and is_slave and min(members or ()) == broker.identity.broker_id
            if acts and not broker.replication.is_acting:
                log.warning("the master of %s is away: this slave acts for it", broker.identity.name)
                broker.delay.stop()
                broker.delay.start()
            elif broker.replication.is_acting and not acts:
                log.info("this slave does not act for its master any more")
            broker.replication.is_acting = acts

    # A slave that acts.

    async def _deliver(self) -> None:
        broker = self._broker
        while True:
            await asyncio.sleep(DELIVERY_STEP_SECONDS)
            try:
                while self._may_deliver() and await self._deliver_due():
                    pass
                self._said = ""
            except (OrbitError, OSError) as error:
                if str(error) != self._said:
                    log.warning(
                        "what is due for the master of %s cannot be sent on: %s", broker.identity.name, error
                    )
                self._said = str(error)

    def _may_deliver(self) -> bool:
        return self._broker.replication.is_acting and bool(self._broker.settings.enable_remote_escape)

    async def _deliver_due(self) -> bool:
        """Sends on the next message of each level that is due; whether there was one. Raises OrbitError."""
        delay = self._broker.delay
        found = False
        for level, position, message in list(delay.due_elsewhere(self._now())):
            if message is not None:
                await self._send(message)
            if not self._may_deliver():
                return False
            delay.delivered_elsewhere(level, position)
            found = True
        return found

    async def _send(self, message: PendingMessage) -> None:
        """Has another master of the message's topic store it. Raises OrbitError where none does."""
        body = await self._route(message.topic)
        writable = {
            data.broker_name: data.write_queue_nums
            for data in body.queue_datas or ()
            if data.perm & PERM_WRITE and data.write_queue_nums > 0
        }
        masters = [
            (data.broker_name, (data.broker_addrs or {})[MASTER_ID])
            for data in body.broker_datas or ()
            if data.broker_name != self._broker.identity.name
            and data.broker_name in writable
            and MASTER_ID in (data.broker_addrs or ())
        ]
        if not masters:
            raise OrbitError(f"no other broker takes messages of {message.topic}")
        self._turn += 1
        name, address = masters[self._turn % len(masters)]
        properties = decode_properties(message.properties)
        for waiting in WAITING_PROPERTIES:
            properties.pop(waiting, None)
        request = SendMessageV2(
            producer_group=ESCAPE_GROUP,
            topic=message.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=message.queue_id if message.queue_id < writable[name] else 0,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            flag=message.flag,
            properties=encode_properties(properties).decode("utf-8", "surrogateescape"),
            reconsume_times=message.reconsume_times,
            broker_name=name,
            body=bytes(message.body),
        )
        await self._pool.call(address, request, TIMEOUT_MS)

    async def _route(self, topic: str) -> TopicRouteData:
        """Where a topic is, asked anew every second. Raises OrbitError."""
        known_ms, known = self._routes.get(topic, (0, None))
        if known is not None and self._now() - known_ms < ROUTE_MS:
            return known
        body = (await self._names.ask(GetRouteinfoByTopic(topic))).body
        if len(self._routes) >= MAX_ROUTES_KEPT:
            self._routes.clear()
        self._routes[topic] = self._now(), body
        return body

    # A master that comes back.

    async def _come_back(self) -> None:
        """Lets deliveries begin once a slave that acted has stopped and has told how far it got."""
        broker = self._broker
        try:
            if broker.replication.role is Role.MASTER:
                await self._adopt()
        except (OrbitError, OSError) as error:
            log.warning("the slave that acted for this master does not say how far it got: %s", error)
        finally:
            broker.delay.is_held = False

    async def _adopt(self) -> None:
        broker = self._broker
        slaves = {key: value for key, value in (await self._registrar.members() or {}).items() if key > 0}
        if not slaves:
            return
        # The slave asks the name servers where this master has registered just now.
        await asyncio.sleep(RETURN_PERIODS * broker.settings.sync_broker_member_group_period / 1000)
        address = slaves[min(slaves)]
        body = (await self._pool.call(address, GetAllDelayOffset(), TIMEOUT_MS)).body
        broker.delay.adopt(bytes(body or b"").decode())

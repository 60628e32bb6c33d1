"""The sockets of replication, by the broker's role: a port for slaves, or the way to the master."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from ssl import SSLContext

from orbitmq.broker.auth.config_values import own_credentials
from orbitmq.broker.broker import Broker
from orbitmq.broker.ha.role import Role
from orbitmq.net.pool import ConnectionPool
from orbitmq.server.ha.master import HaServer
from orbitmq.server.ha.metadata import MetadataSync
from orbitmq.server.ha.slave import HaClient
from orbitmq.store.periodic import PeriodicTask

HA_TICK_MS = 100


class ReplicationRunner:
    """Started and stopped with each change of role.

    `flush()` brings the log to the disk, `ask_for_master()` has the name servers tell the master,
    `after_step(now)` ends a turn that has stored something or heard of replicas.
    """

    def __init__(
        self,
        broker: Broker,
        port: int,
        *,
        ssl: SSLContext | None,
        now: Callable[[], int],
        flush: Callable[[], Awaitable[object]],
        ask_for_master: Callable[[], Awaitable[object]],
        after_step: Callable[[int], None],
    ) -> None:
        self._broker = broker
        self._port = port
        self._ssl = ssl
        self._now = now
        self._flush = flush
        self._ask_for_master = ask_for_master
        self._after_step = after_step
        self._to_master: ConnectionPool | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.server: HaServer | None = None
        """A master's; it listens on the HA port."""
        self.client: HaClient | None = None
        """A slave's; it follows the master."""

    async def start(self) -> None:
        """Begins what the broker's role asks for. Raises CannotListen."""
        broker, settings, store = self._broker, self._broker.settings, self._broker.store
        if broker.replication.role is Role.MASTER:
            await self.listen()
        elif broker.replication.role is Role.SLAVE:
            self._to_master = pool = ConnectionPool(ssl=self._ssl, credentials=own_credentials(settings))
            self.client = HaClient(
                settings,
                store,
                broker.replication,
                pool,
                now=self._now,
                flush=self._flush,
                ask_for_master=self._ask_for_master,
                after_append=self._after_step,
                verified=self._verified,
            )
            sync = MetadataSync(broker, pool, self._now, self._after_step)
            self._tasks = [
                asyncio.create_task(self.client.run(), name="follow the master's log"),
                asyncio.create_task(sync.run(), name="follow the master's tables"),
            ]

    async def listen(self) -> None:
        """Takes slaves. Raises CannotListen."""
        broker, settings = self._broker, self._broker.settings
        server = HaServer(settings, broker.store, broker.promise.links, self._now, self._moved)
        await server.listen(settings.bind_address, self._port, settings.server_socket_backlog)
        self.server = server

    def _moved(self) -> None:
        self._after_step(self._now())

    def _verified(self) -> None:
        """Shows readers all of the log: it is a beginning of the master's."""
        self._broker.promise.held_at = None

    def periodic_tasks(self) -> Iterable[PeriodicTask]:
        """Tasks that come round."""
        if self.server is not None:
            yield PeriodicTask("tend slaves", HA_TICK_MS, self.server.tick)

    def pump(self) -> None:
        """Sends slaves what they lack. Cheap where there are none."""
        if self.server is not None and self.server.connections:
            self.server.pump()

    def report(self) -> None:
        """Tells the master how far the log is safe here, if that is due."""
        if self.client is not None:
            self.client.report()

    async def stop(self) -> None:
        """Ends all connections and takes no more."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.server is not None:
            self.server.close()
        if self._to_master is not None:
            await self._to_master.close()
        self.server = self.client = self._to_master = None

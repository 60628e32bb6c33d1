"""The sockets of replication, by the broker's role: a port for slaves, or the way to the master."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial

from orbitmq.broker.broker import Broker
from orbitmq.broker.ha.epoch_following import EpochFollowing
from orbitmq.broker.ha.epoch_links import EpochLink
from orbitmq.broker.ha.following import Following
from orbitmq.broker.ha.sign_in import MasterSignIn, secret_of_broker
from orbitmq.broker.role.links import SlaveLink
from orbitmq.broker.role.role import Role
from orbitmq.handling.credentials import own_credentials
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.tls import Contexts
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.protocol.replication_sign_in import NONCE_BYTES
from orbitmq.server.ha.master import HaServer
from orbitmq.server.ha.metadata import MetadataSync
from orbitmq.server.ha.slave import HaClient
from orbitmq.server.turn.tls import client_context
from orbitmq.store.periodic import PeriodicTask
from orbitmq.store.replica.replica_log import ReplicaLog

HA_TICK_MS = 100


@dataclass(eq=False, repr=False)
class ReplicationRunner:
    """Started and stopped with each change of role.

    `tls` is for connections of slaves. `flush()` brings the log to the disk,
    `ask_for_master()` asks the name servers for the master, `after_step(now)` ends a turn that has stored
    something or heard of replicas. In controller mode `begin_epoch(epoch)` begins one of the master's, on the
    disk first, and `on_diverged(common_end)` is called with the place where this log and the master's part.
    """

    _broker: Broker
    _port: int
    _: KW_ONLY
    tls: Contexts | None
    now: Callable[[], int]
    flush: Callable[[], Awaitable[object]]
    ask_for_master: Callable[[], Awaitable[object]]
    after_step: Callable[[int], None]
    begin_epoch: Callable[[Epoch], None] = lambda epoch: None
    on_diverged: Callable[[int], None] = lambda common_end: None

    def __post_init__(self) -> None:
        self._ssl = client_context(self._broker.settings)
        self._to_master: ConnectionPool | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.server: HaServer | None = None
        """A master's; it listens on the HA port."""
        self.client: HaClient | None = None
        """A slave's; it follows the master."""

    async def start(self) -> None:
        """Begins what the broker's role asks for. Raises CannotListen."""
        broker, settings, store = self._broker, self._broker.settings, self._broker.store
        if broker.role.current is Role.MASTER:
            await self.listen()
        elif broker.role.current is Role.SLAVE:
            credentials = own_credentials(settings)
            self._to_master = pool = ConnectionPool(ssl=self._ssl, credentials=credentials)
            sync = MetadataSync(broker, pool, self.now, self.after_step)
            self.client = HaClient(
                settings,
                store,
                broker.replication,
                broker.role,
                pool,
                now=self.now,
                flush=self.flush,
                ask_for_master=self.ask_for_master,
                after_append=self.after_step,
                verified=partial(self._verified, sync.look_soon),
                on_heartbeat=sync.look_soon,
                make_following=self._follow_epochs if settings.enable_controller_mode else Following,
                on_diverged=self.on_diverged,
                ssl=self._ssl if settings.ha_tls_enable else None,
                credentials=credentials if settings.ha_authentication_enable else None,
            )
            self._tasks = [
                asyncio.create_task(self.client.run(), name="follow the master's log"),
                asyncio.create_task(sync.run(), name="follow the master's tables"),
            ]

    def _follow_epochs(self, replica: ReplicaLog, master: str, now: int) -> Following:
        broker = self._broker

        return EpochFollowing(
            replica,
            master,
            now,
            broker_id=broker.role.slave_id,
            epochs=broker.epochs,
            least_epoch=broker.role.epoch,
            on_epoch=self.begin_epoch,
        )

    async def listen(self) -> None:
        """Takes slaves. Raises CannotListen."""
        broker, settings = self._broker, self._broker.settings
        make_link: Callable[[str, int], SlaveLink] = SlaveLink
        if settings.enable_controller_mode:
            make_link = partial(EpochLink, epochs=broker.epochs)
        server = HaServer(
            settings,
            broker.store,
            broker.promise.links,
            self.now,
            self._moved,
            make_link=make_link,
            tls=self.tls if settings.ha_tls_enable else None,
            make_sign_in=self._make_sign_in if settings.ha_authentication_enable else None,
        )
        await server.listen(settings.bind_address, self._port, settings.server_socket_backlog)
        self.server = server

    def _make_sign_in(self) -> MasterSignIn:
        return MasterSignIn(partial(secret_of_broker, self._broker.auth), secrets.token_bytes(NONCE_BYTES))

    def _moved(self) -> None:
        self.after_step(self.now())

    def _verified(self, look_at_tables: Callable[[], None]) -> None:
        """Shows readers the log, in controller mode what the master has confirmed: it is a beginning of the
        master's.
        """
        role, following = self._broker.role, self._broker.replication.following
        role.release_readers()
        if following is not None and not following.is_verified:
            following.is_verified = True
            look_at_tables()
        if isinstance(following, EpochFollowing):
            role.note_confirmed(following.confirm_offset)

    def periodic_tasks(self) -> Iterable[PeriodicTask]:
        """Tasks that come round."""
        if self.server is not None:
            yield PeriodicTask("tend slaves", HA_TICK_MS, self.server.tick)

    def pump(self) -> None:
        """Sends slaves what they lack. Cheap where there are none."""
        if self.server is not None and self.server.connections:
            self.server.pump()

    def announce(self) -> None:
        """Has slaves look at this master's tables now."""
        if self.server is not None:
            self.server.announce()

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
            await self.server.close()
        if self._to_master is not None:
            await self._to_master.close()
        self.server = self.client = self._to_master = None

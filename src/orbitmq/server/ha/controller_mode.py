"""A broker whose role a controller decides: registration, heartbeats and lease, role, in-sync set.

The controller's notices only say that there is something to ask: the role follows from its answers. A master
acknowledges while its lease holds, which each answered heartbeat renews. Without it the broker is fenced
until a controller answers again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from ssl import SSLContext
from typing import NamedTuple

from orbitmq.broker.auth.config_values import own_credentials
from orbitmq.broker.broker import Broker
from orbitmq.broker.ha.in_sync import InSyncSet, Lease
from orbitmq.broker.ha.role import Role, RoleChange
from orbitmq.net.address import parse_addresses
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.ha import SyncStateSet
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.controller import (
    ControllerAlterSyncStateSet,
    ControllerApplyBrokerId,
    ControllerElectMaster,
    ControllerGetNextBrokerId,
    ControllerGetReplicaInfo,
    ControllerRegisterBroker,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat, ExchangeBrokerHaInfo
from orbitmq.server.ha.controller_client import ControllerClient, NoController
from orbitmq.server.ha.identity import Application, IdentityFile

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
STEP_SECONDS = 0.1
"""Interval at which a master looks for members whose connection has ended, and at its lease."""
LEAST_PAUSE_SECONDS = 0.02
MASTER_TIMEOUT_MS = 1_000
"""Time that a new slave waits for its master's answer."""
MAX_REQUEST_MS = 3_000
GONE = (
    ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
)
"""Refusals of a broker that the controller does not know, or not at this address: it registers again."""
NOT_MASTER = (
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    ResponseCode.CONTROLLER_INVALID_MASTER,
    ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
)
"""Refusals that say that what this master knows of its group is outdated."""


class Elected(NamedTuple):
    """The controller's word on a group."""

    master_id: int
    master_address: str
    epoch: int
    ids: frozenset[int]
    set_epoch: int


class ControllerMode:
    """Runs until its task ends.

    `change_role` and `truncate` are the server's; `now()` is its clock, in ms. Raises StartError for the data
    folder of another broker.
    """

    def __init__(
        self,
        broker: Broker,
        identity_file: IdentityFile,
        now: Callable[[], int],
        change_role: Callable[[RoleChange], Awaitable[None]],
        truncate: Callable[[int], Awaitable[int]],
        *,
        ssl: SSLContext | None = None,
    ) -> None:
        assert broker.promise.in_sync is not None
        self._broker = broker
        self._settings = broker.settings
        self._file = identity_file
        self._now = now
        self._change_role = change_role
        self._truncate = truncate
        self._in_sync: InSyncSet = broker.promise.in_sync
        self._pool = ConnectionPool(ssl=ssl, credentials=own_credentials(broker.settings))
        addresses = parse_addresses(broker.settings.controller_addr)
        timeout_ms = min(MAX_REQUEST_MS, broker.settings.controller_heart_beat_timeout_mills / 3)
        self._controllers = ControllerClient(addresses, self._pool, timeout_ms)
        self.lease = Lease()
        """Time for which it may go on as master."""
        self.broker_id = identity_file.read() or 0
        """The id that the controller gave it; 0 before."""
        self._registered = False
        self._master = ""
        """Address of the master that this slave follows."""
        self._news = asyncio.Event()
        self._said = ""
        self._to_cut: int | None = None
        """Physical offset at which the log is still to end: what is behind it is none of the group's."""
        self._roles = asyncio.Lock()
        self._set_looked_ms = 0
        self._last_mastership = 0
        """The last epoch in which this process was master; 0 for none, and once an election was asked for
        instead of going on in it."""

    @property
    def may_answer(self) -> bool:
        """False for a master whose lease is over: another one may have been elected."""
        return self._broker.replication.role is not Role.MASTER or self.lease.holds(self._now())

    def wake(self) -> None:
        """Has the controller asked soon: there was a notice, or a member's connection has ended."""
        self._news.set()

    async def run(self) -> None:
        """Registers, beats, and takes the roles that the controller gives."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat_forever(), name="heartbeats to the controller")
                tasks.create_task(self._follow_forever(), name="the controller's decisions")
                tasks.create_task(self._watch_lease(), name="lease")
                tasks.create_task(self._keep_set(), name="in-sync set")
        finally:
            await self._pool.close()

    # Registration and heartbeats.

    async def _join(self) -> None:
        """Gets an id, once and for all, and registers this address. Raises OrbitError, OSError."""
        identity = self._broker.identity
        if not self.broker_id:
            self.broker_id = await self._apply()
        request = ControllerRegisterBroker(identity.cluster, identity.name, self.broker_id, identity.address)
        await self._controllers.call(request)
        self._registered = True
        log.info("registered with the controller as %d of %s", self.broker_id, identity.name)

    async def _apply(self) -> int:
        identity, loop = self._broker.identity, asyncio.get_running_loop()
        application = self._file.read_application()
        while True:
            if application is None:
                asked = ControllerGetNextBrokerId(identity.cluster, identity.name)
                free = (await self._controllers.call(asked)).next_broker_id or 1
                code = f"{identity.address};{self._now()};{secrets.token_hex(8)}"
                application = Application(free, code)
                await loop.run_in_executor(None, self._file.apply, application)
            try:
                await self._controllers.call(
                    ControllerApplyBrokerId(identity.cluster, identity.name, *application)
                )
            except BrokerRefused as refused:
                if refused.code != ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                    raise
                application = None  # somebody else was faster
                await asyncio.sleep(STEP_SECONDS)
                continue
            await loop.run_in_executor(None, self._file.given, application.broker_id)
            return application.broker_id

    async def _beat_forever(self) -> None:
        while True:
            pause = self._settings.broker_heartbeat_interval / 1000
            try:
                if not self._registered:
                    await self._join()
                    self._news.set()
                await self._beat()
                self._said = ""
            except BrokerRefused as refused:
                if refused.code in GONE:
                    self._registered = False
                    pause = STEP_SECONDS
                elif refused.code in NOT_MASTER:
                    self._news.set()
                else:
                    self._say(f"the controller refuses this broker: {refused}")
            except (NetError, NoController, OSError) as error:
                self._say(f"no controller answers: {error}")
                pause = min(pause, RETRY_SECONDS)
            await asyncio.sleep(pause)

    async def _beat(self) -> None:
        broker, settings = self._broker, self._settings
        identity, sent_ms = broker.identity, self._now()
        timeout_ms = settings.controller_heart_beat_timeout_mills
        await self._controllers.beat(
            BrokerHeartbeat(
                identity.cluster,
                identity.address,
                identity.name,
                self.broker_id,
                epoch=broker.epochs.last,
                max_offset=broker.store.max_physical,
                confirm_offset=broker.store.confirm_offset,
                heartbeat_timeout_mills=timeout_ms,
                election_priority=settings.broker_election_priority,
            )
        )
        had_one = self.lease.holds(self._now())
        self.lease = Lease.of(sent_ms, timeout_ms)
        if not had_one:
            self._news.set()

    def _say(self, what: str) -> None:
        if what != self._said:
            log.warning("%s", what)
        self._said = what

    async def _watch_lease(self) -> None:
        """Fences a master whose lease is over."""
        while True:
            await asyncio.sleep(STEP_SECONDS)
            async with self._roles:
                if not self.may_answer:
                    log.error(
                        "no controller has answered in time: this master of %s stops acknowledging, for "
                        "another one may have been elected",
                        self._broker.identity.name,
                    )
                    await self._try_change(RoleChange(Role.UNKNOWN, self.broker_id))

    # The role.

    async def _follow_forever(self) -> None:
        while True:
            if self._registered:
                try:
                    await self._follow()
                except BrokerRefused as refused:
                    if refused.code in GONE:
                        self._registered = False
                    log.debug("the controller does not name the master: %s", refused)
                    self._wake_later()
                except (OrbitError, OSError) as error:
                    log.debug("the controller does not name the master: %s", error)
                    self._wake_later()
            # Notices of strangers, however many, cost the controller no more than this.
            await asyncio.sleep(LEAST_PAUSE_SECONDS)
            period = self._settings.sync_controller_metadata_period / 1000
            try:
                async with asyncio.timeout(period):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()

    def _wake_later(self) -> None:
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._news.set)

    async def _follow(self) -> None:
        """Asks who is master, has one elected where there is none, and takes the role that follows."""
        identity = self._broker.identity
        info = await self._controllers.call(ControllerGetReplicaInfo(identity.name))
        master_id, address, epoch, body = (
            info.master_broker_id,
            info.master_address,
            info.master_epoch,
            info.body,
        )
        if master_id is None or not address:
            # A controller on a new store learns of the epochs that there were from heartbeats.
            await self._beat()
            elected = await self._controllers.call(
                ControllerElectMaster(identity.cluster, identity.name, self.broker_id, False, self._now())
            )
            master_id, address, epoch = elected.master_broker_id, elected.master_address, elected.master_epoch
            members = set() if elected.body is None else elected.body.sync_state_set
            body = SyncStateSet(members, elected.sync_state_set_epoch or 0)
        if master_id is None or not address or epoch is None:
            self._wake_later()
            return
        ids = frozenset(body.sync_state_set or ()) if body is not None else frozenset()
        set_epoch = body.sync_state_set_epoch if body is not None else 0
        async with self._roles:
            await self._take(Elected(master_id, address, epoch, ids, set_epoch))

    async def _take(self, elected: Elected) -> None:
        broker = self._broker
        replication = broker.replication
        if elected.epoch < replication.epoch:
            return
        if replication.role is Role.UNKNOWN and not await self._cut():
            return
        if elected.master_id != self.broker_id:
            if replication.role is not Role.SLAVE or (self._master, replication.epoch) != (
                elected.master_address,
                elected.epoch,
            ):
                await self._become_slave(elected)
            return
        if replication.role is Role.MASTER and elected.epoch == replication.epoch:
            self._in_sync.decided(elected.ids, elected.set_epoch)
            return
        if elected.epoch == self._last_mastership and self._has_unconfirmed():
            # To go on would confirm what members of the set lack, who may be elected yet. OrbitMQ's
            # controllers elect anew when a master registers, in a new epoch; Apache's leave it at this one.
            self._last_mastership, self._registered = 0, False
            return
        if not self.lease.holds(self._now()):
            # The heartbeats of a broker that has come back are refused until it has its master's epoch.
            await self._beat()
        log.info("this broker is master of %s in epoch %d", broker.identity.name, elected.epoch)
        self._in_sync.begin(
            self.broker_id, elected.ids | {self.broker_id}, elected.set_epoch, broker.store.max_physical
        )
        if await self._try_change(RoleChange(Role.MASTER, 0, waits_for_replicas=True, epoch=elected.epoch)):
            self._master = ""
            self._last_mastership = elected.epoch

    def _has_unconfirmed(self) -> bool:
        store = self._broker.store
        return store.confirm_offset < store.max_physical

    async def _become_slave(self, elected: Elected) -> None:
        """Follows another master. A master before stops at once, whether the new one answers or not."""
        replication = self._broker.replication
        if replication.role is Role.MASTER:
            log.warning(
                "%s is master of %s in epoch %d: this broker is none any more",
                elected.master_address,
                self._broker.identity.name,
                elected.epoch,
            )
            await self._try_change(RoleChange(Role.UNKNOWN, self.broker_id, epoch=elected.epoch))
        try:
            reply = await self._pool.call(elected.master_address, ExchangeBrokerHaInfo(), MASTER_TIMEOUT_MS)
        except OrbitError as error:
            log.debug("the master %s does not answer yet: %s", elected.master_address, error)
            self._wake_later()
            return
        if not reply.master_ha_address:
            self._wake_later()  # it has not taken its role yet
            return
        change = RoleChange(
            Role.SLAVE,
            self.broker_id,
            master_address=elected.master_address,
            master_ha_address=reply.master_ha_address,
            epoch=elected.epoch,
        )
        if await self._try_change(change):
            self._master = elected.master_address

    async def _try_change(self, change: RoleChange) -> bool:
        """Changes the role; True if that succeeded. After a failure the role is unknown, for another try."""
        try:
            await self._change_role(change)
        except (OrbitError, OSError) as error:
            log.error("the role could not be changed: %s", error)
            self._wake_later()
            return False
        return True

    async def cut_to(self, physical_offset: int) -> None:
        """Cuts what the master's log does not have, and follows it again."""
        async with self._roles:
            broker = self._broker
            if broker.replication.role is not Role.SLAVE:
                return
            log.warning(
                "%d bytes of this log are none of the master's: they are cut off, from %d on",
                broker.store.max_physical - physical_offset,
                physical_offset,
            )
            self._master = ""
            self._to_cut = physical_offset
            if await self._try_change(RoleChange(Role.UNKNOWN, self.broker_id)):
                await self._cut()
        self._news.set()

    async def _cut(self) -> bool:
        """Cuts the log of a broker without a role, if that is due; false where the disk failed, and it is to
        be tried again. Without it the broker follows nobody, and is no master.
        """
        if self._to_cut is None:
            return True
        try:
            await self._truncate(self._to_cut)
        except (OrbitError, OSError) as error:
            log.error("the log could not be cut: %s; it is tried again", error)
            self._wake_later()
            return False
        self._to_cut = None
        return True

    # The in-sync set.

    async def _keep_set(self) -> None:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            if self._broker.replication.role is Role.MASTER and self._is_due():
                try:
                    await self._alter_set()
                except (OrbitError, OSError) as error:
                    log.debug("the in-sync set cannot be changed: %s", error)

    def _is_due(self) -> bool:
        """True in the configured interval, soon if a change is open, and at once where a member's connection
        has ended.
        """
        here = {link.broker_id for link in self._broker.promise.links.all}
        now = self._now()
        period = int(self._settings.check_sync_state_set_period)
        if self._in_sync.asked is not None:
            period = min(period, int(RETRY_SECONDS * 1000))
        if self._in_sync.others <= here and now - self._set_looked_ms < period:
            return False
        self._set_looked_ms = now
        return True

    async def _alter_set(self) -> None:
        broker, in_sync = self._broker, self._in_sync
        epoch = broker.replication.epoch
        if in_sync.asked is not None and not await self._learn_set(epoch):
            return
        wanted = in_sync.wanted(
            broker.promise.links.all,
            broker.store.confirm_offset,
            broker.epochs.entries[-1].start if broker.epochs.entries else 0,
            self._settings.ha_max_time_slave_not_catchup,
            self._now(),
        )
        if wanted is None:
            return
        before, in_sync.asked = in_sync.ids, wanted
        # From here on answers wait for those who join. The promise to them begins before anything is
        # stored.
        broker.store.replicas_reached(broker.promise.replicated)
        request = ControllerAlterSyncStateSet(
            broker.identity.name,
            self.broker_id,
            epoch,
            self._now(),
            SyncStateSet(set(wanted), in_sync.epoch),
        )
        try:
            reply = await self._controllers.call(request)
        except BrokerRefused as refused:
            # Not that nothing has changed: a request before this one may have, or the store may take it yet.
            if refused.code in NOT_MASTER:
                self._news.set()
            raise
        if broker.replication.epoch != epoch or reply.body is None:
            return
        in_sync.decided(reply.body.sync_state_set or (), reply.new_sync_state_set_epoch)
        log.info("in sync: %s, before: %s", _names(in_sync.ids), _names(before))
        broker.store.replicas_reached(broker.promise.replicated)

    async def _learn_set(self, epoch: int) -> bool:
        """Learns what became of a change without a clear answer; false if this broker is not master any more.

        The controller answers once the consensus store holds all that it had decided before. Raises what
        `ControllerClient.call` does; answers wait for the members of both sets then, as before.
        """
        info = await self._controllers.call(ControllerGetReplicaInfo(self._broker.identity.name))
        if self._broker.replication.epoch != epoch:
            return False
        if (info.master_broker_id, info.master_epoch) != (self.broker_id, epoch) or info.body is None:
            self._news.set()
            return False
        self._in_sync.known(info.body.sync_state_set or (), info.body.sync_state_set_epoch)
        self._broker.store.replicas_reached(self._broker.promise.replicated)
        return True


def _names(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))

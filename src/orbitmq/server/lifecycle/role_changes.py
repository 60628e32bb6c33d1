"""Changes of a broker's role while it serves, and cuts of its log between two roles.

The order of the steps keeps the promise: before the new role begins, the old one acknowledges nothing any
more, and a new master takes messages only once all of the log is confirmed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

from orbitmq.broker.broker import Broker
from orbitmq.broker.ha.role import RequestedChange, Role, RoleChange
from orbitmq.handling.call import DataAt, Durable
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.protocol.errors import OrbitError
from orbitmq.server.ha.identity import EpochFile
from orbitmq.server.ha.runner import ReplicationRunner
from orbitmq.server.ha.table_changes import TableChanges
from orbitmq.server.lifecycle.acting import ActingMaster
from orbitmq.server.lifecycle.background import BackgroundTasks
from orbitmq.server.lifecycle.registrar import Registrar
from orbitmq.server.lifecycle.role_tasks import RoleTasks
from orbitmq.server.turn.turn import Turns
from orbitmq.store import StoreUnavailable

log = logging.getLogger(__name__)

LEVEL_STEP_SECONDS = 0.01


class RoleChanges:
    """Carries out changes one after another.

    `flush()` brings the log to the disk, `after_turn(now)` ends a turn, `save` is the thread that writes
    epochs.
    """

    def __init__(
        self,
        broker: Broker,
        turns: Turns,
        replication: ReplicationRunner,
        registrar: Registrar,
        table_changes: TableChanges,
        tasks: RoleTasks,
        epoch_file: EpochFile,
        *,
        background: BackgroundTasks,
        save: Executor,
        flush: Callable[[], Awaitable[object]],
        now: Callable[[], int],
        after_turn: Callable[[int], None],
    ) -> None:
        self.acting: ActingMaster | None = None
        """The broker's work for its master while that is away, where it has the option."""
        self._broker = broker
        self._store = broker.store
        self._turns = turns
        self._replication = replication
        self._registrar = registrar
        self._table_changes = table_changes
        self._tasks = tasks
        self._epoch_file = epoch_file
        self._background = background
        self._save = save
        self._flush = flush
        self._now = now
        self._after_turn = after_turn
        self._changing = asyncio.Lock()
        self._stopped = False

    def stop(self) -> None:
        """Begins no further change, and no tasks after a change that is under way: the broker stops."""
        self._stopped = True

    async def change(self, change: RoleChange) -> None:
        """See `BrokerServer.change_role`."""
        change.check()
        broker = self._broker
        async with self._changing:
            if self._stopped:
                raise StoreUnavailable("the broker stops")
            log.info("the role changes from %s to %s", broker.replication.role.value, change.role.value)
            await self._leave_role(change)
            try:
                await self._change_role(change)
            except BaseException:
                broker.replication.is_fenced = True
                await self._replication.stop()
                log.error("the role could not become %s: it is unknown now", change.role.value)
                raise
            finally:
                self._turns.dispatcher.rebind(*broker.bind())
                if not self._stopped:
                    self._tasks.start()
            if change.role is not Role.UNKNOWN:
                self._background.start(self._registrar.register(), "registration")
            self._after_turn(self._now())

    async def truncate(self, physical_offset: int) -> int:
        """See `BrokerServer.truncate`."""
        broker = self._broker
        if broker.replication.role is not Role.UNKNOWN:
            raise RuntimeError("a log is cut while its broker's role is unknown")
        self._turns.listener.close_unsent("the log is cut")
        end = broker.truncate(physical_offset, self._now())
        promise = broker.promise
        if promise.held_at is not None:
            promise.held_at = min(promise.held_at, end)
        promise.master_confirmed = min(promise.master_confirmed, end)
        if broker.epochs.truncate(end):
            self._epoch_file.write(broker.epochs)
        return end

    def start_requested(self) -> None:
        """Starts the changes that administrators wait for."""
        pending = self._broker.role_requests.pending
        while pending:
            self._background.start(self._change_as_asked(pending.popleft()), "change of role")

    async def _change_as_asked(self, requested: RequestedChange) -> None:
        try:
            await self.change(requested.change)
        except (OrbitError, OSError) as error:
            requested.error = error
        except Exception as error:
            log.exception("the role could not be changed")
            requested.error = error
        self._turns.waits.signalled((requested.done,))

    # The end of the old role.

    async def _leave_role(self, change: RoleChange) -> None:
        broker = self._broker
        was_master = not broker.replication.is_slave
        broker.replication.is_fenced = True
        if self.acting is not None:
            await self.acting.leave()
            broker.replication.is_acting = False
        self._turns.dispatcher.rebind(*broker.bind())
        if not (was_master and change.hands_over):
            self._end_waiting()
        await self._tasks.stop()
        if was_master and change.hands_over:
            broker.points.store_all(self._now())
            await self.until_slaves_are_level(self._broker.settings.slave_timeout / 1000)
            self._end_waiting()
        await self._replication.stop()
        self._store.drop_partial_record()
        if was_master:
            await self._tasks.reopen_timers(broker.end_mastership(self._now()))
        await self._registrar.withdraw()
        broker.replication.master_address = broker.replication.announced_ha_address = ""

    def _end_waiting(self) -> None:
        """Ends all calls that wait for what only a master does; nothing is stored or shown from here on."""
        promise, waits = self._broker.promise, self._turns.waits
        if promise.held_at is None and self._store.takes_messages:
            promise.held_at = self._store.confirm_offset
        self._store.takes_messages = False
        self._table_changes.forget()
        waits.end_all(Durable, DataAt)
        waits.expire(self._broker.held_signals())
        self._store.replicas_reached(promise.replicated)

    async def until_slaves_are_level(self, seconds: float) -> None:
        """Waits until the slaves that are in sync have all of the log, for so long at most."""
        links, store, settings = self._broker.promise.links, self._store, self._broker.settings
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while links.all and links.in_sync(store.max_physical, 1) < links.in_sync(
                    store.max_physical, settings.ha_max_gap_not_in_sync
                ):
                    self._after_turn(self._now())
                    await asyncio.sleep(LEVEL_STEP_SECONDS)

    # The beginning of the new role.

    async def _change_role(self, change: RoleChange) -> None:
        replication = self._broker.replication
        replication.epoch = max(replication.epoch, change.epoch)
        if change.role is Role.MASTER:
            await self._become_master(change)
        elif change.role is Role.SLAVE:
            await self._become_slave(change)

    async def _become_master(self, change: RoleChange) -> None:
        broker = self._broker
        broker.replication.table_versions.forget()
        if broker.settings.enable_controller_mode:
            await self._begin_epoch(change.epoch)
        await self._replication.listen()
        await self._tasks.reopen_timers(None)
        self._note_role(change)
        await self._confirm_all()
        self._store.takes_messages = True
        for _ in broker.begin_mastership(self._now()):
            await asyncio.sleep(0)
        broker.replication.is_fenced = False
        self._tasks.renew_timers()

    async def _become_slave(self, change: RoleChange) -> None:
        replication, settings = self._broker.replication, self._broker.settings
        self._note_role(change)
        replication.is_fenced = False
        replication.slave_id = change.broker_id
        replication.master_address = change.master_address
        replication.announced_ha_address = change.master_ha_address
        settings.ha_master_address = settings.ha_master_address if not change.master_ha_address else None
        await self._replication.start()

    def _note_role(self, change: RoleChange) -> None:
        broker = self._broker
        broker.identity.broker_id = change.broker_id
        broker.config.note_role(change.broker_role, change.broker_id, self._now())

    async def _begin_epoch(self, number: int) -> None:
        """Notes durably where this master's reign begins, before it stores anything. Raises OSError."""
        epochs = self._broker.epochs
        if number > epochs.last:
            start = self._store.max_physical if epochs.entries else self._store.min_physical
            epochs.append(Epoch(number, start))
            await asyncio.get_running_loop().run_in_executor(self._save, self._epoch_file.write, epochs)

    async def _confirm_all(self) -> None:
        """Counts all of the log as confirmed: it is the group's from now on. Rules that take up what is
        open see it to its end, or they would deliver anew what was delivered there. Raises FlushFailed.
        """
        if self._store.options.sync_flush:
            await self._flush()
        promise = self._broker.promise
        promise.held_at = None
        self._store.replicas_reached(None)
        log.debug("the log is confirmed up to %d", self._store.confirm_offset)
        self._store.replicas_reached(promise.replicated)

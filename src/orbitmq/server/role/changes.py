"""Changes of a broker's role while it serves, and cuts of its log between two roles.

`orbitmq.broker.role.steps` gives the steps and their order; here they are carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from orbitmq.broker.broker import Broker
from orbitmq.broker.role.role import RequestedChange, Role, RoleChange
from orbitmq.broker.role.steps import ChangeStep, beginning, leaving
from orbitmq.handling.call import DataAt, Durable, Saved
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.protocol.errors import OrbitError
from orbitmq.server.role.acting import ActingMaster
from orbitmq.server.role.files import EpochFile
from orbitmq.server.role.sockets import ReplicationRunner
from orbitmq.server.role.table_changes import TableChanges
from orbitmq.server.role.tasks import RoleTasks
from orbitmq.server.tasks.background import BackgroundTasks
from orbitmq.server.tasks.registrar import Registrar
from orbitmq.server.tasks.threads import Threads
from orbitmq.server.turn.turn import Turns
from orbitmq.store import StoreUnavailable

log = logging.getLogger(__name__)

LEVEL_STEP_SECONDS = 0.01


@dataclass(eq=False, repr=False)
class RoleChanges:
    """Carries out changes one after another."""

    _broker: Broker
    _turns: Turns
    _replication: ReplicationRunner
    _registrar: Registrar
    _table_changes: TableChanges
    _tasks: RoleTasks
    _epoch_file: EpochFile
    _background: BackgroundTasks
    _threads: Threads

    def __post_init__(self) -> None:
        self.acting: ActingMaster | None = None
        """The broker's work for its master while that is away, where it has the option."""
        self._store = self._broker.store
        self._now = self._turns.dispatcher.now
        self._after_turn = self._turns.dispatcher.after_turn
        self._changing = asyncio.Lock()
        self._stopped = False

    def stop(self) -> None:
        """Begins no further change, and no tasks after a change that is under way: the broker stops."""
        self._stopped = True

    def resign(self) -> None:
        """Gives up its role where controllers elect: a stopping broker that closes its port has no lease any
        more in their eyes.
        """
        if self._broker.settings.enable_controller_mode:
            self._broker.role.fence()

    async def change(self, change: RoleChange) -> None:
        """See `BrokerServer.change_role`."""
        change.check()
        broker = self._broker
        async with self._changing:
            if self._stopped:
                raise StoreUnavailable("the broker stops")
            log.info("the role changes from %s to %s", broker.role.current.value, change.role.value)
            for step in leaving(broker.role.current, change):
                await self._carry_out(step, change)
            try:
                broker.role.begin_epoch(change.epoch)
                for step in beginning(change, has_controller=broker.settings.enable_controller_mode):
                    await self._carry_out(step, change)
            except BaseException:
                broker.role.fence()
                await self._replication.stop()
                log.error("the role could not become %s: it is unknown now", change.role.value)
                raise
            finally:
                self._turns.dispatcher.rebind(broker.bind())
                if not self._stopped:
                    self._tasks.start()
            if change.role is not Role.UNKNOWN:
                self._background.start(self._registrar.register(), "registration")
            self._after_turn(self._now())

    async def truncate(self, physical_offset: int) -> int:
        """See `BrokerServer.truncate`."""
        broker = self._broker
        if broker.role.current is not Role.UNKNOWN:
            raise RuntimeError("a log is cut while its broker's role is unknown")
        self._turns.listener.close_unsent("the log is cut")
        end = broker.mastership.truncate(physical_offset, self._now())
        broker.role.note_cut(end)
        self._epoch_file.truncate(broker.epochs, end)
        return end

    def go_blind(self) -> None:
        """Has answers rest on all who may be elected, from now on. Those that are ready rest on fewer: they
        leave with the lease, or are cut off.
        """
        broker, now = self._broker, self._now()
        self._after_turn(now)
        self._turns.waits.end_all(Saved)
        self._turns.listener.flushes.flush()
        broker.role.go_blind(now)
        self._follow_promise(now)

    def see(self) -> None:
        """Has answers rest on the promise again, for which this master has a lease."""
        log.info("a controller answers: this master has a lease again")
        self._broker.role.see()
        self._follow_promise(self._now())

    def _follow_promise(self, now: int) -> None:
        self._turns.dispatcher.rebind(self._broker.bind())
        self._after_turn(now)

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

    async def _carry_out(self, step: ChangeStep, change: RoleChange) -> None:
        broker, role, now = self._broker, self._broker.role, self._now
        match step:
            case ChangeStep.FENCE:
                role.fence()
                self._turns.dispatcher.rebind(broker.bind())
            case ChangeStep.STOP_ACTING:
                if self.acting is not None:
                    await self.acting.leave()
                    role.act(is_acting=False)
            case ChangeStep.END_WAITING:
                self._end_waiting()
            case ChangeStep.STOP_TASKS:
                await self._tasks.stop()
            case ChangeStep.STORE_MEMORY:
                broker.points.store_all(now())
            case ChangeStep.LEVEL_SLAVES:
                await self.until_slaves_are_level(broker.settings.slave_timeout / 1000)
            case ChangeStep.STOP_SOCKETS:
                await self._replication.stop()
            case ChangeStep.DROP_PARTIAL_RECORD:
                self._store.replica.drop_partial()
            case ChangeStep.END_MASTERSHIP:
                await self._tasks.reopen_timers(broker.mastership.end(now()))
            case ChangeStep.WITHDRAW:
                await self._registrar.withdraw()
            case ChangeStep.FORGET_MASTER:
                role.forget_master()
            case ChangeStep.BEGIN_EPOCH:
                await self._begin_epoch(change.epoch)
            case ChangeStep.LISTEN:
                broker.replication.table_versions.forget()
                await self._replication.listen()
            case ChangeStep.OPEN_TIMERS:
                await self._tasks.reopen_timers(None)
            case ChangeStep.NOTE_ROLE:
                broker.identity.broker_id = change.broker_id
                broker.config.note_role(change.broker_role, change.broker_id, now())
            case ChangeStep.CONFIRM_ALL:
                await self._confirm_all()
            case ChangeStep.TAKE_MESSAGES:
                self._store.takes_messages = True
            case ChangeStep.BEGIN_MASTERSHIP:
                for _ in broker.mastership.begin(now()):
                    await asyncio.sleep(0)
            case ChangeStep.LEAD:
                role.lead()
                self._tasks.renew_timers()
            case ChangeStep.FOLLOW:
                role.follow(change)
                if change.master_ha_address:
                    broker.settings.ha_master_address = None
                await self._replication.start()

    def _end_waiting(self) -> None:
        """Ends all calls that wait for what only a master does; nothing is stored or shown from here on."""
        waits = self._turns.waits
        if self._store.takes_messages:
            self._broker.role.hold_readers(self._store.confirm_offset)
        self._store.takes_messages = False
        self._table_changes.forget()
        waits.end_all(Durable, DataAt)
        waits.expire(self._broker.held_signals())
        self._store.arrivals.replicas_reached(self._broker.promise.replicated)

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

    async def _begin_epoch(self, number: int) -> None:
        """Notes durably where this master's reign begins, before it stores anything. Raises OSError."""
        epochs = self._broker.epochs
        if number > epochs.last:
            start = self._store.max_physical if epochs.entries else self._store.min_physical
            entry, loop = Epoch(number, start), asyncio.get_running_loop()
            await loop.run_in_executor(self._threads.save, self._epoch_file.write, epochs.with_epoch(entry))
            epochs.append(entry)

    async def _confirm_all(self) -> None:
        """Counts all of the log as confirmed: it is the group's from now on. Rules that take up what is
        open see it to its end, or they would deliver again what was delivered there. Raises FlushFailed.
        """
        if self._store.options.sync_flush:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads.flush, self._store.flushing.flush_now)
        promise = self._broker.promise
        self._broker.role.release_readers()
        self._store.arrivals.replicas_reached(None)
        log.debug("the log is confirmed up to %d", self._store.confirm_offset)
        self._store.arrivals.replicas_reached(promise.replicated)

"""A broker as a process part: its rules, its store and its sockets, with their threads and timers."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from orbitmq import __version__
from orbitmq.broker.broker import Broker
from orbitmq.broker.fast_failure import FastFailure
from orbitmq.broker.filter.sql92 import load_parser
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metrics import samples
from orbitmq.broker.options import VIP_DISTANCE, BrokerSettings
from orbitmq.broker.role.machine import RoleMachine, Run
from orbitmq.broker.role.options import HA_DISTANCE
from orbitmq.broker.role.promise import unkept_options
from orbitmq.broker.role.role import RoleChange
from orbitmq.broker.transaction.handlers import decisions_first
from orbitmq.handling.call import Warm
from orbitmq.net.address import format_address
from orbitmq.protocol.records.ids import UniqueIds, pack_host
from orbitmq.server.lifecycle.broker_tables import load_tables
from orbitmq.server.lifecycle.clock import Clock
from orbitmq.server.lifecycle.private_folder import make_private
from orbitmq.server.lifecycle.routes import RouteAsker
from orbitmq.server.lifecycle.turn_end import TurnEnd
from orbitmq.server.metrics.reports import Reports
from orbitmq.server.role.acting import ActingMaster
from orbitmq.server.role.changes import RoleChanges
from orbitmq.server.role.controller_mode import ControllerMode
from orbitmq.server.role.files import EpochFile, FollowedFile, IdentityFile, RunFile
from orbitmq.server.role.sockets import ReplicationRunner
from orbitmq.server.role.step_runner import RoleActions
from orbitmq.server.role.table_changes import TableChanges
from orbitmq.server.role.tasks import RoleTasks
from orbitmq.server.tasks.background import BackgroundTasks
from orbitmq.server.tasks.broker_tasks import BrokerTasks
from orbitmq.server.tasks.other_brokers import OtherBrokers
from orbitmq.server.tasks.registrar import Registrar
from orbitmq.server.tasks.table_writer import TableFile, TableWriter
from orbitmq.server.tasks.threads import Threads
from orbitmq.server.turn.dispatcher import Dispatcher
from orbitmq.server.turn.guard import require_ha_guard, warn_of_gaps
from orbitmq.server.turn.latency import TurnLatency
from orbitmq.server.turn.listener import advertised_host, resolve
from orbitmq.server.turn.pending_replies import PendingReplies
from orbitmq.server.turn.tls import client_context, open_tls
from orbitmq.server.turn.turn import Turns
from orbitmq.store import MessageStore, PeriodicTask, StoreOptions
from orbitmq.store.files import Disk

log = logging.getLogger(__name__)

NOT_ON_VIP_PORT = frozenset({11, 361, 200050, 200052, 200054, 200055})
"""Pulls and pops are served on the main port only."""
FIRST_REGISTRATION_SECONDS = 3.0
"""Time that a start waits for the name servers."""
FAREWELL_SECONDS = 0.2
"""Time for which requests of clients are answered with "go away" before their connections end."""
LEVEL_SECONDS = 1.0
"""A master that stops waits so long at most until its slaves have the end of its log."""


class BrokerServer:
    """Opens the store, listens, registers; `stop` undoes it in order and loses nothing.

    A simulation gives it a clock and a disk; everybody else has the machine's.
    """

    def __init__(
        self, settings: BrokerSettings, *, clock: Clock | None = None, disk: Disk | None = None
    ) -> None:
        self.settings = settings
        self._port = settings.listen_port
        self._clock = clock or Clock()
        self._disk = disk
        self._threads = Threads()
        self._reports = Reports(settings)
        self._background = BackgroundTasks()
        self._stopped = False
        self._epoch_file = EpochFile(self._file_of(settings.store_path_epoch_file, "epochFileCheckpoint"))
        self.controller_mode: ControllerMode
        """Only where enableControllerMode is set."""
        self._run: Run | None = None
        """Only where enableBlindMaster is set."""
        self._has_parts = False
        """Set once everything is made that `stop` has to end."""
        self._tasks: RoleTasks
        self._roles: RoleChanges
        self._turn_end: TurnEnd
        self.replication: ReplicationRunner
        self.broker: Broker
        self.identity: BrokerIdentity
        self.store: MessageStore
        self.turns: Turns

    @property
    def address(self) -> str:
        """`host:port` at which clients are to reach the broker."""
        return self.identity.address

    @property
    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        return self._tasks.all

    async def start(self) -> None:
        """Raises StartError, CannotListen, RefusedValue, or a StoreError that says what is wrong with the
        data folder.
        """
        require_ha_guard(self.settings)
        now = self._clock.now()
        self.identity = self._identify()
        loop = asyncio.get_running_loop()
        options = StoreOptions.from_settings(self.settings)
        await self._reports.open()
        try:
            await self._threads.start()
            if self.settings.authentication_enabled and self._disk is None:
                await loop.run_in_executor(self._threads.periodic, make_private, options.root)
            self.store = await loop.run_in_executor(
                self._threads.periodic, MessageStore.open, options, now, self._disk
            )
            if self._disk is None:  # one that is simulated belongs to one thread
                self.store.log.reserving.use_thread(self._threads.reserve)
            try:
                await self._start_on_store()
            except BaseException:
                if self._has_parts:
                    await self._registrar.unregister()
                    await self.turns.stop()
                    await self._tasks.stop()
                await self._end_replication()
                await self._close_store()
                raise
        except BaseException:
            await self._reports.close()
            self._threads.stop()
            raise

    def _identify(self) -> BrokerIdentity:
        settings = self.settings
        host = settings.broker_ip1 or advertised_host(settings.bind_address)
        port = settings.advertised_port or self._port
        return BrokerIdentity(
            cluster=settings.broker_cluster_name,
            name=settings.broker_name,
            broker_id=settings.broker_id,
            address=format_address(host, port),
            ha_address=format_address(
                settings.broker_ip2 or host, settings.ha_listen_port or port + HA_DISTANCE
            ),
            host=pack_host(resolve(host), port),
            version=__version__,
        )

    async def _start_on_store(self) -> None:
        """The rules on the opened store, then the sockets, then all that runs by itself."""
        settings, now = self.settings, self._clock.now()
        self.broker = broker = self._make_rules(now)
        self._limit_store()
        files = load_tables(broker)
        await self._recover(files, now)
        self._tls = await open_tls(settings, self._threads.periodic)
        self._make_parts(files)
        if settings.enable_controller_mode:
            self.controller_mode = self._make_controller_mode()
            self.turns.listener.flushes.may_answer = lambda: self.controller_mode.may_answer
        await self.turns.listener.listen(
            settings.bind_address,
            self._port,
            self._port - VIP_DISTANCE,
            backlog=settings.server_socket_backlog,
        )
        await self.replication.start()
        broker.check_back.keeps_up = self._keeps_up
        self._tasks.start()
        if settings.enable_property_filter:
            # In a thread: no pull is to wait for it when the first filter comes.
            asyncio.get_running_loop().run_in_executor(self._threads.periodic, load_parser)
        broker.topics.drain_changed()
        self._reports.serve(partial(samples, broker), self.store, self.turns, self._clock.now)
        first = self._background.start(self._registrar.register(), "registration")
        # A name server that does not answer delays no start: it hears of this broker when it is back.
        await asyncio.wait({first}, timeout=FIRST_REGISTRATION_SECONDS)
        if settings.enable_controller_mode:
            self._background.start(self.controller_mode.run(), "controller mode")
        if settings.enable_slave_acting_master:
            self._roles.acting = acting = self._make_acting()
            self._background.start(acting.run(), "the work of the master")

    def _make_rules(self, now: int) -> Broker:
        ids = UniqueIds(self.identity.host, os.getpid(), secrets.randbits(31))
        broker = Broker(
            self.identity,
            self.settings,
            self.store,
            now=now,
            new_unique_id=ids.new,
            figures=self.store.figures,
        )
        if self.settings.enable_controller_mode:
            # Until the controller says otherwise.
            broker.role.await_controller()
            self._identity_file().read()  # one of another broker ends the start before anybody connects
            broker.epochs = self._epoch_file.read()
            broker.epochs.truncate(self.store.max_physical + 1)
        if self.settings.enable_blind_master:
            sync_flush = self.store.options.sync_flush
            self._run = self._run_file().begin(self.store.max_physical, sync_flush=sync_flush)
        return broker

    def _limit_store(self) -> None:
        """Keeps the store to what this role may show and take, before anything is stored: readers of a
        SYNC_MASTER see nothing that its slaves lack.
        """
        promise = self.broker.promise
        self.store.arrivals.replicas_reached(promise.replicated)
        if self.settings.enable_controller_mode:
            self.store.arrivals.hide_all()
        self.store.takes_messages = not self.broker.role.is_slave

    async def _recover(self, files: dict[str, TableFile], now: int) -> None:
        """Has the rules take up what the store says is open."""
        settings, broker = self.settings, self.broker
        for name, file in files.items():
            if file.is_ours and not file.path.exists():
                # From now on a file that is missing is one that was lost.
                broker.dirty_tables.mark(name)
        broker.start(now)
        warn_of_gaps(settings, broker.auth.has_users)
        for line in unkept_options(settings):
            log.warning("%s", line)
        for _ in broker.recover(now):
            await asyncio.sleep(0)
        if settings.enable_slave_acting_master and broker.role.is_master:
            broker.mastership.hold()

    def _make_turns(self) -> Turns:
        settings, broker = self.settings, self.broker
        waits = PendingReplies(
            self._clock.now,
            self._threads.query,
            warm=self._warm,
            max_polls=lambda: settings.max_held_requests,
            ask_broker=self._other_brokers.ask,
        )
        latency = self._reports.latency
        dispatcher = Dispatcher(
            broker.bind(),
            waits,
            arrange=decisions_first,
            after_turn=self._after_turn,
            not_on_port=self._not_on_vip,
            max_age_ms=FastFailure(settings).max_age_ms,
            gate=broker.gate,
            latency=None if latency is None else TurnLatency(latency),
        )
        return Turns(
            dispatcher,
            on_closed=broker.connection_closed,
            max_connections=settings.max_connections,
            tls=self._tls,
        )

    def _make_parts(self, files: dict[str, TableFile]) -> None:
        """Makes the parts of a turn and of a role, before any peer connects."""
        broker, settings, threads, now = self.broker, self.settings, self._threads, self._clock.now
        ssl, name_servers = client_context(settings), self._name_servers()
        self._other_brokers = OtherBrokers(settings, name_servers, ssl=ssl)
        self.turns = self._make_turns()
        self._registrar = Registrar(
            broker.identity, broker.settings, broker.topics, broker.role, name_servers, now, ssl=ssl
        )
        self._route_asker = RouteAsker(broker.routes, settings, name_servers, ssl=ssl)
        self.replication = self._make_replication()
        self._table_changes = TableChanges(
            broker.promise,
            broker.replication.table_versions,
            broker.dirty_tables,
            self.turns.waits.saved,
        )
        self._table_writer = TableWriter(files, broker.dirty_tables, threads.save, self._saved)
        self._tasks = RoleTasks(
            broker.role,
            broker.timer,
            broker.store,
            self.replication,
            threads,
            self._make_broker_tasks,
            self._tasks_of_every_role(),
            now=now,
            after_turn=self._after_turn,
        )
        self._roles = RoleChanges(
            broker,
            self.turns,
            self.replication,
            self._registrar,
            self._table_changes,
            self._tasks,
            self._epoch_file,
            self._background,
            threads,
        )
        self._turn_end = TurnEnd(
            broker,
            self.turns,
            self.replication,
            self._roles,
            self._registrar,
            self._route_asker,
            self._table_writer,
            self._table_changes,
            background=self._background,
            flush=threads.flush,
            on_role_news=lambda: self.controller_mode.wake(),
        )
        self._has_parts = True

    def _name_servers(self) -> list[str]:
        addresses = (self.settings.namesrv_addr or "").replace(",", ";").split(";")
        return [address for address in addresses if address.strip()]

    def _make_broker_tasks(self) -> BrokerTasks:
        return BrokerTasks(
            self.broker,
            self._table_writer,
            self._registrar,
            self.turns,
            self._other_brokers,
            now=self._clock.now,
            after_step=self._after_turn,
            start=self._background.start,
        )

    def _tasks_of_every_role(self) -> list[PeriodicTask]:
        refresh_routes = PeriodicTask(
            "refresh routes",
            self.settings.load_balance_poll_name_server_interval,
            self._refresh_routes,
        )
        return [refresh_routes] if self._tls is None else [refresh_routes, self._tls.task]

    def _refresh_routes(self, now: int) -> None:
        self._turn_end.ask_routes(self.broker.routes.to_refresh(now))

    def _make_replication(self) -> ReplicationRunner:
        return ReplicationRunner(
            self.broker,
            self.settings.ha_listen_port or self._port + HA_DISTANCE,
            tls=self._tls,
            now=self._clock.now,
            flush=self._flush_all,
            ask_for_master=self._registrar.register,
            after_step=self._after_replication,
            begin_epoch=lambda epoch: self._epoch_file.begin(self.broker.epochs, epoch),
            on_diverged=self._log_diverged,
        )

    def _make_controller_mode(self) -> ControllerMode:
        broker, file = self.broker, self._identity_file()
        assert broker.promise.in_sync is not None
        machine = RoleMachine(
            broker.settings,
            broker.identity,
            broker.store,
            broker.role,
            broker.promise.in_sync,
            broker.epochs,
            broker.promise.links,
            file.read() or 0,
            self._run,
        )
        return ControllerMode(
            machine,
            broker.identity,
            broker.settings,
            file,
            FollowedFile(
                self._file_of(None, "followedMaster"),
                broker.identity.cluster,
                broker.identity.name,
                broker.identity.address,
            ),
            self._clock.now,
            RoleActions(
                change_role=self.change_role,
                truncate=self.truncate,
                go_blind=self._roles.go_blind,
                see=self._roles.see,
                promise_changed=lambda: broker.store.arrivals.replicas_reached(broker.promise.replicated),
            ),
            ssl=client_context(self.settings),
        )

    def _make_acting(self) -> ActingMaster:
        return ActingMaster(
            self.broker,
            self._registrar,
            self._name_servers(),
            self._clock.now,
            reopen_timers=self._tasks.reopen_timers,
            after_step=self._after_turn,
            executor=self._threads.read,
            ssl=client_context(self.settings),
        )

    def _log_diverged(self, common_end: int) -> None:
        self._background.start(self.controller_mode.cut_to(common_end), "cut of the log")

    def _file_of(self, option: str | None, name: str) -> Path:
        return Path(option or f"{self.settings.store_path_root_dir}/{name}").expanduser()

    def _identity_file(self) -> IdentityFile:
        path = self._file_of(self.settings.store_path_broker_identity, "brokerIdentity")
        return IdentityFile(path, self.identity.cluster, self.identity.name)

    def _run_file(self) -> RunFile:
        return RunFile(self._file_of(None, "lastRun"), self.identity.cluster, self.identity.name)

    async def _flush_all(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads.flush, self.store.flushing.flush_now)

    # The role.

    async def change_role(self, change: RoleChange) -> None:
        """Changes the role of this broker in its group while it serves; it has ended when this returns.

        The way is always the same. First the broker's role is unknown: it stores nothing, no slave follows
        it, and it follows no master. Sends that wait for the disk or for replicas are answered
        FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT, so nothing is acknowledged any more; held pulls and pops
        end as if their time were over, so clients ask again; readers see the log up to its confirm offset.
        Then it takes up the new role. A slave follows its master, and shows readers more once that one
        continues this log. A master works up the log's open work (delayed messages, timers, transactions,
        check points), and then takes slaves and messages. Name servers hear of the change.

        A controller calls it with the role, the id, the master's addresses and the epoch:

            change_role(RoleChange(Role.UNKNOWN, id))           no lease, or no master: fenced
            change_role(RoleChange(Role.SLAVE, id, master_address=..., master_ha_address=..., epoch=...))
            change_role(RoleChange(Role.MASTER, 0, waits_for_replicas=True, epoch=...))

        Where the log has to be cut before it follows, make the role unknown, call `truncate`, then make it a
        slave. The same role with another master or epoch is a change like others. Calls queue up.

        Raises RefusedValue for an id that does not go with the role, CannotListen where the HA port of a new
        master is taken, StoreError or OSError if the store fails. If it raises, the role is unknown.
        """
        await self._roles.change(change)

    async def truncate(self, physical_offset: int) -> int:
        """Cuts the log of a broker whose role is unknown, and all that follows from it; gives where it ends.

        Committed offsets and positions of delayed messages go back with their queues. Connections that have
        not taken all of an answer yet are closed: it may hold bytes that are cut off. Raises what
        `Truncation.run` does; RuntimeError in another role.
        """
        return await self._roles.truncate(physical_offset)

    # The turn.

    def _after_turn(self, now: int) -> None:
        self._turn_end.run(now)

    def _after_replication(self, now: int) -> None:
        self._turn_end.run_apart(now)

    def _saved(self, tables: Iterable[str], is_change: bool) -> None:
        names = list(tables)
        if self.broker.topics.NAME in names:
            self.broker.topics.note_saved()
        self._table_changes.saved(names, is_change=is_change)
        if is_change:
            self.replication.announce()

    def _warm(self, condition: Warm, then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(
            self._threads.read,
            self.store.reader.read_cold,
            condition.offset,
            condition.size_bytes,
            condition.queue,
        )
        future.add_done_callback(lambda _: then())

    def _keeps_up(self, connection_id: int) -> bool:
        connection = self.turns.listener.connections.get(connection_id)
        return connection is not None and connection.is_writable

    def _not_on_vip(self, code: int, port: int) -> bool:
        return port == self._port - VIP_DISTANCE and code in NOT_ON_VIP_PORT

    async def stop(self) -> None:
        """Accepts nothing new, sends clients away, saves and flushes everything, and unregisters."""
        if self._stopped:
            return
        self._stopped = True
        self._roles.stop()
        self._turn_end.stop()
        self._reports.stopping()
        await self._registrar.unregister()
        self.turns.dispatcher.going_away = True
        self.turns.waits.end_all()
        await self._tasks.stop()
        self.broker.stop(self._clock.now())
        # One of the slaves may act for this broker, or become master: at once where a controller finds that
        # nothing listens here any more.
        await self._roles.until_slaves_are_level(LEVEL_SECONDS)
        self._roles.resign()
        # A client that is sent away connects again: no longer here.
        await self.turns.listener.stop_listening()
        await asyncio.sleep(FAREWELL_SECONDS)
        await self.turns.stop()
        await self._end_replication()
        await self._route_asker.close()
        await self._other_brokers.close()
        await self._table_writer.save_all()
        log_end = self.store.max_physical
        await self._close_store()
        if self._run is not None:
            self._run_file().end(self._run, log_end)
        await self._reports.close()
        self._threads.stop()

    async def _end_replication(self) -> None:
        """Ends what runs in the background and replication, and waits for it."""
        await self._background.stop()
        if self._has_parts:
            await self.replication.stop()

    async def _close_store(self) -> None:
        """Closes the store once no thread has anything to do with it any more."""
        await self._reports.close_metrics()
        if self._has_parts:
            self._turn_end.close()

        def close() -> None:
            self._threads.stop_all_but_flush()
            self.store.close()

        await asyncio.get_running_loop().run_in_executor(self._threads.flush, close)

"""A broker as a process part: its rules, its store and its sockets, with their threads and timers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from ssl import SSLContext
from typing import Any

from orbitmq.broker.broker import Broker
from orbitmq.broker.fast_failure import FastFailure
from orbitmq.broker.filter.sql92 import load_parser
from orbitmq.broker.ha.role import RequestedChange, Role, RoleChange
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.options import VIP_DISTANCE, BrokerSettings
from orbitmq.broker.transaction.handlers import decisions_first
from orbitmq.handling.call import DataAt, Durable, Warm
from orbitmq.net.address import format_address
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.records.ids import UniqueIds, pack_host
from orbitmq.server.errors import CannotListen
from orbitmq.server.ha.controller_mode import ControllerMode
from orbitmq.server.ha.identity import EpochFile, IdentityFile
from orbitmq.server.ha.runner import ReplicationRunner
from orbitmq.server.ha.table_changes import TableChanges
from orbitmq.server.lifecycle.acting import ActingMaster
from orbitmq.server.lifecycle.background import BackgroundTasks
from orbitmq.server.lifecycle.broker_tables import load_tables
from orbitmq.server.lifecycle.broker_tasks import BrokerTasks
from orbitmq.server.lifecycle.clock import Clock
from orbitmq.server.lifecycle.periodic import PeriodicTaskRunner
from orbitmq.server.lifecycle.registrar import Registrar
from orbitmq.server.lifecycle.routes import RouteAsker
from orbitmq.server.lifecycle.table_writer import TableFile, TableWriter
from orbitmq.server.lifecycle.threads import Threads
from orbitmq.server.lifecycle.timer_runner import TimerRunner
from orbitmq.server.metrics.reports import Reports
from orbitmq.server.turn.guard import warn_of_gaps
from orbitmq.server.turn.listener import advertised_host, resolve
from orbitmq.server.turn.tls import client_context, open_tls
from orbitmq.server.turn.turn import Turns
from orbitmq.store import MessageStore, PeriodicTask, StoreOptions, StoreUnavailable
from orbitmq.store.files import Disk
from orbitmq.store.timer.check_point import TimerMark

log = logging.getLogger(__name__)

HA_DISTANCE = 1
LEVEL_STEP_SECONDS = 0.01
NOT_ON_VIP_PORT = frozenset({11, 361, 200050, 200052, 200054, 200055})
"""Pulls and pops are served on the main port only."""
FIRST_REGISTRATION_SECONDS = 3.0
"""Time that a start waits for the name servers."""
FAREWELL_SECONDS = 0.2
"""Time for which requests of clients are answered with "go away" before their connections end."""
PUSHES_PER_ROUND = 512
"""Pushes that leave before others have their turn."""


class _AnyOf:
    """The queues that are in any of several containers."""

    def __init__(self, parts: tuple[Container[tuple[str, int]], ...]) -> None:
        self._parts = parts

    def __contains__(self, queue: object) -> bool:
        return any(queue in part for part in self._parts)


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
        self._runner = PeriodicTaskRunner(self._clock.now, self._threads.for_periodic_tasks)
        self._reports = Reports(settings)
        self._background = BackgroundTasks()
        self._flushing = False
        self._tells_later = False
        self._pushes_later = False
        self._stopped = False
        self._epoch_file = EpochFile(self._file_of(settings.store_path_epoch_file, "epochFileCheckpoint"))
        self._controller_mode: ControllerMode
        self._acting: ActingMaster | None = None
        self._closing = False
        """The store is being closed, in a thread: nobody else touches it any more."""
        self._changing_role = asyncio.Lock()
        self.replication: ReplicationRunner
        self.broker: Broker
        self.identity: BrokerIdentity
        self.store: MessageStore
        self.turns: Turns
        self.periodic_tasks: Sequence[PeriodicTask]
        """Tasks that it does by itself, again and again."""

    @property
    def address(self) -> str:
        """`host:port` at which clients are to reach the broker."""
        return self.identity.address

    async def start(self) -> None:
        """Raises StartError, CannotListen, or a StoreError that says what is wrong with the data folder."""
        now = self._clock.now()
        self.identity = self._identify()
        loop = asyncio.get_running_loop()
        options = StoreOptions.from_settings(self.settings)
        await self._reports.open()
        try:
            await self._threads.start()
            self.store = await loop.run_in_executor(
                self._threads.periodic, MessageStore.open, options, now, self._disk
            )
            if self._disk is None:  # one that is simulated belongs to one thread
                self.store.reserve_in(self._threads.reserve)
            try:
                await self._start_on_store()
            except BaseException:
                await self._end_work()
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
        )

    async def _start_on_store(self) -> None:
        """The rules on the opened store, then the sockets, then all that goes on by itself."""
        settings, now = self.settings, self._clock.now()
        self.broker = broker = self._make_rules(now)
        self._limit_store()
        files = load_tables(broker)
        await self._recover(files, now)
        self._tls = await open_tls(settings, self._threads.periodic)
        self.turns = self._make_turns()
        self._table_changes = TableChanges(broker, self.turns.waits.saved)
        self._table_writer = TableWriter(files, broker.dirty_tables, self._threads.save, self._saved)
        addresses = [
            part for part in (settings.namesrv_addr or "").replace(",", ";").split(";") if part.strip()
        ]
        self._registrar = Registrar(broker, addresses, self._clock.now, ssl=client_context(settings))
        self._route_asker = RouteAsker(broker, addresses, ssl=client_context(settings))
        await self.turns.listener.listen(
            settings.bind_address,
            self._port,
            self._port - VIP_DISTANCE,
            backlog=settings.server_socket_backlog,
        )
        if settings.enable_controller_mode:
            self._controller_mode = self._make_controller_mode()
            self.turns.listener.flushes.may_answer = lambda: self._controller_mode.may_answer
        await self._start_replication(ssl=client_context(settings))
        self._timers = TimerRunner(broker.timer, self._clock.now, self._after_turn, self._threads.read)
        broker.check_back.keeps_up = self._keeps_up
        self._start_periodic_tasks()
        if settings.enable_property_filter:
            # In a thread: nobody is to wait for it when the first filter comes.
            asyncio.get_running_loop().run_in_executor(self._threads.periodic, load_parser)
        broker.topics.drain_changed()
        self._reports.serve(broker, self.turns, self._clock.now)
        first = self._background.start(self._registrar.register(), "registration")
        # A name server that does not answer holds nobody up: it hears of us when it is back.
        await asyncio.wait({first}, timeout=FIRST_REGISTRATION_SECONDS)
        if settings.enable_controller_mode:
            self._background.start(self._controller_mode.run(), "controller mode")
        if settings.enable_slave_acting_master:
            self._acting = self._make_acting(addresses)
            self._background.start(self._acting.run(), "the work of the master")

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
            broker.replication.is_fenced = True
            self._identity_file().read()  # one of another broker ends the start before anybody connects
            broker.epochs = self._epoch_file.read()
            broker.epochs.truncate(self.store.max_physical + 1)
        return broker

    def _limit_store(self) -> None:
        """Keeps the store to what this role may show and take, before anything is stored: readers of a
        SYNC_MASTER see nothing that its slaves lack.
        """
        promise = self.broker.promise
        if self.settings.enable_controller_mode:
            # Another master's log may have overtaken the end of this one, which may never have been
            # confirmed.
            promise.held_at = 0
        self.store.replicas_reached(promise.replicated)
        if self.settings.enable_controller_mode:
            self.store.hide_all()
        self.store.takes_messages = not self.broker.replication.is_slave

    async def _recover(self, files: dict[str, TableFile], now: int) -> None:
        """Has the rules take up what the store says is open."""
        settings, broker = self.settings, self.broker
        for name, file in files.items():
            if file.is_ours and not file.path.exists():
                # From now on a file that is missing is one that was lost.
                broker.dirty_tables.mark(name)
        broker.start(now)
        warn_of_gaps(settings, broker.auth.has_users)
        for _ in broker.recover(now):
            await asyncio.sleep(0)
        if settings.enable_slave_acting_master and not broker.replication.is_slave:
            broker.hold()

    def _make_turns(self) -> Turns:
        settings, broker = self.settings, self.broker
        handlers, many, fast_paths = broker.bind()
        return Turns(
            handlers,
            now=self._clock.now,
            many=many,
            fast_paths=fast_paths,
            arrange=decisions_first,
            after_turn=self._after_turn,
            on_closed=broker.connection_closed,
            warm=self._warm,
            executor=self._threads.query,
            not_on_port=self._not_on_vip,
            max_age_ms=FastFailure(settings).max_age_ms,
            max_connections=settings.max_connections,
            max_polls=lambda: settings.max_held_requests,
            gate=broker.gate,
            latency=self._reports.latency,
            tls=self._tls,
        )

    def _make_controller_mode(self) -> ControllerMode:
        return ControllerMode(
            self.broker,
            self._identity_file(),
            self._clock.now,
            self.change_role,
            self.truncate,
            ssl=client_context(self.settings),
        )

    def _make_acting(self, name_servers: list[str]) -> ActingMaster:
        return ActingMaster(
            self.broker,
            self._registrar,
            name_servers,
            self._clock.now,
            reopen_timers=self._reopen_timers,
            after_step=self._after_turn,
            executor=self._threads.read,
            ssl=client_context(self.settings),
        )

    async def _start_replication(self, ssl: SSLContext | None) -> None:
        self.replication = ReplicationRunner(
            self.broker,
            self.settings.ha_listen_port or self._port + HA_DISTANCE,
            ssl=ssl,
            tls=self._tls,
            now=self._clock.now,
            flush=self._flush_all,
            ask_for_master=self._registrar.register,
            after_step=self._after_turn,
            save_epochs=lambda: self._epoch_file.write(self.broker.epochs),
            on_diverged=self._log_diverged,
        )
        try:
            await self.replication.start()
        except CannotListen:
            await self.turns.listener.stop_listening()
            raise

    def _log_diverged(self, common_end: int) -> None:
        self._background.start(self._controller_mode.cut_to(common_end), "cut of the log")

    def _file_of(self, option: str | None, name: str) -> Path:
        return Path(option or f"{self.settings.store_path_root_dir}/{name}").expanduser()

    def _identity_file(self) -> IdentityFile:
        path = self._file_of(self.settings.store_path_broker_identity, "brokerIdentity")
        return IdentityFile(path, self.identity.cluster, self.identity.name)

    async def _begin_epoch(self, number: int) -> None:
        """Notes durably where this master's reign begins, before it stores anything. Raises OSError."""
        epochs = self.broker.epochs
        if number > epochs.last:
            start = self.store.max_physical if epochs.entries else self.store.min_physical
            epochs.append(Epoch(number, start))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads.save, self._epoch_file.write, epochs)

    async def _flush_all(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads.flush, self.store.flush_now)

    def _confirm(self) -> None:
        """Lets readers and answers have what enough replicas hold by now."""
        self.store.replicas_reached(self.broker.promise.replicated)
        if self.turns.waits.waits_for_disk:
            self.turns.waits.durable(self.store.confirm_offset)

    def _start_periodic_tasks(self) -> None:
        broker = self.broker
        self._broker_tasks = BrokerTasks(
            broker,
            self._table_writer,
            self._registrar,
            self.turns,
            now=self._clock.now,
            after_step=self._after_turn,
            start=self._background.start,
        )
        refresh_routes = PeriodicTask(
            "refresh routes",
            self.settings.load_balance_poll_name_server_interval,
            lambda now: self._ask_routes(broker.routes.to_refresh(now)),
        )
        tls = [] if self._tls is None else [self._tls.task]
        self.periodic_tasks = (
            *self._broker_tasks.all(),
            *([] if broker.replication.is_slave else self._timers.periodic_tasks()),
            *self.replication.periodic_tasks(),
            *self.store.periodic_tasks(),
            refresh_routes,
            *tls,
        )
        for task in self.periodic_tasks:
            self._runner.start(task)

    # The role.

    async def change_role(self, change: RoleChange) -> None:
        """Changes the role of this broker in its group while it serves; it has ended when this returns.

        The way is always the same. First the broker's role is unknown: it stores nothing, no slave follows
        it, and it follows nobody. Sends that wait for the disk or for replicas are answered
        FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT, so nothing is acknowledged any more; held pulls and pops
        end as if their time were over, so clients ask again; readers see the log up to its confirm offset.
        Then it takes up the new role. A slave follows its master, and shows readers more once that one goes
        on where this log ends. A master works up what the log says is open (delayed messages, timers,
        transactions, check points), and then takes slaves and messages. Name servers hear of the change.

        A controller calls it with the role, the id, the master's addresses and the epoch:

            change_role(RoleChange(Role.UNKNOWN, id))           no lease, or no master: fenced
            change_role(RoleChange(Role.SLAVE, id, master_address=..., master_ha_address=..., epoch=...))
            change_role(RoleChange(Role.MASTER, 0, waits_for_replicas=True, epoch=...))

        Where the log has to be cut before it follows, make the role unknown, call `truncate`, then make it a
        slave. The same role with another master or epoch is a change like others. Calls queue up.

        Raises RefusedValue for an id that does not go with the role, CannotListen where the HA port of a new
        master is taken, StoreError or OSError where the store fails. Where it raises, the role is unknown.
        """
        change.check()
        async with self._changing_role:
            if self._stopped:
                raise StoreUnavailable("the broker stops")
            log.info("the role changes from %s to %s", self.broker.replication.role.value, change.role.value)
            await self._leave_role(change)
            try:
                await self._take_role(change)
            except BaseException:
                self.broker.replication.is_fenced = True
                await self.replication.stop()
                log.error("the role could not become %s: it is unknown now", change.role.value)
                raise
            finally:
                self.turns.dispatcher.rebind(*self.broker.bind())
                if not self._stopped:
                    self._start_periodic_tasks()
            if change.role is not Role.UNKNOWN:
                self._background.start(self._registrar.register(), "registration")
            self._after_turn(self._clock.now())

    async def truncate(self, physical_offset: int) -> int:
        """Cuts the log of a broker whose role is unknown, and all that follows from it; gives where it ends.

        Committed offsets and positions of delayed messages go back with their queues. Connections that have
        not taken all of an answer yet are closed: it may hold bytes that are cut off. Raises what
        `MessageStore.truncate_to` does; RuntimeError in another role.
        """
        broker = self.broker
        if broker.replication.role is not Role.UNKNOWN:
            raise RuntimeError("a log is cut while its broker's role is unknown")
        self.turns.listener.close_unsent("the log is cut")
        end = broker.truncate(physical_offset, self._clock.now())
        promise = broker.promise
        if promise.held_at is not None:
            promise.held_at = min(promise.held_at, end)
        promise.master_confirmed = min(promise.master_confirmed, end)
        if broker.epochs.truncate(end):
            self._epoch_file.write(broker.epochs)
        return end

    async def _leave_role(self, change: RoleChange) -> None:
        broker, now = self.broker, self._clock.now
        was_master = not broker.replication.is_slave
        broker.replication.is_fenced = True
        if self._acting is not None:
            await self._acting.leave()
            broker.replication.is_acting = False
        self.turns.dispatcher.rebind(*broker.bind())
        if not (was_master and change.hands_over):
            self._end_waiting()
        self._broker_tasks.stop()
        self._timers.stop()
        await self._runner.stop()
        if was_master and change.hands_over:
            broker.points.store_all(now())
            await self._until_slaves_are_level()
            self._end_waiting()
        await self.replication.stop()
        self.store.drop_partial_record()
        if was_master:
            await self._reopen_timers(broker.end_mastership(now()))
        await self._registrar.withdraw()
        broker.replication.master_address = broker.replication.announced_ha_address = ""

    def _end_waiting(self) -> None:
        """Ends all calls that wait for what only a master does; nothing is stored or shown from here on."""
        promise, waits = self.broker.promise, self.turns.waits
        if promise.held_at is None and self.store.takes_messages:
            promise.held_at = self.store.confirm_offset
        self.store.takes_messages = False
        self._table_changes.forget()
        waits.end_all(Durable, DataAt)
        waits.expire(self.broker.held_signals())
        self.store.replicas_reached(promise.replicated)

    async def _until_slaves_are_level(self) -> None:
        """Waits until the slaves that are in sync have all of the log, for slaveTimeout at most."""
        links, store, settings = self.broker.promise.links, self.store, self.settings
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settings.slave_timeout / 1000):
                while links.all and links.in_sync(store.max_physical, 1) < links.in_sync(
                    store.max_physical, settings.ha_max_gap_not_in_sync
                ):
                    self._after_turn(self._clock.now())
                    await asyncio.sleep(LEVEL_STEP_SECONDS)

    async def _take_role(self, change: RoleChange) -> None:
        broker, now = self.broker, self._clock.now
        replication, settings = broker.replication, self.settings
        replication.epoch = max(replication.epoch, change.epoch)
        if change.role is Role.UNKNOWN:
            return
        if change.role is Role.MASTER:
            replication.table_versions.forget()
            if settings.enable_controller_mode:
                await self._begin_epoch(change.epoch)
            await self.replication.listen()
            await self._reopen_timers(None)
        self.identity.broker_id = change.broker_id
        broker.config.note_role(change.broker_role, change.broker_id, now())
        if change.role is Role.MASTER:
            await self._confirm_all()
            self.store.takes_messages = True
            for _ in broker.begin_mastership(now()):
                await asyncio.sleep(0)
        replication.is_fenced = False
        if change.role is Role.MASTER:
            self._timers = TimerRunner(broker.timer, now, self._after_turn, self._threads.read)
            return
        replication.slave_id = change.broker_id
        replication.master_address = change.master_address
        replication.announced_ha_address = change.master_ha_address
        settings.ha_master_address = settings.ha_master_address if not change.master_ha_address else None
        await self.replication.start()

    async def _confirm_all(self) -> None:
        """Counts all of the log as confirmed: it is the group's from now on. Rules that take up what is
        open see it to its end, or they would deliver anew what was delivered there. Raises FlushFailed.
        """
        if self.store.options.sync_flush:
            await self._flush_all()
        promise = self.broker.promise
        promise.held_at = None
        self.store.replicas_reached(None)
        log.debug("the log is confirmed up to %d", self.store.confirm_offset)
        self.store.replicas_reached(promise.replicated)

    async def _reopen_timers(self, mark: TimerMark | None) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads.periodic, self.store.reopen_timers, self._clock.now(), mark)

    async def _change_as_asked(self, requested: RequestedChange) -> None:
        """Carries out a change that an administrator waits for."""
        try:
            await self.change_role(requested.change)
        except (OrbitError, OSError) as error:
            requested.error = error
        except Exception as error:
            log.exception("the role could not be changed")
            requested.error = error
        self.turns.waits.signalled((requested.done,))

    # The turn.

    def _after_turn(self, now: int) -> None:
        """The end of every turn: pushes, wake-ups, and the start of writes that replies wait for."""
        if self._closing:
            return
        broker = self.broker
        if broker.clients.unnotified:
            self._notify_members(now)
        self.turns.refuse_withdrawn()
        self.replication.pump()
        self._confirm()
        if broker.outbox.pushes:
            self._push()
        held = broker.held_pops.count or broker.held_notices.count
        queues = self.turns.waits.queues
        arrivals = self.store.drain_arrivals(
            _AnyOf((queues, broker.held_pops, broker.held_notices)) if held else queues
        )
        if arrivals:
            self.turns.waits.arrived(arrivals)
            if held:
                broker.held_pops.arrived(arrivals)
                broker.held_notices.arrived(arrivals)
        self._wake()
        while broker.role_requests.pending:
            self._background.start(
                self._change_as_asked(broker.role_requests.pending.popleft()), "change of role"
            )
        if broker.role_requests.has_news:
            broker.role_requests.has_news = False
            self._controller_mode.wake()
        self._table_writer.notice()
        self._table_changes.answer_taken()
        self._registrar.topics_changed()
        if not self._flushing and self.store.wants_flush:
            self._flush()
        self.store.reserve_soon()

    def _notify_members(self, now: int) -> None:
        following = self.broker.clients.notify(now)
        if following is not None and not self._tells_later:
            self._tells_later = True
            asyncio.get_running_loop().call_later((following - now) / 1000, self._notify_later)

    def _notify_later(self) -> None:
        self._tells_later = False
        if not self._stopped:
            self._after_turn(self._clock.now())

    def _push(self) -> None:
        """Sends some of what rules want sent to others; the rest in the next rounds of the loop."""
        outbox = self.broker.outbox
        for connection_id, request in outbox.drain(PUSHES_PER_ROUND):
            self.turns.push(connection_id, request)
        if outbox.pushes and not self._pushes_later:
            self._pushes_later = True
            asyncio.get_running_loop().call_soon(self._push_later)

    def _push_later(self) -> None:
        self._pushes_later = False
        if self.broker.outbox.pushes:
            self._push()

    def _wake(self) -> None:
        """Lets held calls go on that the rules have something for; that may wake further ones."""
        broker = self.broker
        while woken := broker.drain_woken():
            self.turns.waits.signalled(woken)
        if broker.routes.wanted:
            self._ask_routes(broker.routes.drain_wanted())

    def _ask_routes(self, topics: set[str]) -> None:
        async def ask() -> None:
            await self._route_asker.ask(sorted(topics))
            self._after_turn(self._clock.now())

        if topics:
            self._background.start(ask(), "routes asked of name servers")

    def _saved(self, tables: Iterable[str], is_change: bool) -> None:
        names = list(tables)
        if self.broker.topics.NAME in names:
            self.broker.topics.note_saved()
        self._table_changes.saved(names, is_change=is_change)
        if is_change and hasattr(self, "replication"):  # a start saves tables before there are slaves
            self.replication.announce()

    def _flush(self) -> None:
        """Group commit: one flush for all who wait now; whoever comes meanwhile waits for the next."""
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._threads.flush, self.store.flush_now).add_done_callback(self._flushed)
        self._flushing = True

    def _flushed(self, future: asyncio.Future[Any]) -> None:
        self._flushing = False
        if future.cancelled() or self._closing:
            return
        error = future.exception()
        if error is not None:
            log.error("flush of the commit log failed: %s", error)
            return
        self.replication.report()
        self._after_turn(self._clock.now())

    def _warm(self, condition: Warm, then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(
            self._threads.read, self.store.read_cold, condition.offset, condition.size_bytes, condition.queue
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
        self._reports.stopping()
        await self._registrar.unregister()
        # A client that is sent away connects again: no longer here.
        await self.turns.listener.stop_listening()
        self.turns.dispatcher.going_away = True
        self.turns.waits.end_all()
        await asyncio.sleep(FAREWELL_SECONDS)
        await self.turns.stop()
        self._broker_tasks.stop()
        self._timers.stop()
        await self._end_work()
        await self._route_asker.close()
        self.broker.stop(self._clock.now())
        await self._table_writer.save_all()
        await self._close_store()
        await self._reports.close()
        self._threads.stop()

    async def _end_work(self) -> None:
        """Ends what comes round, what runs in the background and replication, and waits for it."""
        await self._runner.stop()
        await self._background.stop()
        if hasattr(self, "replication"):
            await self.replication.stop()

    async def _close_store(self) -> None:
        """Closes the store once no thread has anything to do with it any more."""
        await self._reports.close_metrics()
        self._closing = True

        def close() -> None:
            self._threads.stop_all_but_flush()
            self.store.close()

        await asyncio.get_running_loop().run_in_executor(self._threads.flush, close)

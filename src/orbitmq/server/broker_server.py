"""A broker as a process part: its rules, its store and its sockets, with their threads and timers."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.broker import Broker
from orbitmq.broker.handlers.transaction import decisions_first
from orbitmq.broker.identity import BrokerIdentity
from orbitmq.broker.options import VIP_DISTANCE, BrokerSettings
from orbitmq.broker.sql92 import load_parser
from orbitmq.net.address import format_address
from orbitmq.protocol.call import Warm
from orbitmq.protocol.ids import UniqueIds, pack_host
from orbitmq.server.auth_file import load_auth
from orbitmq.server.broker_chores import BrokerChores
from orbitmq.server.chores import ChoreRunner
from orbitmq.server.clock import Clock
from orbitmq.server.guard import warn_of_gaps
from orbitmq.server.listener import advertised_host, resolve
from orbitmq.server.registrar import Registrar
from orbitmq.server.reports import Reports
from orbitmq.server.routes import RouteAsker
from orbitmq.server.saver import Saver, TableFile, load_table
from orbitmq.server.threads import Threads
from orbitmq.server.timers import TimerRunner
from orbitmq.server.tls import client_context, open_tls
from orbitmq.server.turn import Turns
from orbitmq.store import Chore, FlushFailed, MessageStore, StoreOptions
from orbitmq.store.files import Disk

log = logging.getLogger(__name__)

HA_DISTANCE = 1
NOT_ON_VIP_PORT = frozenset({11, 361, 200050, 200052, 200054, 200055})
"""Pulls and pops are served on the main port only."""
FIRST_REGISTRATION_SECONDS = 3.0
"""How long a start waits for the name servers."""
FAREWELL_SECONDS = 0.2
"""How long clients that still ask are told to go away before their connections end."""


class _AnyOf:
    """The queues that are in any of several containers."""

    def __init__(self, parts: tuple[Container[tuple[str, int]], ...]) -> None:
        self._parts = parts

    def __contains__(self, queue: object) -> bool:
        return any(queue in part for part in self._parts)


def _rewriting(broker: Broker, path: str) -> Callable[[], str]:
    """Options changed over the network, written into the properties file that the broker was started with."""
    rewrite = broker.config.rewrite()
    return lambda: rewrite(Path(path).read_bytes())


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
        self._background: set[asyncio.Task[Any]] = set()
        self._flushing = False
        self._stopped = False
        self.broker: Broker
        self.identity: BrokerIdentity
        self.store: MessageStore
        self.turns: Turns
        self.chores: Sequence[Chore]
        """What it does by itself, again and again."""

    @property
    def address(self) -> str:
        """`host:port` under which clients are told to reach the broker."""
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
                self._threads.chores, MessageStore.open, options, now, self._disk
            )
            try:
                await self._start_on_store()
            except BaseException:
                self.store.close()
                raise
        except BaseException:
            await self._reports.close()
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
        now = self._clock.now()
        settings = self.settings
        ids = UniqueIds(self.identity.host, os.getpid(), secrets.randbits(31))
        self.broker = broker = Broker(
            self.identity,
            settings,
            self.store,
            now=now,
            new_unique_id=ids.new,
            figures=self.store.figures,
            sync_flush=settings.flush_disk_type == "SYNC_FLUSH",
        )
        files = self._load_tables(broker)
        for name, file in files.items():
            if file.is_ours and not file.path.exists():
                # From now on a file that is missing is one that was lost.
                broker.unsaved.mark(name)
        broker.start(now)
        warn_of_gaps(settings, broker.auth.has_users)
        for _ in broker.take_up(now):
            await asyncio.sleep(0)
        self._tls = await open_tls(settings, self._threads.chores)
        handlers, many, take_frames = broker.bind()
        self.turns = Turns(
            handlers,
            now=self._clock.now,
            many=many,
            take_frames=take_frames,
            arrange=decisions_first,
            after_turn=self._after_turn,
            on_closed=broker.connection_closed,
            warm=self._warm,
            not_on_port=self._not_on_vip,
            max_connections=settings.max_connections,
            gate=broker.gate,
            latency=self._reports.latency,
            tls=self._tls,
        )
        self._saver = Saver(files, broker.unsaved, self._threads.save, self._saved)
        addresses = [
            part for part in (settings.namesrv_addr or "").replace(",", ";").split(";") if part.strip()
        ]
        self._registrar = Registrar(
            broker,
            addresses,
            self._clock.now,
            ssl=client_context(settings),
        )
        self._route_asker = RouteAsker(broker, addresses, ssl=client_context(settings))
        await self.turns.listener.listen(
            settings.bind_address,
            self._port,
            self._port - VIP_DISTANCE,
            backlog=settings.server_socket_backlog,
        )
        self._timers = TimerRunner(broker.timer, self._clock.now, self._after_turn, self._threads.read)
        broker.check_back.keeps_up = self._keeps_up
        self._start_chores()
        if settings.enable_property_filter:
            # In a thread: nobody is to wait for it when the first filter comes.
            asyncio.get_running_loop().run_in_executor(self._threads.chores, load_parser)
        broker.topics.take_changed()
        self._reports.serve(broker, self.turns, self._clock.now)
        first = self._spawn(self._registrar.register())
        # A name server that does not answer holds nobody up: it hears of us when it is back.
        await asyncio.wait({first}, timeout=FIRST_REGISTRATION_SECONDS)

    def _start_chores(self) -> None:
        broker = self.broker
        self._broker_chores = BrokerChores(
            broker,
            self._saver,
            self._registrar,
            self.turns,
            now=self._clock.now,
            after_step=self._after_turn,
            spawn=self._spawn,
        )
        refresh_routes = Chore(
            "refresh routes",
            self.settings.load_balance_poll_name_server_interval,
            lambda now: self._ask_routes(broker.routes.to_refresh(now)),
        )
        tls = [] if self._tls is None else [self._tls.chore]
        self.chores = (
            *self._broker_chores.all(), *self._timers.chores(), *self.store.chores(), refresh_routes, *tls
        )  # fmt: skip
        self._chores = ChoreRunner(self._clock.now, self._threads.chores)
        for chore in self.chores:
            self._chores.start(chore)

    def _load_tables(self, broker: Broker) -> dict[str, TableFile]:
        config = Path(self.settings.store_path_root_dir).expanduser() / "config"
        files = {}
        for name, (file_name, snapshot, load_text) in broker.files.items():
            if name == AuthTable.NAME:
                files[name] = load_auth(self.settings, config, broker.auth)
                continue
            path = config / file_name
            if not load_table(path, load_text) and self.store.max_physical:
                log.warning(
                    "%s and its .bak are missing, though the store holds messages: begins empty", path
                )
            # A group's offset may not be on the disk before what it rests on, the check points of its pops.
            is_ahead = name == broker.offsets.NAME
            files[name] = TableFile(path, self._after_flush(snapshot) if is_ahead else snapshot)
        config_path = self.settings.broker_config_path
        if config_path and not config_path.endswith(".toml"):
            files[broker.config.NAME] = TableFile(
                Path(config_path), partial(_rewriting, broker, config_path), is_ours=False
            )
        return files

    def _after_flush(self, snapshot: Callable[[], Callable[[], str]]) -> Callable[[], Callable[[], str]]:
        """Snapshots whose text is made once the log is on the disk as far as it went when they were taken."""

        def taken() -> Callable[[], str]:
            to_text = snapshot()

            def text() -> str:
                try:
                    self.store.flush_now()
                except FlushFailed as error:
                    raise OSError(str(error)) from error
                return to_text()

            return text

        return taken

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    # The turn.

    def _after_turn(self, now: int) -> None:
        """What every turn ends with: pushes, wake-ups, and the start of writes that replies wait for."""
        broker = self.broker
        if broker.outbox.pushes:
            for connection_id, request in broker.outbox.take():
                self.turns.push(connection_id, request)
        held = broker.held_pops.count or broker.held_notices.count
        queues = self.turns.waits.queues
        arrivals = self.store.take_arrivals(
            _AnyOf((queues, broker.held_pops, broker.held_notices)) if held else queues
        )
        if arrivals:
            self.turns.waits.arrived(arrivals)
            if held:
                broker.held_pops.arrived(arrivals)
                broker.held_notices.arrived(arrivals)
        self._wake()
        self._saver.notice()
        self._registrar.topics_changed()
        if not self._flushing and (self.turns.waits.waits_for_disk or self.store.wants_flush):
            self._flush()

    def _wake(self) -> None:
        """Lets held calls go on that the rules have something for; that may wake further ones."""
        broker = self.broker
        while woken := broker.take_woken():
            self.turns.waits.signalled(woken)
        if broker.routes.wanted:
            self._ask_routes(broker.routes.take_wanted())

    def _ask_routes(self, topics: set[str]) -> None:
        async def ask() -> None:
            await self._route_asker.ask(topics)
            self._after_turn(self._clock.now())

        if topics:
            self._spawn(ask())

    def _saved(self, tables: Iterable[str]) -> None:
        names = list(tables)
        if self.broker.topics.NAME in names:
            self.broker.topics.note_saved()
        self.turns.waits.saved(names)

    def _flush(self) -> None:
        """Group commit: one flush for all who wait now; whoever comes meanwhile waits for the next."""
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._threads.flush, self.store.flush_now).add_done_callback(self._flushed)
        self._flushing = True

    def _flushed(self, future: asyncio.Future[Any]) -> None:
        self._flushing = False
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            log.error("flush of the commit log failed: %s", error)
            return
        self.turns.waits.durable(self.store.durable_offset)
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
        """Takes nothing new, tells clients to go away, saves and flushes everything, and unregisters."""
        if self._stopped:
            return
        self._stopped = True
        self._reports.stopping()
        await self._registrar.unregister()
        # Who is told to go away connects anew: no longer here.
        await self.turns.listener.stop_listening()
        self.turns.dispatcher.going_away = True
        self.turns.waits.end_all()
        await asyncio.sleep(FAREWELL_SECONDS)
        await self.turns.stop()
        self._broker_chores.stop()
        await self._chores.stop()
        self._timers.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._route_asker.close()
        self.broker.stop(self._clock.now())
        await self._saver.save_all()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads.flush, self.store.close)
        await self._reports.close()
        self._threads.stop()

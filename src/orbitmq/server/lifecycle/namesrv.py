"""A name server as a process part: its rules and its socket."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from orbitmq.handling.call import Bound
from orbitmq.nameserver.brokers import Notice
from orbitmq.nameserver.handlers.config import OPTIONS_FILE
from orbitmq.nameserver.kv import KVConfig
from orbitmq.nameserver.nameserver import NameServer
from orbitmq.nameserver.options import NamesrvSettings
from orbitmq.net.address import format_address
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import OrbitError
from orbitmq.server.errors import StartError
from orbitmq.server.lifecycle.clock import Clock
from orbitmq.server.metrics.health import Health
from orbitmq.server.tasks.background import BackgroundTasks
from orbitmq.server.tasks.periodic import PeriodicTaskRunner
from orbitmq.server.tasks.table_writer import TableFile, TableWriter, load_table, made_at_once
from orbitmq.server.tasks.threads import Threads
from orbitmq.server.turn.dispatcher import Dispatcher
from orbitmq.server.turn.pending_replies import PendingReplies
from orbitmq.server.turn.tls import client_context, open_tls
from orbitmq.server.turn.turn import Turns
from orbitmq.store.periodic import PeriodicTask

log = logging.getLogger(__name__)

NOTICE_TIMEOUT_MS = 300
"""Time that a name server tries to reach a broker that it has to notify."""
IDLE_CHECK_MS = 10_000
PAUSE_PER_WRITE = 9.0
"""The files of a name server, which anybody may have written, take a tenth of its time at most."""


def _place(settings: NamesrvSettings, name: str, configured: str, data_dir: Path | None) -> Path:
    """Path of a file: as configured; else in the data folder, if there is one."""
    path = Path(configured)
    return path if data_dir is None or name in settings.sources else data_dir / path.name


class NamesrvServer:
    """Listens, and takes brokers out that are gone. Its files are `kvConfig.json` and changed options.

    Files go where `settings` say, into `data_dir` where those say nothing. `port` 0 finds a free one.
    """

    def __init__(
        self,
        settings: NamesrvSettings,
        *,
        data_dir: Path | None = None,
        listen: str | None = None,
        port: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._listen = listen or settings.bind_address
        self._port = settings.listen_port if port is None else port
        self._files = {
            KVConfig.NAME: _place(settings, "kvConfigPath", settings.kv_config_path, data_dir),
            OPTIONS_FILE: _place(settings, "configStorePath", settings.config_store_path, data_dir),
        }
        settings.kv_config_path = str(self._files[KVConfig.NAME])
        settings.config_store_path = str(self._files[OPTIONS_FILE])
        self._clock = clock or Clock()
        self._threads = Threads()
        self._health = Health()
        self._background = BackgroundTasks()
        self._stopped = False
        self.nameserver: NameServer
        self.turns: Turns

    @property
    def port(self) -> int:
        """The port listened on, once started."""
        return self._port

    @property
    def address(self) -> str:
        """`host:port` listened on."""
        return format_address(self._listen, self._port)

    async def start(self) -> None:
        """Raises StartError if its KV file cannot be read, or CannotListen."""
        try:
            settings = self._settings
            await self._health.listen(settings.health_host or settings.bind_address, settings.health_port)
            await self._start()
        except BaseException:
            await self._health.close()
            self._threads.stop()
            raise
        self._health.why_not = lambda: ""

    async def _start(self) -> None:
        self.nameserver = nameserver = NameServer(self._settings, self._clock.now())
        await asyncio.get_running_loop().run_in_executor(self._threads.save, self._load_files)
        tls = await open_tls(self._settings, self._threads.periodic)
        waits = PendingReplies(self._clock.now, self._threads.query)
        self.turns = Turns(
            Dispatcher(Bound(nameserver.bind()), waits, after_turn=self._after_turn),
            on_closed=self._connection_closed,
            max_connections=self._settings.max_connections,
            tls=tls,
        )
        texts = nameserver.files
        self._table_writer = TableWriter(
            {name: TableFile(path, made_at_once(texts[name])) for name, path in self._files.items()},
            nameserver.dirty_tables,
            self._threads.save,
            lambda tables, is_change: self.turns.waits.saved(tables),
            pause_per_write=PAUSE_PER_WRITE,
        )
        self._pool = ConnectionPool(connect_timeout_ms=NOTICE_TIMEOUT_MS, ssl=client_context(self._settings))
        await self.turns.listener.listen(
            self._listen, self._port, backlog=self._settings.server_socket_backlog
        )
        self._port = self.turns.listener.ports[0]
        self._runner = PeriodicTaskRunner(self._clock.now, self._threads.for_periodic_tasks)
        self._runner.start(
            PeriodicTask("expire brokers", self._settings.scan_not_active_broker_interval, self._expire)
        )
        self._runner.start(PeriodicTask("close idle connections", IDLE_CHECK_MS, self._close_idle))
        if tls is not None:
            self._runner.start(tls.task)

    def _load_files(self) -> None:
        for file in self._files.values():
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StartError(
                    f"{error.filename or file.parent} is of no use: {error.strerror}; "
                    "make it a folder this user may write to"
                ) from None
            if file.exists() and not file.is_file():
                what = "a folder" if file.is_dir() else "no regular file"
                raise StartError(f"{file} is {what}; move it away, a file of that name goes there")
        load_table(self._files[KVConfig.NAME], self.nameserver.kv.load_text)

    def _after_turn(self, now: int) -> None:
        self._table_writer.notice()
        for notice in self.nameserver.drain_notices():
            self._background.start(self._notify(notice), "notice to a broker")
        self._pool.close_idle()

    def _connection_closed(self, connection_id: int) -> None:
        if not self._stopped:
            self.nameserver.connection_closed(connection_id)
            self._after_turn(self._clock.now())

    def _expire(self, now: int) -> None:
        for connection_id in self.nameserver.expire(now):
            log.warning("a broker gave no sign of life in time and is taken out of all routes")
            self.turns.close_connection(connection_id, "no sign of life")
        self._after_turn(now)

    def _close_idle(self, now: int) -> None:
        self.turns.listener.close_idle(self._settings.server_channel_max_idle_time_seconds)

    async def _notify(self, notice: Notice) -> None:
        try:
            await self._pool.send_oneway(notice.address, notice.request)
        except OrbitError as error:
            log.info("broker %s was not notified of a new smallest id: %s", notice.address, error)

    async def stop(self) -> None:
        """Takes nothing new, writes what is not written, and ends every connection."""
        if self._stopped:
            return
        self._stopped = True
        self._health.stopping()
        self.turns.dispatcher.going_away = True
        await self._runner.stop()
        await self._background.stop()
        await self._table_writer.save_dirty()
        await self.turns.stop()
        await self._pool.close()
        await self._health.close()
        self._threads.stop()

"""A controller as a process part: its rules, its socket, and its session with the consensus store."""

from __future__ import annotations

import asyncio
import logging

from orbitmq.controller.access import ControllerGate
from orbitmq.controller.controller import Controller, Notice
from orbitmq.controller.leadership import Leadership
from orbitmq.controller.options import ControllerSettings
from orbitmq.handling.call import Bound
from orbitmq.handling.credentials import first_user, own_credentials
from orbitmq.net.address import format_address, is_loopback
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import OrbitError
from orbitmq.server.controller.consensus import ConsensusError, ConsensusStore
from orbitmq.server.controller.listening import is_at, listens
from orbitmq.server.controller.metrics import ControllerMetrics
from orbitmq.server.controller.session import RETRY_SECONDS, Session
from orbitmq.server.lifecycle.clock import Clock
from orbitmq.server.metrics.health import Health
from orbitmq.server.metrics.http import HttpRequest, HttpResponse
from orbitmq.server.tasks.background import BackgroundTasks
from orbitmq.server.tasks.periodic import PeriodicTaskRunner
from orbitmq.server.tasks.threads import Threads
from orbitmq.server.turn.dispatcher import Dispatcher
from orbitmq.server.turn.pending_replies import PendingReplies
from orbitmq.server.turn.tls import client_context, open_tls
from orbitmq.server.turn.turn import Turns
from orbitmq.store.periodic import PeriodicTask

log = logging.getLogger(__name__)

NOTICE_TIMEOUT_MS = 500
"""Time that a controller tries to reach a broker that it has to notify."""
IDLE_CHECK_MS = 10_000
LISTENS_SECONDS = 0.05
"""Interval at which a broker whose connection has ended is looked after."""
MAX_ELSEWHERE = 1_000
"""Lines about brokers that are not connected to, before they may come again."""
START_SECONDS = 10
"""Time that a start waits for the consensus store."""


def warn_of_gaps(settings: ControllerSettings, host: str) -> None:
    """Warns at the start of a port that is open to strangers, and of requests that no user may send."""
    if not settings.authentication_enabled and not is_loopback(host):
        log.warning(
            "without authenticationEnabled, anybody who reaches the port on %s may elect masters, remove "
            "members and set options. Set it, with innerClientAuthenticationCredentials here and at all "
            "brokers, or open the port to the hosts of brokers and controllers alone",
            host,
        )
    if settings.authentication_enabled and first_user(settings) is None:
        log.warning(
            "no operator is known, so nobody may elect a master, remove members or set options here: set "
            "initAuthenticationUser"
        )


class ControllerServer:
    """Listens, leads while it holds the lease, and notifies brokers of new masters. It keeps no files.

    `port` 0 finds a free one.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        store: ConsensusStore,
        *,
        listen: str | None = None,
        port: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._listen = listen or settings.bind_address
        self._port = settings.listen_port if port is None else port
        self._clock = clock or Clock()
        self._threads = Threads()
        self._health = Health()
        self._background = BackgroundTasks()
        self._elsewhere: set[str] = set()
        """Brokers about which it was logged that their addresses are not connected to."""
        self._stopped = False
        self.controller: Controller
        self.session: Session
        self.turns: Turns

    @property
    def address(self) -> str:
        """`host:port` listened on."""
        return format_address(self._listen, self._port)

    async def start(self) -> None:
        """Raises ConsensusError if the store cannot be used, or CannotListen."""
        try:
            settings = self._settings
            await self._health.listen(settings.health_host or settings.bind_address, settings.health_port)
            await self._wait_for_store()
            await self._start()
        except BaseException:
            await self._health.close()
            await self._store.close()
            self._threads.stop()
            raise
        self._health.why_not = lambda: self.session.error

    async def _wait_for_store(self) -> None:
        """Users who start etcd and controllers together have the latter up first."""
        loop = asyncio.get_running_loop()
        end = loop.time() + START_SECONDS
        while True:
            try:
                await self._store.open()
                return
            except ConsensusError as error:
                if loop.time() >= end:
                    raise
                log.warning("waiting for the consensus store: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _start(self) -> None:
        settings = self._settings
        tls = await open_tls(settings, self._threads.periodic)
        leadership = Leadership(settings.controller_group, settings.controller_id, "")
        self.controller = controller = Controller(settings, leadership)
        dispatcher = Dispatcher(
            Bound(controller.bind()),
            PendingReplies(self._clock.now, self._threads.query),
            after_turn=self._after_turn,
            gate=ControllerGate(settings) if settings.authentication_enabled else None,
        )
        self.turns = Turns(
            dispatcher,
            on_closed=self._connection_closed,
            max_connections=settings.max_connections,
            tls=tls,
        )
        self._pool = ConnectionPool(
            connect_timeout_ms=NOTICE_TIMEOUT_MS,
            ssl=client_context(settings),
            credentials=own_credentials(settings),
        )
        warn_of_gaps(settings, self._listen)
        await self.turns.listener.listen(self._listen, self._port, backlog=settings.server_socket_backlog)
        self._port = self.turns.listener.ports[0]
        leadership.own_address = settings.advertised_address or self.address
        leadership.own_id = settings.controller_id or leadership.own_address
        self.session = Session(
            self._store,
            controller,
            leadership,
            lease_seconds=settings.store_lease_seconds,
            now=self._clock.now,
            on_committed=self._committed,
        )
        self._metrics = ControllerMetrics(controller)
        self._health.http.pages["/metrics"] = self._metrics_page
        self._background.start(self.session.run(), "session with the consensus store")
        self._runner = PeriodicTaskRunner(self._clock.now, self._threads.for_periodic_tasks)
        interval_ms = settings.scan_not_active_broker_interval
        self._runner.start(PeriodicTask("check brokers", interval_ms, self._check))
        self._runner.start(PeriodicTask("close idle connections", IDLE_CHECK_MS, self._close_idle))
        if tls is not None:
            self._runner.start(tls.task)

    async def _metrics_page(self, request: HttpRequest) -> HttpResponse:
        self._metrics.store_down = bool(self.session.error)
        return self._metrics.page(request)

    def _after_turn(self, now: int) -> None:
        self.session.changed()
        self._pool.close_idle()

    def _committed(self) -> None:
        """Releases the answers whose changes are written, and notifies brokers of new masters."""
        journal = self.controller.journal
        self.turns.waits.durable(journal.committed)
        if journal.committed >= journal.version:
            for notice in self.controller.drain_notices():
                self._background.start(self._notify(notice), "notice to a broker")

    def _connection_closed(self, connection_id: int) -> None:
        if not self._stopped and self.controller.live.address_of(connection_id) is not None:
            self._background.start(self._look_after(connection_id), "look after a broker")

    async def _look_after(self, connection_id: int) -> None:
        """Takes out a broker that has ended at once, and leaves one that still listens until its lease ends.

        A master that was replaced while it lives would lose what its slaves have not got yet.
        """
        live = self.controller.live
        broker = live.of_connection(connection_id)
        if broker is None or not await self._may_connect(broker.address, broker.peer):
            return
        while (address := live.address_of(connection_id)) is not None:
            if not await listens(address):
                now = self._clock.now()
                self.controller.connection_closed(connection_id, now)
                self._after_turn(now)
                return
            await asyncio.sleep(LISTENS_SECONDS)

    def _check(self, now: int) -> None:
        self.controller.check(now)
        self._after_turn(now)

    def _close_idle(self, now: int) -> None:
        self.turns.listener.close_idle(self._settings.server_channel_max_idle_time_seconds)

    async def _may_connect(self, address: str, peer: str) -> bool:
        """True if a broker has signed what it says of its address, or the address is where it speaks from: a
        stranger shall not send this controller to any host that it likes.
        """
        if self._settings.authentication_enabled or await is_at(address, peer):
            return True
        if peer not in self._elsewhere:
            if len(self._elsewhere) >= MAX_ELSEWHERE:
                self._elsewhere.clear()
            self._elsewhere.add(peer)
            log.warning(
                "%s says that it is the broker %s, on another host: this controller does not connect there, "
                "so the broker learns of elections when it asks. Set authenticationEnabled, or brokerIP1",
                peer, address,
            )  # fmt: skip
        return False

    async def _notify(self, notice: Notice) -> None:
        if not await self._may_connect(notice.address, notice.peer):
            return
        try:
            await self._pool.send_oneway(notice.address, notice.request)
        except OrbitError as error:
            log.info("broker %s was not notified of a new master: %s", notice.address, error)

    async def stop(self) -> None:
        """Gives the lease back, takes nothing new, and ends every connection."""
        if self._stopped:
            return
        self._stopped = True
        self._health.stopping()
        self.turns.dispatcher.going_away = True
        await self._runner.stop()
        await self._background.stop()
        await self.session.stop()
        await self.turns.stop()
        await self._pool.close()
        await self._health.close()
        self._threads.stop()

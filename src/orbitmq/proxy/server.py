"""A proxy as a process part: the port of clients, the gRPC server behind it, and tasks at intervals."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from orbitmq.admin.admin import Admin
from orbitmq.handling.credentials import own_credentials
from orbitmq.net.address import format_address
from orbitmq.net.balancers import parse_networks
from orbitmq.net.connection import Connection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.remoting.command import Command
from orbitmq.proxy.access import AccessControl
from orbitmq.proxy.clients import Clients
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.front import LOOPBACK, Front
from orbitmq.proxy.heartbeat_syncer import HeartbeatSyncer
from orbitmq.proxy.lite.subscriptions import LiteSubscriptions
from orbitmq.proxy.metrics import ProxyMetrics
from orbitmq.proxy.offsets import Offsets
from orbitmq.proxy.operating.members import Members
from orbitmq.proxy.operating.messages import MessageCalls
from orbitmq.proxy.operating.progress import ProgressCalls, Rates
from orbitmq.proxy.operating.service import OperatorService
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.presence import Presence
from orbitmq.proxy.receiving import Receiving
from orbitmq.proxy.remoting.port import RemotingPort
from orbitmq.proxy.renewal import Renewals
from orbitmq.proxy.routes import Routing
from orbitmq.proxy.sending import Sending
from orbitmq.proxy.service import SERVICE, Service, Subjects
from orbitmq.proxy.settling import Settling
from orbitmq.proxy.telemetry import Telemetry
from orbitmq.proxy.transactions import Transactions
from orbitmq.server.lifecycle.clock import Clock
from orbitmq.server.metrics.health import Health
from orbitmq.server.metrics.http import HttpRequest, HttpResponse
from orbitmq.server.tasks.background import BackgroundTasks
from orbitmq.server.tasks.threads import Threads
from orbitmq.server.turn.tls import client_context, open_tls

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
MOST_WAITING_CALLS = 10_000
"""Calls that wait for their turn; of further ones more and more are refused."""


def _grpc_server(settings: ProxySettings) -> grpc.aio.Server:
    """The server behind the ports, with the limits of the settings."""
    age_seconds = settings.grpc_connection_max_age_seconds
    return grpc.aio.server(
        maximum_concurrent_rpcs=None,
        options=(
            ("grpc.max_receive_message_length", settings.grpc_max_inbound_message_size),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", settings.grpc_max_concurrent_calls_per_connection),
            ("grpc.max_metadata_size", 16 << 10),
            ("grpc.so_reuseport", 0),
            # Pings of clients that keep their connections alive: the port counts them.
            ("grpc.http2.max_ping_strikes", 0),
            # All clients may call at once when a proxy begins.
            ("grpc.server.max_pending_requests", MOST_WAITING_CALLS),
            ("grpc.server.max_pending_requests_hard_limit", 2 * MOST_WAITING_CALLS),
            *([("grpc.max_connection_age_ms", age_seconds * 1000)] if age_seconds else []),
        ),
    )


class ProxyServer:
    """Answers clients of RocketMQ 5. It keeps no files; several proxies work beside each other.

    `port` 0 finds a free one.
    """

    def __init__(
        self,
        settings: ProxySettings,
        *,
        listen: str | None = None,
        port: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._listen = listen or settings.bind_address
        self._port = settings.grpc_server_port if port is None else port
        self._clock = clock or Clock()
        self._threads = Threads()
        self._health = Health()
        self._background = BackgroundTasks()
        self._stopped = False
        self.clients: Clients
        self.front: Front
        self.service: Service
        self.remoting: RemotingPort
        self.inner_port = 0
        """The port of the gRPC server on the loopback, once started."""

    @property
    def address(self) -> str:
        """`host:port` listened on."""
        return format_address(self._listen, self._port)

    @property
    def addresses(self) -> str:
        """All addresses listened on, in words."""
        port = self._settings.remoting_listen_port
        return f"{self.address}, remoting {format_address(self._listen, port)}" if port else self.address

    async def start(self) -> None:
        """Raises CannotListen, BadTls."""
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
        settings, now = self._settings, self._clock.now
        tls = await open_tls(settings, self._threads.periodic)
        to_brokers = client_context(settings)
        self._cluster = cluster = Cluster(settings, self._on_requests, own_credentials(settings), to_brokers)
        self.clients = clients = Clients(settings.max_clients)
        self._renewals = renewals = Renewals(settings)
        self._settling = settling = Settling(cluster, renewals, settings, now)
        self._transactions = transactions = Transactions(cluster, clients, settings)
        self._lite = lite = LiteSubscriptions(cluster, clients, settings, now)
        self._telemetry = telemetry = Telemetry(cluster, clients, settings, now)
        telemetry.on_producer = self._producer_came
        self._grpc = _grpc_server(settings)
        self.inner_port = self._grpc.add_insecure_port(f"{LOOPBACK}:0")
        self.front, self._operators = (
            Front(
                self.inner_port,
                max_connections=settings.max_connections,
                idle_seconds=min(
                    settings.grpc_client_idle_time_mills / 1000, settings.server_channel_max_idle_time_seconds
                ),
                tls=tls,
                balancers=parse_networks(settings.proxy_protocol_from),
            )
            for _ in range(2)
        )
        access = AccessControl(cluster, settings)
        self._sending = sending = Sending(cluster, settings, now)
        self._receiving = receiving = Receiving(cluster, clients, settling, renewals, settings, now)
        self._presence = Presence(clients, settling, lite, telemetry, now)
        subjects = Subjects(
            routing=Routing(cluster, settings),
            presence=self._presence,
            sending=sending,
            receiving=receiving,
            settling=settling,
            transactions=transactions,
            lite=lite,
            offsets=Offsets(cluster, settings),
            telemetry=telemetry,
        )
        self.service = Service(subjects, access, settings, self.front.peer_of)
        self._rates = Rates(now())
        self._admin = admin = _admin_of(settings, to_brokers)
        syncer: HeartbeatSyncer | None = None
        if settings.heartbeat_syncer_topic_cluster_name:
            syncer = HeartbeatSyncer(cluster, admin, settings, now)
            await syncer.find_address()
            clients.on_heard, clients.on_gone = syncer.client_heard, syncer.client_left
        self._syncer = syncer
        operating = OperatorService(
            Members(admin, clients, None if syncer is None else syncer.members),
            MessageCalls(admin, clients, telemetry, sending, now),
            ProgressCalls(admin, cluster, clients, self._rates, lambda: len(self.front.relays), now),
            access,
            self._operators.peer_of,
        )
        self._grpc.add_generic_rpc_handlers((self.service.handlers(), operating.handlers()))
        self._grpc_health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._grpc_health, self._grpc)
        for name in (health.OVERALL_HEALTH, SERVICE):
            await self._grpc_health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._grpc.start()
        self._port = await self.front.listen(self._listen, self._port, settings.server_socket_backlog)
        settings.grpc_server_port = self._port
        self.remoting = RemotingPort(
            cluster, settings, self._background, tls=tls, to_brokers=to_brokers, syncer=syncer
        )
        if syncer is not None:
            self._background.start(syncer.hear(), "hear of other proxies' clients")
            self._background.start(syncer.send(), "tell other proxies of clients")
        if settings.admin_listen_port:
            await self._operators.listen(
                self._listen, settings.admin_listen_port, settings.server_socket_backlog
            )
        if settings.remoting_listen_port:
            await self.remoting.listen(self._listen, settings.remoting_listen_port)
        self._metrics = ProxyMetrics(
            self.address, self.front, self.remoting, clients, renewals, self.service.calls
        )
        self._health.http.pages["/metrics"] = self._metrics_page
        self._every(settings.renew_schedule_period_millis / 1000, settling.renew_due, "renew messages")
        self._every(settings.transaction_heartbeat_period_second, self._beat, "heartbeats of producers")
        self._every(LOOK_SECONDS, self._look, "look for clients that are gone")
        if tls is not None:
            self._every(1.0, self._reload(tls.task.run), "look for new certificates")

    async def _metrics_page(self, request: HttpRequest) -> HttpResponse:
        return self._metrics.page(request)

    def _every(self, seconds: float, work: Callable[[], Awaitable[None]], name: str) -> None:
        async def run() -> None:
            while True:
                await asyncio.sleep(seconds)
                try:
                    await work()
                except OrbitError as error:
                    log.warning("%s: %s", name, error)
                except Exception:
                    log.exception("%s failed, and is tried again", name)

        self._background.start(run(), name)

    def _reload(self, task: Callable[[int], object]) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await asyncio.get_running_loop().run_in_executor(self._threads.periodic, task, 0)

        return run

    async def _beat(self) -> None:
        await self._transactions.send_heartbeats(self.clients.producer_topics())

    def _producer_came(self, topics: list[str]) -> None:
        self._background.start(self._transactions.send_heartbeats(topics), "heartbeat of a producer")

    async def _look(self) -> None:
        self.front.close_idle()
        self._operators.close_idle()
        self._rates.look(self._sending.sent, self._receiving.received, self._clock.now())
        self.remoting.close_idle()
        self._cluster.close_idle()
        await self._presence.expire(self._settings.channel_expired_in_seconds * 1000)

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        self._background.start(self._handle_requests(connection, commands), "check-backs of a broker")

    async def _handle_requests(self, connection: Connection, commands: list[Command]) -> None:
        names = {address: name for name, address in (await self._cluster.masters()).items()}
        self._transactions.handle_requests(names.get, connection, commands)
        self._lite.handle_requests(commands)

    async def stop(self) -> None:
        """Sends clients elsewhere, gives open calls their time, and closes everything."""
        if self._stopped:
            return
        self._stopped = True
        self._health.stopping()
        await self._grpc_health.enter_graceful_shutdown()
        await self.front.stop_listening()
        await self._operators.stop_listening()
        await self.remoting.close()
        self._telemetry.reconnect_all()
        await self._grpc.stop(self._settings.grpc_shutdown_time_seconds if self.front.relays else 0)
        if self._syncer is not None:
            await self._syncer.all_left()
        await self._background.stop()
        await self._settling.close()
        await self.front.close()
        await self._operators.close()
        await self._admin.close()
        await self._cluster.close()
        await self._health.close()
        self._threads.stop()


def _admin_of(settings: ProxySettings, tls: ssl.SSLContext | None) -> Admin:
    """Requests of operators go over connections of their own, as the proxy's own user."""
    own = own_credentials(settings)
    return Admin(
        settings.namesrv_addr,
        access_key=None if own is None else own.access_key,
        secret_key=None if own is None else own.secret_key,
        security_token=None if own is None else own.security_token,
        tls=tls or False,
    )

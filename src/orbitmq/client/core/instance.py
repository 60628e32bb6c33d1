"""The base of every producer and consumer: an identity, connections, routes, heartbeats, timers."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from orbitmq.access import context_of
from orbitmq.client.core.background import Tasks
from orbitmq.client.core.errors import NotRunning, WrongEventLoop
from orbitmq.client.core.events import ClientEvent, ClientEventKind
from orbitmq.client.core.identity import client_id, unique_ids
from orbitmq.client.core.logs import logger_of
from orbitmq.client.core.options import ClientOptions
from orbitmq.client.core.route_table import RouteTable
from orbitmq.client.core.user_frames import frames_of_error
from orbitmq.net.address import parse_addresses
from orbitmq.net.connection import Connection
from orbitmq.net.errors import Closed, NoNameServer
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.replies import read_reply
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.remoting.command import VERSION, Command
from orbitmq.protocol.requests.client import Heartbeat, UnregisterClient
from orbitmq.protocol.schema.declare import Reply, Request
from orbitmq.terminal import escaped

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT", bound=Reply)

IDLE_CHECK_MS = 10_000
NOBODY = "delivery"
"""Name in `errors` of the failure that no peer answers."""
HANDLER, CHECK, CALLBACK = "handler of ", "check of ", "rebalance callback"
"""Beginnings of the subjects of what functions of the application raised: the log line names the program's
frames, and the traceback is logged at the level DEBUG."""
ROUTE_PAUSE_SECONDS = 1.0
FIRST_ROUTE_PAUSE_SECONDS = 0.05
CALM_SECONDS = 5.0
"""Time without a doubt about a route after which look-ups are fast again."""
BEAT_AGAIN_SECONDS = 1.0
"""Pause before another heartbeat to a broker that did not get one: until then it gives no messages."""


def now_ms() -> int:
    """Wall-clock time, ms since 1970."""
    return time.time_ns() // 1_000_000


class ClientInstance:
    """One client as brokers see it. Made within a running event loop.

    Every request leaves through its pool, which signs it where there are keys. `ip` is the address in client
    and message ids, `on_requests` gets what brokers ask, `consumers` gives the consumer groups for
    heartbeats.
    """

    def __init__(
        self,
        options: ClientOptions,
        ip: str,
        *,
        producer_groups: list[str],
        consumers: Callable[[], list[ConsumerData]] | None = None,
        on_requests: Callable[[Connection, list[Command]], None] | None = None,
        on_route_change: Callable[[str], None] | None = None,
        on_error: Callable[[str, Exception], None] | None = None,
        on_recovered: Callable[[str], None] | None = None,
    ) -> None:
        addresses = parse_addresses(options.namesrv)
        self.options = options
        self.client_id = client_id(ip, options.instance_name)
        self.unique_ids = unique_ids(ip)
        self.started_ms = now_ms()
        self._loop = asyncio.get_running_loop()
        self._producer_groups = producer_groups
        self._consumers = consumers
        self._on_error = on_error or _log_only
        self._on_recovered = on_recovered or _ignore
        self._closed = False
        self._opened: set[str] = set()
        self._is_unanswered = False
        self._heard: dict[str, str] = {}
        """Subject -> the failure that was logged last."""
        self._about: dict[str, str] = {}
        """Subject -> the address of the broker that the failure is about, if it is about one."""
        self._on_route_change = on_route_change
        self._pool = ConnectionPool(
            on_requests,
            connect_timeout_ms=options.connect_timeout_ms,
            ssl=context_of(options.tls),
            credentials=options.credentials,
            on_lost=self._connection_lost,
            on_open=self._connection_opened,
        )
        # In random order, so that clients spread over them.
        shuffled = random.sample(addresses, len(addresses))
        self.names = NameServers(shuffled, self._pool, options.mq_client_api_timeout_ms)
        self.routes = RouteTable(self.names, self._route_changed)
        self.tasks = Tasks(
            lambda name, error, lasting: self.report(name, error, lasting=lasting),
            lambda name: self.recovered(name),
        )
        self._heartbeat_soon = asyncio.Event()
        self._heartbeat_sent_to: set[str] = set()  # brokers that know what this client is
        self._versions: dict[str, int] = {}
        self._refreshing: set[str] = set()
        self._refreshed: dict[str, tuple[float, float]] = {}
        """Topic -> the loop time at which its last such look-up ended, and the pause before a next one."""

    @property
    def is_closed(self) -> bool:
        """True if `close` was called."""
        return self._closed

    # Calls.

    def call(
        self, address: str, request: Request[ReplyT], timeout_ms: float | None = None
    ) -> Coroutine[Any, Any, ReplyT]:
        """One request and its reply, within the time that connecting takes as well.

        Raises BrokerRefused for an error answer; CallTimeout, ConnectFailed, ConnectionLost; Closed.
        """
        return self._pool.call(address, request, timeout_ms or self.options.mq_client_api_timeout_ms)

    async def send_oneway(self, address: str, request: Request[ReplyT]) -> None:
        """One request without an answer. Raises ConnectFailed, Closed."""
        await self._pool.send_oneway(address, request)

    # Life.

    def start(self) -> None:
        """Begins to look after routes and heartbeats."""
        options = self.options
        self.tasks.every(options.poll_name_server_interval_ms, self._refresh_routes, "route refresh")
        self.tasks.every(
            options.heartbeat_broker_interval_ms,
            self.beat_all,
            "heartbeats",
            first_ms=1000,
            wake=self._heartbeat_soon,
        )
        self.tasks.every(IDLE_CHECK_MS, self._close_idle, "idle connections")

    def send_heartbeat_soon(self) -> None:
        """Has a heartbeat sent at once: something about this client has changed."""
        self._heartbeat_sent_to.clear()
        self._heartbeat_soon.set()

    async def close(self) -> None:
        """Takes leave of the brokers, ends the background and every connection. Nothing connects again.

        Raises WrongEventLoop.
        """
        if self._closed:
            return
        self.check_loop()
        self._closed = True
        await self.tasks.close()
        await self.routes.close()
        consumers = self._consumers() if self._consumers else []
        leaving = [UnregisterClient(self.client_id, group, None) for group in self._producer_groups]
        leaving += [UnregisterClient(self.client_id, None, row.group_name) for row in consumers]
        connected = set(self._pool.addresses)
        brokers = [address for address in self.routes.addresses(slaves=True) if address in connected]
        await asyncio.gather(*(self._unregister(address, leaving) for address in brokers))
        await self._pool.close()

    async def _unregister(self, address: str, leaving: list[UnregisterClient]) -> None:
        try:
            async with asyncio.timeout(1):
                for request in leaving:
                    await self._pool.call(address, request, 1000)
        except (OrbitError, TimeoutError) as error:
            log.debug("%s did not accept that %s leaves: %s", address, self.client_id, error)

    def check_running(self) -> None:
        """Raises NotRunning once closed, WrongEventLoop."""
        if self._closed or asyncio._get_running_loop() is not self._loop:
            self.check_loop()
            if self._closed:
                raise NotRunning("it is closed")

    def check_loop(self) -> None:
        """Raises WrongEventLoop in another event loop than the one it was made in."""
        # None is a thread without a loop, which may look at a client but waits for nothing of it.
        if asyncio._get_running_loop() not in (self._loop, None):
            raise WrongEventLoop(
                "it was started in another event loop, to which its connections belong: make one in each "
                "event loop (asyncio.run begins a new one), or use orbitmq.sync"
            )

    # Failures in the background.

    def report(
        self,
        subject: str,
        error: Exception,
        *,
        lasting: bool = True,
        at: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """A failure that no caller sees: logged under the logger of its subject, and reported to `on_error`.

        A `lasting` one counts as what is wrong with this client, and is reported once, until its subject has
        recovered, or the broker it is about, the one `at` an address, is in no route any more. `details`
        are in the line, and attributes of the log record.
        """
        if self._closed or isinstance(error, Closed):
            return
        text = escaped(f"{type(error).__name__}: {error}")
        if isinstance(error, NoNameServer):
            self.unanswered(error)
        if lasting:
            self._on_error(subject, error)
            if self._heard.get(subject) == text:
                return
            self._heard[subject] = text
            if at is not None:
                self._about[subject] = at
        expected = isinstance(error, OrbitError | OSError | LookupError)
        suffix = "".join(f" {name}={value}" for name, value in (details or {}).items())
        logger = logger_of(subject)
        frames = frames_of_error(error) if subject.startswith((HANDLER, CHECK, CALLBACK)) else ""
        logger.warning(
            "%s:%s %s%s",
            subject,
            suffix,
            text,
            f", at {frames}" if frames else "",
            exc_info=None if expected or frames else error,
            extra={**(details or {}), "error": error},
        )
        if frames and logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s:%s traceback", subject, suffix, exc_info=error)
        if self.options.on_error is not None:
            try:
                self.options.on_error(error)
            except Exception:
                log.exception("on_error raised")

    def recovered(self, subject: str) -> None:
        """End a failure: what failed before works again."""
        if self._heard.pop(subject, None) is not None:
            logger_of(subject).info("%s: works again", subject)
        self._about.pop(subject, None)
        self._on_recovered(subject)
        if subject == "routes":
            self.answered()

    def forget(self, subject: str) -> None:
        """Drop a failure that is no business of this client's any more."""
        self._heard.pop(subject, None)
        self._about.pop(subject, None)
        self._on_recovered(subject)

    # Routes.

    async def _refresh_routes(self) -> None:
        try:
            await self.routes.refresh_all()
        except OrbitError as error:
            self.report("routes", error)
        else:
            self.recovered("routes")

    def refresh_route_soon(self, topic: str) -> None:
        """Has a topic looked up again in the background, until a name server answers.

        For when what is known of it seems not to hold. The first look-ups follow each other fast, for a new
        master may be there within a tenth of a second; those of a longer outage come once a second.
        """

        async def refresh() -> None:
            fresh = False
            loop_time = asyncio.get_running_loop().time
            ended, pause = self._refreshed.get(topic, (0.0, 0.0))
            if not pause or loop_time() - ended > CALM_SECONDS:
                pause = FIRST_ROUTE_PAUSE_SECONDS
            try:
                while not fresh:
                    try:
                        await self.routes.refresh(topic)
                    except OrbitError as error:
                        self.report("routes", error)
                    else:
                        # Of brokers that refuse it says nothing.
                        if "routes" in self._heard:
                            self.recovered("routes")
                        fresh = True
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, ROUTE_PAUSE_SECONDS)
                self._refreshed[topic] = (loop_time(), pause)
            finally:
                self._refreshing.discard(topic)

        if not self._closed and topic not in self._refreshing:
            self._refreshing.add(topic)
            self.tasks.start(refresh(), f"route of {topic}")

    def _route_changed(self, topic: str) -> None:
        if self._on_route_change is not None and not self._closed:
            self._on_route_change(topic)

    # Notices to the application.

    def _emit(self, kind: ClientEventKind, address: str = "", error: Exception | None = None) -> None:
        if self.options.on_event is not None and not self._closed:
            try:
                self.options.on_event(ClientEvent(kind, address, error))
            except Exception:
                log.exception("on_event raised")

    def unanswered(self, error: Exception) -> None:
        """No peer answers what has to be asked."""
        self._on_error(NOBODY, error)
        if not self._is_unanswered:
            self._is_unanswered = True
            self._emit(ClientEventKind.UNANSWERED, error=error)

    def answered(self) -> None:
        """Somebody answers."""
        if self._is_unanswered:
            self._is_unanswered = False
            self._on_recovered(NOBODY)
            self._emit(ClientEventKind.ANSWERED)

    def _connection_opened(self, address: str) -> None:
        known = address in self._opened
        self._opened.add(address)
        self._emit(ClientEventKind.RECONNECTED if known else ClientEventKind.CONNECTED, address)
        if f"heartbeat to {address}" in self._heard:
            self._heartbeat_soon.set()  # the next one in turn may be 30 s away

    def _connection_lost(self, address: str) -> None:
        self._emit(ClientEventKind.DISCONNECTED, address)
        self._heartbeat_sent_to.discard(address)
        # A broker that comes back has forgotten its clients: the next heartbeat should not be 30 s away.
        if not self._closed and self._consumers is not None:
            self._heartbeat_soon.set()

    async def _close_idle(self) -> None:
        self._pool.close_idle()

    # Heartbeats.

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            HeartbeatData(
                client_id=self.client_id,
                producer_data_set=[ProducerData(group) for group in self._producer_groups],
                consumer_data_set=self._consumers() if self._consumers else [],
            )
        )

    async def beat_all(self) -> None:
        """Tells every broker what this client is; slaves only if it consumes."""
        request = self._heartbeat()
        addresses = self.routes.addresses(slaves=bool(request.body.consumer_data_set))
        gone = set(self._about.values()).difference(addresses)
        for subject in [subject for subject, address in self._about.items() if address in gone]:
            self.forget(subject)
        await asyncio.gather(*(self._send_heartbeat(address, request) for address in addresses))

    async def introduce(self, addresses: Iterable[str]) -> None:
        """Sends a heartbeat to those of the brokers that have not got one."""
        request = self._heartbeat()
        strangers = [address for address in addresses if address not in self._heartbeat_sent_to]
        await asyncio.gather(*(self._send_heartbeat(address, request) for address in strangers))

    async def version_of(self, address: str) -> int:
        """Version that a broker speaks; ours, if it cannot be asked."""
        if address not in self._heartbeat_sent_to:
            await self.introduce([address])
        return self._versions.get(address, VERSION)

    async def send_heartbeat(self, address: str) -> None:
        """Sends a heartbeat to one broker."""
        await self._send_heartbeat(address, self._heartbeat())

    async def _send_heartbeat(self, address: str, request: Heartbeat) -> None:
        try:
            connection = await self._pool.connection(address)
            answer = await connection.submit(request, self.options.mq_client_api_timeout_ms)
            read_reply(request, answer, address)
        except OrbitError as error:
            self._heartbeat_sent_to.discard(address)
            self.report(f"heartbeat to {address}", error, at=address)
            if self._consumers is not None and not self._closed:
                asyncio.get_running_loop().call_later(BEAT_AGAIN_SECONDS, self._heartbeat_soon.set)
        else:
            self._heartbeat_sent_to.add(address)
            self._versions[address] = answer.version
            self.recovered(f"heartbeat to {address}")


def _log_only(subject: str, error: Exception) -> None:
    """`report` has logged it already."""


def _ignore(subject: str) -> None:
    """Ignores failures."""

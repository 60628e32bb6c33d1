"""A slave's connection to its master: opened again and again, and what comes on it goes into the log."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

from orbitmq.broker.ha.epoch_following import EpochFollowing, LogsDiverged
from orbitmq.broker.ha.following import Following
from orbitmq.broker.ha.replication import Replication
from orbitmq.broker.ha.sign_in import SlaveSignIn
from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.options import HA_DISTANCE
from orbitmq.broker.role.same_group import (
    require_overlap,
    require_same_group,
    require_same_guards,
    require_same_record,
)
from orbitmq.broker.role.state import RoleState
from orbitmq.net.address import parse_address
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import UnreadableSource
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.replication import BadStream
from orbitmq.protocol.replication_sign_in import NONCE_BYTES, OPENING
from orbitmq.protocol.requests.admin import GetBrokerConfig, GetBrokerRuntimeInfo
from orbitmq.protocol.requests.pull import ViewMessageById
from orbitmq.store import MessageStore
from orbitmq.store.errors import StoreUnavailable
from orbitmq.store.files import NO_SPACE
from orbitmq.store.replica.replica_log import ReplicaLog

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
REFUSED_SECONDS = 5.0
"""The pause after the master, or this slave, has refused to continue."""
ASK_SECONDS = 2.0
UNKNOWN_SECONDS = 5.0
"""Time for which no name server may know the master before the log says so: it may be starting."""
TICK_SECONDS = 0.2
CONNECT_TIMEOUT_SECONDS = 5.0
SIGN_IN_TIMEOUT_SECONDS = 5.0
COMPARE_TIMEOUT_MS = 5_000


@dataclass(eq=False, repr=False)
class HaClient:
    """Follows the master until it is stopped.

    `flush()` brings the log to the disk; `ask_for_master()` asks the name servers where the master is;
    `after_append(now)` ends a turn that has stored something. `verified()` is called with all that comes from
    a master that continues where this log ends, `on_heartbeat()` behind it where a heartbeat was among it. In
    controller mode `make_following` makes a connection that speaks of epochs, and `on_diverged(common_end)`
    gets where this log and the master's part. With `ssl` it connects by TLS, with `credentials` it signs in.
    """

    _settings: BrokerSettings
    _store: MessageStore
    _replication: Replication
    _role: RoleState
    _pool: ConnectionPool
    _: KW_ONLY
    now: Callable[[], int]
    flush: Callable[[], Awaitable[object]]
    ask_for_master: Callable[[], Awaitable[object]]
    after_append: Callable[[int], None]
    verified: Callable[[], None] = lambda: None
    on_heartbeat: Callable[[], None] = lambda: None
    make_following: Callable[[ReplicaLog, str, int], Following] = Following
    on_diverged: Callable[[int], None] = lambda common_end: None
    ssl: ssl.SSLContext | None = None
    credentials: Credentials | None = None

    def __post_init__(self) -> None:
        self._connection: _MasterConnection | None = None
        self._said = ""
        self._unchecked = ""
        """The last address of which the log says that its group could not be checked."""
        self._asked_at = -ASK_SECONDS
        self._unknown_since: float | None = None

    async def run(self) -> None:
        """Connects, follows, and connects again; ends with its task."""
        while True:
            pause = RETRY_SECONDS
            if not self._role.ha_address:
                await self._find_master_in_time()
            self._note_unknown()
            if self._role.ha_address:
                try:
                    await self._follow_once(self._role.ha_address)
                except (OSError, TimeoutError, NetError) as error:
                    if isinstance(error, OSError) and error.errno in NO_SPACE:
                        self._warn_once(f"what the master sends cannot be stored: {error}")
                    else:
                        self._warn_once(self._unreachable(error))
                        await self._find_master_in_time()
                except LogsDiverged as diverged:
                    self.on_diverged(diverged.common_end)
                    pause = REFUSED_SECONDS
                except OrbitError as error:
                    self._replication.refusal = str(error)
                    self._warn_once(f"does not follow {self._role.ha_address}: {error}")
                    # There may be room on the disk at any moment, and senders may wait for this slave.
                    pause = RETRY_SECONDS if isinstance(error, StoreUnavailable) else REFUSED_SECONDS
                except Exception:
                    log.exception("slave: following %s failed", self._role.ha_address)
                    pause = REFUSED_SECONDS
            await asyncio.sleep(pause)

    def _note_unknown(self) -> None:
        if self._role.ha_address:
            self._unknown_since = None
            return
        time = asyncio.get_running_loop().time()
        self._unknown_since = since = time if self._unknown_since is None else self._unknown_since
        if time - since >= UNKNOWN_SECONDS:
            self._warn_once(
                f"no name server knows a master of {self._settings.broker_name}: start it, make a slave "
                "of the group its master, or set haMasterAddress"
            )

    async def _find_master_in_time(self) -> None:
        """Asks the name servers where the master is now, but not at every try: it is a registration."""
        loop_time = asyncio.get_running_loop().time()
        if loop_time - self._asked_at >= ASK_SECONDS:
            self._asked_at = loop_time
            await self.ask_for_master()

    def _unreachable(self, error: Exception) -> str:
        hint = "" if self.ssl is None else " (by TLS, for haTlsEnable is set: is it there, too?)"
        address = self._role.ha_address
        return f"the master at {address} cannot be reached: {error or type(error).__name__}{hint}"

    def _warn_once(self, what: str) -> None:
        if what != self._said:
            log.warning("slave: %s", what)
        self._said = what

    async def _follow_once(self, address: str) -> None:
        """Follows the master until the connection ends. Raises OSError, NetError, BadStream, StoreError."""
        store, replication = self._store, self._replication
        is_checked = await self._check_group()
        # No record to compare yet, or no broker to ask: the log may be that of another group.
        is_unknown = not is_checked and (store.newest.physical_offset < 0 or not self._role.master_address)
        following = self.make_following(store.replica, address, self.now())
        if not isinstance(following, EpochFollowing) or not following.knows_epochs:
            await self._compare()
        # The first report is an acknowledgement, too.
        await self.flush()
        host, port = parse_address(address)
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: _MasterConnection(self, following, store, self._sign_in(address)),
                host,
                port,
                ssl=self.ssl,
            )
        try:
            if self.credentials is not None:
                await self._signed_in(connection, address)
            self._connection = connection
            replication.following = following
            if isinstance(following, EpochFollowing):
                connection.send(following.handshake)
            self.report()
            while not connection.closed.done():
                await asyncio.wait({connection.closed}, timeout=TICK_SECONDS)
                if following.received_bytes:
                    self._said, replication.refusal = "", ""
                if following.is_silent(self.now(), self._settings.ha_housekeeping_interval):
                    raise NetError(f"it has sent nothing for {self._settings.ha_housekeeping_interval} ms")
                self.report()
                if is_unknown and store.newest.physical_offset >= 0 and self._role.master_address:
                    is_unknown = False
                    await self._compare()
            error = connection.closed.result()
            if error is not None:
                raise error
            if not following.received_bytes and not connection.heard:
                raise NetError(
                    "it has closed the connection; its log says why, if this is a master's port for slaves "
                    "(haListenPort)"
                )
        finally:
            replication.following = None
            self._connection = None
            connection.abort()

    def _sign_in(self, address: str) -> SlaveSignIn | None:
        if self.credentials is None:
            return None
        return SlaveSignIn(address, self.credentials, secrets.token_bytes(NONCE_BYTES))

    async def _signed_in(self, connection: _MasterConnection, address: str) -> None:
        """Returns once both sides have proved who they are. Nothing is said to a master that does not ask.

        Raises BadStream, OSError.
        """
        either: set[asyncio.Future[Any]] = {connection.signed_in, connection.closed}
        await asyncio.wait(either, timeout=SIGN_IN_TIMEOUT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if connection.signed_in.done():
            return
        if not connection.closed.done():
            raise BadStream(
                f"the master {address} has not asked for credentials within {SIGN_IN_TIMEOUT_SECONDS:g} s: "
                "set haAuthenticationEnable=true there, or false here. Apache's brokers do not know it"
            )
        raise connection.closed.result() or ConnectionResetError("it has closed the connection at once")

    async def _check_group(self) -> bool:
        """False if no broker that can be asked names the port that is followed as its own.

        Raises BadStream where the master is of another cluster or group, has segments of another size, or its
        HA port is guarded otherwise.

        A master that may not be asked, for want of rights, is known by the bytes that it sends alone. One
        that only haMasterAddress names is asked at the port before that of its log, where brokers are unless
        they were given another haListenPort.
        """
        address = self._role.master_address
        is_guess = not address
        ha_host, ha_port = parse_address(self._role.ha_address)
        if is_guess:
            address = f"{ha_host}:{ha_port - HA_DISTANCE}"
        try:
            reply = await self._pool.call(address, GetBrokerConfig(), COMPARE_TIMEOUT_MS)
            said = parse_properties(bytes(reply.body or b""), address)
        except NetError:
            if is_guess:
                self._warn_unchecked()
                return False
            raise
        except (BrokerRefused, UnreadableSource) as error:
            if self.ssl is not None and not is_guess:
                # The first bytes of TLS are taken for an acknowledgement where TLS is not expected.
                raise BadStream(
                    f"the master {address} does not say whether its HA port takes TLS: {error}; set "
                    "innerClientAuthenticationCredentials to those of a super user of the master"
                ) from None
            if is_guess:
                self._warn_unchecked()
            return not is_guess
        is_named = said.get("haListenPort") == str(ha_port) or not self._settings.ha_master_address
        if not is_named:
            self._warn_unchecked()
            if is_guess:
                return False  # another broker
        require_same_guards(self._settings, address, said)
        require_same_group(self._settings, self._store.options.mapped_file_size_commit_log, address, said)
        return is_named

    def _warn_unchecked(self) -> None:
        """Warns, once for each address, of a port that no known broker names as its own."""
        address = self._role.ha_address
        if address != self._unchecked:
            log.warning(
                "slave: no known broker of the group %s says that %s is its port for slaves (haListenPort): "
                "it is followed, for haMasterAddress names it. Make sure that the master of this group is "
                "there",
                self._settings.broker_name, address,
            )  # fmt: skip
        self._unchecked = address

    async def _compare(self) -> None:
        """Raises BadStream where the master has another record in the place of this log's last one.

        The slave knows that both logs are one only where the master can be asked: else it shows by the ends.
        """
        address, at = self._role.master_address, self._store.newest.physical_offset
        if not address or at < 0:
            return
        mine = self._store.record_at(at)
        if mine is None:
            return
        # The master may wait for this very slave before it confirms what both have.
        request = ViewMessageById(offset=at, unconfirmed=True)
        try:
            theirs = bytes((await self._pool.call(address, request, COMPARE_TIMEOUT_MS)).body or b"")
        except BrokerRefused:
            theirs = b""
            info = (await self._pool.call(address, GetBrokerRuntimeInfo(), COMPARE_TIMEOUT_MS)).body
            begin = int((info.table or {}).get("commitLogMinOffset", 0))
            require_overlap(at + len(mine), begin, address)
        require_same_record(bytes(mine), theirs, at, address)

    def report(self) -> None:
        """Tells the master how far the log is safe here, if that is due."""
        connection, store = self._connection, self._store
        if connection is None:
            return
        end = store.replica.end
        if store.options.sync_flush:
            # A segment is full, and flushed, before all of what fills it has come.
            end = min(end, store.durable_offset)
        data = connection.following.report(end, self.now(), self._settings.ha_send_heartbeat_interval)
        if data is not None:
            connection.send(data)


class _MasterConnection(asyncio.Protocol):
    """The connection to the master. `closed` holds why it has ended, None for its end by the other side."""

    def __init__(
        self, client: HaClient, following: Following, store: MessageStore, sign_in: SlaveSignIn | None
    ) -> None:
        self._client = client
        self._sign_in = sign_in
        self._store = store
        self._transport: asyncio.Transport | None = None
        self.following = following
        self.heard = False
        self.signed_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has no such base

    def data_received(self, data: bytes) -> None:
        if self.closed.done():
            return
        now = self._client.now()
        try:
            data = self._handle_sign_in(data)
            if not data:
                return
            heartbeats = self.following.heartbeats
            self.following.heard(data, now)
            self.heard = True
            self._client.verified()
            if self.following.heartbeats > heartbeats:
                self._client.on_heartbeat()
        except (OrbitError, OSError) as error:
            self._ended(error)
            self.abort()
        self._client.report()
        self._client.after_append(now)

    def _handle_sign_in(self, data: bytes) -> bytes:
        """The bytes that belong to the log's stream. Raises BadStream."""
        if self._sign_in is None:
            if not self.heard and data.startswith(OPENING):
                raise BadStream(
                    "the master asks for credentials: set haAuthenticationEnable=true and "
                    "innerClientAuthenticationCredentials here"
                )
            return data
        answer, rest = self._sign_in.feed(data)
        if answer:
            self.send(answer)
        if rest is None:
            return b""
        self._sign_in = None
        self.signed_in.set_result(None)
        return rest

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended(None)

    def _ended(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(error)

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

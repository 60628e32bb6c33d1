"""One session with a ZooKeeper ensemble, for an event loop: kazoo's threads talk to it, the loop never waits.

kazoo connects to one member after another by itself and keeps its session meanwhile. After a session has
ended it begins a new one by itself, too: `has_ended` then stays true, for nothing that hung on the old one is
there any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState

from orbitmq.net.address import parse_address
from orbitmq.server.controller.consensus import (
    ConsensusError,
    NoMajority,
    StoreRefused,
    StoreUnreachable,
    StoreUntrusted,
)

CLOSE_SECONDS = 2
"""Longest wait for a session's orderly end; one that does not come ends by its timeout."""
ALERT_SECONDS = 0.3
"""Time for a member to say that it does not take our certificate, which it does after the handshake."""
Operation = Callable[[Any], None]
"""Adds itself to a transaction of kazoo's."""
_REFUSALS = (NoAuthError, AuthFailedError, InvalidACLError)
_CONSEQUENCES = (RolledBackError, RuntimeInconsistency)
"""Results of a transaction's operations that were not done because another one of them failed."""
_RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 1.0}

# kazoo logs each connection that it tries. The errors raised here say all that matters.
_log = logging.getLogger(f"{__name__}.kazoo")
_log.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """Files for TLS; without `cert_path` this side shows no certificate."""

    ca_path: str
    cert_path: str = ""
    key_path: str = ""

    def context(self) -> ssl.SSLContext:
        """Raises StoreUntrusted if a file cannot be read."""
        try:
            context = ssl.create_default_context(cafile=self.ca_path)
            if self.cert_path:
                context.load_cert_chain(self.cert_path, self.key_path)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(one for one in (self.ca_path, self.cert_path, self.key_path) if one)
            raise StoreUntrusted(f"{files}: {error.strerror or error}") from None
        return context


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The members that are tried, how long each answer is waited for, and TLS."""

    endpoints: Sequence[str]
    timeout_seconds: float
    tls: ZooKeeperTls | None = None

    def __str__(self) -> str:
        return f"ZooKeeper at {', '.join(self.endpoints)}"

    async def explain_silence(self) -> ConsensusError:
        """The reason for which no member answers a session, by a plain connection to each of them."""
        context = None if self.tls is None else self.tls.context()
        found = await asyncio.gather(*(self._probe(one, context) for one in self.endpoints))
        # The error of a member that answers says more than that of one that does not.
        if untrusted := [one for one in found if isinstance(one, StoreUntrusted)]:
            return untrusted[0]
        return next((one for one in found if isinstance(one, NoMajority)), found[0])

    async def _probe(self, endpoint: str, context: ssl.SSLContext | None) -> ConsensusError:
        host, port = parse_address(endpoint)
        writer = None
        try:
            async with asyncio.timeout(self.timeout_seconds):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
                if context is not None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(ALERT_SECONDS):
                            await reader.read(1)
        except ssl.SSLError as error:
            return StoreUntrusted(f"{self}: no TLS connection; check storeCaPath and storeCertPath: {error}")
        except TimeoutError:
            pass
        except OSError as error:
            return StoreUnreachable(f"{self} cannot be reached: {error.strerror or error}")
        finally:
            if writer is not None:
                writer.transport.abort()
        hint = "" if self.tls is not None else ", or it expects TLS (storeCaPath)"
        return NoMajority(f"{self} has no majority, or is too slow{hint}")


class ZooKeeperClient:
    """A session; `begin` of each call starts one of kazoo's `..._async` calls."""

    def __init__(self, ensemble: Ensemble, session_seconds: float) -> None:
        self._ensemble = ensemble
        self._loop = asyncio.get_running_loop()
        tls: dict[str, Any] = {}
        if ensemble.tls is not None:
            tls = {
                "use_ssl": True,
                "check_hostname": True,
                "ca": ensemble.tls.ca_path,
                "certfile": ensemble.tls.cert_path or None,
                "keyfile": ensemble.tls.key_path or None,
            }
        self._kazoo: Any = KazooClient(
            hosts=",".join(ensemble.endpoints),
            timeout=session_seconds,
            connection_retry=_RETRY,
            logger=_log,
            **tls,
        )
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._closing: threading.Thread | None = None
        self.has_ended = False
        """True once the session is over, by its timeout or in order."""
        self.timeout_ms = 0
        """Time without a sign of this side after which the ensemble ends the session."""
        self._keep_negotiated_timeout()
        self._kazoo.add_listener(self._on_state)

    def _keep_negotiated_timeout(self) -> None:
        """Keeps the session timeout that the ensemble has granted, which kazoo does not publish."""
        connection = self._kazoo._connection
        connect = connection._connect

        def connect_and_keep(*arguments: Any) -> Any:
            read_timeout_ms, connect_timeout_ms = connect(*arguments)
            self.timeout_ms = round(read_timeout_ms * 3 / 2)  # it reads for two thirds of the session's
            return read_timeout_ms, connect_timeout_ms

        connection._connect = connect_and_keep

    @classmethod
    async def connect(cls, ensemble: Ensemble, session_seconds: float) -> Self:
        """A session that has begun. Raises ConsensusError."""
        if ensemble.tls is not None:
            # The thread of kazoo would try again for ever, and leave a socket behind each time.
            error = await ensemble.explain_silence()
            if isinstance(error, StoreUntrusted):
                raise error
        client = cls(ensemble, session_seconds)
        client._kazoo.start_async()
        try:
            async with asyncio.timeout(ensemble.timeout_seconds):
                await client._connected
        except TimeoutError:
            client.close_soon()
            raise await ensemble.explain_silence() from None
        except BaseException:
            client.close_soon()
            raise
        return client

    def _on_state(self, state: KazooState) -> None:
        """Called in a thread of kazoo's."""
        if state == KazooState.LOST:
            self.has_ended = True
        elif state == KazooState.CONNECTED:
            self._on_loop(self._resolve_connected)

    def _resolve_connected(self) -> None:
        if not self._connected.done():
            self._connected.set_result(None)

    def _on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and no caller waits
            self._loop.call_soon_threadsafe(call, *arguments)

    @property
    def session_id(self) -> int:
        """The ensemble's number of the session."""
        return int(self._kazoo._session_id or 0)

    async def call(self, begin: Callable[[Any], Any]) -> Any:
        """The result of a call, which is made twice if the connection is lost meanwhile.

        Raises ConsensusError, and those of kazoo's errors that are answers about nodes.
        """
        for is_last in (False, True):
            try:
                return await self._call(begin)
            except _REFUSALS as error:
                raise self._refused(error) from None
            except (TimeoutError, ConnectionLoss) as error:
                if is_last or isinstance(error, TimeoutError):
                    raise await self._ensemble.explain_silence() from None
            except SessionExpiredError:
                raise NoMajority(f"{self._ensemble} has ended the session") from None
        raise AssertionError

    async def transact(self, operations: Sequence[Operation]) -> list[Any]:
        """The results of a transaction. Raises the error of the operation that failed."""

        def begin(kazoo: Any) -> Any:
            transaction = kazoo.transaction()
            for operation in operations:
                operation(transaction)
            return transaction.commit_async()

        results: list[Any] = await self.call(begin)
        for result in results:
            if isinstance(result, _REFUSALS):
                raise self._refused(result)
            if isinstance(result, KazooException) and not isinstance(result, _CONSEQUENCES):
                raise result
        return results

    def _refused(self, error: Exception) -> StoreRefused:
        return StoreRefused(f"{self._ensemble} does not allow it: {type(error).__name__}")

    async def _call(self, begin: Callable[[Any], Any]) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()

        def complete(result: Any) -> None:
            if future.done():
                return
            if (error := result.exception) is None:
                future.set_result(result.get_nowait())
            elif isinstance(error, KazooException):
                future.set_exception(error)
            else:
                future.set_exception(ConsensusError(f"{self._ensemble}: {type(error).__name__}: {error}"))

        begin(self._kazoo).rawlink(lambda result: self._on_loop(complete, result))
        async with asyncio.timeout(self._ensemble.timeout_seconds):
            return await future

    def close_soon(self) -> None:
        """Begins to end the session, in a thread: kazoo waits for the ensemble's word on it."""
        if self._closing is None:
            self.has_ended = True
            self._closing = threading.Thread(target=self._close, name="close session", daemon=True)
            self._closing.start()

    def _close(self) -> None:
        with contextlib.suppress(Exception):  # of any kind: then the session ends by its timeout
            self._kazoo.stop()
            self._kazoo.close()

    async def close(self) -> bool:
        """Ends the session; False if that has not come to its end in time."""
        self.close_soon()
        end = self._loop.time() + CLOSE_SECONDS
        while self._closing is not None and self._closing.is_alive():
            if self._loop.time() > end:
                return False
            await asyncio.sleep(0.01)
        return True

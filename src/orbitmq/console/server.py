"""The console as a server that starts and stops, in the event loop of whoever started it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette

from orbitmq.console.app import create_app
from orbitmq.console.connections import MOST_CONNECTIONS, REQUEST_SECONDS, BrowserConnection
from orbitmq.console.console import Console
from orbitmq.console.settings import ConsoleSettings
from orbitmq.net.accepting import stop_accepting
from orbitmq.net.address import format_address
from orbitmq.server.errors import CannotListen
from orbitmq.server.turn.listener import reason_of

CLOSING_SECONDS = 1


class ConsoleServer:
    """Listens from `start` to `stop`. Raises CannotListen, HistoryUnusable, OptionError."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self.console: Console | None = None
        """State that its requests share; None before the start."""
        self._server: HttpServer | None = None
        self._task: asyncio.Task[None] | None = None
        self._port = settings.port

    @property
    def address(self) -> str:
        """`host:port`."""
        return format_address(self._settings.listen, self._port)

    @property
    def url(self) -> str:
        """The address of the first page."""
        return f"{'https' if self._settings.tls_cert else 'http'}://{self.address}/"

    async def start(self) -> None:
        """Returns when it listens."""
        settings = self._settings
        listening = listen(settings.listen, settings.port)
        self._port = listening.getsockname()[1]
        console = Console(settings)
        try:
            await console.start()
        except BaseException:
            listening.close()
            raise
        self.console = console
        self._server = HttpServer(
            create_app(console),
            http=BrowserConnection,
            limit_concurrency=MOST_CONNECTIONS,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        try:
            self._task = await self._server.begin(listening, "console")
        except BaseException:
            await console.close()
            raise

    async def stop(self) -> None:
        """Ends open streams and all connections."""
        if self._server is not None and self._task is not None:
            # Event streams never end by themselves: uvicorn calls each that it cuts off an error.
            log = logging.getLogger("uvicorn.error")
            log.setLevel(logging.CRITICAL)
            self._server.should_exit = True
            try:
                await self._task
            finally:
                log.setLevel(logging.WARNING)
        if self.console is not None:
            await self.console.close()


class HttpServer(uvicorn.Server):
    """Says when it listens, and leaves signals to the process."""

    def __init__(self, app: Starlette, *, closing_seconds: int = CLOSING_SECONDS, **options: Any) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=closing_seconds,
            h11_max_incomplete_event_size=64 << 10,
            proxy_headers=False,
            **options,
        )
        super().__init__(config)
        self._listens = asyncio.Event()

    async def begin(self, listening: socket.socket, name: str) -> asyncio.Task[None]:
        """The task that serves, once it listens. Raises the reason if it does not."""
        task = asyncio.create_task(self.serve([listening]), name=name)
        listens = asyncio.create_task(self._listens.wait())
        await asyncio.wait({task, listens}, return_when=asyncio.FIRST_COMPLETED)
        if not self._listens.is_set():
            listens.cancel()
            await task
        return task

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # As uvicorn's own, and with a limit for TLS handshakes: their connections are in no table yet.
        loop, config = asyncio.get_running_loop(), self.config
        timeout = REQUEST_SECONDS if config.ssl else None
        self.servers = [
            await loop.create_server(
                self._connection,
                sock=one,
                ssl=config.ssl,
                ssl_handshake_timeout=timeout,
                backlog=config.backlog,
            )
            for one in sockets or ()
        ]
        self.started = True
        self._listens.set()

    def _connection(self) -> BrowserConnection:
        return BrowserConnection(self.config, self.server_state, self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            await stop_accepting(server)
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A socket for an HTTP server; port 0 is any free one. Raises CannotListen."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise CannotListen(format_address(host, port), reason_of(error)) from None

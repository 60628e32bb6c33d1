"""The console as a server that starts and stops, in the event loop of whoever started it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn

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
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        console = Console(settings)
        config = uvicorn.Config(
            create_app(console),
            http=BrowserConnection,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            ws="none",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=CLOSING_SECONDS,
            h11_max_incomplete_event_size=64 << 10,
            proxy_headers=False,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        try:
            await console.start()
        except BaseException:
            listening.close()
            raise
        self.console, self._server = console, HttpServer(config)
        self._task = asyncio.create_task(self._server.serve([listening]), name="console")
        listens = asyncio.create_task(self._server.listens.wait())
        await asyncio.wait({self._task, listens}, return_when=asyncio.FIRST_COMPLETED)
        if not self._server.listens.is_set():
            listens.cancel()
            await console.close()
            await self._task  # raises the reason

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

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

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
        self.listens.set()

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

"""The HTTP API as a server that starts and stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from orbitmq.delay_service.errors import ExtraMissing
from orbitmq.net.address import format_address

if TYPE_CHECKING:
    from orbitmq.delay_service.http.actions import Actions
    from orbitmq.delay_service.service import Service

MOST_CONNECTIONS = 200
CLOSING_SECONDS = 2


class ApiServer:
    """Listens from `start` to `stop`."""

    def __init__(self, delay: Service) -> None:
        from orbitmq.delay_service.http.actions import Actions

        self._delay = delay
        address = delay.settings.http_address
        assert address is not None
        self._host, self._port = address
        self.actions: Actions = Actions(delay.writer, delay.settings.delay_topic, delay.settings.known)
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """`host:port`."""
        return format_address(self._host, self._port)

    async def start(self) -> None:
        """Returns when it listens. Raises CannotListen, ExtraMissing."""
        try:
            from orbitmq.console.server import HttpServer, listen
            from orbitmq.delay_service.http.app import create_app
        except ModuleNotFoundError as error:
            raise ExtraMissing((error.name or "").partition(".")[0], "delay") from None
        listening = listen(self._host, self._port)
        self._port = listening.getsockname()[1]
        app = create_app(self._delay, self.actions)
        self._server = HttpServer(app, closing_seconds=CLOSING_SECONDS, limit_concurrency=MOST_CONNECTIONS)
        self._task = await self._server.begin(listening, "delay API")

    async def stop(self) -> None:
        if self._task is not None:
            self._server.should_exit = True
            await self._task

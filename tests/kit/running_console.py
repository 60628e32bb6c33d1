"""A console in this process, on a free port, and a client that asks as its pages do."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Self

import httpx

from orbitmq.access import Access
from orbitmq.console.security.single_sign_on import Provider
from orbitmq.console.server import ConsoleServer
from orbitmq.console.settings import ConsoleSettings

PATIENCE_SECONDS = 60


class RunningConsole:
    """`url` is its address; `client()` has the CSRF token of a first look at the session."""

    def __init__(
        self,
        data_dir: Path,
        sample_seconds: float = 0.2,
        access: Access | None = None,
        provider: Provider | None = None,
        history_file: Path | None = None,
        **clusters: str,
    ) -> None:
        self._settings = ConsoleSettings(
            clusters,
            data_dir,
            port=0,
            sample_seconds=sample_seconds,
            access=access or Access(),
            provider=provider,
            history_file=history_file,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server = ConsoleServer(self._settings)
        self._clients: list[httpx.Client] = []

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return self._server.url.rstrip("/")

    @property
    def console(self) -> Any:
        """State that its requests share."""
        return self._server.console

    def _await(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    def client(self) -> httpx.Client:
        """One browser: cookies, and the token of changes where nobody has to log in."""
        client = httpx.Client(base_url=self.url, timeout=PATIENCE_SECONDS)
        self._clients.append(client)
        token = client.get("/api/session").json()["csrfToken"]
        if token:
            client.headers["X-CSRF-Token"] = token
        return client

    def __enter__(self) -> Self:
        self._thread.start()
        self._await(self._server.start())
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self._await(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

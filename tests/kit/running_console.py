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
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES

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
        max_inflated_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
        masked_fields: tuple[str, ...] = (),
        delay_services: dict[str, str] | None = None,
        delay_token: str | None = None,
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
            max_inflated_body_bytes=max_inflated_body_bytes,
            masked_fields=masked_fields,
            delay_services=delay_services or {},
            delay_token=delay_token,
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
        """One browser: cookies, and the token of changes where nobody has to log in, or the console's own
        credentials are those of the login.
        """
        client = httpx.Client(base_url=self.url, timeout=PATIENCE_SECONDS)
        self._clients.append(client)
        token = client.get("/api/session").json()["csrfToken"]
        own = self._settings.access.credentials
        if own is not None and self.console.takes_credentials:
            login = {"user": own.access_key, "password": own.secret_key}
            token = client.post("/api/login", json=login).json()["csrfToken"]
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

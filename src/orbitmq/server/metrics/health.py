"""Probes of a server's life and readiness, over HTTP.

`/health/live` answers as soon as the process runs and its loop turns; `/health/ready` with 200 only while the
server does its work, with 503 and the reason otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus

from orbitmq.server.metrics.http import JSON, HttpRequest, HttpResponse, HttpServer

STARTING = "starting"
STOPPING = "stopping"


class Health:
    """The two pages about health. `why_not` says what keeps the server from being ready, or nothing."""

    def __init__(self) -> None:
        self.why_not: Callable[[], str] = lambda: STARTING
        self.http = HttpServer({"/health/live": self._live, "/health/ready": self._ready})

    async def listen(self, host: str, port: int) -> None:
        """Listens on an address; with port 0 nowhere. Raises CannotListen."""
        if port:
            await self.http.listen(host, port)

    def stopping(self) -> None:
        """From now on the server is not ready any more."""
        self.why_not = lambda: STOPPING

    async def close(self) -> None:
        await self.http.close()

    async def _live(self, request: HttpRequest) -> HttpResponse:
        return _status(HTTPStatus.OK, {"status": "live"})

    async def _ready(self, request: HttpRequest) -> HttpResponse:
        reason = self.why_not()
        if reason:
            return _status(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "reason": reason})
        return _status(HTTPStatus.OK, {"status": "ready"})


def _status(status: HTTPStatus, fields: dict[str, str]) -> HttpResponse:
    return HttpResponse(status, json.dumps(fields).encode() + b"\n", JSON)

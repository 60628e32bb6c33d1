"""Headers of every answer, and the check of the host in every request."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class BrowserGuard:
    """ASGI middleware. On the loopback other names for this machine are refused: a page elsewhere could have
    its own name point here (DNS rebinding), and read what it must not.
    """

    def __init__(self, app: ASGIApp, *, loopback: bool, tls: bool) -> None:
        self._app = app
        self._loopback = loopback
        self._headers = dict(HEADERS)
        if tls:
            self._headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if self._loopback and not is_loopback_host(host):
            refused = PlainTextResponse("this console answers as localhost or 127.0.0.1 only\n", 421)
            await refused(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)


def is_loopback_host(host: str) -> bool:
    """True if a Host header names this machine's loopback, with any port."""
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, port = port, ""
    return name.lower() in LOOPBACK_NAMES and (not port or port.isdigit())

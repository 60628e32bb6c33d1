"""A small HTTP/1.1 server for metrics and health: GET and HEAD, no bodies, a few connections.

Everything that can grow has a limit, for the address may be open to more than the network of the monitoring.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from orbitmq.net.accepting import stop_accepting
from orbitmq.net.address import format_address
from orbitmq.server.errors import CannotListen
from orbitmq.server.turn.listener import hosts_of, reason_of

log = logging.getLogger(__name__)

MAX_HEAD_BYTES = 16 << 10
"""Request line and headers together."""
MAX_CONNECTIONS = 64
"""One more is closed as soon as it is accepted."""
IDLE_SECONDS = 60.0
"""A connection without a request, or one that takes its answer no faster, is closed after so long."""
PIECE_BYTES = 256 << 10
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(slots=True, frozen=True)
class HttpRequest:
    """A request for a page. Names of headers are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(slots=True, frozen=True)
class HttpResponse:
    """The answer to it."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


Page = Callable[[HttpRequest], Awaitable[HttpResponse]]


class BadRequest(Exception):
    """The bytes that came are no request that is served here."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class HttpServer:
    """Serves `pages` by their path."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = dict(pages)
        self._servers: list[asyncio.Server] = []
        self._talking: set[asyncio.Task[None]] = set()

    @property
    def ports(self) -> list[int]:
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def listen(self, host: str, port: int) -> None:
        """Begins to serve on an address. Raises CannotListen."""
        try:
            server = await asyncio.start_server(self._talk, hosts_of(host), port, limit=MAX_HEAD_BYTES)
        except OSError as error:
            raise CannotListen(format_address(host, port), reason_of(error)) from None
        self._servers.append(server)

    async def close(self) -> None:
        """Ends everything at once."""
        for server in self._servers:
            await stop_accepting(server)
        self._servers.clear()
        talking = list(self._talking)
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talking.add(task)
        try:
            if len(self._talking) <= MAX_CONNECTIONS:
                while await self._exchange(reader, writer):
                    pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # whoever asked is gone, or too slow
        except asyncio.CancelledError:
            pass  # the server stops; no code awaits this task's end
        finally:
            self._talking.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer. True if another one may follow."""
        stays = False
        method = "GET"
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                head = await _read_head(reader)
            request = parse_head(head)
            method = request.method
            stays = request.headers.get("connection", "").lower() != "close"
            response = await self._answer(request)
        except BadRequest as error:
            response = HttpResponse(error.status, f"{error}\n".encode())
            stays = False
        writer.write(_head(response, stays=stays))
        body = memoryview(b"" if method == "HEAD" else response.body)
        for start in range(0, len(body), PIECE_BYTES):
            # In pieces: to hand over megabytes at once would keep the loop for as long as they are copied.
            writer.write(body[start : start + PIECE_BYTES])
            async with asyncio.timeout(IDLE_SECONDS):
                await writer.drain()
            await asyncio.sleep(0)
        return stays

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        page = self.pages.get(request.path)
        if page is None:
            known = ", ".join(self.pages)
            return HttpResponse(HTTPStatus.NOT_FOUND, f"there is nothing here but {known}\n".encode())
        try:
            return await page(request)
        except Exception:
            log.exception("%s failed", request.path)
            return HttpResponse(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed; the log says how\n")


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequest(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {MAX_HEAD_BYTES} bytes of headers"
        ) from None


def parse_head(head: bytes) -> HttpRequest:
    """The request of a head that ends with its empty line. Raises BadRequest."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "no request of HTTP/1.1")
    method, target, version = words
    if method not in ("GET", "HEAD"):
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a header without a name")
        headers[name.lower()] = value.strip()
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "a request with a body is not served")
    if version == "HTTP/1.0" and headers.get("connection", "").lower() != "keep-alive":
        headers["connection"] = "close"
    return HttpRequest(method, target.partition("?")[0], headers)


def _head(response: HttpResponse, *, stays: bool) -> bytes:
    status = response.status
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'keep-alive' if stays else 'close'}",
        *(f"{name}: {value}" for name, value in response.headers.items()),
    ]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
import pytest_asyncio

from orbitmq.server.errors import CannotListen
from orbitmq.server.metrics import http
from orbitmq.server.metrics.http import BadRequest, HttpRequest, HttpResponse, HttpServer, parse_head


async def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(body=request.headers.get("x", "none").encode())


async def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("on purpose")


@pytest_asyncio.fixture
async def server() -> AsyncIterator[HttpServer]:
    server = HttpServer({"/page": page, "/broken": broken})
    await server.listen("127.0.0.1", 0)
    yield server
    await server.close()


async def talk(server: HttpServer, *requests: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
    for request in requests:
        writer.write(request)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_pages_by_path_several_on_a_connection(server: HttpServer) -> None:
    answer = await talk(
        server,
        b"GET /page?a=b HTTP/1.1\r\nX: 1\r\n\r\n",
        b"GET /page HTTP/1.1\r\nx: 2\r\nConnection: close\r\n\r\n",
    )
    first, second = answer.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert first.endswith(b"\r\n\r\n1")
    assert b"Connection: keep-alive" in first
    assert second.endswith(b"\r\n\r\n2")
    assert b"Connection: close" in second
    assert b"Content-Length: 1\r\n" in first


async def test_head_is_the_same_without_the_body(server: HttpServer) -> None:
    answer = await talk(server, b"HEAD /page HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert b"Content-Length: 4\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /elsewhere HTTP/1.1\r\n\r\n", 404),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
        (b"POST /page HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", 405),
        (b"GET /page HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", 400),
        (b"GET /page HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /page\r\n\r\n", 400),
        (b"GET /page HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nA: " + b"x" * http.MAX_HEAD_BYTES + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_no_request_for_a_page_is_told_so(
    server: HttpServer, request_: bytes, status: int
) -> None:
    answer = await talk(server, request_)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"on purpose" not in answer


async def test_one_connection_too_many_is_closed(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
    writer.write(b"GET /page HTTP/1.1\r\n\r\n")
    await reader.readuntil(b"none")
    assert await talk(server) == b""
    writer.close()
    await writer.wait_closed()


async def test_who_is_too_slow_is_disconnected(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
    writer.write(b"GET /pa")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_a_taken_port_is_named(server: HttpServer) -> None:
    second = HttpServer({})
    with pytest.raises(CannotListen, match=str(server.ports[0])):
        await second.listen("127.0.0.1", server.ports[0])


def test_http_1_0_closes_unless_it_says_otherwise() -> None:
    assert parse_head(b"GET / HTTP/1.0\r\n\r\n").headers["connection"] == "close"
    assert (
        parse_head(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").headers["connection"] == "keep-alive"
    )
    with pytest.raises(BadRequest) as error:
        parse_head(b"PUT / HTTP/1.1\r\n\r\n")
    assert error.value.status is HTTPStatus.METHOD_NOT_ALLOWED

import asyncio
import http.server
import json
import threading

import pytest

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.delivery import Outgoing, Result
from orbitmq.delay_service.rules.targets import Known
from orbitmq.delay_service.store.keys import pending_key
from orbitmq.delay_service.store.records import Content, Pending
from orbitmq.delay_service.targets import webhook
from orbitmq.delay_service.targets.webhook import MOST_TRIES, WebhookTarget, problem_of

KNOWN = Known({"main": False}, frozenset(), "dead", ("https://hooks.example/a/",))


@pytest.fixture
def server():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.seen.append((self.path, body, dict(self.headers)))
            status, answer = self.server.answers.pop(0) if self.server.answers else (200, b"")
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def outgoing(n, body=b"\x00\xff"):
    pending = Pending(f"n{n}\r\nx: 1", 1, 1000 + n, Content(body, {"colour": "blau \u00fc"}))
    return Outgoing(pending_key(1, 1000 + n, 1, n), pending)


def url(server, path="/hook?x=1"):
    return f"http://127.0.0.1:{server.server_port}{path}"


async def test_a_message_is_a_post(server):
    assert [one.result for one in await WebhookTarget().deliver(url(server), [outgoing(1)])] == [Result.SENT]
    ((path, body, headers),) = server.seen
    assert (path, body) == ("/hook?x=1", b"\x00\xff")
    assert headers["delay-id"] == "n1\\r\\nx: 1"
    assert headers["delay-due"] == "1001"
    assert json.loads(headers["delay-properties"]) == {"colour": "blau \u00fc"}


async def test_after_a_failure_the_rest_waits_and_the_last_try_makes_a_dead_letter(server):
    target = WebhookTarget()
    server.answers = [(500, b"")] * MOST_TRIES
    batch = [outgoing(1), outgoing(2)]
    for _ in range(MOST_TRIES - 1):
        found = [one.result for one in await target.deliver(url(server), batch)]
        assert found == [Result.FAILED, Result.NOT_SENT]
    found = await target.deliver(url(server), batch)
    assert [one.result for one in found] == [Result.REFUSED, Result.SENT]
    assert "status 500" in found[0].reason


async def test_nobody_answers():
    (found,) = await WebhookTarget().deliver("http://127.0.0.1:9/", [outgoing(1)])
    assert found.result is Result.FAILED


@pytest.mark.parametrize(
    ("status", "data", "done"),
    [(200, b"", True), (200, b"ok", True), (200, b'{"errno":0}', True), (200, b'{"errno":1000000}', True),
     (200, b'{"errno":1000001}', True), (200, b'{"errno":1000002}', False), (200, b'{"errno":"x"}', False),
     (204, b"", False), (301, b"", False), (500, b'{"errno":0}', False), (200, b"[" * 50_000, True)],
)  # fmt: skip
def test_answers(status, data, done):
    assert (problem_of(status, data) == "") is done


def test_only_addresses_that_are_allowed_are_targets():
    assert KNOWN.target("t", "main", "https://hooks.example/a/b?c").topic == "https://hooks.example/a/b?c"
    for text in ("https://hooks.example/b", "http://hooks.example/a/b", "https://hooks.example.evil/a/",
                 "https://hooks.example/a/../b",
                 "https://hooks.example/a/\u00fc", "https://hooks.example/a/x y",
                 "https://hooks.example/a/" + "x" * 2000, "https://u@hooks.example/a/"):  # fmt: skip
        with pytest.raises(NotSchedulable):
            KNOWN.target("t", "main", text)


async def test_an_answer_that_does_not_end_is_no_answer(monkeypatch):
    """Each piece came in time, so that the target's lane and a thread waited for as long as it pleased."""
    monkeypatch.setattr(webhook, "TIMEOUT_SECONDS", 0.3)
    stop, ended = asyncio.Event(), asyncio.Event()

    async def drip(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not stop.is_set():
            writer.write(b": still there\n")
            await asyncio.sleep(0.05)
        writer.transport.abort()
        ended.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        (fate,) = await WebhookTarget().deliver(f"http://127.0.0.1:{port}/", [outgoing(1)])
        assert fate.result is Result.FAILED
        stop.set()
        await ended.wait()

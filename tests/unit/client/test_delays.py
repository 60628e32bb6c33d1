"""The clients of the delay service: one does the work of both."""

import asyncio
import inspect
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from click.testing import CliRunner

from orbitmq import AsyncDelayClient, DelayClient
from orbitmq.cli.delay import delay
from orbitmq.client.delays import DelayRefused, DelayUnavailable

PAGES = [{"messages": [f"m{n}" for n in range(3)], "cursor": "more"}, {"messages": ["m3"], "cursor": ""}]


class Answers(BaseHTTPRequestHandler):
    asked: ClassVar[list] = []

    def _answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.asked.append((self.command, self.path, json.loads(self.rfile.read(length) or b"null")))
        if self.path.startswith("/v1/messages?"):
            page = PAGES["cursor=more" in self.path]
            one = {"cluster": "main", "target": "main/t", "due": 1, "occurrence": 1, "size": 0}
            found = {**page, "messages": [{**one, "id": name} for name in page["messages"]]}
        elif self.path.startswith("/v1/calendar"):
            found = {"targets": {"main/t": [[3_600_000, 2]]}}
        elif self.path == "/health/ready":
            self.send_response(503)
            found = {"sources": {"main/orbitmq_delay": {"read": False, "problem": "away"}}}
        else:
            found = {"dry_run": True, "count": 4, "id": "n", "cluster": "main", "outcome": "scheduled"}
        if self.path != "/health/ready":
            self.send_response(200)
        data = json.dumps(found).encode()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815 - names of http.server

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    Answers.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_both_have_the_same_methods():
    public = {name for name in vars(AsyncDelayClient) if not name.startswith("_")} - {"close"}
    assert {name for name in vars(DelayClient) if not name.startswith("_")} == public
    assert (
        inspect.signature(DelayClient).parameters.keys()
        == inspect.signature(AsyncDelayClient).parameters.keys()
    )


def test_both_ask_for_the_same(url):
    def plain(client):
        client.send_after("t", b"x", "1s", id="n")
        client.cancel_many({"prefix": "order-"})
        client.move_many({"topic": "t"}, after="2h", dry_run=False)
        assert client.calendar("t") == {"main/t": [(3_600_000, 2)]}
        return [one.id for one in client.list(topic="t")]

    async def with_a_loop():
        async with AsyncDelayClient(url) as client:
            await client.send_after("t", b"x", "1s", id="n")
            await client.cancel_many({"prefix": "order-"})
            await client.move_many({"topic": "t"}, after="2h", dry_run=False)
            await client.calendar("t")
            return [one.id async for one in client.list(topic="t")]

    before = threading.enumerate()
    with DelayClient(url) as client:
        assert plain(client) == ["m0", "m1", "m2", "m3"]
        begun = [one.name for one in threading.enumerate() if one not in before]
    assert not [name for name in begun if "process_request" not in name]  # no event loop of its own
    blocking, Answers.asked = Answers.asked, []
    assert asyncio.run(with_a_loop()) == ["m0", "m1", "m2", "m3"]
    assert Answers.asked == blocking
    assert blocking[2] == ("POST", "/v1/move", {"filter": {"topic": "t"}, "dry_run": False, "after": "2h"})


def test_errors_say_what_was_wrong(url):
    with pytest.raises(DelayUnavailable, match="not ready: main/orbitmq_delay: away"):
        DelayClient(url).ready()
    with pytest.raises(DelayUnavailable):
        DelayClient("http://127.0.0.1:1", timeout_seconds=1).stats()
    with pytest.raises(DelayRefused, match="no address"):
        DelayClient("ftp://x")


def test_commands_pass_all_of_a_filter_on(url):
    for command, more in (("cancel", ()), ("move", ("--after", "1h"))):
        given = [command, "--prefix", "a", "--cluster", "events", "--owner", "ann", *more, "--http", url]
        assert CliRunner().invoke(delay, given).exit_code == 0
        assert CliRunner().invoke(delay, [command, "--topic", "t", *more, "--http", url]).exit_code == 0
    bodies = [body for _, _, body in Answers.asked]
    assert [body["filter"] for body in bodies[::2]] == [{"prefix": "a", "cluster": "events"}] * 2
    assert [body["owner"] for body in bodies[::2]] == ["ann"] * 2
    assert [body["filter"] for body in bodies[1::2]] == [{"topic": "t"}] * 2

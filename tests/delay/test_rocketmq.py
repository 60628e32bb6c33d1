"""The delay service beside a real broker."""

from __future__ import annotations

import http.server
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from orbitmq import sync
from orbitmq.client import Message
from orbitmq.client.delays import DelayClient, DelayRefused, DelayUnavailable
from orbitmq.delay_service.targets import missing
from orbitmq.testing import LocalBroker
from tests.kit.running_delay import RunningDelay, until


@pytest.fixture(scope="module")
def broker():
    with LocalBroker(autoCreateTopicEnable="false") as broker:
        for topic in ("orders", "replies", "single"):
            broker.create_topic(topic, queues=1)
        yield broker


@pytest.fixture(scope="module")
def delay(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("delay")
    with RunningDelay(folder, f"main=rocketmq://{broker.namesrv}") as delay:
        yield delay


class Reader:
    """Everything that comes to a topic from now on."""

    def __init__(self, broker, topic):
        self.consumer = sync.PullConsumer("reader", broker.namesrv)
        self.consumer.start()
        (self.queue,) = self.consumer.queues(topic)
        self.offset = self.consumer.max_offset(self.queue)
        self.messages = []

    def read(self):
        found = self.consumer.pull(self.queue, self.offset)
        self.offset = found.next_offset
        self.messages += found
        return self.messages

    def wait(self, number):
        until(lambda: len(self.read()) >= number)
        return self.messages

    def close(self):
        self.consumer.close()


@pytest.fixture
def reader(broker):
    readers = []

    def new(topic):
        readers.append(Reader(broker, topic))
        return readers[-1]

    yield new
    for one in readers:
        one.close()


def now_ms():
    return int(time.time() * 1000)


def test_a_message_of_any_client_comes_at_its_time(broker, delay, reader):
    orders, replies = reader("orders"), reader("replies")
    due = now_ms() + 1500
    control = {"delay.topic": "orders", "delay.at": str(due), "delay.id": "any", "delay.reply": "replies"}
    with sync.Producer("p", broker.namesrv) as producer:
        given = {**control, "x": "1"}
        producer.send(Message("orbitmq_delay", b"\x00\xff", tags="red", keys=["a", "b"], properties=given))
    (reply,) = replies.wait(1)
    assert (reply.properties["delay.outcome"], reply.properties["delay.id"]) == ("scheduled", "any")
    (message,) = orders.wait(1)
    assert message.store_timestamp_ms >= due
    assert (message.body, message.tags, message.keys) == (b"\x00\xff", "red", ["a", "b"])
    own = {
        name: value for name, value in message.properties.items() if name.startswith("delay.") or name == "x"
    }
    assert own == {"x": "1", "delay.id": "any", "delay.due": str(due), "delay.occurrence": "1"}


def test_the_client_schedules_moves_and_cancels(delay, reader):
    orders = reader("orders")
    client = delay.client
    assert client.send_after("orders", b"never", "1h", id="c1").outcome == "scheduled"
    assert client.send_at("orders", "moved", datetime.now(UTC) + timedelta(hours=1), id="c2").in_time
    assert client.send_after("orders", b"again", timedelta(hours=2), id="c2").outcome == "replaced"
    found = client.get("c2")
    assert (found.body, found.target) == (b"again", "main/orders")
    assert [one.id for one in client.list(prefix="c")] == ["c1", "c2"]
    assert client.cancel("c1").outcome == "cancelled"
    assert client.move("c2", after="500ms").outcome == "moved"
    (message,) = orders.wait(1)
    assert message.body == b"again"
    assert client.cancel("c2").outcome == "too-late"
    assert client.cancel("nobody").outcome == "unknown"
    assert client.get("c1") is None
    assert client.send_after("orbitmq_delay", b"x", "1s").outcome == "refused"


def test_many_are_counted_before_they_are_cancelled(delay):
    client = delay.client
    for n in range(3):
        client.send_after("single", b"x", "3h", id=f"many/{n} ü")
    assert client.cancel_many({"prefix": "many/"})["count"] == 3
    assert client.move_many({"prefix": "many/"}, after="4h", dry_run=False)["outcomes"] == {"moved": 3}
    assert client.cancel_many({"prefix": "many/"}, dry_run=False)["outcomes"] == {"cancelled": 3}
    assert list(client.list(topic="single")) == []


def test_a_list_has_a_cursor(delay):
    client = delay.client
    for n in range(5):
        client.send_after("single", b"x", f"{n + 1}h", id=f"page-{n}")
    found, cursor = [], ""
    while True:
        query = {"limit": 2, "cursor": cursor, "topic": "single"}
        page = httpx.get(f"{delay.url}/v1/messages", params=query).json()
        found += [one["id"] for one in page["messages"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert found == [f"page-{n}" for n in range(5)]
    client.cancel_many({"prefix": "page-"}, dry_run=False)


def test_a_topic_that_does_not_exist_makes_a_dead_letter(broker, delay, reader, monkeypatch):
    monkeypatch.setattr(missing, "MISSING_SECONDS", 0.3)
    broker.create_topic("orbitmq_delay_dead", queues=1)
    dead = reader("orbitmq_delay_dead")
    delay.client.send_after("nowhere", b"body", "0", id="lost", properties={"x": "1"})
    (letter,) = dead.wait(1)
    assert (letter.body, letter.properties["x"], letter.properties["delay.id"]) == (b"body", "1", "lost")
    assert "nowhere" in letter.properties["delay.reason"]


def test_requests_that_are_wrong(delay):
    url = delay.url
    post = {"Content-Type": "application/json"}
    assert httpx.post(f"{url}/v1/messages", content=b"[", headers=post).status_code == 400
    assert httpx.post(f"{url}/v1/messages", content=b"[]", headers=post).status_code == 400
    for wrong in ({"id": "\x00"}, {"tags": "\x02"}, {"zone": "x" * 40_000}):
        given = {"target": "orders", "after": "1h", **wrong}
        assert httpx.post(f"{url}/v1/messages", json=given).status_code == 422
    half = b'{"target": "orders", "after": "1h", "id": "\\ud800."}'
    assert httpx.post(f"{url}/v1/messages", content=half, headers=post).status_code == 400
    assert httpx.post(f"{url}/v1/messages", content=b"{}").status_code == 415
    assert httpx.post(f"{url}/v1/messages", json={"target": "orders", "at": True}).status_code == 422
    control = {"target": "orders", "at": 5, "properties": {"delay.at": "1"}}
    assert httpx.post(f"{url}/v1/messages", json=control).status_code == 422
    assert httpx.get(f"{url}/v1/messages?cursor=abc").status_code == 422
    assert httpx.get(f"{url}/v1/messages?limit=100000").status_code == 422
    assert httpx.get(f"{url}/v1/messages?colour=red").status_code == 422
    assert httpx.post(f"{url}/v1/cancel", json={"filter": {}}).status_code == 422
    assert httpx.get(f"{url}/v1/stats", headers={"Host": "evil.example"}).status_code == 403
    big = httpx.post(f"{url}/v1/messages", content=b"x" * (7 << 20), headers=post)
    assert big.status_code == 413


def test_metrics_and_description(delay):
    from prometheus_client.parser import text_string_to_metric_families

    delay.client.send_after("single", b"x", "5h", id="metric")
    text = httpx.get(f"{delay.url}/metrics").text
    found = {one.name: one for one in text_string_to_metric_families(text)}
    pending = found["orbitmq_delay_pending"].samples
    assert any(one.labels == {"target": "main/single", "within": "6h"} and one.value == 1 for one in pending)
    assert httpx.get(f"{delay.url}/v1/calendar").json()["targets"]["main/single"][0][1] == 1
    description = httpx.get(f"{delay.url}/openapi.json").json()
    assert description["openapi"] == "3.1.0"
    assert "/v1/messages" in description["paths"]
    delay.client.cancel("metric")


def test_a_token_is_asked_for_and_names_the_owner(broker, tmp_path):
    (tmp_path / "token").write_text("s3cret\nann a-token\n\nbob b-token\n")
    cluster = f"main=rocketmq://{broker.namesrv}"
    options = {"delayTopic": "guarded", "delayTokenFile": str(tmp_path / "token")}
    (tmp_path / "d").mkdir(mode=0o755)
    with RunningDelay(tmp_path / "d", cluster, **options) as delay:
        assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700, "its messages are not for others"
        with pytest.raises(DelayRefused, match="Bearer"):
            delay.client.stats()
        assert DelayClient(delay.url, token="s3cret").stats()["pending"] == 0
        assert httpx.get(f"{delay.url}/health/ready").status_code == 200
        ann, bob = (DelayClient(delay.url, token=f"{name}-token") for name in "ab")
        assert ann.send_after("orders", b"x", "5h", id="of-ann").outcome == "scheduled"
        assert bob.send_after("orders", b"y", "5h", id="of-ann").outcome == "refused"
        assert bob.cancel("of-ann").outcome == "refused"
        for action in (bob.cancel_many, bob.move_many):
            more = {"after": "1h"} if action == bob.move_many else {}
            assert action({"prefix": "of-"}, dry_run=False, **more)["outcomes"] == {"refused": 1}
        with pytest.raises(DelayRefused, match="of the owner 'bob'"):
            bob.move("of-ann", after="1h", owner="ann")
        with pytest.raises(DelayRefused, match="operators"):
            bob.backup()
        operator = DelayClient(delay.url, token="s3cret")
        assert operator.move("of-ann", after="1h", owner="ann").outcome == "moved"
        assert ann.cancel("of-ann").outcome == "cancelled"


def test_names_of_an_owner_are_reached_through_its_topic_alone(broker, tmp_path, reader):
    (tmp_path / "token").write_text("s3cret\nann a-token\n")
    replies = reader("replies")
    options = {
        "delayTopic": "shared",
        "delayOwners": "ann=main/of_ann",
        "delayTokenFile": str(tmp_path / "token"),
        "delayQueues": "1",
    }
    cancel = {"delay.action": "cancel", "delay.id": "n", "delay.owner": "ann", "delay.reply": "replies"}
    with RunningDelay(tmp_path / "d", f"main=rocketmq://{broker.namesrv}", **options) as delay:
        ann, operator = (DelayClient(delay.url, token=token) for token in ("a-token", "s3cret"))
        assert ann.send_after("orders", b"x", "5h", id="n").outcome == "scheduled"
        assert operator.cancel("unknown", owner="ann").outcome == "unknown"
        with sync.Producer("p", broker.namesrv) as producer:
            assert producer.queues("of_ann")[0].broker_name
            producer.send(Message("shared", b"c", properties=cancel))
            (reply,) = replies.wait(1)
            assert reply.properties["delay.outcome"] == "refused"
            producer.send(Message("of_ann", b"c", properties=cancel))
            assert replies.wait(2)[1].properties["delay.outcome"] == "cancelled"
        assert ann.send_after("orders", b"x", "5h", id="n").outcome == "scheduled"
        # The API itself may write to that topic, and does so for nobody else.
        assert operator.cancel("n").outcome == "refused"
        assert operator.move("n", after="1h", owner="bob").outcome == "refused"
        assert operator.cancel("n", owner="ann").outcome == "cancelled"


def test_a_service_goes_on_where_it_was(broker, tmp_path, reader):
    orders = reader("orders")
    cluster = f"main=rocketmq://{broker.namesrv}"
    with RunningDelay(tmp_path, cluster, delayTopic="again") as delay:
        delay.client.send_after("orders", b"far", "10h", id="far")
        delay.client.send_after("orders", b"soon", "1s", id="soon")
    with sync.Producer("p", broker.namesrv) as producer:
        control = {"delay.topic": "orders", "delay.after": "1ms"}
        producer.send(Message("again", b"while down", properties=control))
    time.sleep(1)  # until `soon` is due
    with RunningDelay(tmp_path, cluster, delayTopic="again") as delay:
        orders.wait(2)
        assert sorted(one.body for one in orders.messages) == [b"soon", b"while down"]
        assert delay.client.cancel("far").outcome == "cancelled"
        backup = delay.client.backup()
        assert json.loads(Path(backup["folder"], "backup.json").read_text())["time"] == backup["time"]


def test_a_web_address_is_a_target(broker, tmp_path):
    came = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.rfile.read(int(self.headers["Content-Length"])) == b"hook"
            self.send_response(200)
            self.end_headers()
            came.set()

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        allowed = f"http://127.0.0.1:{server.server_port}/"
        options = {"delayTopic": "hooked", "delayWebhooks": allowed}
        with RunningDelay(tmp_path, f"main=rocketmq://{broker.namesrv}", **options) as delay:
            assert delay.client.send_after(f"{allowed}x", b"hook", "0").outcome == "scheduled"
            assert delay.client.send_after("http://127.0.0.1:9/", b"x", "0").outcome == "refused"
            assert came.wait(120)
        server.shutdown()


def test_a_client_says_that_nobody_answers():
    with pytest.raises(DelayUnavailable):
        DelayClient("http://127.0.0.1:9").stats()
    with pytest.raises(DelayRefused):
        DelayClient("ftp://x")

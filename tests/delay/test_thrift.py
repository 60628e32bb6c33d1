"""DDMQ's SDKs at the thrift port: thriftpy2's client over a socket, and Apache's library for Java."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from thriftpy2.protocol.compact import TCompactProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport.framed import TCyFramedTransportFactory

from orbitmq import sync
from orbitmq.delay_service.thrift import calls, server
from orbitmq.delay_service.thrift.codec import SERVICE, interface
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.kit.class_archives import QUICK_START
from tests.kit.running_delay import RunningDelay, until
from tests.needs import java
from tests.peers.machine import jars

JAVA = Path(__file__).parent / "java"
UUID = "c1a2b3d4-0000-11f0-8000-0123456789ab"


@pytest.fixture(scope="module")
def broker():
    with LocalBroker(autoCreateTopicEnable="false") as broker:
        for topic in ("orders", "waiting", "plain", "both"):
            broker.create_topic(topic, queues=2)
        yield broker


@pytest.fixture(scope="module")
def port():
    return free_ports()


@pytest.fixture(scope="module")
def delay(broker, port, tmp_path_factory):
    options = {"delayThrift": f"127.0.0.1:{port}", "delayThriftTopics": "orders;waiting;orbitmq_delay"}
    folder = tmp_path_factory.mktemp("delay")
    with RunningDelay(folder, f"main=rocketmq://{broker.namesrv}", **options) as delay:
        yield delay


@contextlib.contextmanager
def connected(port):
    protocol, transport = TCompactProtocolFactory(), TCyFramedTransportFactory()
    client = make_client(SERVICE, "127.0.0.1", port, None, protocol, transport, timeout=60_000)
    yield client
    client.close()


@pytest.fixture
def sdk(delay, port):
    with connected(port) as client:
        yield client


def read_all(broker, topic, number):
    """The messages of a topic, once there are so many."""
    with sync.PullConsumer("reader", broker.namesrv) as consumer:
        queues = consumer.queues(topic)
        until(lambda: sum(consumer.max_offset(one) for one in queues) >= number)
        return [message for one in queues for message in consumer.pull(one, 0)]


def in_seconds(seconds: int, topic: str = "orders", **more):
    fields = {"action": 1, "dmsgtype": 2, "body": b"x", "tags": "", "uuid": UUID, **more}
    return interface.DelayMessage(topic=topic, timestamp=int(time.time()) + seconds, **fields)


def test_a_delayed_message_comes_as_ddmqs_consumers_know_it(broker, sdk):
    own = {"p": "1", "carrera_headers": '{"h":"1"}', "isPressureTraffic": "true"}
    message = in_seconds(1, body=b"\x00\xff", tags="a||b", properties=own)
    answer = sdk.sendDelaySync(message, 0)
    assert (answer.code, answer.msg) == (0, "OK")
    second = message.timestamp
    assert answer.uniqDelayMsgId == f"{second}-2-{second + 172_800}-0-0-0-0-{UUID}"
    (came,) = read_all(broker, "orders", 1)
    assert (came.body, came.tags, came.keys) == (b"\x00\xff", "a||b", [answer.uniqDelayMsgId])
    assert came.store_timestamp_ms >= second * 1000
    assert own.items() <= came.properties.items()
    assert came.properties["from_chronos"] == "from_chronos"
    assert (came.properties["delay.id"], came.properties["delay.occurrence"]) == (UUID, "1")
    assert "delay.ddmq" not in came.properties


def test_a_message_is_listed_and_cancelled_by_the_id_of_its_answer(delay, sdk):
    uuid = UUID.replace("c1", "c2", 1)
    loop = {"dmsgtype": 3, "times": 3, "interval": 600, "expire": int(time.time()) + 7200}
    id = sdk.sendDelaySync(in_seconds(3600, "waiting", uuid=uuid, **loop), 0).uniqDelayMsgId
    until(lambda: delay.client.get(uuid) is not None)
    assert delay.client.get(uuid).target == "main/waiting"
    cancel = interface.DelayMessage(topic="waiting", uniqDelayMsgId=id, body=b"c", action=2)
    answer = sdk.sendDelaySync(cancel, 0)
    assert (answer.code, answer.uniqDelayMsgId) == (0, id)
    until(lambda: delay.client.get(uuid) is None)


@pytest.mark.parametrize(
    ("topic", "fields", "code"),
    [
        ("orders", {"body": b""}, 11),
        ("nowhere", {}, 13),
        ("elsewhere/orders", {}, 13),
        ("orbitmq_delay", {}, 11),
        ("plain", {}, 18),
        ("orders", {"action": 2, "uniqDelayMsgId": "1"}, 30),
        ("orders", {"action": 2, "uniqDelayMsgId": f"1800000060-7-1800172860-0-0-0-0-{UUID}"}, 31),
        ("orders", {"action": 2, "uniqDelayMsgId": f"1800000060-2-1800172860-0-0-0-1-{UUID}"}, 34),
        ("orders", {"seconds": 63 * 86_400}, 33),
        ("orders", {"dmsgtype": None}, 31),
        ("orders", {"times": 1}, 35),
        ("orders", {"dmsgtype": 3, "times": 1}, 36),
        ("orders", {"dmsgtype": 3, "times": 1, "expire": 9_000_000_000, "interval": 2}, 37),
        ("orders", {"dmsgtype": 4, "times": 1, "expire": 9_000_000_000}, 38),
        ("orders", {"action": 3}, 32),
        ("orders", {"properties": {f"p{n}": "v" * 900 for n in range(40)}}, 11),
    ],
)
def test_each_check_has_its_code(sdk, topic, fields, code):
    given = dict(fields)
    answer = sdk.sendDelaySync(in_seconds(given.pop("seconds", 60), topic, **given), 0)
    assert answer.code == code, answer.msg
    assert answer.msg
    assert answer.uniqDelayMsgId == fields.get("uniqDelayMsgId", "")


def test_messages_are_sent_at_once(broker, sdk):
    def message(body, **more):
        return interface.Message(**{"topic": "plain", "body": body, "key": "k", "tags": "t", **more})

    assert sdk.sendSync(message(b"0", partitionId=1), 0).code == 0
    assert sdk.sendAsync(message(None, value="1", hashId=3, properties={"p": "v"})).code == 0
    assert sdk.sendBatchSync([message(b"2", partitionId=-2), message(b"3", hashId=-1)]).code == 0
    came = sorted(read_all(broker, "plain", 4), key=lambda one: one.body)
    assert [one.body for one in came] == [b"0", b"1", b"2", b"3"]
    assert [came[place].queue.queue_id for place in (0, 1, 3)] == [1, 1, 1]
    assert (came[1].tags, came[1].keys, came[1].properties["p"]) == ("t", ["k"], "v")
    assert sdk.sendSync(message(b"x", topic="orders"), 0).code == 19
    assert sdk.sendSync(message(b"x", topic="nowhere"), 0).code == 13
    assert sdk.sendSync(message(b"x", partitionId=2), 0).code == 11
    assert sdk.sendBatchSync([message(b"x"), message(b"")]).code == 11
    assert sdk.sendBatchSync([]).code == 11
    assert sdk.sendSync(interface.Message(topic="carrera_heartbeat", value="x"), 0).code == 0
    assert len(read_all(broker, "plain", 4)) == 4


def test_large_bodies_come_whole_and_those_beyond_the_limit_are_refused(broker, sdk):
    broker.create_topic("large", queues=1)
    body = bytes(range(256)) * 400
    number = server.LARGE_PER_PEER + 1
    for _ in range(number):  # the place of a large frame is free again after its answer
        assert sdk.sendSync(interface.Message(topic="large", body=body), 0).code == 0
    assert sdk.sendSync(interface.Message(topic="large", body=bytes(calls.MAX_BODY + 1)), 0).code == 11
    assert [one.body for one in read_all(broker, "large", number)] == [body] * number


def test_a_peer_that_stops_within_a_frame_loses_its_connection(delay, port, monkeypatch):
    monkeypatch.setattr(server, "FRAME_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", port), 60) as peer:
        peer.sendall(b"\x00\x00\x01\x00\x82")
        assert peer.recv(1) == b""
    until(lambda: delay.server.thrift.counts.refused["too slow"] == 1)


def test_what_is_no_call_ends_the_connection_or_is_answered(delay, port, sdk):
    with socket.create_connection(("127.0.0.1", port), 60) as peer:
        peer.sendall((server.MAX_FRAME + 1).to_bytes(4, "big"))
        assert peer.recv(1) == b""
    with socket.create_connection(("127.0.0.1", port), 60) as peer:
        peer.sendall(b"\x00\x00\x00\x02\x80\x01")
        assert peer.recv(1) == b""
    with pytest.raises(TApplicationException, match="are announced"):
        sdk.sendBatchSync(Wrong())
    # The connection goes on.
    assert sdk.sendSync(interface.Message(topic="carrera_heartbeat", value="x"), 0).code == 0
    text = httpx.get(f"{delay.url}/metrics").text
    assert 'orbitmq_delay_thrift_ended_total{reason="malformed"}' in text
    assert 'orbitmq_delay_thrift_results_total{method="sendSync",code="0"}' in text


class Wrong(list):
    """Is written with more elements than it has."""

    def __len__(self):
        return 1_000_000


def test_a_call_is_answered_within_the_time_of_its_sender(delay, sdk, monkeypatch):
    async def nobody_answers(cluster, topic):
        await asyncio.Event().wait()

    monkeypatch.setattr(delay.server.writer, "queues", nobody_answers)
    assert sdk.sendDelaySync(in_seconds(60), 30).code == 12
    monkeypatch.undo()
    assert sdk.sendSync(interface.Message(topic="carrera_heartbeat", value="x"), 0).code == 0


def test_connections_of_a_peer_are_limited(delay, port, monkeypatch):
    monkeypatch.setattr(server, "MOST_PER_PEER", 3)
    counts = delay.server.thrift.counts
    until(lambda: counts.connections == 0)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(3)]
        until(lambda: counts.connections == 3)
        with socket.create_connection(("127.0.0.1", port), 60) as one_more, contextlib.suppress(OSError):
            assert one_more.recv(1) == b""
        peers[0].close()
        until(lambda: counts.connections == 2)
        with connected(port) as client:
            assert client.sendSync(interface.Message(topic="carrera_heartbeat", value="x"), 0).code == 0


@pytest.mark.needs("java", "mvn")
def test_apaches_library_for_java_speaks_with_it(broker, delay, port):
    lib = jars(JAVA / "thrift.xml", "libthrift-0.9.3")
    command = [java(), *QUICK_START, "-cp", f"{lib}/*", str(JAVA / "Thrift.java"), str(port)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    added, refused, cancelled, sent = (line.split(" ", 1) for line in out.stdout.splitlines())
    assert added[0] == "0"
    assert added[1].endswith("-0-0-0-0-d1a2b3d4-0000-11f0-8000-0123456789ab")
    assert refused[0] == "33"
    assert cancelled == ["0", added[1]]
    assert sent[0] == "0"
    (came,) = read_all(broker, "both", 1)
    assert (came.body, came.tags) == (b"\x00\x80\xff", "java")

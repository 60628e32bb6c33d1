"""The delay service between RocketMQ and Apache's Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from pathlib import Path

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from orbitmq import sync
from orbitmq.delay_service.kafka import start, stop
from orbitmq.delay_service.options import parse_cluster
from orbitmq.protocol.errors import OrbitError
from orbitmq.testing import LocalBroker
from orbitmq.testing.local_etcd import LocalEtcd
from tests.certificates import Authority
from tests.kit.class_archives import QUICK_START
from tests.kit.running_delay import RunningDelay, until
from tests.needs import java
from tests.peers.kafka import Kafka
from tests.peers.machine import jars

JAVA = Path(__file__).parent / "java"

pytestmark = pytest.mark.needs("java", "mvn")


async def make_topics(address: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    deadline = time.monotonic() + 60
    while True:
        try:
            await admin.start()
            break
        except aiokafka.errors.KafkaError:
            await admin.close()
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
    own = {"message.timestamp.type": "CreateTime"}
    await admin.create_topics(
        [
            NewTopic("orders", 1, 1),
            NewTopic("orbitmq_delay_dead", 1, 1),
            NewTopic("old", 1, 1, topic_configs=own),
        ]
    )
    await admin.close()


async def exchange(
    address: str, sent: list[tuple[str, bytes | None, bytes | None, list]], expected: set[bytes]
) -> dict[bytes, aiokafka.ConsumerRecord]:
    """Sends records, and reads `orders` and the dead letters from their start until all expected came."""
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address)
    found: dict[bytes, aiokafka.ConsumerRecord] = {}
    try:
        await start(consumer)
        await start(producer)
        consumer.assign([aiokafka.TopicPartition(topic, 0) for topic in ("orders", "orbitmq_delay_dead")])
        for topic, value, key, headers in sent:
            await producer.send_and_wait(topic, value, key, headers=headers)
        async with asyncio.timeout(120):
            while not expected <= found.keys():
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found.update((record.value, record) for record in records)
    finally:
        await stop(producer)
        await stop(consumer)
    return found


@pytest.mark.needs("openssl")
def test_both_ways_over_tls_and_what_has_no_form(tmp_path):
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    server = authority.issue("server")
    tls = {"tls.server.certPath": server.cert, "tls.server.keyPath": server.key}
    secret = tmp_path / "secret"
    secret.write_text("of the service\n")
    with (
        LocalBroker(own_process=True, autoCreateTopicEnable="false", **tls) as broker,
        Kafka(tmp_path / "kafka", server, {"ann": "of the service"}) as kafka,
    ):
        asyncio.run(make_topics(kafka.address))
        broker.create_topic("orders", queues=1)
        nobody = parse_cluster(f"main=rocketmq://{broker.namesrv}?tls_ca={other.cert}")
        with (
            sync.Producer("p", nobody.addresses, **nobody.access.options) as producer,
            pytest.raises(OrbitError, match="certificate"),
        ):
            producer.queues("orders")
        clusters = (
            f"main=rocketmq://{broker.namesrv}?tls_ca={authority.cert};"
            f"events=kafka://{kafka.guarded_address}?sasl=PLAIN&user=ann&secret_file={secret}&tls_ca={authority.cert}"
        )
        options = {"delaySources": "events/old"}
        with (
            RunningDelay(tmp_path / "delay", clusters, **options) as delay,
            sync.PullConsumer("reader", broker.namesrv) as reader,
        ):
            delay.client.send_after("events/orders", b"\x00\xff", "300ms", key="k 1", properties={"x": "Ä"})
            soon = ("delay.after", b"300ms")
            sent = [
                (
                    "orbitmq_delay",
                    b"kafka",
                    b"\xffkey",
                    [("delay.topic", b"orders"), soon, ("h", b"\xff"), ("h", b"")],
                ),
                (
                    "orbitmq_delay",
                    b"to rocketmq",
                    b"k2",
                    [("delay.topic", b"main/orders"), soon, ("y", b"1")],
                ),
                (
                    "orbitmq_delay",
                    b"twice",
                    None,
                    [("delay.topic", b"main/orders"), soon, ("h", b"1"), ("h", b"2")],
                ),
                ("old", b"sender's time", None, [("delay.topic", b"orders"), soon]),
            ]
            expected = {b"\x00\xff", b"kafka", b"twice", b"sender's time"}
            found = asyncio.run(exchange(kafka.address, sent, expected))
            assert set(found) == expected
            from_rocketmq, own = found[b"\x00\xff"], found[b"kafka"]
            assert (from_rocketmq.key, dict(from_rocketmq.headers)["x"]) == (b"k 1", "Ä".encode())
            assert own.key == b"\xffkey"
            assert [header for header in own.headers if header[0] == "h"] == [("h", b"\xff"), ("h", b"")]
            assert own.timestamp >= int(dict(own.headers)["delay.due"])
            reasons = [dict(found[body].headers)["delay.reason"] for body in (b"twice", b"sender's time")]
            assert b"given twice" in reasons[0]
            assert b"LogAppendTime" in reasons[1]
            (queue,) = reader.queues("orders")
            (message,) = reader.pull(queue, 0, wait_ms=30_000)
            assert (message.body, message.keys, message.properties["y"]) == (b"to rocketmq", ["k2"], "1")
            javas_client_sends_and_reads(kafka)
            kafka.kill()
            # A target that is down holds up nobody else.
            delay.client.send_after("events/orders", b"late", "0")
            delay.client.send_after("orders", b"in time", "0")
            (message,) = reader.pull(queue, 1, wait_ms=30_000)
            assert message.body == b"in time"
            kafka.start()
            # The source goes on as well.
            sent = [("orbitmq_delay", b"after", None, [("delay.topic", b"orders"), soon])]
            found = asyncio.run(exchange(kafka.address, sent, {b"late", b"after"}))
            assert dict(found[b"late"].headers)["delay.occurrence"] == b"1"


def javas_client_sends_and_reads(kafka: Kafka) -> None:
    lib = jars(*Kafka.path)
    command = [java(), *QUICK_START, "-cp", f"{lib}/*", str(JAVA / "KafkaDelays.java"), kafka.address]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr[-3000:]
    first, *rest = [line.split() for line in ran.stdout.splitlines()]
    headers = {name: bytes.fromhex(value) for name, value in rest}
    assert [bytes.fromhex(one) for one in first[:2]] == [b"key", b"\x00\xc8\xffj"]
    assert int(first[2]) >= int(headers.pop("delay.due"))
    assert headers == {"own": b"\xff", "delay.id": b"java", "delay.occurrence": b"1"}


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.needs("etcd")
def test_several_instances_over_kafka(tmp_path):
    with (
        Kafka(tmp_path / "kafka") as kafka,
        LocalEtcd(tmp_path / "etcd") as etcd,
        LocalBroker() as broker,
        contextlib.ExitStack() as followers,
    ):
        asyncio.run(make_topics(kafka.address))
        clusters = f"main=rocketmq://{broker.namesrv};events=kafka://{kafka.address}"
        options = {"storeAddress": etcd.address, "delayQueues": "1"}
        with RunningDelay(tmp_path / "a", clusters, **options) as first:
            until(lambda: first.client.stats()["role"] == "holder")
            second = followers.enter_context(RunningDelay(tmp_path / "b", clusters, **options))
            soon = [("delay.topic", b"orders"), ("delay.after", b"1s"), ("delay.id", b"soon")]
            late = [("delay.topic", b"orders"), ("delay.after", b"5s"), ("delay.id", b"late")]
            sent = [("orbitmq_delay", body, None, headers) for body, headers in ((b"1", soon), (b"2", late))]
            assert list(asyncio.run(exchange(kafka.address, sent, {b"1"}))) == [b"1"]
            gone = second.client.send_after("events/orders", b"x", "5s", id="gone", cluster="events")
            assert gone.outcome == "scheduled"
            assert first.client.cancel("gone", cluster="events").outcome == "cancelled"
        until(lambda: second.client.stats()["role"] == "holder")
        until(lambda: second.client.stats()["pending"] == 0)
        found = asyncio.run(exchange(kafka.address, [], {b"1", b"2"}))
    assert list(found) == [b"1", b"2"]

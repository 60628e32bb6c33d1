"""Other ways through the delay service: Kafka, DDMQ's thrift port, several instances. Each with one topic.

    python -m benchmarks.delay_ways                    all of them, 50,000 messages each
    python -m benchmarks.delay_ways kafka thrift instances --messages 20000

Kafka is Apache's, by the tests' way to it. Clients, brokers and service share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.delay import (
    BODY,
    DAY_MS,
    LATENESS,
    SOURCE,
    Figures,
    Service,
    count,
    lateness_of_orders,
    now_ms,
    orders,
    percentile,
    rate,
    table,
    wait,
)
from orbitmq import sync
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from orbitmq.testing.local_etcd import LocalEtcd

TOPICS = (SOURCE, "orbitmq_delay_dead", "bench", "late")
CONNECTIONS = 16


def delivered(service: Service) -> int:
    """Number of messages delivered since its start."""
    return int((service.stats() or {"delivered": 0})["delivered"])


@contextmanager
def broker_and_folder() -> Iterator[tuple[LocalBroker, Path]]:
    """A broker with all topics, and a folder."""
    with TemporaryDirectory(prefix="orbitmq-bench-") as folder, LocalBroker(own_process=True) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, queues=1 if topic == "late" else 4)
        yield broker, Path(folder)


@contextmanager
def started(service: Service) -> Iterator[Service]:
    """A service that runs."""
    with service:
        service.start()
        yield service
        service.end()


async def send_to_kafka(address: str, number: int, due: Callable[[int], int], target: str) -> None:
    """Makes the topics if there are none, and sends orders."""
    import aiokafka
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    there = await admin.list_topics()
    clock = {"message.timestamp.type": "LogAppendTime"}
    await admin.create_topics(
        [NewTopic(topic, 4, 1, topic_configs=clock) for topic in TOPICS if topic not in there]
    )
    await admin.close()
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=address, linger_ms=20) as producer:
        for n in range(number):
            headers = [("delay.topic", target.encode()), ("delay.at", b"%d" % due(n))]
            await producer.send(SOURCE, BODY, headers=[*headers, ("delay.id", b"m%d" % n)])
        await producer.flush()


async def lateness_in_kafka(address: str, number: int) -> list[int]:
    """Lateness of the messages of the topic `late`, by Kafka's clock."""
    import aiokafka

    found: list[int] = []
    async with aiokafka.AIOKafkaConsumer(
        "late", bootstrap_servers=address, auto_offset_reset="earliest"
    ) as consumer:
        while len(found) < number:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for one in records:
                    found.append(one.timestamp - int(dict(one.headers)["delay.due"]))
    return found


def kafka(number: int, per_second: int) -> dict[str, Any]:
    """Kafka as the source and as the target."""
    from tests.peers.kafka import Kafka

    found = Figures()
    with TemporaryDirectory(prefix="orbitmq-bench-") as folder, Kafka(Path(folder) / "kafka") as cluster:
        address = cluster.address
        asyncio.run(send_to_kafka(address, number, lambda _: now_ms() + DAY_MS, "bench"))
        service = Service(Path(folder) / "delay", f"kafka://{address}")
        with started(service):
            found["intake_per_second"] = round(rate(lambda: count(service, "scheduled"), number))
            found["processor_us_per_order"] = round(service.processor_seconds * 1e6 / number)
            begin, late = now_ms() + 15_000, per_second * 10
            asyncio.run(send_to_kafka(address, late, lambda n: begin + n * 1000 // per_second, "late"))
            found["sent_ahead_ms"] = begin - now_ms()
            values = asyncio.run(lateness_in_kafka(address, late))
            found["early"] = sum(one < 0 for one in values)
            found["lateness_p50_ms"] = percentile(values, 0.5)
            found["lateness_p99_ms"] = percentile(values, 0.99)
            found["memory_mb"] = service.memory_mb
        asyncio.run(send_to_kafka(address, number, lambda _: now_ms() - 1000, "bench"))
        with started(service):
            found["taken_in_and_delivered_per_second"] = round(rate(lambda: delivered(service), number))
    return found


def thrift(number: int, per_second: int) -> dict[str, Any]:
    """DDMQ's `sendDelaySync`, over several connections with one call at a time each."""
    from thriftpy2.protocol.compact import TCompactProtocolFactory
    from thriftpy2.rpc import make_client
    from thriftpy2.transport.framed import TCyFramedTransportFactory

    from orbitmq.delay_service.thrift.codec import SERVICE, interface

    found = Figures(connections=CONNECTIONS)
    port = free_ports()
    with broker_and_folder() as (broker, folder):
        service = Service(folder, f"rocketmq://{broker.namesrv}", "--thrift", f"127.0.0.1:{port}")
        with started(service):
            before = service.processor_seconds

            def send(connection: int) -> list[float]:
                protocol, transport = TCompactProtocolFactory(), TCyFramedTransportFactory()
                client = make_client(SERVICE, "127.0.0.1", port, None, protocol, transport, timeout=60_000)
                took = []
                for n in range(connection, number, CONNECTIONS):
                    uuid = f"{n:08x}-0000-11f0-8000-0123456789ab"
                    message = interface.DelayMessage(
                        topic="bench", body=BODY, tags="", action=1, dmsgtype=2, uuid=uuid,
                        timestamp=int(time.time()) + 86_400,
                    )  # fmt: skip
                    began = time.monotonic()
                    answer = client.sendDelaySync(message, 0)
                    took.append(time.monotonic() - began)
                    assert answer.code == 0, answer
                client.close()
                return took

            began = time.monotonic()
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                took = [int(one * 1e6) for part in pool.map(send, range(CONNECTIONS)) for one in part]
            found["answered_per_second"] = round(number / (time.monotonic() - began))
            wait(lambda: count(service, "scheduled") >= number, 600)
            found["processor_us_per_call"] = round((service.processor_seconds - before) * 1e6 / number)
            found["answer_p50_ms"] = round(percentile(took, 0.5) / 1000)
            found["answer_p99_ms"] = round(percentile(took, 0.99) / 1000)
    return found


def instances(number: int, per_second: int) -> dict[str, Any]:
    """Two instances with etcd: the one that holds the lease, and one that reads along."""
    found = Figures()
    with (
        broker_and_folder() as (broker, folder),
        sync.Producer("bench", broker.namesrv) as producer,
        LocalEtcd(folder / "etcd") as etcd,
    ):
        both = [
            Service(folder / name, f"rocketmq://{broker.namesrv}", "--consensus", etcd.address)
            for name in ("one", "two")
        ]
        producer.send_all(orders(number, topic="bench", at=now_ms() + DAY_MS, id="m{n}"))
        with started(both[0]), started(both[1]):
            first, second = both
            # The first one has begun while the second one started.
            found["intake_per_second"] = round(rate(lambda: count(second, "scheduled"), number))
            wait(lambda: count(first, "scheduled") >= number, 600)
            found.add(lateness_of_orders(broker, producer, per_second))
        with started(both[0]), started(both[1]):
            producer.send_all(orders(number, topic="bench", at=now_ms() - 1000))
            found["taken_in_and_delivered_per_second"] = round(
                rate(lambda: sum(map(delivered, both)), number)
            )
            found["processor_us_per_delivery_both"] = [
                round(one.processor_seconds * 1e6 / number) for one in both
            ]
    return found


WAYS = {"kafka": kafka, "instances": instances, "thrift": thrift}
TITLES = {
    "kafka": "Kafka as source and target",
    "instances": "two instances with etcd",
    "thrift": f"thrift port, {CONNECTIONS} connections",
}
ROWS = (
    ("orders taken in from a filled topic, in a second", "{intake_per_second:,}"),
    ("processor time of an order", "{processor_us_per_order} µs"),
    ("lateness: median, 99th percentile", LATENESS),
    ("taken in and delivered at once, in a second", "{taken_in_and_delivered_per_second:,}"),
    (
        "processor time of both instances for it",
        "{processor_us_per_delivery_both[0]} µs, {processor_us_per_delivery_both[1]} µs",
    ),
    ("calls answered in a second", "{answered_per_second:,}"),
    ("time to an answer: median, 99th percentile", "{answer_p50_ms:,} ms, {answer_p99_ms:,} ms"),
    ("processor time of a call", "{processor_us_per_call} µs"),
)


def main() -> None:
    """Measures, and prints the figures as JSON and as a table for the guide."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delay_ways")
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--per-second", type=int, default=1000, help="due at a time as lateness is measured")
    given = parser.parse_args()
    found = {one: WAYS[one](given.messages, given.per_second) for one in given.ways or WAYS}
    print(json.dumps(found, indent=2))
    print(table(ROWS, {TITLES[one]: figures for one, figures in found.items()}))


if __name__ == "__main__":
    main()

"""confluent-kafka, Python over C: ROW ADDRESS TOPIC WARM_UP_S WINDOW_S [MESSAGES]. It is not for asyncio."""

from __future__ import annotations

import sys
import uuid
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clients.window import AT_A_TIME, BODY, measured

sent = 0


def delivered(error: Any, message: Any) -> None:
    """Counts what the broker has."""
    global sent
    if error is not None:
        raise RuntimeError(error)
    sent += 1


def send(row: str, address: str, topic: str) -> None:
    """Sends until the window has ended. Rows with an awaited send do not wait for a batch to fill."""
    linger = {"awaited": 0, "concurrent": 0}.get(row, 5)
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": linger})
    most = {"awaited": 1, "concurrent": AT_A_TIME}.get(row, 50_000)
    begun = 0
    while row != "fill" or begun < int(sys.argv[6]):
        while begun - sent >= most:
            producer.poll(1)
        producer.produce(topic, BODY, on_delivery=delivered)
        begun += 1
        producer.poll(0)
    producer.flush()


def consume(address: str, topic: str) -> None:
    """Counts messages, as many at a time as come."""
    global sent
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"benchmark-{uuid.uuid4()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    while True:
        sent += len(consumer.consume(500, 1))


def create(address: str, topic: str) -> None:
    """Makes a topic of four partitions."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, 4, 1)]).values():
        made.result(30)


if __name__ == "__main__":
    row, address, topic = sys.argv[1:4]
    if row == "create":
        create(address, topic)
    else:
        if row != "fill":
            measured(lambda: sent, int(sys.argv[6]) if row == "consume" else None)
        if row == "consume":
            consume(address, topic)
        else:
            send(row, address, topic)

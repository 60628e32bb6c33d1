"""A look at the delay service: a reminder, a repetition, a cancel, a move, and what still waits.

    make demo-delay                              or
    python examples/demo_delay.py [--kafka HOST:PORT]

It starts a broker, the delay service and a console in a folder of its own, which goes when it ends. With the
address of a Kafka cluster, a record of Kafka becomes a message of RocketMQ as well.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click
from broker_process import delay_service, live_console, standalone

from orbitmq import MessageQueue, TopicNotFound, sync
from orbitmq.client.delays import DelayClient
from orbitmq.server.turn.listener import free_ports

PATIENCE_SECONDS = 120
DUE = ["pay your order", "an hour was too long", *["still here"] * 4]
"""What is to come, the fourth repetition last, after 8 s."""
FROM_KAFKA = "hello from Kafka"

Say = Callable[[str], None]


@click.command()
@click.option("--kafka", metavar="HOST:PORT", help="Kafka cluster, a record of which becomes a message.")
def main(kafka: str | None) -> None:
    """Run the demonstration."""
    broker_port, namesrv_port = free_ports(-2, 1), free_ports()
    print("a broker, the delay service and a console start ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="orbitmq-demo-") as name:
        folder = Path(name)
        with standalone(folder, namesrv_port, broker_port) as broker:
            clusters = [f"main=rocketmq://{broker.namesrv}", *([f"events=kafka://{kafka}"] if kafka else [])]
            with (
                delay_service(folder, *clusters) as service,
                live_console(folder, broker.namesrv, f"--delay={service}") as console,
            ):
                show(DelayClient(service), broker.namesrv, kafka)
                print(f"         the calendar of what waits is live at {console}default/waiting", flush=True)
                if sys.stdin.isatty() and sys.stdout.isatty():
                    input("         open it in a browser; Enter ends the demo")


def show(client: DelayClient, namesrv: str, kafka: str | None) -> None:
    """Schedules messages, and prints them as they come. Raises RuntimeError if others come."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s  {text}", flush=True)

    say("a reminder in 3 s, a repetition every 2 s, a message in 6 s, one in an hour, one in 30 days")
    client.send_after("main/demo", "pay your order", "3s", id="reminder")
    client.repeat("main/demo", "still here", "2s", times=4, id="repetition")
    client.send_after("main/demo", "you will never read this", "6s", id="mistake")
    client.send_after("main/demo", "an hour was too long", "1h", id="impatient")
    client.send_after("main/demo", "far away", "30d", id="far")
    say(f"the mistake: {client.cancel('mistake').outcome}")
    say(f"the message in an hour, now in 5 s: {client.move('impatient', after='5s').outcome}")
    due = list(DUE)
    if kafka:
        asyncio.run(send_to_kafka(kafka))
        say("a record of Kafka, to RocketMQ in 4 s")
        due.append(FROM_KAFKA)
    bodies = read(namesrv, len(due), say)
    if sorted(bodies) != sorted(due):
        raise RuntimeError(f"other messages than scheduled: {bodies}")
    say(f"a cancel of the reminder: {client.cancel('reminder').outcome}")
    for one in client.list():
        until = datetime.fromtimestamp(one.due_ms / 1000, UTC)
        say(f"still waiting: {one.id}, for {one.target}, until {until:%Y-%m-%d %H:%M}")


async def send_to_kafka(address: str) -> None:
    """Writes an order of a delay as any producer of Kafka may."""
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address)
    await producer.start()
    try:
        headers = [("delay.topic", b"main/demo"), ("delay.after", b"4s")]
        await producer.send_and_wait("orbitmq_delay", FROM_KAFKA.encode(), headers=headers)
    finally:
        await producer.stop()


def read(namesrv: str, count: int, say: Say) -> list[str]:
    """The first messages that come, and how late each was. Raises RuntimeError if fewer come."""
    bodies: list[str] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    with sync.PullConsumer("demo", namesrv) as consumer:
        queues = dict.fromkeys(queues_of(consumer, deadline), 0)
        while len(bodies) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"after {PATIENCE_SECONDS} s, only these have come: {bodies}")
            for queue, offset in queues.items():
                found = consumer.pull(queue, offset, wait_ms=50)
                queues[queue] = found.next_offset
                for one in found:
                    late = one.store_timestamp_ms - int(one.properties["delay.due"])
                    bodies.append(one.body.decode())
                    occurrence = one.properties["delay.occurrence"]
                    say(f"came: {one.body.decode()} (time {occurrence}, {late} ms late)")
    return bodies


def queues_of(consumer: sync.PullConsumer, deadline: float) -> list[MessageQueue]:
    """The queues of the topic, which the first message makes."""
    while True:
        try:
            return consumer.queues("demo")
        except TopicNotFound:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    main()

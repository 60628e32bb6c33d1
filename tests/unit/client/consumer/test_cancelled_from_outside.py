"""Tasks of a client that something else cancels: what it cannot do without begins again, and it says so."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys

import pytest

from orbitmq import FIRST_OFFSET, CancelledFromOutside, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.client.core import background
from orbitmq.testing.local_broker import LocalBroker
from tests.kit.client_queues import Seen, until

UNCLOSED = """
import asyncio, sys
from orbitmq import Producer, PushConsumer

async def main():
    consumer = PushConsumer("unclosed", sys.argv[1])
    consumer.subscribe("unclosed", "*", print)
    producer = Producer("p", sys.argv[1])
    await consumer.start()
    await producer.start()

asyncio.run(main(), debug=True)
"""


async def send(broker: LocalBroker, topic: str, *bodies: bytes) -> None:
    async with Producer("p", broker.namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, sharding_key="one"))


def cancel(share: float = 1.0) -> None:
    """Cancels all tasks but this one, or some of them."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if random.random() < share:
            task.cancel()


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
async def test_a_consumer_whose_tasks_are_all_cancelled_says_so_and_goes_on(
    rocketmq: LocalBroker, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.05)
    topic, seen, entered = f"cancelled-{ordered}", Seen(), asyncio.Event()
    told: list[tuple[type[Exception], bool]] = []
    """Errors, and whether the consumer was healthy then."""
    rocketmq.create_topic(topic, 4)

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"slow" and not entered.is_set():
            entered.set()
            await asyncio.sleep(3600)
        await seen(message)

    def on_error(error: Exception) -> None:
        told.append((type(error), consumer.healthy))

    consumer = PushConsumer(
        topic, rocketmq.namesrv, consume_from_where=FIRST_OFFSET, ordered=ordered, on_error=on_error
    )
    consumer.subscribe(topic, "*", handle)
    async with consumer:
        await send(rocketmq, topic, b"before", b"slow", b"behind")
        await entered.wait()
        cancel()
        await until(lambda: (CancelledFromOutside, False) in told)
        await until(lambda: consumer.healthy)
        await send(rocketmq, topic, b"after")
        await seen.count(4)
        for _ in range(5):
            cancel(0.5)
            await asyncio.sleep(0.02)
        await until(lambda: consumer.healthy)
        await send(rocketmq, topic, b"end")
        sent = {b"before", b"slow", b"behind", b"after", b"end"}
        await until(lambda: {message.body for message in seen} == sent)
        told.clear()
    assert CancelledFromOutside not in [kind for kind, _ in told]


def test_a_loop_that_ends_with_clients_in_it_leaves_no_task_pending(rocketmq: LocalBroker) -> None:
    rocketmq.create_topic("unclosed", 2)
    done = subprocess.run(
        [sys.executable, "-c", UNCLOSED, rocketmq.namesrv], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "was destroyed" not in done.stderr
    assert "never retrieved" not in done.stderr

"""OrbitMQ's client: ROW ADDRESS TOPIC WARM_UP_S WINDOW_S [MESSAGES]."""

from __future__ import annotations

import asyncio
import sys
import uuid

from benchmarks.clients.window import AT_A_TIME, BATCH, BODY, measured
from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage

sent = 0


async def send(row: str, address: str, topic: str) -> None:
    """Sends until the window has ended."""
    global sent
    async with Producer("benchmark", address) as producer:
        match row:
            case "awaited":
                while True:
                    await producer.send(Message(topic, BODY))
                    sent += 1
            case "concurrent":

                async def one_by_one() -> None:
                    global sent
                    while True:
                        await producer.send(Message(topic, BODY))
                        sent += 1

                await asyncio.gather(*(one_by_one() for _ in range(AT_A_TIME)))
            case "submitted":
                while True:
                    await producer.submit(Message(topic, BODY))
                    sent += 1
            case "batch":
                while True:
                    await producer.send_batch([Message(topic, BODY) for _ in range(BATCH)])
                    sent += BATCH
            case "fill":
                await producer.send_all(Message(topic, BODY) for _ in range(int(sys.argv[6])))


async def consume(address: str, topic: str) -> None:
    """Has an async handler count messages."""

    async def handle(message: ReceivedMessage) -> None:
        global sent
        sent += 1

    async with PushConsumer(
        f"benchmark-{uuid.uuid4()}", address, consume_from_where=FIRST_OFFSET
    ) as consumer:
        consumer.subscribe(topic, "*", handle)
        await consumer.wait_closed()


if __name__ == "__main__":
    if sys.argv[1] != "fill":
        measured(lambda: sent, int(sys.argv[6]) if sys.argv[1] == "consume" else None)
    work = (
        consume(sys.argv[2], sys.argv[3])
        if sys.argv[1] == "consume"
        else send(sys.argv[1], sys.argv[2], sys.argv[3])
    )
    asyncio.run(work)

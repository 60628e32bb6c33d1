"""aiokafka: ROW ADDRESS TOPIC WARM_UP_S WINDOW_S [MESSAGES]."""

from __future__ import annotations

import asyncio
import sys
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.clients.window import AT_A_TIME, BATCH, BODY, measured

sent = 0


async def send(row: str, address: str, topic: str) -> None:
    """Sends until the window has ended; acks=all, as every RocketMQ send is answered."""
    global sent
    producer = AIOKafkaProducer(bootstrap_servers=address, acks="all")
    await producer.start()
    match row:
        case "awaited":
            while True:
                await producer.send_and_wait(topic, BODY)
                sent += 1
        case "concurrent":

            async def one_by_one() -> None:
                global sent
                while True:
                    await producer.send_and_wait(topic, BODY)
                    sent += 1

            await asyncio.gather(*(one_by_one() for _ in range(AT_A_TIME)))
        case "submitted":
            while True:
                await producer.send(topic, BODY)
                sent += 1
        case "batch":
            partitions = sorted(await producer.partitions_for(topic))
            turn = 0
            while True:
                batch = producer.create_batch()
                for _ in range(BATCH):
                    batch.append(key=None, value=BODY, timestamp=None)
                turn += 1
                partition = partitions[turn % len(partitions)]
                await (await producer.send_batch(batch, topic, partition=partition))
                sent += BATCH


async def consume(address: str, topic: str) -> None:
    """Counts messages of `async for`."""
    global sent
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=f"benchmark-{uuid.uuid4()}",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    async for _ in consumer:
        sent += 1


if __name__ == "__main__":
    measured(lambda: sent, int(sys.argv[6]) if sys.argv[1] == "consume" else None)
    work = (
        consume(sys.argv[2], sys.argv[3])
        if sys.argv[1] == "consume"
        else send(sys.argv[1], sys.argv[2], sys.argv[3])
    )
    asyncio.run(work)

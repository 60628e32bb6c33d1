"""Dead letters as a client of a group makes them, and as many as one wants by raw sends."""

from __future__ import annotations

import asyncio

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PushConsumer, ReceivedMessage, Retry
from orbitmq.protocol.names import RETRY_TOPIC
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.send import SendMessageV2

PATIENCE_SECONDS = 120


async def fail(namesrv: str, topic: str, group: str, messages: list[Message]) -> None:
    """Sends messages and has a consumer of `group` give each of them up: `bad…` with ValueError, others with
    KeyError. Returns when all are dead letters.
    """

    async def handle(message: ReceivedMessage) -> None:
        error = ValueError if message.body.startswith(b"bad") else KeyError
        raise Retry(delay_level=-1) from error("planted")

    async with (
        Admin(namesrv) as admin,
        PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET) as consumer,
        Producer("fails", namesrv) as producer,
    ):
        consumer.subscribe(topic, "*", handle)
        before = await count(admin, group)
        for message in messages:
            await producer.send(message)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await count(admin, group) < before + len(messages):  # noqa: ASYNC110 - the broker's own
                await asyncio.sleep(0.05)


async def count(admin: Admin, group: str) -> int:
    """Dead letters of a group, as its broker counts them."""
    from orbitmq.admin.dead_letters.counting import dead_letters

    return next((one.count for one in await dead_letters(admin) if one.group == group), 0)


async def plant(
    namesrv: str, group: str, number: int, properties: dict[str, str], body: bytes = b"{}", start: int = 0
) -> None:
    """Stores letters at once; their keys are their numbers. Without RETRY_TOPIC they have no origin."""
    async with Admin(namesrv, timeout_ms=60_000) as admin:
        topic = f"%DLQ%{group}"
        await admin.create_topic(topic, queues=1)
        [master] = await admin.masters()

        async def send(index: int) -> None:
            texts = {"KEYS": f"l-{index}", "UNIQ_KEY": f"{index:032X}", **properties}
            await admin.call(
                master.address,
                SendMessageV2(
                    *("plant", topic, "TBW102", 4, 0, 0, 0, 0, encode_properties(texts).decode()),
                    body=body,
                ),
            )

        for first in range(start, start + number, 1000):
            await admin.each(range(first, min(first + 1000, start + number)), send)


def origin(topic: str, **more: str) -> dict[str, str]:
    """Properties of a letter that was sent to `topic` first."""
    return {RETRY_TOPIC: topic, **more}

"""A client that runs with either version: `send` sends messages of every kind to a topic, `read` reads them.

    python client.py send NAMESRV TOPIC PREFIX
    python client.py leave NAMESRV TOPIC PREFIX
    python client.py read NAMESRV TOPIC GROUP COUNT [--calm]

With `--ask`, `send` waits until the broker has asked about a transaction. `leave` sends what the broker has
to keep for a while: delayed messages, and a transaction that nobody has decided. `read` fails each message
whose number is a multiple of three once, so that the broker has to send it again. With `--calm` it fails
none: where a slave is slow, a copy to be sent again may be stored twice, and come after the reader's end.
All print bodies, one a line; only what was acknowledged is printed.
"""

from __future__ import annotations

import asyncio
import sys

from orbitmq import (
    FIRST_OFFSET,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionResult,
    TransactionState,
)

PATIENCE_SECONDS = 90
LONG = "." * 20_000
"""A body that is compressed on its way."""


async def send(namesrv: str, topic: str, prefix: str) -> None:
    """Messages by every way of sending; transactions are decided at once, or when the broker asks."""
    asked = asyncio.Event()

    def body(number: int) -> str:
        return f"{prefix}-{number}"

    async def decide_later(message: ReceivedMessage) -> TransactionState:
        if message.body == body(10).encode():  # others may have been left by others
            asked.set()
        return TransactionState.COMMIT

    def commit(sent: object) -> TransactionState:
        return TransactionState.COMMIT

    async with Producer("senders", namesrv, delivery_timeout_ms=60_000) as producer:
        single = [
            Message(topic, body(0), keys="k", properties={"colour": "red"}),
            Message(topic, body(1) + LONG),
            Message(topic, body(2), delay_level=1),
            Message(topic, body(3), delay_ms=1500),
            Message(topic, body(4), sharding_key="s"),
        ]
        results = [await producer.send(one) for one in single]
        for number, result in enumerate(results):
            if result.status.name == "SEND_OK":
                print(body(number))
        if await producer.send_all([Message(topic, body(number)) for number in range(5, 9)]) == 4:
            print(*(body(number) for number in range(5, 9)))
    async with TransactionProducer("deciders", namesrv, check=decide_later) as producer:
        made: TransactionResult = await producer.send_in_transaction(Message(topic, body(9)), commit)
        if made.state is TransactionState.COMMIT:
            print(body(9))
        if "--ask" in sys.argv:
            await producer.send_in_transaction(
                Message(topic, body(10)), lambda sent: TransactionState.UNKNOWN
            )
            await asyncio.wait_for(asked.wait(), PATIENCE_SECONDS)
            print(body(10))


async def leave(namesrv: str, topic: str, prefix: str) -> None:
    """Messages that become visible later: by a level, by a time, and by a decision of another process."""

    def nobody_knows(_: object) -> TransactionState:
        return TransactionState.UNKNOWN

    async with TransactionProducer("deciders", namesrv, check=nobody_knows) as producer:
        await producer.send(Message(topic, f"{prefix}-0", delay_level=5))
        await producer.send(Message(topic, f"{prefix}-1", delay_ms=20_000))
        await producer.send_in_transaction(Message(topic, f"{prefix}-2"), nobody_knows)
    print("\n".join(f"{prefix}-{number}" for number in range(3)))


async def read(namesrv: str, topic: str, group: str, count: int) -> None:
    """The bodies of so many messages, each once, whatever comes again."""
    found: set[str] = set()
    failed: set[str] = set()
    calm = "--calm" in sys.argv
    done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        body = message.body.decode().rstrip(".")
        if not calm and int(body.rpartition("-")[2]) % 3 == 0 and body not in failed:
            failed.add(body)
            raise ValueError("the first time")
        found.add(body)
        if len(found) >= count:
            done.set()

    async with PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, "*", handle)
        try:
            await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)
        except TimeoutError:
            print(f"only {len(found)} of {count}", file=sys.stderr)
    print("\n".join(sorted(found)))


if __name__ == "__main__":
    _, action, *words = [one for one in sys.argv if not one.startswith("--")]
    if action in ("send", "leave"):
        asyncio.run({"send": send, "leave": leave}[action](*words))
    else:
        asyncio.run(read(*words[:3], int(words[3])))

"""A real broker, killed again and again while transactions are under way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import pytest

from orbitmq import Message, OrbitError, PullConsumer, ReceivedMessage, SendResult
from orbitmq.client import TransactionProducer, TransactionState
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.testing import LocalBroker
from tests.kit.brokers import others_at_night

TOPIC = "T"
ROUNDS = 3
ENOUGH = 60
SENDERS = 8


class Shop:
    """Local transactions as an application keeps them: what it decided is in its own database."""

    def __init__(self) -> None:
        self.decided: dict[str, TransactionState] = {}
        """Message id -> decision, from the moment it was made."""
        self.confirmed: set[str] = set()
        """Decisions that the broker has confirmed."""
        self.bodies: dict[str, bytes] = {}
        self.number = 0

    async def send(self, producer: TransactionProducer) -> None:
        """One order: committed, rolled back, or left to a later question."""
        self.number += 1
        number, body = self.number, b"order %d" % self.number

        def execute(sent: SendResult) -> TransactionState:
            final = TransactionState.ROLLBACK if number % 3 == 0 else TransactionState.COMMIT
            self.decided[sent.message_id] = final
            self.bodies[sent.message_id] = body
            return TransactionState.UNKNOWN if number % 4 == 0 else final

        result = await producer.send_in_transaction(Message(TOPIC, body), execute)
        if result.is_confirmed:
            self.confirmed.add(result.sent.message_id)

    def check(self, message: ReceivedMessage) -> TransactionState:
        """The answer of the database; an order it does not know was never placed."""
        return self.decided.get(message.message_id, TransactionState.ROLLBACK)


async def until_killed(broker: LocalBroker, shop: Shop) -> None:
    """Sends from several tasks, and kills the broker in the midst of it."""
    enough, killed = asyncio.Event(), asyncio.Event()
    end = shop.number + ENOUGH

    async def sender(producer: TransactionProducer) -> None:
        while True:
            try:
                await shop.send(producer)
            except (OrbitError, OSError):
                if killed.is_set():
                    return
            if shop.number >= end:
                enough.set()

    async with TransactionProducer(
        "shop",
        broker.namesrv,
        check=shop.check,
        send_msg_timeout_ms=2000,
        mq_client_api_timeout_ms=1000,
        retry_times_when_send_failed=0,
        delivery_timeout_ms=0,
    ) as producer:
        senders = [asyncio.create_task(sender(producer)) for _ in range(SENDERS)]
        await enough.wait()
        killed.set()
        broker.kill()
        await asyncio.gather(*senders)


async def published(broker: LocalBroker) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with PullConsumer("reader", broker.namesrv) as reader:
        for queue in await reader.queues(TOPIC):
            offset = 0
            while messages := await reader.pull(queue, offset):
                found += messages
                offset = messages.next_offset
    return found


async def end_the_rest(broker: LocalBroker, shop: Shop) -> list[ReceivedMessage]:
    """Lets a producer of the group be asked until nothing is open; gives what was published."""
    wanted = {unique_id for unique_id, state in shop.decided.items() if state is TransactionState.COMMIT}
    async with TransactionProducer("shop", broker.namesrv, check=shop.check) as producer:
        # The first send makes the group known to the broker.
        with contextlib.suppress(BrokerRefused):
            await shop.send(producer)
        wanted |= {unique_id for unique_id, state in shop.decided.items() if state is TransactionState.COMMIT}
        async with asyncio.timeout(120):
            while {message.message_id for message in await published(broker)} < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await asyncio.sleep(2.5)  # two more rounds: would anything come twice, or at all that must not?
    return await published(broker)


@pytest.mark.parametrize("flush", others_at_night(["ASYNC_FLUSH", "SYNC_FLUSH"], ["ASYNC_FLUSH"]))
def test_kills_publish_every_commit_once_and_no_rollback(tmp_path: Path, flush: str) -> None:
    broker = LocalBroker(
        tmp_path / "store",
        own_process=True,
        flushDiskType=flush,
        transactionTimeOut=500,
        transactionCheckInterval=1000,
        transactionCheckMax=1000,
    )
    shop = Shop()
    try:
        for _ in range(ROUNDS):
            broker.start()
            asyncio.run(until_killed(broker, shop))
        broker.start()
        messages = asyncio.run(end_the_rest(broker, shop))
        broker.stop()
    finally:
        broker.kill()
    times = Counter(message.message_id for message in messages)
    assert set(times.values()) == {1}, "published twice"
    committed = {unique_id for unique_id, state in shop.decided.items() if state is TransactionState.COMMIT}
    assert set(times) == committed
    assert shop.confirmed, "nothing was ever confirmed"
    for message in messages:
        assert message.body == shop.bodies[message.message_id]

"""Behaviours of brokers that take their time or special options, tried at any broker through our client.

    python -m tests.reported.by_hand NAMESRV [METRICS]

NAMESRV leads to one broker with `transactionCheckInterval=1000`, `transactionTimeOut=1000`,
`transactionCheckMax=3` and `recallMessageEnable=true`; METRICS is the address (`host:port`) of its Prometheus
page. One line for each report is printed: it holds, or it does not, and what was seen.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable

from orbitmq import (
    FIRST_OFFSET,
    Admin,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.pop import PopMessage
from orbitmq.protocol.requests.send import SendMessageV2
from tests.client.naming import fresh
from tests.kit.client_queues import Seen
from tests.reported.test_clients import new_topic, send

Outcome = tuple[bool, str]
PREPARED = 4
"""The bit of sysFlag of a half message."""


async def immunity(namesrv: str, metrics: str) -> Outcome:
    """apache/rocketmq#8311: immune for 8 s, asked every second, three times at most."""
    topic, asked = await new_topic(namesrv, 1), list[str]()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.message_id)
        return TransactionState.COMMIT

    async with (
        TransactionProducer(fresh("p"), namesrv, check=check) as producer,
        Admin(namesrv) as admin,
    ):
        await producer.queues(topic)
        [broker] = await admin.masters()
        own = {
            "UNIQ_KEY": fresh("ID"),
            "TRAN_MSG": "true",
            "PGROUP": producer.group,
            "CHECK_IMMUNITY_TIME_IN_SECONDS": "8",  # of Java's client: ours has no such option
        }
        properties, now = encode_properties(own).decode(), time.time_ns() // 1_000_000
        half = SendMessageV2(
            producer.group, topic, "TBW102", 4, 0, PREPARED, now, 0, properties, 0, False, None, False,
            None, b"x",
        )  # fmt: skip
        await asyncio.sleep(3)  # the broker has heard of the producer by then
        await admin.call(broker.address, half)
        await asyncio.sleep(25)
    return bool(asked), f"asked {len(asked)} times within 25 s"


async def recalls(namesrv: str, metrics: str) -> Outcome:
    """apache/rocketmq#10019: the gauge of waiting messages, after all 20 were recalled."""
    topic = await new_topic(namesrv, 1)

    def waiting() -> float:
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        rows = re.findall(rf'^rocketmq_timing_messages{{[^}}]*topic="{topic}"[^}}]*}} (\S+)', text, re.M)
        return sum(map(float, rows))

    async with Producer(fresh("p"), namesrv) as producer:
        sent = [await producer.send(Message(topic, b"x", delay_ms=20_000)) for _ in range(20)]
        await asyncio.sleep(8)
        before = await asyncio.to_thread(waiting)
        for one in sent:
            assert one.recall_handle is not None
            await producer.recall(one.recall_handle)
    await asyncio.sleep(30)
    after = await asyncio.to_thread(waiting)
    return after == 0, f"{before:g} before the recalls, {after:g} when all were due"


async def attempts(namesrv: str, metrics: str) -> Outcome:
    """apache/rocketmq#10827: of two ordered pops at once, each is repeated with its attempt id."""
    empty = 0
    async with Admin(namesrv) as admin:
        [broker] = await admin.masters()
        for _ in range(20):
            topic, group = await new_topic(namesrv, 1), fresh("g")
            await send(namesrv, topic, b"1", b"2", b"3")

            async def pop(attempt: str, topic: str = topic, group: str = group) -> bool:
                now = time.time_ns() // 1_000_000
                request = PopMessage(
                    group, topic, 0, 1, 60_000, 0, now, 0, "TAG", "*", order=True, attempt_id=attempt
                )
                return bool((await admin.call(broker.address, request)).body)

            first = await asyncio.gather(pop("a"), pop("b"))
            winner = "a" if first[0] else "b"
            again = await asyncio.gather(pop(winner), pop("c"))
            empty += not again[0]
    return not empty, f"{empty} of 20 repetitions got nothing"


async def stray(namesrv: str, metrics: str) -> Outcome:
    """A member with another filter that has come and gone."""
    topic, group, seen = await new_topic(namesrv, 2), fresh("g"), Seen()

    async def good(count: int) -> None:
        async with Producer(fresh("p"), namesrv) as producer:
            for _ in range(count):
                await producer.send(Message(topic, b"x", tags="good"))

    consumer = PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic, "good", seen)
    async with consumer:
        await good(2)
        await asyncio.sleep(3)
        other = PushConsumer(group, namesrv)
        other.subscribe(topic, "other", Seen())
        async with other:
            await asyncio.sleep(3)
        await asyncio.sleep(3)
        before = len(seen)
        await good(10)
        await asyncio.sleep(10)
    return len(seen) == before + 10, f"{len(seen) - before} of 10 messages came"


CHECKS: tuple[Callable[[str, str], Awaitable[Outcome]], ...] = (immunity, recalls, attempts, stray)


async def main(namesrv: str, metrics: str = "127.0.0.1:5557", *names: str) -> None:
    for check in CHECKS:
        if names and check.__name__ not in names:
            continue
        try:
            holds, seen = await check(namesrv, metrics)
        except Exception as error:
            holds, seen = False, f"{type(error).__name__}: {error}"
        print(f"{'holds' if holds else 'FAILS'}  {(check.__doc__ or '').strip()} {seen}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

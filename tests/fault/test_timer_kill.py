"""A whole broker, killed again and again while timer messages come in and go out."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.message import StoredMessage
from orbitmq.protocol.message_cy import decode_records
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.testing import LocalBroker

KILLS = 3
LONGEST_MS = 6_000
SENDERS = 8
SEED = 20261121


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[list[LocalBroker]]:
    """Brokers of processes of their own over one folder; none is left at the end."""
    brokers: list[LocalBroker] = []
    yield brokers
    for broker in brokers:
        broker.kill()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send(body: str, due_ms: int) -> SendMessageV2:
    text = f"UNIQ_KEY\x01{body.encode().hex()}\x02TIMER_DELIVER_MS\x01{due_ms}\x02WAIT\x01true\x02"
    return SendMessageV2("P", "T", "TBW102", 1, 0, 0, now_ms(), 0, text, body=body.encode())


async def sends_until_it_is_gone(address: str, prefix: str, chance: random.Random) -> dict[str, int]:
    """What the broker acknowledged, with the time (ms) at which each is due."""
    acknowledged: dict[str, int] = {}
    pool = ConnectionPool()

    async def one(number: int) -> None:
        for count in range(100_000):
            body = f"{prefix}-{number}-{count}"
            due_ms = now_ms() + chance.randrange(50, LONGEST_MS)
            try:
                await pool.call(address, send(body, due_ms), timeout_ms=10_000)
            except (NetError, BrokerRefused):
                return
            acknowledged[body] = due_ms
            await asyncio.sleep(0.002)

    try:
        await asyncio.gather(*(one(number) for number in range(SENDERS)))
    finally:
        await pool.close()
    return acknowledged


async def everything(address: str) -> list[StoredMessage]:
    pool = ConnectionPool()
    records: list[StoredMessage] = []
    try:
        end = (await pool.call(address, GetMaxOffset("T", 0), timeout_ms=10_000)).offset
        while len(records) < end:
            pull = PullMessage("G", "T", 0, len(records), 32, 4, 0, 0, 0, "*", "TAG")
            reply = await pool.call(address, pull, timeout_ms=10_000)
            found, bad = decode_records(reply.body or b"")
            assert found
            assert not bad
            records += found
    finally:
        await pool.close()
    return records


async def test_acknowledged_timers_come_once_and_not_early(folder: list[LocalBroker], tmp_path: Path) -> None:
    chance = random.Random(SEED)
    due: dict[str, int] = {}
    for life in range(KILLS):
        broker = LocalBroker(tmp_path / "store", own_process=True)
        folder.append(broker)
        broker.start()
        load = asyncio.create_task(sends_until_it_is_gone(broker.broker, f"{life}", chance))
        await asyncio.sleep(chance.uniform(2.0, 5.0))
        await asyncio.to_thread(broker.kill)
        due |= await load
    assert len(due) > 50 * KILLS
    broker = LocalBroker(tmp_path / "store", own_process=True)
    folder.append(broker)
    broker.start()
    await asyncio.sleep(max(0.0, (max(due.values()) - now_ms()) / 1000) + 1.5)
    records = await everything(broker.broker)
    bodies = [record.body.decode() for record in records]
    assert len(bodies) == len(set(bodies)), "each once"
    assert set(due) <= set(bodies), "every acknowledged one"
    early = [
        (record.body, due[body] - record.store_timestamp)
        for record, body in zip(records, bodies, strict=True)
        if body in due and record.store_timestamp < due[body]
    ]
    assert early == []

"""A whole broker, killed again and again while timer messages come in and go out."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.send import SendMessageV2
from tests.fault.conftest import OwnProcess
from tests.fault.faulty_machine import FaultyMachine
from tests.kit.broker_load import records

KILLS = 3
LONGEST_MS = 6_000
SENDERS = 8
SEED = 20261121
DAY_MS = 86_400_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send(body: str, due_ms: int) -> SendMessageV2:
    text = f"UNIQ_KEY\x01{body.encode().hex()}\x02TIMER_DELIVER_MS\x01{due_ms}\x02WAIT\x01true\x02"
    return SendMessageV2("P", "T", "TBW102", 1, 0, 0, now_ms(), 0, text, body=body.encode())


async def sends_until_it_is_gone(
    address: str, prefix: str, chance: random.Random, acknowledged: dict[str, int]
) -> None:
    """Adds the messages that the broker acknowledged, with the time (ms) at which each is due."""
    pool = ConnectionPool()

    async def one(number: int) -> None:
        for count in range(100_000):
            body = f"{prefix}-{number}-{count}"
            due_ms = now_ms() + chance.randrange(50, LONGEST_MS)
            try:
                await pool.call(address, send(body, due_ms), timeout_ms=60_000)
            except (NetError, BrokerRefused):
                return
            acknowledged[body] = due_ms
            await asyncio.sleep(0.002)

    try:
        await asyncio.gather(*(one(number) for number in range(SENDERS)))
    finally:
        await pool.close()


async def test_acknowledged_timers_come_once_and_not_early(own_process: OwnProcess) -> None:
    chance = random.Random(SEED)
    due: dict[str, int] = {}
    for life in range(KILLS):
        broker = own_process()
        broker.start()
        before = len(due)
        load = asyncio.create_task(sends_until_it_is_gone(broker.broker, f"{life}", chance, due))
        await asyncio.sleep(chance.uniform(2.0, 5.0))
        while len(due) < before + 50:
            assert not load.done(), load.result()
            await asyncio.sleep(0.05)
        await asyncio.to_thread(broker.kill)
        await load
    broker = own_process()
    broker.start()
    async with asyncio.timeout(120):
        while True:
            found = {record.body.decode() for record in await records(broker.broker, queues=1)}
            if due.keys() <= found and now_ms() > max(due.values()):
                break
            await asyncio.sleep(0.2)
    await asyncio.sleep(1.5)  # would any come once more?
    came = await records(broker.broker, queues=1)
    bodies = [record.body.decode() for record in came]
    assert len(bodies) == len(set(bodies)), "each once"
    assert set(due) <= set(bodies), "every acknowledged one"
    early = [
        (record.body, due[body] - record.store_timestamp)
        for record, body in zip(came, bodies, strict=True)
        if body in due and record.store_timestamp < due[body]
    ]
    assert early == []


@pytest.mark.timeout(600)
async def test_what_is_weeks_ahead_outlives_kills_and_a_clock_that_is_moved(tmp_path: Path) -> None:
    """Beyond the wheel, and beyond what the log is kept for."""
    broker = FaultyMachine(tmp_path / "store", timerMaxDelaySec=60 * DAY_MS // 1000)
    due_ms = now_ms() + 30 * DAY_MS
    bodies = [f"{number}" for number in range(20)]

    async def came() -> list[str]:
        found = await records(broker.broker, queues=1)
        assert all(record.store_timestamp >= due_ms for record in found), "early"
        return sorted((record.body.decode() for record in found), key=int)

    pool = ConnectionPool()
    try:
        broker.start()
        for body in bodies:
            await pool.call(broker.broker, send(body, due_ms), timeout_ms=60_000)
        for ahead_days in (13, 29):
            broker.kill()
            broker.set_clock(ahead_days * DAY_MS)
            broker.start()
            await asyncio.sleep(0.5)
            assert await came() == []
        broker.kill()
        # They come while the broker runs, if it starts fast.
        broker.set_clock(due_ms - now_ms() - 2_000)
        broker.start()
        for _ in range(1_200):
            if await came() == bodies:
                break
            await asyncio.sleep(0.05)
        broker.kill()
        broker.start()
        await asyncio.sleep(0.5)
        assert await came() == bodies, "each once"
    finally:
        await pool.close()
        broker.kill()

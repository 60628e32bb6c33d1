"""The work on one store, with a target and clocks of the test."""

import asyncio

import pytest

from orbitmq.delay_service.engine import Engine
from orbitmq.delay_service.options import DELAY_TABLE
from orbitmq.delay_service.rules.delivery import BATCH_MESSAGES, Result, Sent
from orbitmq.delay_service.store.store import DelayStore
from orbitmq.options import Layer
from tests.kit.delay_world import QUEUE, message

NOW = 1_700_000_000_000
DAY_MS = 86_400_000


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - states of several tasks
            await asyncio.sleep(0.001)


class Target:
    """Stores what it gets, unless it is away; `gate` holds it up."""

    def __init__(self):
        self.bodies = []
        self.away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()

    async def deliver(self, topic, batch):
        self.asked.set()
        await self.gate.wait()
        if self.away:
            return [Sent(Result.NOT_SENT, "away")] * len(batch)
        self.bodies += [one.pending.content.body for one in batch]
        return [Sent(Result.SENT)] * len(batch)


class Running:
    """An engine that delivers; `wall` is its machine's clock."""

    def __init__(self, folder):
        self.wall, self.began = NOW, asyncio.get_running_loop().time()
        given = {"delayDataDir": str(folder), "delayClusters": "main=rocketmq://127.0.0.1:1"}
        self.target = Target()
        settings = DELAY_TABLE.load([Layer("test", given)])
        self.engine = Engine(settings, DelayStore(folder), {"main": self.target}, self.clocks)

    def clocks(self):
        passed = round((asyncio.get_running_loop().time() - self.began) * 1000)
        return self.wall + passed, passed

    async def take(self, orders):
        await self.engine.take(QUEUE, orders, len(orders))

    async def came(self, number):
        await until(lambda: len(self.target.bodies) == number)

    async def __aenter__(self):
        self.engine.start()
        return self

    async def __aexit__(self, *_):
        self.target.gate.set()
        await self.engine.stop()


async def test_the_next_batch_is_claimed_while_one_is_sent(tmp_path):
    number = 3 * BATCH_MESSAGES
    async with Running(tmp_path) as running:
        running.target.gate.clear()
        await running.take([message(n, NOW, b"%d" % n, topic="t", at=n) for n in range(number)])
        await running.target.asked.wait()
        (lane,) = running.engine.lanes
        await until(lambda: len(lane.on_the_way) == 2 * BATCH_MESSAGES)
        assert not running.target.bodies
        running.target.gate.set()
        await running.came(number)
        assert running.target.bodies == [b"%d" % n for n in range(number)]
    assert DelayStore(tmp_path).pending_count == 0


@pytest.mark.parametrize("away", [True, False])
async def test_what_was_claimed_ahead_leaves_once_after_a_failure_or_a_stop(tmp_path, away):
    number = 2 * BATCH_MESSAGES
    async with Running(tmp_path) as running:
        running.target.gate.clear()
        await running.take([message(n, NOW, b"%d" % n, topic="t", at=n) for n in range(number)])
        await running.target.asked.wait()
        running.target.away = away
        if away:
            running.target.gate.set()
            await until(lambda: running.engine.delivery.counts.failed)
            running.target.away = False
            await running.came(number)
    found = running.target.bodies
    async with Running(tmp_path) as again:
        await again.came(number - len(found))
        assert found + again.target.bodies == [b"%d" % n for n in range(number)]


async def test_a_clock_that_is_set_back_prolongs_no_pause(tmp_path):
    async with Running(tmp_path) as running:
        running.target.away = True
        await running.take([message(0, NOW, b"x", topic="t", at=0)])
        await until(lambda: running.engine.delivery.counts.failed)
        running.wall -= DAY_MS
        running.target.away = False
        await running.came(1)

"""The work on one store, with a target and clocks of the test."""

import asyncio
import itertools
import threading

import pytest

from orbitmq.delay_service import turn
from orbitmq.delay_service.engine import Engine
from orbitmq.delay_service.options import DELAY_TABLE
from orbitmq.delay_service.rules.delivery import BATCH_MESSAGES, Result, Sent
from orbitmq.delay_service.rules.intake import SourceMessage
from orbitmq.delay_service.rules.sharing import RECORD
from orbitmq.delay_service.sources.reading import SourceState, begin_at
from orbitmq.delay_service.store.records import Content
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


async def test_what_is_written_during_a_sync_is_synced_too(tmp_path, monkeypatch):
    """The fate of the last delivery stayed in memory until the next order came."""
    begun, go, syncs = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()
    async with Running(tmp_path) as running:

        def sync():
            syncs.append(len(syncs))
            loop.call_soon_threadsafe(begun.set)
            go.wait(20)

        monkeypatch.setattr(running.engine.store, "sync", sync)
        running.engine.syncer.soon()
        await begun.wait()
        running.engine.syncer.soon()
        go.set()
        await until(lambda: len(syncs) == 2)
        monkeypatch.undo()


class LossyLease:
    """A lease whose records go to `written`, save the second one, which the source loses."""

    def __init__(self):
        self.written, self.number = [], 0

    def term(self):
        return 1

    def queues(self):
        return {str(QUEUE)}

    async def write(self, queue, body):
        self.number += 1
        if self.number != 2:
            self.written.append(body)


async def test_a_claim_that_the_source_has_lost_is_written_again(tmp_path, monkeypatch):
    """A master that had stored it died before its slave had it: nothing went to the target any more."""
    monkeypatch.setattr(turn, "READ_BACK_SECONDS", 0.1)
    given = {"delayDataDir": str(tmp_path), "delayClusters": "main=rocketmq://127.0.0.1:1"}
    settings, target, lease = DELAY_TABLE.load([Layer("test", given)]), Target(), LossyLease()
    engine = Engine(settings, DelayStore(tmp_path), {"main": target}, lease=lease)
    engine.turn.secret_is(b"secret")
    engine.start()

    async def read_back():
        for offset in itertools.count(1):
            await until(lambda: lease.written)
            record = SourceMessage(offset, NOW, {RECORD: "1"}, Content(lease.written.pop(0), {}))
            await engine.take(QUEUE, [record], offset + 1)

    reading = None
    try:
        await engine.take(QUEUE, [message(0, NOW, b"x", topic="t", at=0)], 1)
        reading = asyncio.create_task(read_back())
        await engine.turn.follow()
        await until(lambda: target.bodies == [b"x"])
    finally:
        if reading is not None:
            reading.cancel()
        await engine.stop()


async def test_orders_of_a_queue_that_begins_again_are_carried_out(tmp_path):
    """They were passed over, as read before: the new ones of a topic that was deleted and created."""
    async with Running(tmp_path) as running:
        await running.take([message(n, NOW, b"%d" % n, topic="t", at=0) for n in range(5)])
        await running.came(5)
        state = SourceState("main/orbitmq_delay")
        assert begin_at(state, running.engine, QUEUE, 0, 1) == 1
        await running.engine.take(QUEUE, [message(1, NOW, b"new", topic="t", at=0)], 2)
        await running.came(6)
        assert running.target.bodies[-1] == b"new"
        assert running.engine.position(QUEUE) == 2

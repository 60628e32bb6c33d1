"""A whole broker, killed or stopped while clients send: what was acknowledged is there afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from orbitmq.testing import LocalBroker
from tests.fault.conftest import OwnProcess
from tests.kit.broker_load import QUEUES, Load, everything, pool_of, send
from tests.kit.brokers import others_at_night


@pytest.mark.parametrize("flush", others_at_night(["ASYNC_FLUSH", "SYNC_FLUSH"], ["ASYNC_FLUSH"]))
def test_kills_lose_nothing_that_was_acknowledged(own_process: OwnProcess, flush: str) -> None:
    acknowledged: set[str] = set()
    broker = own_process(flushDiskType=flush)
    for round_number in range(3):
        broker.start()

        async def until_killed(prefix: str) -> set[str]:
            load = Load(broker.broker, prefix)
            sending = asyncio.create_task(load.run())
            await load.enough.wait()
            broker.kill()
            await sending
            return load.acknowledged

        acknowledged |= asyncio.run(until_killed(f"r{round_number}"))
    broker.start()
    found = asyncio.run(everything(broker.broker))
    broker.stop()
    assert len(found) == len(set(found)), "a message is there twice"
    assert acknowledged - set(found) == set()


@pytest.mark.nightly
def test_a_topic_made_anew_has_all_of_its_messages_and_none_of_the_old_one_after_a_kill(
    own_process: OwnProcess,
) -> None:
    broker = own_process(flushDiskType="ASYNC_FLUSH").start()

    async def until_killed() -> None:
        async with pool_of() as pool:
            for name, count in (("old", 40), ("new", 24)):
                for number in range(count):
                    await pool.call(broker.broker, send(f"{name}-{number}", number % QUEUES), 30_000)
                if name == "old":
                    await pool.call(broker.broker, DeleteTopicInBroker("T"), 30_000)
            broker.kill()

    asyncio.run(until_killed())
    broker.start()
    found = asyncio.run(everything(broker.broker))
    broker.stop()
    assert sorted(found) == sorted(f"new-{number}" for number in range(24))


def test_an_orderly_stop_under_load_loses_nothing_and_leaves_no_crash_behind(
    own_process: OwnProcess, tmp_path: Path
) -> None:
    broker = own_process().start()

    async def until_stopped() -> set[str]:
        load = Load(broker.broker, "x")
        sending = asyncio.create_task(load.run())
        await load.enough.wait()
        await asyncio.to_thread(broker.halt)
        await sending
        return load.acknowledged

    acknowledged = asyncio.run(until_stopped())
    assert not (tmp_path / "store" / "abort").exists()
    broker.start()
    found = set(asyncio.run(everything(broker.broker)))
    broker.stop()
    assert acknowledged - found == set()


def test_a_stop_answers_pulls_that_are_held(tmp_path: Path) -> None:
    async def held_while_stopping(broker: LocalBroker) -> str:
        async with pool_of() as pool:
            await pool.call(broker.broker, send("one", 0))
            pull = PullMessage("G", "T", 0, 1, 32, 6, 0, 60_000, 0, subscription="*")
            held = asyncio.create_task(pool.call(broker.broker, pull, timeout_ms=60_000))
            await pool.call(broker.broker, GetMaxOffset(topic="T", queue_id=0))  # the pull was before this
            await asyncio.to_thread(broker.halt)
            return (await held).remark or ""

    with LocalBroker(tmp_path / "store") as broker:
        assert asyncio.run(held_while_stopping(broker)) == "OFFSET_OVERFLOW_ONE"

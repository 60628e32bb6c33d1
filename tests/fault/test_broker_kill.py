"""A whole broker, killed or stopped while clients send: what was acknowledged is there afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from orbitmq.testing import LocalBroker
from tests.fault.conftest import OwnProcess

QUEUES = 4
SENDERS = 16
ENOUGH = 300


@asynccontextmanager
async def pool_of() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool()
    try:
        yield pool
    finally:
        await pool.close()


def send(body: str, queue_id: int) -> SendMessageV2:
    text = f"UNIQ_KEY\x01{body.encode().hex()}\x02WAIT\x01true\x02"
    return SendMessageV2("P", "T", "TBW102", QUEUES, queue_id, 0, 0, 0, text, body=body.encode())


class Load:
    """Senders that go on until the broker is gone; `acknowledged` is what it said it had stored."""

    def __init__(self, address: str, prefix: str) -> None:
        self._address = address
        self._prefix = prefix
        self.acknowledged: set[str] = set()
        self.enough = asyncio.Event()

    async def run(self) -> None:
        async with pool_of() as pool:
            await asyncio.gather(*(self._send(pool, number) for number in range(SENDERS)))

    async def _send(self, pool: ConnectionPool, number: int) -> None:
        for count in range(100_000):
            body = f"{self._prefix}-{number}-{count}"
            try:
                await pool.call(self._address, send(body, number % QUEUES), timeout_ms=60_000)
            except (NetError, BrokerRefused):
                return
            self.acknowledged.add(body)
            if len(self.acknowledged) >= ENOUGH:
                self.enough.set()


async def records(address: str, topic: str = "T", queues: int = QUEUES) -> list[StoredMessage]:
    """Records of all queues, each offset read once and in order."""
    found: list[StoredMessage] = []
    async with pool_of() as pool:
        for queue_id in range(queues):
            offset, end = 0, (await pool.call(address, GetMaxOffset(topic, queue_id), 30_000)).offset
            while offset < end:
                pull = PullMessage("R", topic, queue_id, offset, 32, 4, 0, 0, 0, subscription="*")
                some, bad = decode_records((await pool.call(address, pull, 30_000)).body or b"")
                assert some, f"nothing at {queue_id}:{offset} of {end}"
                assert not bad
                assert [one.queue_offset for one in some] == list(range(offset, offset + len(some)))
                found += some
                offset += len(some)
    return found


async def everything(address: str) -> list[str]:
    """The bodies of all messages."""
    return [record.body.decode() for record in await records(address)]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
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

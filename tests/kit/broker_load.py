"""Load on a broker of its own process, and what is in its log afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendMessageV2

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

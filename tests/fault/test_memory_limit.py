"""A broker whose memory is limited while clients of all kinds are at it: what it cannot allocate costs the
request that needs it, or its connection, and nothing that was acknowledged.

The limit is the kernel's (RLIMIT_AS of the running process): allocations, new maps and new threads fail.
ORBITMQ_SQUEEZES (3) is how often, ORBITMQ_SQUEEZE_SEED (1) with which chances, ORBITMQ_SQUEEZE_FLUSH
(SYNC_FLUSH) how the broker flushes.
"""

from __future__ import annotations

import asyncio
import os
import resource
from contextlib import suppress
from pathlib import Path

import pytest

from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.testing import LocalBroker
from tests.fault.mixed import PROPERTIES, Mix
from tests.kit.broker_load import everything, pool_of, send

SQUEEZES = int(os.environ.get("ORBITMQ_SQUEEZES", "3"))
SEED = int(os.environ.get("ORBITMQ_SQUEEZE_SEED", "1"))
FLUSH = os.environ.get("ORBITMQ_SQUEEZE_FLUSH", "SYNC_FLUSH")

pytestmark = pytest.mark.timeout(600 + SQUEEZES * 20)


def address_space(pid: int) -> int:
    """Address space of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


class Squeezed(Mix):
    """A broker that is given no more memory for a while, instead of being killed."""

    squeezes = 0

    async def _end(self, how: str) -> None:
        """`run` ends it for real once the clients are done."""
        if self.clients.over.is_set() or self.squeezes >= SQUEEZES:
            await super()._end(how)
            return
        pid = self.broker.pid
        unlimited = resource.prlimit(pid, resource.RLIMIT_AS)
        limit = address_space(pid) + self.chance.choice((-1 << 20, 0, 1 << 18, 1 << 20, 4 << 20))
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, unlimited[1]))
        try:
            await asyncio.sleep(self.chance.uniform(0.2, 2))
        finally:
            with suppress(ProcessLookupError):  # it may end, in order
                resource.prlimit(pid, resource.RLIMIT_AS, unlimited)
        self.squeezes += 1
        if not self.broker.is_running:
            await super()._end("kill")


def test_without_memory_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    broker = LocalBroker(
        tmp_path / "store", own_process=True, timeout_seconds=120, flushDiskType=FLUSH, **PROPERTIES
    )
    mix = Squeezed(broker, SEED, life_seconds=(0.2, 1.0))
    try:
        asyncio.run(mix.run(3600, most_kills=1))
    finally:
        broker.kill()
    assert mix.squeezes == SQUEEZES
    assert not mix.history.broken, f"seed {SEED}: {[str(one) for one in mix.history.broken[:10]]}"


def test_messages_that_find_no_memory_are_refused_and_later_ones_are_not(tmp_path: Path) -> None:
    """Large ones, until there is no room for them nor for a map of the next segment."""
    broker = LocalBroker(tmp_path / "store", own_process=True, timeout_seconds=120)
    taken: set[str] = set()
    refused = 0

    async def flood(number: int) -> None:
        nonlocal refused
        async with pool_of() as pool:
            for count in range(20):
                name = f"{number}-{count}"
                request = send(name, 0)
                request.body = name.encode() + b"|" * 1_000_000
                try:
                    await pool.call(broker.broker, request, timeout_ms=60_000)
                    taken.add(name)
                except (BrokerRefused, NetError):
                    refused += 1

    async def run() -> None:
        async with pool_of() as pool:
            await pool.call(broker.broker, send("first", 0), timeout_ms=60_000)
        unlimited = resource.prlimit(broker.pid, resource.RLIMIT_AS)
        limit = address_space(broker.pid) + (12 << 20)
        resource.prlimit(broker.pid, resource.RLIMIT_AS, (limit, unlimited[1]))
        await asyncio.gather(*(flood(number) for number in range(8)))
        resource.prlimit(broker.pid, resource.RLIMIT_AS, unlimited)
        async with pool_of() as pool:
            await pool.call(broker.broker, send("later", 0), timeout_ms=60_000)

    def held() -> list[str]:
        return [body.rstrip("|") for body in asyncio.run(everything(broker.broker))]

    broker.start()
    try:
        asyncio.run(run())
        assert refused > 0, "the limit was met"
        found = held()
        assert len(found) == len(set(found))
        assert taken | {"first", "later"} <= set(found)
        broker.kill()
        broker.start()
        assert held() == found
    finally:
        broker.kill()

"""Clients that go on sending whatever they are told, and remember it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from orbitmq.net.errors import CallTimeout, NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import BrokerRefused
from tests.kit.broker_load import QUEUES, pool_of, send

PAUSE_SECONDS = 0.01
"""Between a refusal and the next try."""
PATIENCE_SECONDS = 60.0


class Stubborn:
    """Senders of one broker. A message that was not acknowledged is not sent again: another one is."""

    def __init__(self, address: str, *, body_bytes: int, senders: int = 8, timeout_ms: int = 10_000) -> None:
        self._address = address
        self._body_bytes = body_bytes
        self._senders = senders
        self._timeout_ms = timeout_ms
        self._told = asyncio.Condition()
        self.acknowledged: set[str] = set()
        self.refused: Counter[int] = Counter()
        """Number of times that each code came instead of SEND_OK."""
        self.failed: list[NetError] = []
        """Calls without any answer."""

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """They send for as long as it is entered."""
        async with pool_of() as pool:
            tasks = [asyncio.create_task(self._send(pool, number)) for number in range(self._senders)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended

    async def _send(self, pool: ConnectionPool, number: int) -> None:
        count = 0
        while True:
            count += 1
            name = f"{number}-{count}"
            request = send(name, number % QUEUES)
            request.body = name.encode().ljust(self._body_bytes, b"|")
            try:
                code = (await pool.call(self._address, request, timeout_ms=self._timeout_ms)).code
            except BrokerRefused as refused:
                code = refused.code
            except CallTimeout as error:
                self.failed.append(error)
                code = None
            if code == 0:
                self.acknowledged.add(name)
            elif code is not None:
                self.refused[code] += 1
                await asyncio.sleep(PAUSE_SECONDS)
            async with self._told:
                self._told.notify_all()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until they were told what makes something hold."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._told:
            await self._told.wait_for(holds)


def names(bodies: list[str]) -> list[str]:
    """The messages that bodies are of, each of which is there once."""
    found = [body.rstrip("|") for body in bodies]
    assert len(found) == len(set(found)), "a message is there twice"
    return found

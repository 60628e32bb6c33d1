"""One cluster as the console sees it: admin connections, samples, and a producer when one is needed."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import InitVar, dataclass

from orbitmq.access import Access
from orbitmq.admin import Admin
from orbitmq.client import AsyncDelayClient, Producer
from orbitmq.console.history_file import HistoryFile
from orbitmq.console.reader import Reader
from orbitmq.console.sampling import Sampler

PRODUCER_GROUP = "CONSOLE_PRODUCER"
TIMEOUT_MS = 5000
"""Time that a page waits for one broker."""


@dataclass(eq=False, repr=False)
class Cluster:
    """Made, started and closed within one event loop."""

    name: str
    namesrv: str
    _access: Access
    sample_seconds: InitVar[float]
    history_file: InitVar[HistoryFile | None] = None

    def __post_init__(self, sample_seconds: float, history_file: HistoryFile | None) -> None:
        self.admin = Admin(self.namesrv, timeout_ms=TIMEOUT_MS, **self._access.options)
        """Asks every broker: for changes, and for facts on each broker by itself."""
        self.reader = Reader(self.namesrv, timeout_ms=TIMEOUT_MS, **self._access.options)
        """Leaves brokers out that do not answer: for pages."""
        self.sampler = Sampler(
            self.admin, self.reader, sample_seconds, name=self.name, history_file=history_file
        )
        self.delays: AsyncDelayClient | None = None
        """Asks the delay service of this cluster, if there is one."""
        self._sampling: asyncio.Task[None] | None = None
        self._producer: Producer | None = None
        self._starting = asyncio.Lock()

    def start(self) -> None:
        """Begins to take samples."""
        self._sampling = asyncio.create_task(self.sampler.run(), name=f"samples of {self.name}")

    async def producer(self) -> Producer:
        async with self._starting:
            if self._producer is None:
                producer = Producer(
                    PRODUCER_GROUP, self.namesrv, delivery_timeout_ms=TIMEOUT_MS, **self._access.options
                )
                self._producer = await producer.start()
            return self._producer

    async def close(self) -> None:
        """Ends everything that was started."""
        if self._sampling is not None:
            self._sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sampling
        if self._producer is not None:
            await self._producer.close()
        await self.admin.close()
        await self.reader.close()

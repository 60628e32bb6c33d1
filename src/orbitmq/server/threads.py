"""The threads beside the event loop. Only work that lets go of the GIL belongs into them."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from orbitmq.server.errors import StartError


def _pool(name: str, threads: int = 1) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"orbitmq-{name}")


READERS = 2


@dataclass(slots=True)
class Threads:
    """One thread per kind of work, so that none waits behind another's disk."""

    flush: ThreadPoolExecutor = field(default_factory=lambda: _pool("flush"))
    """Flushes of the commit log: what acknowledged sends wait for."""
    read: ThreadPoolExecutor = field(default_factory=lambda: _pool("read", READERS))
    """Cold reads."""
    save: ThreadPoolExecutor = field(default_factory=lambda: _pool("save"))
    """Tables to their files, one write after another."""
    chores: ThreadPoolExecutor = field(default_factory=lambda: _pool("chores"))
    """Everything that comes round: reserving blocks, sweeping queues, retention."""

    async def start(self) -> None:
        """Starts all of them now: a machine that has no room for one is found out here, and not by the first
        flush. Raises StartError.
        """
        loop = asyncio.get_running_loop()
        pools = (self.flush, self.save, self.chores, *[self.read] * READERS)
        # A thread that is idle already would do the next one's work.
        try:
            await asyncio.gather(*(loop.run_in_executor(pool, time.sleep, 0.001) for pool in pools))
        except RuntimeError as error:
            raise StartError(f"{error}: allow this process more memory or threads (ulimit -v, -u)") from None

    def stop(self) -> None:
        """Waits for what runs and ends the threads."""
        for pool in (self.flush, self.read, self.save, self.chores):
            pool.shutdown(wait=True)

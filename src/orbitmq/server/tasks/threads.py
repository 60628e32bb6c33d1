"""The threads beside the event loop. Only work that releases the GIL belongs into them.

ARCHITECTURE.md, "Threads", lists the structures that each of them touches.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from orbitmq.server.errors import StartError


def _pool(name: str, threads: int = 1) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"orbitmq-{name}")


READERS = 2
QUERIES = 2


@dataclass(slots=True)
class Threads:
    """One thread per kind of work, so that none waits behind another's disk."""

    flush: ThreadPoolExecutor = field(default_factory=lambda: _pool("flush"))
    """Flushes of the commit log: what acknowledged sends wait for, and periodic ones under ASYNC_FLUSH."""
    reserve: ThreadPoolExecutor = field(default_factory=lambda: _pool("reserve"))
    """Blocks in front of the writer, and the next segment: what the loop would have to wait for."""
    read: ThreadPoolExecutor = field(default_factory=lambda: _pool("read", READERS))
    """Cold reads."""
    query: ThreadPoolExecutor = field(default_factory=lambda: _pool("query", QUERIES))
    """Searches and large texts, a slice at a time."""
    save: ThreadPoolExecutor = field(default_factory=lambda: _pool("save"))
    """Tables to their files, one write after another."""
    periodic: ThreadPoolExecutor = field(default_factory=lambda: _pool("periodic"))
    """All other periodic tasks: flushes of queues and timers, index, retention, certificates."""

    async def start(self) -> None:
        """Starts all of them now, so that a lack of threads or memory shows at the start and not at the first
        flush. Raises StartError.
        """
        loop = asyncio.get_running_loop()
        single = (self.flush, self.reserve, self.save, self.periodic)
        pools = (*single, *[self.read] * READERS, *[self.query] * QUERIES)
        # A thread that is idle already would do the next one's work.
        try:
            await asyncio.gather(*(loop.run_in_executor(pool, time.sleep, 0.001) for pool in pools))
        except RuntimeError as error:
            raise StartError(f"{error}: allow this process more memory or threads (ulimit -v, -u)") from None

    @property
    def for_periodic_tasks(self) -> dict[str, Executor]:
        """The threads of periodic tasks, by the name that a task gives."""
        return {"flush": self.flush, "reserve": self.reserve, "periodic": self.periodic}

    def stop_all_but_flush(self) -> None:
        """Waits for what runs and ends the threads, but for the one that flushes: for that one. Blocks."""
        for pool in (self.read, self.query, self.save, self.periodic, self.reserve):
            pool.shutdown(wait=True)

    def stop(self) -> None:
        """Waits for what runs and ends the threads. Blocks."""
        self.stop_all_but_flush()
        self.flush.shutdown(wait=True)

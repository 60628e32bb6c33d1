"""The threads beside the event loop. Only work that lets go of the GIL belongs into them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field


def _pool(name: str, threads: int = 1) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"orbitmq-{name}")


@dataclass(slots=True)
class Threads:
    """One thread per kind of work, so that none waits behind another's disk."""

    flush: ThreadPoolExecutor = field(default_factory=lambda: _pool("flush"))
    """Flushes of the commit log: what acknowledged sends wait for."""
    read: ThreadPoolExecutor = field(default_factory=lambda: _pool("read", 2))
    """Cold reads."""
    save: ThreadPoolExecutor = field(default_factory=lambda: _pool("save"))
    """Tables to their files, one write after another."""
    chores: ThreadPoolExecutor = field(default_factory=lambda: _pool("chores"))
    """Everything that comes round: reserving blocks, sweeping queues, retention."""

    def stop(self) -> None:
        """Waits for what runs and ends the threads."""
        for pool in (self.flush, self.read, self.save, self.chores):
            pool.shutdown(wait=True)

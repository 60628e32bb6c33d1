"""Names and patience for tests that share brokers with others."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable

_numbers = itertools.count()


def fresh(kind: str) -> str:
    """A topic or group name that no other test, and no earlier run, has used."""
    return f"{kind}-{os.getpid()}-{time.time_ns() // 1_000_000 % 10_000_000}-{next(_numbers)}"


async def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Returns once `condition` holds, which other tasks bring about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - whatever it looks at belongs to others
            await asyncio.sleep(0.01)

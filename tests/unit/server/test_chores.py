"""What comes round, and what does not have to."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from orbitmq.server.chores import ChoreRunner
from orbitmq.store import Chore


async def test_a_thread_is_woken_only_for_what_is_wanted() -> None:
    asked = 0
    ran: list[int] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def is_wanted() -> bool:
        nonlocal asked
        asked += 1
        return asked >= 3

    def run(now: int) -> None:
        ran.append(asked)
        loop.call_soon_threadsafe(done.set)

    with ThreadPoolExecutor(1) as threads:
        runner = ChoreRunner(lambda: 0, threads)
        runner.start(Chore("now and then", 1, run, in_thread=True, is_wanted=is_wanted))
        await asyncio.wait_for(done.wait(), 30)
        await runner.stop()
    assert ran[0] == 3

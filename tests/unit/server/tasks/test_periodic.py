"""Tasks that come round, and those that do not have to."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orbitmq.server.tasks.periodic import PeriodicTaskRunner
from orbitmq.store import PeriodicTask


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
        runner = PeriodicTaskRunner(lambda: 0, {"periodic": threads})
        runner.start(PeriodicTask("now and then", 1, run, in_thread=True, is_wanted=is_wanted))
        await asyncio.wait_for(done.wait(), 120)
        await runner.stop()
    assert ran[0] == 3


async def test_stopping_waits_for_what_a_thread_is_doing() -> None:
    loop = asyncio.get_running_loop()
    began, goes_on = asyncio.Event(), threading.Event()
    ended = False

    def run(now: int) -> None:
        nonlocal ended
        loop.call_soon_threadsafe(began.set)
        assert goes_on.wait(120)
        ended = True

    with ThreadPoolExecutor(1) as threads:
        runner = PeriodicTaskRunner(lambda: 0, {"periodic": threads})
        runner.start(PeriodicTask("long", 1, run, in_thread=True))
        await asyncio.wait_for(began.wait(), 120)
        stopping = asyncio.create_task(runner.stop())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not stopping.done()
        goes_on.set()
        await stopping
        assert ended


async def test_a_task_that_fails_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    began, goes_on = asyncio.Event(), threading.Event()

    def run(now: int) -> None:
        loop.call_soon_threadsafe(began.set)
        assert goes_on.wait(120)
        raise OSError("no disk")

    with ThreadPoolExecutor(1) as threads:
        runner = PeriodicTaskRunner(lambda: 0, {"periodic": threads})
        runner.start(PeriodicTask("bad", 1, run, in_thread=True))
        await asyncio.wait_for(began.wait(), 120)
        stopping = asyncio.create_task(runner.stop())
        await asyncio.sleep(0)
        goes_on.set()
        await stopping
    assert "a periodic task failed at the end" in caplog.text

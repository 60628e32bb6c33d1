"""Tasks beside a server's turns: a failure is logged, and stopping ends what still runs."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.server.tasks.background import BackgroundTasks


async def test_a_failure_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    tasks = BackgroundTasks()
    await asyncio.wait([tasks.start(fail(), "a task")])
    await tasks.stop()
    (record,) = caplog.records
    assert "a task failed and does not go on" in record.message
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


async def test_stopping_ends_what_still_runs_and_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    tasks = BackgroundTasks()
    task = tasks.start(wait(), "a task")
    await asyncio.sleep(0)
    await tasks.stop()
    assert ended.is_set()
    assert task.cancelled()
    assert not caplog.records


async def test_the_result_is_for_whoever_waits() -> None:
    async def two() -> int:
        return 2

    tasks = BackgroundTasks()
    assert await tasks.start(two()) == 2
    await tasks.stop()

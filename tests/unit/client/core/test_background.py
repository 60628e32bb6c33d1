from __future__ import annotations

import asyncio
import itertools

import pytest

from orbitmq.client.core import background
from orbitmq.client.core.background import Tasks


class Told:
    """Notices of tasks."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str, bool]] = []
        self.well: list[str] = []

    def failed(self, name: str, error: Exception, lasting: bool) -> None:
        self.errors.append((name, str(error), lasting))

    def recovered(self, name: str) -> None:
        self.well.append(name)


async def test_what_goes_wrong_is_told_and_ends_only_itself() -> None:
    told = Told()
    tasks = Tasks(told.failed, told.recovered)

    async def fail() -> None:
        raise RuntimeError("no")

    await tasks.start(fail(), "failing")
    assert told.errors == [("failing", "no", False)]
    await tasks.close()


async def test_rounds_go_on_after_a_failure_and_can_be_woken() -> None:
    told = Told()
    tasks = Tasks(told.failed, told.recovered)
    wake, rounds = asyncio.Event(), asyncio.Queue[int]()
    count = itertools.count(1)

    async def action() -> None:
        rounds.put_nowait(number := next(count))
        if number == 1:
            raise RuntimeError("first")

    tasks.every(60_000, action, "rounds", first_ms=1, wake=wake)
    async with asyncio.timeout(120):
        await rounds.get()
        for _ in range(2):
            wake.set()
            await rounds.get()
    await tasks.close()
    assert told.errors[0] == ("rounds", "first", True)
    assert told.well == ["rounds"]


async def test_closing_ends_everything_even_what_never_began() -> None:
    tasks = Tasks(Told().failed, Told().recovered)
    ended: list[str] = []

    async def forever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    tasks.start(forever("running"), "running")
    await asyncio.sleep(0)
    late = tasks.start(forever("never begun"), "never begun")
    await tasks.close()
    assert ended == ["running"]
    assert late.cancelled()
    after = tasks.start(forever("after"), "after")
    await asyncio.gather(after, return_exceptions=True)
    assert after.cancelled()


async def test_a_task_may_close_its_own() -> None:
    tasks = Tasks(Told().failed, Told().recovered)
    async with asyncio.timeout(120):
        await tasks.start(tasks.close(), "closing")


async def test_work_that_somebody_else_cancels_begins_again_until_it_is_cancelled_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.01)
    told = Told()
    tasks = Tasks(told.failed, told.recovered)
    begun = asyncio.Queue[int]()
    count = itertools.count(1)

    async def work() -> None:
        begun.put_nowait(next(count))
        await asyncio.Event().wait()

    kept = tasks.keep(work, "kept", owned=False)
    async with asyncio.timeout(120):
        for number in range(1, 4):
            assert await begun.get() == number
            kept.task.cancel()
        assert await begun.get() == 4
    assert {name for name, _, lasting in told.errors if lasting} == {background.TASKS}
    assert told.well == [background.TASKS] * 3
    kept.cancel()
    await asyncio.wait([kept.task])
    await tasks.close()
    await asyncio.sleep(0.05)
    assert begun.empty()
    assert len(told.errors) == 3

from __future__ import annotations

import asyncio

from orbitmq.client.background import Tasks


async def test_what_goes_wrong_is_told_and_ends_only_itself() -> None:
    errors: list[Exception] = []
    tasks = Tasks(errors.append)

    async def fail() -> None:
        raise RuntimeError("no")

    await tasks.start(fail(), "failing")
    assert [str(error) for error in errors] == ["no"]
    await tasks.close()


async def test_rounds_go_on_after_a_failure_and_can_be_woken() -> None:
    errors: list[Exception] = []
    tasks = Tasks(errors.append)
    wake, rounds = asyncio.Event(), asyncio.Queue[int]()

    async def action() -> None:
        rounds.put_nowait(1)
        if rounds.qsize() == 1:
            raise RuntimeError("first")

    tasks.every(60_000, action, "rounds", first_ms=1, wake=wake)
    async with asyncio.timeout(5):
        await rounds.get()
        wake.set()
        await rounds.get()
    assert len(errors) >= 1
    await tasks.close()


async def test_closing_ends_everything_even_what_never_began() -> None:
    tasks = Tasks(lambda error: None)
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
    tasks = Tasks(lambda error: None)
    async with asyncio.timeout(5):
        await tasks.start(tasks.close(), "closing")

from __future__ import annotations

import asyncio
import time

import pytest

from orbitmq.client.sending.in_flight import InFlight


async def test_the_count_is_limited_and_turns_come_in_order() -> None:
    limit = InFlight(2, 1000)
    order: list[int] = []

    async def work(number: int) -> None:
        await limit.enter(1)
        order.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == [0, 1]
    for expected in (3, 4, 5):
        limit.leave(1)
        await asyncio.sleep(0)
        assert len(order) == expected
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]


async def test_the_size_is_limited_and_a_giant_goes_alone() -> None:
    limit = InFlight(10, 100)
    await limit.enter(60)
    giant = asyncio.create_task(limit.enter(500))
    await asyncio.sleep(0)
    assert not giant.done()
    limit.leave(60)
    await giant
    small = asyncio.create_task(limit.enter(1))
    await asyncio.sleep(0)
    assert not small.done()
    limit.leave(500)
    await small


async def test_who_gives_up_waiting_takes_no_room() -> None:
    limit = InFlight(1, 100)
    await limit.enter(1)
    impatient, patient = asyncio.create_task(limit.enter(1)), asyncio.create_task(limit.enter(1))
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    limit.leave(1)
    await patient
    assert limit.count == 1


async def test_cancelled_in_the_moment_of_its_turn_it_gives_the_room_back() -> None:
    limit = InFlight(1, 100)
    await limit.enter(1)
    task = asyncio.create_task(limit.enter(1))
    await asyncio.sleep(0)
    limit.leave(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert limit.count == 0


async def test_emptied() -> None:
    limit = InFlight(2, 100)
    await limit.emptied()
    await limit.enter(1)
    waiter = asyncio.create_task(limit.emptied())
    await asyncio.sleep(0)
    assert not waiter.done()
    limit.leave(1)
    await waiter


async def test_many_who_give_up_at_once_cost_each_the_same() -> None:
    """Each went through the whole line before: cancelled sends by the ten thousand held the loop up."""
    limit = InFlight(1, 100)
    await limit.enter(1)
    tasks = [asyncio.create_task(limit.enter(1)) for _ in range(20_000)]
    await asyncio.sleep(0)
    began = time.process_time()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert time.process_time() - began < 5
    limit.leave(1)
    async with asyncio.timeout(120):
        await limit.enter(1)


async def test_when_a_giant_gives_up_the_small_ones_behind_it_go() -> None:
    limit = InFlight(10, 100)
    await limit.enter(60)
    giant, small = asyncio.create_task(limit.enter(500)), asyncio.create_task(limit.enter(1))
    await asyncio.sleep(0)
    giant.cancel()
    async with asyncio.timeout(120):
        await small

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.consumer.closable_queue import Ready


async def test_first_in_first_out() -> None:
    line: Ready[int] = Ready()
    line.put(1)
    line.put(2)
    assert [await line.take(), await line.take()] == [1, 2]


async def test_takers_wait_and_each_thing_is_taken_once() -> None:
    line: Ready[int] = Ready()
    takers = [asyncio.create_task(line.take()) for _ in range(3)]
    await asyncio.sleep(0)
    for number in range(3):
        line.put(number)
    assert sorted(await asyncio.gather(*takers)) == [0, 1, 2]


async def test_a_taker_that_is_cancelled_in_its_turn_loses_nothing() -> None:
    line: Ready[int] = Ready()
    first, second = asyncio.create_task(line.take()), asyncio.create_task(line.take())
    await asyncio.sleep(0)
    line.put(1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == 1


async def test_shut_everybody_goes_home() -> None:
    line: Ready[int] = Ready()
    taker = asyncio.create_task(line.take())
    await asyncio.sleep(0)
    line.shut()
    assert await taker is None
    line.put(1)
    assert await line.take() is None
    assert len(line) == 0

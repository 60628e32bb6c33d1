"""The loop of virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import random

from orbitmq.testing.simulation.loop import RESOLUTION_SECONDS, VirtualLoop


def test_a_wait_that_is_ended_early_by_less_than_the_resolution_ends_at_its_time() -> None:
    loop = VirtualLoop(random.Random(1))

    async def wait_in_steps() -> int:
        until, steps = loop.time() + 1 + RESOLUTION_SECONDS / 2, 0
        loop.call_later(1, lambda: None)  # the wait ends together with this
        while (left := until - loop.time()) > 0 and steps < 10:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), left)
            steps += 1
        return steps

    try:
        assert loop.run_until_complete(wait_in_steps()) < 10
    finally:
        loop.close()

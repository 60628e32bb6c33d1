"""The end of a turn: pushes in rounds, and flushes that several sends share."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from orbitmq import failpoints
from orbitmq.protocol.requests.client import NotifyConsumerIdsChanged
from orbitmq.server.lifecycle.turn_end import PUSHES_PER_ROUND
from tests.kit.replication import until
from tests.kit.running_standalone import running
from tests.unit.server.role.test_changes import send_request

LONG_MS = 60_000


async def test_many_pushes_leave_in_rounds_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "m") as here:
        broker, left = here.broker, list[int]()
        monkeypatch.setattr(broker.turns, "push", lambda connection_id, request: left.append(connection_id))
        pushes = 2 * PUSHES_PER_ROUND + 1
        for number in range(pushes):
            broker.broker.outbox.push(number, NotifyConsumerIdsChanged("G"))
        here.run_task("sample statistics", here.now())
        assert left == list(range(PUSHES_PER_ROUND)), "the rest lets others have their turn"
        await until(lambda: len(left) == pushes)
        assert left == list(range(pushes))


async def test_sends_that_come_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    goes_on, flushes = threading.Event(), list[Any]()

    def hold() -> None:
        flushes.append(None)
        goes_on.wait(60)

    settings: dict[str, object] = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": LONG_MS}
    async with running(tmp_path / "m", None, **settings) as here:
        with failpoints.armed_point("commitlog.flush", hold):
            try:
                first = asyncio.create_task(here.ask(send_request(b"first"), LONG_MS))
                await until(lambda: len(flushes) == 1)
                others = [
                    asyncio.create_task(here.ask(send_request(b"%d" % number), LONG_MS))
                    for number in range(5)
                ]
                await until(lambda: here.broker.turns.waits.count == 6)
            finally:
                goes_on.set()
            await asyncio.gather(first, *others)
        assert len(flushes) == 2

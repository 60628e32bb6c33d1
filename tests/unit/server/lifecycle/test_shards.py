"""The supervisor of shards, with processes that do nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from orbitmq.server.lifecycle import shards
from orbitmq.server.lifecycle.shards import READY, ShardCommand, ShardSupervisor


class Process:
    """A shard that is ready at once, and ends when it is told to."""

    stdin = None

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.ended = asyncio.Event()
        self.stdout = self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        yield f"{READY}127.0.0.1:1, and more\n".encode()

    async def wait(self) -> int:
        await self.ended.wait()
        self.returncode = 1
        return 1

    def kill(self) -> None:
        self.ended.set()


async def test_a_shard_for_which_the_machine_had_no_process_left_is_started_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Process] = []
    failures = [BlockingIOError(11, "Resource temporarily unavailable")]

    async def start(*command: str, **options: object) -> Process:
        if made and failures:
            raise failures.pop()
        made.append(Process())
        return made[-1]

    monkeypatch.setattr(shards.asyncio, "create_subprocess_exec", start)
    monkeypatch.setattr(shards, "STOP_SECONDS", 0)
    supervisor = ShardSupervisor([ShardCommand("a", ())], first_pause_seconds=0.01)
    await supervisor.start()
    made[0].kill()
    async with asyncio.timeout(20):
        while len(made) < 2:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0.01)
    assert not failures
    await supervisor.stop()

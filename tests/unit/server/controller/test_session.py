"""A controller's session with the consensus store begins anew after every failure, foreseen or not."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping

import pytest

from orbitmq.controller.journal import Journal
from orbitmq.controller.leadership import Leadership
from orbitmq.server.controller.consensus import ConsensusStore, Lease, NoMajority, WriteGuard
from orbitmq.server.controller.session import LEADER_KEY, MEMBERS, Session


class Store(ConsensusStore):
    """Keeps keys in memory. The next item of a watch fails with `failure`, once."""

    def __init__(self, failure: BaseException) -> None:
        self.failure: BaseException | None = failure
        self._keys: dict[str, str] = {}

    async def open(self) -> None:
        pass

    async def read(self, prefix: str = "") -> dict[str, str]:
        return {key: text for key, text in self._keys.items() if key.startswith(prefix)}

    async def grant(self, seconds: int) -> Lease:
        return Lease(1, seconds * 1000)

    async def renew(self, lease: int) -> None:
        pass

    async def revoke(self, lease: int) -> None:
        self._keys.clear()

    async def put(self, key: str, text: str, lease: int) -> None:
        self._keys[key] = text

    async def create(self, key: str, text: str, lease: int) -> WriteGuard | None:
        return WriteGuard(key, lease, 1) if self._keys.setdefault(key, text) == text else None

    async def commit(self, changes: Mapping[str, str | None], guard: WriteGuard) -> WriteGuard | None:
        return guard

    async def watch(self, prefix: str) -> AsyncGenerator[None]:
        yield None
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


class Leader:
    """Counts how often it was told to lead."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self.journal = Journal()
        self.terms = 0

    def lead(self, texts: Mapping[str, str], now: int) -> None:
        assert LEADER_KEY in texts
        self.terms += 1
        self._leadership.leads = True

    def step_down(self) -> None:
        self._leadership.leads = False


@pytest.mark.parametrize(
    "failure", [NoMajority("no majority"), asyncio.CancelledError(), ValueError("unreadable")], ids=repr
)
async def test_a_controller_leads_again_after_a_watch_has_failed(failure: BaseException) -> None:
    store, own = Store(failure), Leadership("C", "1", "127.0.0.1:1")
    leader = Leader(own)
    session = Session(
        store,
        leader,
        own,
        lease_seconds=600,
        now=lambda: time.monotonic_ns() // 1_000_000,
        on_committed=lambda: None,
    )
    running = asyncio.create_task(session.run())
    try:
        async with asyncio.timeout(120):
            while store.failure or session.error or not own.leads:  # noqa: ASYNC110 (a session tells nobody)
                await asyncio.sleep(0.01)
            assert await store.read(f"{MEMBERS}id/") == {f"{MEMBERS}id/1": "127.0.0.1:1"}
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await session.stop()

"""A consensus store at its contract: linearizable, with leases by its own clock, watches, and what goes
wrong.

`Consensus` is the store, `SimulatedStore` one controller's way to it. A request takes effect at one moment
between its call and its answer; where the answer does not come in time it may have taken effect, or still
will. A request that has left continues when its controller dies.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from orbitmq.server.controller.consensus import (
    ConsensusStore,
    Lease,
    LeaseLost,
    NoMajority,
    StoreUnreachable,
    WriteGuard,
)
from orbitmq.testing.simulation.loop import Node, VirtualLoop, on_node

ResultT = TypeVar("ResultT")

LATENCY_SECONDS = (0.0005, 0.01)
TIMEOUT_SECONDS = 1.5
"""Time after which a controller takes a request for unanswered."""
LATEST_SECONDS = 4.0
"""The longest that a request is on its way after its caller has given up."""
WATCH_ENDS_SECONDS = 5.0
"""A watch that nothing is heard of for so long is ended."""


@dataclass(slots=True)
class _Key:
    text: str
    lease: int


class Consensus:
    """The keys, the leases, and the clock by which these end.

    `on_change(key, before, after)` is called as a change takes effect; `rate` is the speed of the clock.
    """

    def __init__(self, loop: VirtualLoop, chance: random.Random, rate: float = 1.0) -> None:
        self.loop = loop
        self.chance = chance
        self.keys: dict[str, _Key] = {}
        self.revision = 0
        self.has_majority = True
        self.unreachable: set[str] = set()
        """Machines that do not reach the store."""
        self.delay_seconds = 0.0
        """On top of the usual, for each request."""
        self.unanswered = 0.0
        """The share of requests whose answers do not come."""
        self.on_change: Callable[[str, str | None, str | None], None] = lambda key, before, after: None
        self.before_commit: Callable[[], None] | None = None
        self.after_commit: Callable[[], None] | None = None
        """Called once, before or after the next transaction takes effect: something dies there."""
        self.node = Node("consensus store")
        self._rate = rate
        self._numbers = itertools.count(1)
        self._leases: dict[int, tuple[float, float]] = {}
        """Lease -> its length, and the loop time at which it ends."""
        self._watches: list[tuple[str, asyncio.Event]] = []
        self._fences: dict[str, int] = {}
        """Key that guards -> revision of its creation, or of the last change under it."""

    # Requests, each at one moment.

    def read(self, prefix: str) -> dict[str, str]:
        return {key: one.text for key, one in sorted(self.keys.items()) if key.startswith(prefix)}

    def grant(self, seconds: float) -> int:
        lease = next(self._numbers)
        self._renew(lease, seconds / self._rate)
        return lease

    def renew(self, lease: int) -> None:
        if lease not in self._leases:
            raise LeaseLost("the store does not know this lease")
        self._renew(lease, self._leases[lease][0])

    def _renew(self, lease: int, seconds: float) -> None:
        self._leases[lease] = seconds, self.loop.time() + seconds
        on_node(self.node, self.loop.call_later, seconds, self._look_at, lease)

    def _look_at(self, lease: int) -> None:
        """Ends a lease that is over. Without a majority none ends, and with a new one each starts over."""
        seconds, end = self._leases.get(lease, (0.0, float("inf")))
        if self.loop.time() < end - 1e-6:
            return
        if self.has_majority:
            self.revoke(lease)
        else:
            on_node(self.node, self.loop.call_later, seconds, self._look_at, lease)

    def majority_is_back(self) -> None:
        """The members have found each other: every lease starts over."""
        self.has_majority = True
        for lease, (seconds, _) in list(self._leases.items()):
            self._renew(lease, seconds)

    def revoke(self, lease: int) -> None:
        if self._leases.pop(lease, None) is None:
            raise LeaseLost("the store does not know this lease")
        for key in [key for key, one in self.keys.items() if one.lease == lease]:
            self._set(key, None)

    def put(self, key: str, text: str, lease: int) -> None:
        if lease not in self._leases:
            raise LeaseLost("the store does not know this lease")
        self._set(key, text, lease)

    def create(self, key: str, text: str, lease: int) -> WriteGuard | None:
        if key not in self.keys:
            self.put(key, text, lease)
            self._fences[key] = self.revision
        return self._held(WriteGuard(key, lease, 0))

    def commit(self, changes: Mapping[str, str | None], guard: WriteGuard) -> tuple[bool, WriteGuard | None]:
        """True if the changes are made; and the guard as it is now, None if its key is not its lease's."""
        hook, self.before_commit = self.before_commit, None
        if hook is not None:
            hook()
        is_done = self._held(guard) == guard
        if is_done:
            for key, text in changes.items():
                self._set(key, text)
            self._fences[guard.key] = self.revision
        held = self._held(guard)
        hook, self.after_commit = self.after_commit, None
        if hook is not None:
            hook()
        return is_done, held

    def _held(self, guard: WriteGuard) -> WriteGuard | None:
        found = self.keys.get(guard.key)
        is_held = found is not None and found.lease == guard.lease
        return replace(guard, revision=self._fences[guard.key]) if is_held else None

    def _set(self, key: str, text: str | None, lease: int = 0) -> None:
        before = self.keys.get(key)
        self.revision += 1
        if text is None:
            self.keys.pop(key, None)
        else:
            self.keys[key] = _Key(text, lease)
        self.on_change(key, before.text if before else None, text)
        for prefix, changed in self._watches:
            if key.startswith(prefix):
                changed.set()


class SimulatedStore(ConsensusStore):
    """One controller's way to the store."""

    def __init__(self, consensus: Consensus, machine: str) -> None:
        self._consensus = consensus
        self._machine = machine

    @property
    def _is_cut_off(self) -> bool:
        return self._machine in self._consensus.unreachable

    async def _ask(self, request: Callable[[], ResultT]) -> ResultT:
        consensus = self._consensus
        loop, chance = consensus.loop, consensus.chance
        done: asyncio.Future[ResultT] = loop.create_future()
        is_answered = chance.random() >= consensus.unanswered
        there = chance.uniform(*LATENCY_SECONDS) + consensus.delay_seconds * chance.random()
        if not is_answered and chance.random() < 0.5:
            there = chance.uniform(0, LATEST_SECONDS)

        def arrive(is_late: bool = False) -> None:
            if not consensus.has_majority:
                return  # a proposal that finds no majority is dropped
            try:
                result = request()
            except LeaseLost as error:
                answer(done.set_exception, error)
            else:
                answer(done.set_result, result)

        def answer(end: Callable[..., None], value: object) -> None:
            def ended() -> None:
                if not done.done() and not self._is_cut_off:
                    end(value)

            if is_answered:
                back = chance.uniform(*LATENCY_SECONDS) + consensus.delay_seconds * chance.random()
                on_node(consensus.node, loop.call_later, back, ended)

        if self._is_cut_off:
            await asyncio.sleep(chance.uniform(0, TIMEOUT_SECONDS))
            raise StoreUnreachable("the store cannot be reached")
        on_node(consensus.node, loop.call_later, there, arrive)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await done
        except TimeoutError:
            raise NoMajority("the store does not answer in time") from None

    async def open(self) -> None:
        await self._ask(lambda: self._consensus.read("identity"))

    async def read(self, prefix: str = "") -> dict[str, str]:
        return await self._ask(lambda: self._consensus.read(prefix))

    async def grant(self, seconds: int) -> Lease:
        return Lease(await self._ask(lambda: self._consensus.grant(seconds)), seconds * 1000)

    async def renew(self, lease: int) -> None:
        await self._ask(lambda: self._consensus.renew(lease))

    async def revoke(self, lease: int) -> None:
        await self._ask(lambda: self._consensus.revoke(lease))

    async def put(self, key: str, text: str, lease: int) -> None:
        await self._ask(lambda: self._consensus.put(key, text, lease))

    async def create(self, key: str, text: str, lease: int) -> WriteGuard | None:
        return await self._ask(lambda: self._consensus.create(key, text, lease))

    async def commit(self, changes: Mapping[str, str | None], guard: WriteGuard) -> WriteGuard | None:
        is_done, held = await self._ask(lambda: self._consensus.commit(changes, guard))
        if is_done or held is None:
            return held
        return await self.commit(changes, held)  # an earlier try was carried out late

    async def watch(self, prefix: str) -> AsyncGenerator[None]:
        consensus = self._consensus
        changed = asyncio.Event()
        watch = (prefix, changed)
        await self._ask(lambda: consensus._watches.append(watch))
        try:
            yield None
            silent = 0.0
            while True:
                # News come in order, and later where the way is cut; in the end the stream is given up.
                try:
                    async with asyncio.timeout(1.0):
                        await changed.wait()
                except TimeoutError:
                    pass
                if self._is_cut_off or not consensus.has_majority:
                    silent += 1.0
                    if silent > WATCH_ENDS_SECONDS:
                        raise NoMajority("nothing is heard of a watch")
                    await asyncio.sleep(0.2)
                    continue
                silent = 0.0
                if changed.is_set():
                    changed.clear()
                    await asyncio.sleep(consensus.chance.uniform(*LATENCY_SECONDS))
                    yield None
        finally:
            if watch in consensus._watches:
                consensus._watches.remove(watch)

    async def close(self) -> None:
        pass

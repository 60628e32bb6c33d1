"""The work on one open store: orders are taken in, due messages sent, the store synced, round after round.

One event loop owns the rules and the store's writes; a thread syncs. Nothing is sent before the claim of its
batch is on the disk or, with several instances, in the source; and a reply or a delivery leaves only with
what was synced before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any

from orbitmq.delay_service.errors import StoreError
from orbitmq.delay_service.options import DelaySettings
from orbitmq.delay_service.rules.clock import NeverEarly
from orbitmq.delay_service.rules.delivery import Delivery, Outgoing
from orbitmq.delay_service.rules.intake import Intake, Queue, SourceMessage
from orbitmq.delay_service.rules.lanes import Lane, Lanes
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.backup import make_backup
from orbitmq.delay_service.store.store import DelayStore
from orbitmq.delay_service.targets.target import Cluster
from orbitmq.delay_service.turn import Lease, Turn

log = logging.getLogger(__name__)

LANES_AT_ONCE = 64
"""Targets to which batches are under way at the same time."""
SYNC_SECONDS = 0.02
"""The fate of a delivery is on the disk after this time at the latest."""
LOOK_SECONDS = 1.0
"""The clock is looked at after this time at the latest: it may jump."""
FORGET_SECONDS = 600.0
RECLAIM_SECONDS = 30.0
RECLAIM_EVERY, RECLAIM_IDLE = 200_000, 1000
"""Room is given back after so many deliveries; after the second number once nothing more was delivered."""
RECLAIM_SHARE = 10
"""At least one part in so many of what is pending has left then: all names are written again."""
STOP_SECONDS = 10.0
INTAKE_PART = 500
"""Orders of one read that are carried out in one turn of the loop."""


def read_clocks() -> tuple[int, int]:
    """The wall clock and the time since the boot, sleep included, in ms."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    passed = time.clock_gettime(boot) if boot is not None else time.monotonic()
    return int(time.time() * 1000), int(passed * 1000)


class Syncer:
    """Syncs the store in a thread, once for all that wait."""

    def __init__(self, store: DelayStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "delay-sync")
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._is_due = False
        """True if something was written since the last sync began."""

    async def synced(self) -> None:
        """Returns when everything written so far is on the disk. Raises StoreFull."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._begin()
        await waiting

    def soon(self) -> None:
        """Has everything written so far on the disk before long."""
        self._is_due = True
        if self._later is None and self._task is None:
            self._later = asyncio.get_running_loop().call_later(SYNC_SECONDS, self._begin)

    def _begin(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="delay sync")

    async def _run(self) -> None:
        try:
            while True:
                waiting, self._waiting = self._waiting, []
                self._is_due = False
                failure: Exception | None = None
                try:
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._store.sync)
                except StoreError as error:
                    failure = error
                for one in waiting:
                    if one.done():
                        continue
                    if failure is None:
                        one.set_result(None)
                    else:
                        one.set_exception(failure)
                if not self._waiting:
                    return
        finally:
            self._task = None
            if self._is_due:
                self.soon()

    async def close(self) -> None:
        """Ends the thread."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._later is not None:
            self._later.cancel()
        self._thread.shutdown()


@dataclass(eq=False, repr=False)
class Engine:
    """The work on one open store."""

    settings: DelaySettings
    store: DelayStore
    _targets: dict[str, Cluster]
    _clocks: Callable[[], tuple[int, int]] = read_clocks
    lease: InitVar[Lease | None] = None

    def __post_init__(self, lease: Lease | None) -> None:
        self.lanes = Lanes(self.store, self.settings.rates)
        self.intake = Intake(self.store, self.lanes, self.settings.known)
        self.delivery = Delivery(self.store, self.lanes, self.settings.known)
        self.syncer = Syncer(self.store)
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has the error that ends the engine."""
        self._clock = NeverEarly(*self._clocks())
        self._work = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._drained: dict[int, bytes] = {}
        self._since_reclaim = 0
        self.turn: Turn | None = None
        """The part of this instance among several; None if it stands alone."""
        if lease is not None:
            self.turn = Turn(self.store, self.lanes, self.intake, self.delivery, lease, self._work.set)
            self.turn.end_sends = self._end_sends

    def now(self) -> int:
        """The time of the service (ms)."""
        return self._clock.now(*self._clocks())

    @property
    def clock_jumps(self) -> int:
        """Number of jumps of the machine's clock."""
        return self._clock.jumps

    # Intake.

    def position(self, queue: Queue) -> int | None:
        """The offset to be read next."""
        return self.intake.position(queue)

    def go_back(self, queue: Queue, offset: int) -> None:
        """Continues at an earlier offset of a queue that has lost what was read."""
        with self._ending():
            self.intake.go_back(queue, offset)

    async def take(self, queue: Queue, messages: Sequence[SourceMessage], next_offset: int) -> None:
        """Carries orders out, in parts, with deliveries in between."""
        if self.turn is not None:
            await self.turn.may_read()
        if len(messages) <= INTAKE_PART:
            self._take(queue, messages, next_offset)
        else:
            for begin in range(0, len(messages), INTAKE_PART):
                part = messages[begin : begin + INTAKE_PART]
                last = begin + INTAKE_PART >= len(messages)
                self._take(queue, part, next_offset if last else part[-1].offset + 1)
                await asyncio.sleep(0)
        self.syncer.soon()
        self._work.set()

    def _take(self, queue: Queue, messages: Sequence[SourceMessage], next_offset: int) -> None:
        if self._stopping:
            raise asyncio.CancelledError
        with self._ending():
            self.intake.take(queue, messages, next_offset, self.now())

    async def synced(self) -> None:
        """Returns when everything taken so far is on the disk."""
        with self._ending():
            await self.syncer.synced()

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """An error of the store ends the engine, and its reader."""
        try:
            yield
        except StoreError as error:
            self._fail(error)
            raise asyncio.CancelledError from None

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    # Delivery.

    def start(self) -> None:
        for work in (self._schedule, self._keep_house):
            self._tasks.append(asyncio.create_task(self._watched(work), name=work.__name__))

    async def _watched(self, work: Callable[..., Coroutine[Any, Any, None]], *given: Lane) -> None:
        try:
            await work(*given)
        except Exception as error:
            self._fail(error)

    async def _schedule(self) -> None:
        """Starts a batch of each lane that is due; lanes take turns."""
        jumps = self.clock_jumps
        while True:
            self._work.clear()
            if self.turn is not None and not self.turn.is_held:
                await self._work.wait()
                continue
            now = self.now()
            if jumps != self.clock_jumps:
                jumps = self.clock_jumps
                self.lanes.end_pauses(now)
            while not self._stopping and len(self._sending) < LANES_AT_ONCE:
                lane = self.lanes.due(now)
                if lane is None:
                    break
                task = asyncio.create_task(self._watched(self._send, lane), name=f"send to {lane.target}")
                lane.busy = True  # until its task has looked
                self._sending.add(task)
                task.add_done_callback(self._ended)
            next_at = self.lanes.next_at
            wait = None if next_at is None or len(self._sending) >= LANES_AT_ONCE else (next_at - now) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait is None else min(max(wait, 0.0005), LOOK_SECONDS)):
                    await self._work.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._work.set()

    async def _send(self, lane: Lane) -> None:
        """Batches of a lane, until every message of them has its fate."""
        target = self._targets[lane.target.cluster]
        if self.turn is not None:
            batch = await self.turn.claimed(lane, self.now)
        elif not (batch := await self._claimed(lane)):
            self._free(lane)
        try:
            while batch and self.may_send():
                ahead = self._claim_ahead(lane)
                try:
                    results = await target.deliver(lane.target.topic, batch)
                except BaseException:
                    if ahead is not None:
                        ahead.cancel()
                    raise
                now = self.now()
                waiting = len(batch)
                if self.turn is None:
                    batch = self.delivery.done(lane, batch, results, now)
                else:
                    batch = self.turn.sent(lane, batch, results, now)
                self._since_reclaim += waiting - len(batch)
                self.syncer.soon()
                if ahead is not None:
                    batch = await self._after(lane, ahead, batch)
                if batch:
                    if self._stopping:
                        return
                    await asyncio.sleep(max(0, lane.paused_until - now) / 1000)
        finally:
            if lane.problem and lane.failures == 1:
                log.warning("target %s: %s", lane.target, lane.problem)

    async def _claimed(self, lane: Lane) -> list[Outgoing]:
        """Messages of a lane that leave now."""
        batch = self.delivery.take(lane, self.now())
        if batch:
            await self.syncer.synced()
        return batch

    def _free(self, lane: Lane) -> None:
        lane.busy = False
        self.lanes.changed(lane)

    def _claim_ahead(self, lane: Lane) -> asyncio.Task[list[Outgoing]] | None:
        """Claims the next batch while this one is sent, if it is due and no other target waits for a turn."""
        if (
            self.turn is None
            and not self._stopping
            and len(self._sending) < LANES_AT_ONCE
            and self.delivery.may_claim_ahead(lane, self.now())
        ):
            return asyncio.create_task(self._claimed(lane), name=f"claim ahead for {lane.target}")
        return None

    async def _after(
        self, lane: Lane, ahead: asyncio.Task[list[Outgoing]], again: list[Outgoing]
    ) -> list[Outgoing]:
        """The batch that follows: what is to be sent again, or the one that was claimed ahead."""
        lane.busy = True
        batch = await ahead
        if again or lane.failures or self._stopping:
            self.delivery.release(lane, batch)
            batch = again
        if not batch:
            self._free(lane)
        return batch

    def may_send(self) -> bool:
        """False if another instance may deliver."""
        return self.turn is None or self.turn.may_send()

    async def _end_sends(self) -> None:
        """Nothing is under way afterwards: another instance may deliver."""
        under_way = list(self._sending)
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)

    # Keeping house.

    async def _keep_house(self) -> None:
        """Forgets old names, and gives room back."""
        forget_at = 0.0
        before = -1
        while True:
            now = time.monotonic()
            if now >= forget_at:
                self.store.forget(self.now())
                forget_at = now + FORGET_SECONDS
            enough = RECLAIM_IDLE if self._since_reclaim == before else RECLAIM_EVERY
            if self._since_reclaim >= max(enough, self.store.pending_count // RECLAIM_SHARE):
                self._since_reclaim = 0
                await asyncio.to_thread(self.store.reclaim, self._ranges())
            before = self._since_reclaim
            await asyncio.sleep(RECLAIM_SECONDS)

    def _ranges(self) -> list[tuple[bytes, bytes]]:
        """Ranges from which much was removed: of each lane all before its next message, and the names."""
        ranges = []
        for lane in self.lanes:
            head = lane.head
            start = keys.lane_start(lane.number)
            if head is None:
                ranges.append((start, keys.lane_end(lane.number)))
            elif keys.due_of(head) > 0:
                ranges.append((start, head))
        return [*ranges[:1000], (b"N", b"O"), (b"G", b"H")]

    async def backup(self) -> tuple[Path, int]:
        """Makes a copy of the store, and gives its folder and time (ms). Raises StoreError."""
        await self.syncer.synced()
        now = self.now()
        return await asyncio.to_thread(make_backup, self.store, now), now

    # The end.

    async def stop(self) -> None:
        """Lets batches under way come to their end, and closes the store."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if self.turn is not None:
            self.turn.end_claims()
        if self._sending:
            _, left = await asyncio.wait(self._sending, timeout=STOP_SECONDS)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
        if self.turn is not None:
            await self.turn.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.syncer.close()
        if self.failed.done() and not self.failed.cancelled():
            self.failed.exception()
        with contextlib.suppress(StoreError):
            self.store.close()

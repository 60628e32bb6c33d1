"""The part of one instance among several, on one open store: it follows, or delivers while it has the lease.

It writes the records that `rules.sharing` decides on into the sources, and reads them back as all others do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from orbitmq.delay_service.rules.delivery import Delivery, Outgoing, Sent
from orbitmq.delay_service.rules.intake import Intake
from orbitmq.delay_service.rules.lanes import Lane, Lanes
from orbitmq.delay_service.rules.sharing import Batch, Holder, Sharing
from orbitmq.delay_service.store.store import DelayStore

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""Interval at which a holder looks for queues in which its term has not begun."""
READ_BACK_SECONDS = 30.0
"""A record that has been written to a queue and not read back by then is lost: it is written again."""
RETRY_SECONDS = 0.5


class Lease(Protocol):
    """The lease of the instance that delivers, and the ways into the sources."""

    def term(self) -> int:
        """The term that this instance is in; 0 outside of one. Looked at right before each send."""

    async def write(self, queue: str, body: bytes) -> None:
        """Writes a record into a queue of a source. Raises what sending raises."""

    def queues(self) -> set[str]:
        """Queues that the sources have at present."""


class Turn:
    """The part of one instance."""

    def __init__(
        self,
        store: DelayStore,
        lanes: Lanes,
        intake: Intake,
        delivery: Delivery,
        lease: Lease,
        on_change: Callable[[], None],
    ) -> None:
        self._lease = lease
        self._lanes = lanes
        self._on_change = on_change
        self._known = asyncio.Event()
        self._sharing = intake.sharing = Sharing(store, lanes, delivery)
        self.holder = Holder(store, lanes, delivery, self._sharing)
        self.end_sends: Callable[[], Awaitable[None]] = _nothing
        self._tasks: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()

    # The lease.

    def secret_is(self, secret: bytes) -> None:
        """The secret of the service's records is known: the sources can be read."""
        self._sharing.secret = secret
        self._known.set()

    async def may_read(self) -> None:
        """Returns once records can be told from what others write."""
        await self._known.wait()

    @property
    def is_held(self) -> bool:
        """True while this instance delivers, as far as it has noticed."""
        return self.holder.term > 0

    def may_send(self) -> bool:
        """True if the lease is this instance's at this moment."""
        return self.holder.term > 0 and self._lease.term() == self.holder.term

    async def follow(self) -> None:
        """Takes up the term that the lease is in, or ends the one before; to be called at each change."""
        async with self._changing:
            term = self._lease.term() if self._known.is_set() else 0
            if term == self.holder.term:
                return
            self.holder.step_down()
            for task in list(self._tasks):
                task.cancel()
            await self.end_sends()
            if term:
                log.info("this instance delivers from now on (term %d)", term)
                self.holder.lead(term)
                self._start(self._begin_queues(term), f"begin term {term}")
            else:
                log.info("this instance follows")
            self._on_change()

    async def _begin_queues(self, term: int) -> None:
        """Begins the term in every queue of the sources, new ones included."""
        loop = asyncio.get_running_loop()
        written: dict[str, float] = {}
        while self.holder.term == term:
            self.holder.present = self._lease.queues()
            waiting = self.holder.present - self.holder.begun
            due = [one for one in waiting if loop.time() >= written.get(one, 0.0)]
            results = await asyncio.gather(
                *(self._lease.write(one, self.holder.begin(one)) for one in due), return_exceptions=True
            )
            for queue, error in zip(due, results, strict=True):
                if isinstance(error, BaseException):
                    log.warning("%s: the term cannot begin yet: %s", queue, error)
                    written[queue] = loop.time() + RETRY_SECONDS
                else:
                    written[queue] = loop.time() + READ_BACK_SECONDS
            for queue in self.holder.begun:
                written.pop(queue, None)
            self._on_change()
            await asyncio.sleep(LOOK_SECONDS)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Delivery.

    async def claimed(self, lane: Lane, now: Callable[[], int]) -> list[Outgoing]:
        """Messages of a lane that leave now, claimed in the sources; the lane is free if there are none."""
        batch = self.holder.take(lane, now())
        if batch is None:
            lane.busy = False
            self._lanes.changed(lane)
            return []
        ready = asyncio.Event()
        batch.on_ready = ready.set
        for number, queue, body in batch.writes:
            self._start(self._write_claim(batch, number, queue, body), "claim")
        if batch.open:
            try:
                async with asyncio.timeout(READ_BACK_SECONDS):
                    await ready.wait()
            except TimeoutError:
                # The source may have lost them, with a master whose slave did not have them.
                log.warning("claims of messages to %s were written, and not read back", lane.target)
                for number, queue, _ in batch.writes:
                    if number in batch.open:
                        self.holder.failed(batch, number, queue)
        return self.holder.claimed(batch, now())

    async def _write_claim(self, batch: Batch, number: int, queue: str, body: bytes) -> None:
        try:
            await self._lease.write(queue, body)
        except Exception as error:
            log.warning("%s: a claim could not be written: %s", queue, error)
            self.holder.failed(batch, number, queue)

    def sent(
        self, lane: Lane, batch: Sequence[Outgoing], results: Sequence[Sent], now: int
    ) -> list[Outgoing]:
        """The messages to be sent again; the fates of the others go into the sources."""
        again, writes = self.holder.sent(lane, batch, results, now)
        for queue, body in writes:
            self._start(self._write_fates(self.holder.term, queue, body), "fates")
        return again

    async def _write_fates(self, term: int, queue: str, body: bytes) -> None:
        while term and self.holder.term == term:
            try:
                await self._lease.write(queue, body)
                return
            except Exception as error:
                log.warning("%s: fates could not be written yet: %s", queue, error)
                await asyncio.sleep(RETRY_SECONDS)

    def end_claims(self) -> None:
        """No claim is waited for any more: what it claims all the same is left to the next holder."""
        self.holder.give_up()

    async def stop(self) -> None:
        """Writes what was sent, and ends."""
        fates = [task for task in self._tasks if task.get_name() == "fates"]
        if fates:
            await asyncio.wait(fates, timeout=2)
        self.holder.step_down()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _nothing() -> None:
    """Nothing is under way."""

"""A controller's lease on the consensus store: it joins, leads if no other does, writes what it decides.

A controller leads from when its key is in the store until its lease may have ended by its own clock, which is
never later than the store ends it. So no two lead at the same time, and each change is written under the
condition that the key is still this controller's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from orbitmq.controller.group import UnreadableGroup
from orbitmq.controller.journal import Journal
from orbitmq.controller.leadership import Leadership
from orbitmq.server.controller.consensus import (
    ConsensusError,
    ConsensusStore,
    ForeignStore,
    Lease,
    LeaseLost,
    WriteGuard,
)

log = logging.getLogger(__name__)

MEMBERS = "members/"
LEADER_KEY = "members/leader"
RETRY_SECONDS = 0.3
"""Pause after a failure of the store."""


class Leader(Protocol):
    """The state that the session reports on: the rules of a controller."""

    @property
    def journal(self) -> Journal: ...
    def lead(self, texts: Mapping[str, str], now: int) -> None: ...
    def step_down(self) -> None: ...


@dataclass(eq=False, repr=False)
class Session:
    """Runs until it is stopped. `on_committed` is called after each write, and after stepping down.

    `called` names such a member in the log.
    """

    _store: ConsensusStore
    _leader: Leader
    _leadership: Leadership
    _: KW_ONLY
    lease_seconds: int
    now: Callable[[], int]
    on_committed: Callable[[], None]
    called: str = "controller"

    def __post_init__(self) -> None:
        self._changed = asyncio.Event()
        self._lease: Lease | None = None
        self._end: asyncio.TimerHandle | None = None
        self.error = "starting"
        """The reason why the store cannot be used; empty while it can."""

    def changed(self) -> None:
        """The journal has something to write."""
        self._changed.set()

    async def run(self) -> None:
        """Joins the controllers again and again; each failure of the store is logged once while it lasts."""
        while True:
            try:
                await self._join()
            except ConsensusError as error:
                if str(error) != self.error:
                    log.error("no decisions until the consensus store is back: %s", error)
                self.error = str(error)
            except Exception as error:
                log.exception("the session with the consensus store failed, and begins anew")
                self.error = f"{type(error).__name__}: {error}"
            finally:
                self._step_down()
            await asyncio.sleep(RETRY_SECONDS)

    async def _join(self) -> None:
        await self._store.open()
        await self._give_back()
        began = self.now()
        self._lease = lease = await self._store.grant(self.lease_seconds)
        self._renewed(began, lease)
        own = self._leadership
        await self._store.put(f"{MEMBERS}id/{own.own_id}", own.own_address, lease.id)
        self.error = ""
        guard: asyncio.Future[WriteGuard] = asyncio.get_running_loop().create_future()
        tasks = [
            asyncio.create_task(self._keep_lease(lease), name="keep the lease"),
            asyncio.create_task(self._follow(lease.id, guard), name="follow the members"),
            asyncio.create_task(self._write(guard), name="write decisions"),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in ended:
            if task.cancelled():  # not by this session: the store's client gave the request up
                raise ConsensusError(f"{task.get_name()}: the request was given up")
            task.result()

    async def _give_back(self) -> None:
        """Ends the lease that this controller had before: no other controller has to wait for its end."""
        lease, self._lease = self._lease, None
        if lease is not None:
            with contextlib.suppress(LeaseLost):
                await self._store.revoke(lease.id)

    async def _keep_lease(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(lease.holds_ms / 4000)
            began = self.now()
            try:
                await self._store.renew(lease.id)
            except (LeaseLost, ForeignStore):
                raise
            except ConsensusError as error:
                if self._is_over():
                    raise
                log.warning("the lease could not be renewed, trying again: %s", error)
                continue
            if self._is_over():
                raise LeaseLost("the lease was renewed too late")
            self._renewed(began, lease)

    def _is_over(self) -> bool:
        return self.now() >= self._leadership.lease_until_ms

    def _renewed(self, began_ms: int, lease: Lease) -> None:
        """The lease holds from when the request was made: the store counts from a later moment."""
        self._leadership.lease_until_ms = began_ms + lease.holds_ms
        if self._end is not None:
            self._end.cancel()
        left = (self._leadership.lease_until_ms - self.now()) / 1000
        self._end = asyncio.get_running_loop().call_later(left, self._step_down)

    async def _follow(self, lease: int, guard: asyncio.Future[WriteGuard]) -> None:
        """Looks who is there at each change, and leads where no other controller does."""
        async with contextlib.aclosing(self._store.watch(MEMBERS)) as changes:
            async for _ in changes:
                created = await self._look(lease)
                if created is not None and not guard.done():
                    guard.set_result(created)

    async def _look(self, lease: int) -> WriteGuard | None:
        own = self._leadership
        guard = None
        members = await self._store.read(MEMBERS)
        if LEADER_KEY not in members:
            guard = await self._store.create(LEADER_KEY, own.own_id, lease)
            members = await self._store.read(MEMBERS)
        own.peers = {
            key.removeprefix(f"{MEMBERS}id/"): address
            for key, address in members.items()
            if key != LEADER_KEY
        }
        before, own.leader_id = own.leader_id, members.get(LEADER_KEY, "").removeprefix(MEMBERS)
        if own.leader_id != before and own.leader_id != own.own_id:
            who = own.leader_id or "nobody"
            log.info("%s %s leads, at %s", self.called, who, own.leader_address)
        if own.leads and own.leader_id != own.own_id:
            raise LeaseLost(f"another {self.called} leads")
        return guard

    async def _write(self, created: asyncio.Future[WriteGuard]) -> None:
        """Once this controller leads, takes over what the store holds, then writes each change."""
        guard = await created
        texts = await self._store.read()
        try:
            self._leader.lead(texts, self.now())
        except UnreadableGroup as error:
            raise ForeignStore(f"the store holds what this release cannot read: {error}") from None
        log.info("this %s leads", self.called)
        journal = self._leader.journal
        while True:
            await self._changed.wait()
            self._changed.clear()
            batch = journal.drain()
            if batch is None:
                continue
            while True:
                try:
                    next_guard = await self._store.commit(batch.changes, guard)
                    break
                except ConsensusError as error:
                    if self._is_over():
                        raise
                    log.warning("a change could not be written, trying again: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
            if next_guard is None:
                raise LeaseLost(f"another {self.called} leads: the change was not written")
            guard = next_guard
            journal.confirm(batch)
            self.on_committed()

    def _step_down(self) -> None:
        if self._leadership.leads:
            log.warning("this %s does not lead any more", self.called)
        self._leadership.leader_id = ""
        self._leader.step_down()
        self.on_committed()

    async def stop(self) -> None:
        """Gives the lease back, so that another controller leads at once."""
        if self._end is not None:
            self._end.cancel()
        with contextlib.suppress(ConsensusError):
            await self._give_back()
        await self._store.close()

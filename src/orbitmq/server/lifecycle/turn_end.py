"""The end of every turn: work that the rules have left is done, and calls that wait for it continue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from typing import Any

from orbitmq.broker.broker import Broker
from orbitmq.handling.call import Signal
from orbitmq.server.lifecycle.routes import RouteAsker
from orbitmq.server.role.changes import RoleChanges
from orbitmq.server.role.sockets import ReplicationRunner
from orbitmq.server.role.table_changes import TableChanges
from orbitmq.server.tasks.background import BackgroundTasks
from orbitmq.server.tasks.registrar import Registrar
from orbitmq.server.tasks.table_writer import TableWriter
from orbitmq.server.turn.turn import Turns

log = logging.getLogger(__name__)

PUSHES_PER_ROUND = 512
"""Pushes that are sent in one turn; other work follows."""


@dataclass(eq=False, repr=False)
class TurnEnd:
    """Pushes, wake-ups, and the start of flushes, saves and requests that replies wait for.

    `flush` is the thread that flushes. `on_role_news()` is called after a controller's notice.
    """

    _broker: Broker
    _turns: Turns
    _replication: ReplicationRunner
    _roles: RoleChanges
    _registrar: Registrar
    _route_asker: RouteAsker
    _table_writer: TableWriter
    _table_changes: TableChanges
    _: KW_ONLY
    background: BackgroundTasks
    flush: Executor
    on_role_news: Callable[[], None]

    def __post_init__(self) -> None:
        self._store = self._broker.store
        self._now = self._turns.dispatcher.now
        self._flushes_at_once = self._broker.store.options.sync_flush
        self._is_guarded = self._turns.guard is not None
        self._awaited = self._turns.waits.queues
        self._awaited_or_polled = _AnyOf(
            (self._turns.waits.queues, self._broker.held_pops, self._broker.held_notices)
        )
        self._awaited_or_lite = _AnyOf((self._awaited_or_polled, self._broker.lite_subscriptions))
        self._is_flushing = False
        self._notifies_later = False
        self._pushes_later = False
        self._is_stopping = False
        self._is_closed = False

    def stop(self) -> None:
        """Schedules no further turns: the broker stops."""
        self._is_stopping = True

    def close(self) -> None:
        """Does nothing any more: a thread closes the store, and no other may touch it meanwhile."""
        self._is_closed = True

    def run(self, now: int) -> None:
        if self._is_closed:
            return
        broker = self._broker
        if broker.clients.unnotified:
            self._notify_members(now)
        if self._is_guarded:
            self._turns.refuse_withdrawn()
        self._replication.pump()
        self._store.is_paused = broker.promise.lacks_member
        # Shows readers, and acknowledges, the messages that enough replicas hold by now.
        self._store.arrivals.replicas_reached(broker.promise.replicated)
        if self._turns.waits.waits_for_disk:
            self._turns.waits.durable(self._store.confirm_offset)
        if broker.outbox.pushes:
            self._push()
        self._drain_arrivals(now)
        if woken := broker.drain_woken():
            self._wake(woken)
        if broker.routes.wanted:
            self.ask_routes(broker.routes.drain_wanted())
        if broker.role_requests.pending:
            self._roles.start_requested()
        if broker.role_requests.has_news:
            broker.role_requests.has_news = False
            self.on_role_news()
        if broker.dirty_tables.any_soon:
            self._table_writer.notice()
        if self._table_changes.held:
            self._table_changes.answer_taken()
        if broker.topics.changed:
            self._registrar.topics_changed()
        if self._flushes_at_once and not self._is_flushing and self._store.flushing.is_wanted:
            self._flush()
        self._store.log.reserving.begin_soon()

    def run_apart(self, now: int) -> None:
        """Ends a turn that no client's read has begun: replies that it lets go leave now, not in another
        round of the loop.
        """
        flushes = self._turns.listener.flushes
        flushes.turns += 1
        try:
            self.run(now)
        finally:
            flushes.end_turn()

    def _notify_members(self, now: int) -> None:
        following = self._broker.clients.notify(now)
        if following is not None and not self._notifies_later:
            self._notifies_later = True
            asyncio.get_running_loop().call_later((following - now) / 1000, self._notify_later)

    def _notify_later(self) -> None:
        self._notifies_later = False
        if not self._is_stopping:
            self.run(self._now())

    def _push(self) -> None:
        """Sends some of the requests that rules have for other peers; the others follow in later rounds."""
        outbox = self._broker.outbox
        for connection_id, request in outbox.drain(PUSHES_PER_ROUND):
            self._turns.push(connection_id, request)
        if outbox.pushes and not self._pushes_later:
            self._pushes_later = True
            asyncio.get_running_loop().call_soon(self._push_later)

    def _push_later(self) -> None:
        self._pushes_later = False
        if self._broker.outbox.pushes:
            self._push()

    def _drain_arrivals(self, now: int) -> None:
        """Continues held calls whose queues have new messages."""
        broker = self._broker
        held = broker.held_pops.count or broker.held_notices.count
        has_lite = bool(broker.lite_subscriptions.clients)
        wanted = self._awaited_or_polled if held else self._awaited
        arrivals = self._store.arrivals.drain(self._awaited_or_lite if has_lite else wanted)
        if arrivals:
            self._turns.waits.arrived(arrivals)
            if held:
                broker.held_pops.arrived(arrivals)
                broker.held_notices.arrived(arrivals)
            if has_lite:
                broker.lite_events.arrived(arrivals, now)

    def _wake(self, woken: Sequence[Signal]) -> None:
        """Continues held calls that the rules have signalled; these may wake further ones."""
        while woken:
            self._turns.waits.signalled(woken)
            woken = self._broker.drain_woken()

    def ask_routes(self, topics: set[str]) -> None:
        """Asks name servers for routes, and ends a turn once they have answered."""

        async def ask() -> None:
            await self._route_asker.ask(sorted(topics))
            self.run(self._now())

        if topics:
            self.background.start(ask(), "routes asked of name servers")

    def _flush(self) -> None:
        """Group commit: one flush for all calls that wait now; later ones wait for the next flush."""
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self.flush, self._store.flushing.flush_now).add_done_callback(self._flushed)
        self._is_flushing = True

    def _flushed(self, future: asyncio.Future[Any]) -> None:
        self._is_flushing = False
        if future.cancelled() or self._is_closed:
            return
        error = future.exception()
        if error is not None:
            log.error("flush of the commit log failed: %s", error)
            return
        self._replication.report()
        self.run_apart(self._now())


class _AnyOf:
    """The queues that are in any of several containers."""

    def __init__(self, parts: tuple[Container[tuple[str, int]], ...]) -> None:
        self._parts = parts

    def __contains__(self, queue: object) -> bool:
        return any(queue in part for part in self._parts)

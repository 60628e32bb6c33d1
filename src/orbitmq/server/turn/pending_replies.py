"""Replies that wait: for a message, the disk, a saved table, a peer's answer, a signal, or time to pass."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Container, Iterable
from concurrent.futures import Executor
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import TypeAlias

from orbitmq.handling.call import (
    Answer,
    Condition,
    DataAt,
    Durable,
    OffLoop,
    OtherBroker,
    Outcome,
    Pause,
    Saved,
    Signal,
    Wait,
    Warm,
)
from orbitmq.net.errors import NoNameServer
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import Command
from orbitmq.server.turn.off_loop import OffLoopRunner

Arrival: TypeAlias = tuple[str, int, int, int]
"""Topic, queue id, the queue's new max offset, tag hash of the message."""

Withdrawal: TypeAlias = Callable[[], Refused | None]
"""The refusal that a held call's peer gets by now; None while it has the right to the reply."""

MAX_WAITS_PER_CONNECTION = 4096
"""Held requests of one peer; a further one is answered at once, as if its time were over."""
MAX_OFF_LOOP_PER_CONNECTION = 16
"""Requests of one peer that are worked on beside the loop: those threads serve everybody.

Further ones wait for their turn. Those with a large body are refused: that memory is the peer's to choose.
"""
STEP_MS = 50
"""Long waits end together, so much after their deadlines at most: a timer for each costs more than it."""
LONG_MS = 1_000
WAKES_PER_ROUND = 256
"""Calls that one arrival wakes before others have their turn; each of them reads and answers."""


AskBroker: TypeAlias = Callable[[OtherBroker, int, Callable[[object, Exception | None], None]], None]
"""Asks another broker, for so many ms at most; calls back with its reply or the error."""


def ask_nobody(
    condition: OtherBroker, timeout_ms: int, then: Callable[[object, Exception | None], None]
) -> None:
    """Finds no other broker: of a server without name servers."""
    then(None, NoNameServer([]))


@dataclass(slots=True, eq=False, repr=False)
class PendingReply:
    """One held call, or several that wait for the same."""

    connection_id: int
    wait: Wait
    complete: Callable[[Outcome], None]
    left: int
    """Conditions still open; 0 once completed."""
    calls: int
    withdrawal: Withdrawal | None
    is_poll: bool
    answers: dict[Answer, Command] = field(default_factory=dict)
    value: object = None
    error: Exception | None = None
    abandon: Callable[[], None] | None = None
    """Ends work beside the loop, while it is under way."""
    timer: asyncio.TimerHandle | None = None
    """The end of a short wait."""
    step: dict[PendingReply, None] | None = None
    """Those who end together, of a long one."""


_POLLS = (DataAt, Signal)


def _is_poll(wait: Wait) -> bool:
    """True if a call is held until there is something to read: peers choose how many of these there are."""
    for condition in wait.on:  # noqa: SIM110 - nearly every call waits for one condition
        if isinstance(condition, _POLLS):
            return True
    return False


def _is_pause(wait: Wait) -> bool:
    """True between two parts of work that has begun: it continues even if other replies are held."""
    return any(isinstance(condition, Pause) for condition in wait.on)


class _Held(dict[PendingReply, None]):
    """Calls that are held of one peer."""

    calls = 0

    def enter(self, waiting: PendingReply) -> None:
        self[waiting] = None
        self.calls += waiting.calls

    def leave(self, waiting: PendingReply) -> None:
        if waiting in self:
            del self[waiting]
            self.calls -= waiting.calls


@dataclass(eq=False, repr=False)
class PendingReplies:
    """Every held call of one server, found by what it waits for.

    `executor` does work beside the loop. `ask(answer, timeout_ms, then)` sends a request to a peer and calls
    `then` with the answer, or None if there is none: whoever has the connections sets it.
    `warm(condition, then)` brings a range of the log into memory off the loop. `max_polls()` limits the long
    polls of all peers; beyond it one is answered at once, as if its time were over. `ask_broker` asks the
    masters of other groups.
    """

    now: Callable[[], int]
    executor: InitVar[Executor | None] = None
    _: KW_ONLY
    ask: Callable[[Answer, int, Callable[[Command | None], None]], None] = lambda answer, ms, then: then(None)
    warm: Callable[[Warm, Callable[[], None]], None] = lambda condition, then: then()
    max_polls: Callable[[], float] = lambda: math.inf
    ask_broker: AskBroker = ask_nobody

    def __post_init__(self, executor: Executor | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._off_loop = OffLoopRunner(executor)
        self._working: dict[int, int] = {}
        """Number of pieces of work under way for a connection."""
        self._queued: dict[int, deque[tuple[PendingReply, OffLoop]]] = {}
        """Work of a connection that starts when another piece of its work has ended."""
        self._by_queue: dict[tuple[str, int], dict[PendingReply, DataAt]] = {}
        self._late: deque[PendingReply] = deque()
        """Calls whose message has come, woken in one of the next rounds of the loop."""
        self._durable: deque[tuple[int, PendingReply]] = deque()
        self._saved: dict[str, list[PendingReply]] = {}
        self._signals: dict[Signal, PendingReply] = {}
        self._by_connection: dict[int, _Held] = {}
        self._steps: dict[int, dict[PendingReply, None]] = {}
        """Long waits by the step of time in which they end."""
        self._to_check: deque[PendingReply] = deque()
        """Calls whose peers may have lost the right to the reply."""
        self.count = 0
        """Calls held now."""
        self.polls = 0
        """Long polls among them."""

    @property
    def queues(self) -> Container[tuple[str, int]]:
        """The queues (topic, queue id) on which somebody waits for a message."""
        return self._by_queue

    @property
    def waits_for_disk(self) -> bool:
        """True if a reply waits for the next flush."""
        return bool(self._durable)

    def is_full(self, connection_id: int) -> bool:
        """True if no more calls of a peer are held."""
        mine = self._by_connection.get(connection_id)
        return mine is not None and mine.calls >= MAX_WAITS_PER_CONNECTION

    def hold(
        self,
        connection_id: int,
        wait: Wait,
        complete: Callable[[Outcome], None],
        calls: int = 1,
        withdrawal: Withdrawal | None = None,
    ) -> None:
        """Keeps a call until its conditions are met or its deadline has passed, then completes it.

        So it does with several that wait for the same, and are completed together.
        """
        mine = self._by_connection.get(connection_id)
        now = self.now()
        delay_ms = wait.deadline - now
        is_poll = _is_poll(wait)
        if (
            delay_ms <= 0
            or (mine is not None and mine.calls >= MAX_WAITS_PER_CONNECTION and not _is_pause(wait))
            or (is_poll and self.polls >= self.max_polls())
        ):
            complete(Outcome(timed_out=True))
            return
        if mine is None:
            mine = self._by_connection[connection_id] = _Held()
        waiting = PendingReply(
            connection_id, wait, complete, 1 if wait.any_of else len(wait.on), calls, withdrawal, is_poll
        )
        mine.enter(waiting)
        self.count += calls
        self.polls += waiting.is_poll
        if delay_ms < LONG_MS:
            waiting.timer = self._loop.call_later(delay_ms / 1000, self._end, waiting, True)
        else:
            self._end_by_step(waiting, now)
        for condition in wait.on:
            # Most are pulls, or wait for the promise; to match patterns takes its time.
            if isinstance(condition, DataAt):
                key = (condition.topic, condition.queue_id)
                entries = self._by_queue.get(key)
                if entries is None:
                    entries = self._by_queue[key] = {}
                entries[waiting] = condition
            elif isinstance(condition, Durable):
                self._durable.append((condition.physical_offset, waiting))
            else:
                self._enter(waiting, condition)

    def _end_by_step(self, waiting: PendingReply, now: int) -> None:
        number = waiting.wait.deadline // STEP_MS + 1
        step = self._steps.get(number)
        if step is None:
            step = self._steps[number] = {}
            self._loop.call_later((number * STEP_MS - now) / 1000, self._end_step, number)
        step[waiting] = None
        waiting.step = step

    def _end_step(self, number: int) -> None:
        for waiting in list(self._steps.pop(number)):
            self._end(waiting, True)

    def _enter(self, waiting: PendingReply, condition: Condition) -> None:
        match condition:
            case Saved(table):
                self._saved.setdefault(table, []).append(waiting)
            case Answer():
                left_ms = max(1, waiting.wait.deadline - self.now())
                self.ask(condition, left_ms, lambda command: self._answered(waiting, condition, command))
            case OtherBroker():
                left_ms = max(1, waiting.wait.deadline - self.now())
                self.ask_broker(condition, left_ms, partial(self._heard, waiting))
            case Warm():
                self.warm(condition, lambda: self._met(waiting))
            case Signal():
                self._signals[condition] = waiting
            case Pause():
                self._loop.call_soon(self._met, waiting)
            case OffLoop():
                self._work(waiting, condition)

    def _work(self, waiting: PendingReply, condition: OffLoop) -> None:
        connection_id = waiting.connection_id
        working = self._working.get(connection_id, 0)
        if working < MAX_OFF_LOOP_PER_CONNECTION:
            self._start_work(waiting, condition)
        elif condition.holds_body:
            waiting.error = Refused(
                ResponseCode.SYSTEM_BUSY,
                f"{working} requests of this connection take long already: wait for their answers",
            )
            self._loop.call_soon(self._met, waiting)
        else:
            self._queued.setdefault(connection_id, deque()).append((waiting, condition))

    def _start_work(self, waiting: PendingReply, condition: OffLoop) -> None:
        self._working[waiting.connection_id] = self._working.get(waiting.connection_id, 0) + 1
        waiting.abandon = self._off_loop.start(condition.work, partial(self._heard, waiting))

    def _stop_work(self, waiting: PendingReply, abandon: Callable[[], None]) -> None:
        abandon()
        waiting.abandon = None
        connection_id = waiting.connection_id
        working = self._working.pop(connection_id) - 1
        if working:
            self._working[connection_id] = working
        self._start_queued(connection_id)

    def _start_queued(self, connection_id: int) -> None:
        """Starts the next piece of work of a connection whose call is still held."""
        queued = self._queued.get(connection_id)
        while queued:
            waiting, condition = queued.popleft()
            if waiting.left:
                self._start_work(waiting, condition)
                break
        if not queued:
            self._queued.pop(connection_id, None)

    def _answered(self, waiting: PendingReply, condition: Answer, command: Command | None) -> None:
        if command is not None:
            waiting.answers[condition] = command
        self._met(waiting)

    def _heard(self, waiting: PendingReply, value: object, error: Exception | None) -> None:
        waiting.value, waiting.error = value, error
        self._met(waiting)

    def _met(self, waiting: PendingReply) -> None:
        if waiting.left:
            waiting.left -= 1
            if not waiting.left:
                waiting.left = 1
                self._end(waiting, False)

    def _end(self, waiting: PendingReply, timed_out: bool) -> None:
        if not waiting.left:
            return
        waiting.left = 0
        self._stop_clock(waiting)
        self._uncount(waiting)
        mine = self._by_connection.get(waiting.connection_id)
        if mine is not None:
            mine.leave(waiting)
            if not mine:
                del self._by_connection[waiting.connection_id]
        self._remove(waiting)
        waiting.complete(Outcome(timed_out, waiting.answers, waiting.value, waiting.error))

    def _uncount(self, waiting: PendingReply) -> None:
        self.count -= waiting.calls
        self.polls -= waiting.is_poll

    def _stop_clock(self, waiting: PendingReply) -> None:
        if waiting.step is not None:
            waiting.step.pop(waiting, None)
        elif waiting.timer is not None:
            waiting.timer.cancel()

    def _remove(self, waiting: PendingReply) -> None:
        if waiting.abandon is not None:
            self._stop_work(waiting, waiting.abandon)
        for condition in waiting.wait.on:
            if isinstance(condition, DataAt):
                self._remove_from_queue(waiting, condition)
            elif isinstance(condition, Signal):
                self._signals.pop(condition, None)

    def _remove_from_queue(self, waiting: PendingReply, condition: DataAt) -> None:
        key = (condition.topic, condition.queue_id)
        entries = self._by_queue.get(key)
        if entries is not None and entries.pop(waiting, None) is not None and not entries:
            del self._by_queue[key]

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Wakes the calls that wait for these messages."""
        by_queue = self._by_queue
        woken = 0
        for topic, queue_id, max_offset, tag_code in arrivals:
            entries = by_queue.get((topic, queue_id))
            if entries is None:
                continue
            met = [
                (waiting, condition)
                for waiting, condition in entries.items()
                if max_offset > condition.queue_offset
                and (condition.tag_codes is None or tag_code in condition.tag_codes)
                and (condition.accepts is None or condition.accepts(max_offset - 1))
            ]
            for waiting, condition in met:
                self._remove_from_queue(waiting, condition)
                woken += 1
                if woken <= WAKES_PER_ROUND and not self._late:
                    self._met(waiting)
                else:
                    self._wake_later(waiting)

    def _wake_later(self, waiting: PendingReply) -> None:
        if not self._late:
            self._loop.call_soon(self._wake_late)
        self._late.append(waiting)

    def _wake_late(self) -> None:
        """Wakes some of those whose message has come, and the rest in the next rounds."""
        late = self._late
        for _ in range(min(WAKES_PER_ROUND, len(late))):
            self._met(late.popleft())
        if late:
            self._loop.call_soon(self._wake_late)

    def refuse_withdrawn(self) -> None:
        """Ends the calls whose peers have lost the right to the reply, some of them in each round."""
        if not self._to_check:
            self._loop.call_soon(self._check_some)
        self._to_check.extend(
            waiting
            for mine in self._by_connection.values()
            for waiting in mine
            if waiting.withdrawal is not None
        )

    def _check_some(self) -> None:
        to_check = self._to_check
        for _ in range(min(WAKES_PER_ROUND, len(to_check))):
            waiting = to_check.popleft()
            if waiting.left and waiting.withdrawal is not None and waiting.withdrawal() is not None:
                self._end(waiting, True)
        if to_check:
            self._loop.call_soon(self._check_some)

    def durable(self, physical_offset: int) -> None:
        """Wakes the calls that wait for the disk: everything below `physical_offset` is on it."""
        waiting = self._durable
        while waiting and waiting[0][0] <= physical_offset:
            self._met(waiting.popleft()[1])

    def signalled(self, signals: Iterable[Signal]) -> None:
        """Wakes the calls that wait for these."""
        for signal in signals:
            waiting = self._signals.pop(signal, None)
            if waiting is not None:
                self._met(waiting)

    def expire(self, signals: Iterable[Signal]) -> None:
        """Ends the calls that wait for these, as if their time were over."""
        for signal in signals:
            waiting = self._signals.get(signal)
            if waiting is not None:
                self._end(waiting, True)

    def saved(self, tables: Iterable[str]) -> None:
        """Wakes the calls whose change of these tables is in its file now."""
        for table in tables:
            for waiting in self._saved.pop(table, ()):
                self._met(waiting)

    def connection_closed(self, connection_id: int) -> None:
        """Forgets the calls of a peer that is gone; no peer would read their replies."""
        self._queued.pop(connection_id, None)
        for waiting in self._by_connection.pop(connection_id, ()):
            waiting.left = 0
            self._uncount(waiting)
            self._stop_clock(waiting)
            self._remove(waiting)

    def end_all(self, *kinds: type[Condition]) -> None:
        """Ends every call as if its time were over: the server stops.

        With `kinds`, those that wait for one of them.
        """
        for mine in list(self._by_connection.values()):
            for waiting in list(mine):
                if not kinds or any(isinstance(condition, kinds) for condition in waiting.wait.on):
                    self._end(waiting, True)

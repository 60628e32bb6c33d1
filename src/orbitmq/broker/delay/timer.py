"""Timer messages: taken into the wheel, and delivered when they are due.

A send with a time is stored in the topic rmq_sys_wheel_timer. From there it gets a unit in the timer log, and
the wheel a slot that leads to it (`store.timer.log`, `store.timer.wheel`). When the time of a slot has come,
its messages are stored once more where they belong, in order of the millisecond at which they are due.

Delivered messages are known by a cursor (slot, due time, unit), which only moves behind deliveries, and in
the files only behind deliveries that are on the disk. A crash in between delivers nothing twice: whatever
stands in the commit log behind the cursor is recognised (`store.timer.recovery`).

Everything is done in slices, and nothing here waits for the disk: what is not in memory is a `fetch`, a job
for a thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from orbitmq.broker.delay.destinations import Destinations
from orbitmq.broker.delay.levels import Rerouted
from orbitmq.broker.delay.timer_delivery import Delivery, Fetch
from orbitmq.broker.delay.timer_due import NotATime, deliver_time, rounded
from orbitmq.broker.delay.timer_intake import Intake
from orbitmq.broker.delay.timer_metrics import TimerMetrics
from orbitmq.broker.delay.timer_state import Appends, TimerState, TimerStats
from orbitmq.broker.delay.undelivered import Undelivered
from orbitmq.broker.stats.passed_over import PassedOver
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import (
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    TIMER_TOPIC,
)
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.store import MessageStore
from orbitmq.store.option_rows import StoreSettings
from orbitmq.store.timer.check_point import TimerFields, TimerMark

log = logging.getLogger(__name__)

NO_LIMIT = 0x7FFFFFFF
"""timerCongestNumEachSlot as it comes."""


class Step(NamedTuple):
    """Work that a step leaves to do."""

    again: bool
    """There is more to do at once."""
    fetch: Fetch | None = None
    """A job for a thread; `Timers.fetched` is to be called after it, whatever came of it."""


IDLE = Step(False)


class Timers:
    """All timers of a broker. Without files (timerWheelEnable=false) nothing is taken and nothing comes."""

    def __init__(
        self,
        settings: StoreSettings,
        store: MessageStore,
        dirty_tables: DirtyTables,
        stats: TimerStats,
        now: int,
        undelivered: Undelivered | None = None,
        passed: PassedOver | None = None,
        destinations: Destinations | None = None,
    ) -> None:
        self.metrics = TimerMetrics(dirty_tables, now)
        self._settings = settings
        self._store = store
        self._precision_ms = settings.timer_precision_ms
        self._shed = 0
        self._fetching = False
        self._candidate: TimerMark | None = None
        self._durable_needed = 0
        # Nothing was delivered after it, whatever the machine's clock was set to since.
        self._started_ms = max(now, store.newest.timestamp_ms)
        self._noted: tuple[int, ...] = ()
        self._proposed: tuple[int, ...] = ()
        self._stats = stats
        self._state: TimerState | None = None
        self.is_held = False
        """Nothing is taken or delivered yet: a slave may have acted for this broker and is asked first."""
        self._elsewhere = (0, 0)
        self._left: Container[int] = ()
        self._was_revived_elsewhere: Callable[[StoredMessage], bool] = lambda record: False
        self.undelivered = undelivered or Undelivered()
        self.passed = passed or PassedOver()
        self.destinations = destinations or Destinations()
        self.open(now)

    def open(self, now: int, into: Appends | None = None) -> None:
        """Continues from the files that the store has opened; call when it opens them again, and `start`
        behind it. Messages that are due are stored in `into`, else in the broker's own store. With `into` the
        files keep the positions they had: their owner says elsewhere what was delivered.
        """
        store = self._store
        self._fetching = False
        self._candidate = None
        self._noted = self._proposed = ()
        self._started_ms = max(now, store.newest.timestamp_ms)
        self._state = None
        self._keeps_positions = into is None
        if store.timers is not None:
            self._state = state = TimerState(
                self._settings,
                store,
                into or store,
                store.timers,
                self.metrics,
                self._stats,
                self._precision_ms,
            )
            state.undelivered, state.passed_over = self.undelivered, self.passed
            state.destinations = self.destinations
            state.elsewhere, state.left_elsewhere = self._elsewhere, self._left
            state.was_revived_elsewhere = self._was_revived_elsewhere
            self._intake = Intake(state)
            self._delivery = Delivery(state)

    def were_delivered_elsewhere(self, log_end: int, to_ms: int, left: Container[int] = ()) -> None:
        """Has messages not be delivered again that stand before `log_end` and are due until `to_ms`: a slave
        did it, but for those that it has `left` (physical offsets).
        """
        self._elsewhere, self._left = (log_end, to_ms), left
        if self._state is not None:
            self._state.elsewhere, self._state.left_elsewhere = self._elsewhere, left

    def ask_about_pops(self, was_revived_elsewhere: Callable[[StoredMessage], bool]) -> None:
        """Has a record of POP that a slave has worked up not come into the revive topic: the function says it
        of a record in the timer topic.
        """
        self._was_revived_elsewhere = was_revived_elsewhere
        if self._state is not None:
            self._state.was_revived_elsewhere = was_revived_elsewhere

    @property
    def delivered_to_ms(self) -> int:
        """Everything that is due until then was delivered, and maybe more; 0 without files."""
        return 0 if self._state is None else self._delivery.delivered_to_ms

    @property
    def is_amid_due_time(self) -> bool:
        """True if messages that are due at the same millisecond were delivered in part."""
        return self._state is not None and self._delivery.is_amid_due_time

    def close(self) -> None:
        """Lets go of the files: nothing is taken in or delivered until `open`."""
        self._state = None

    def start(self, topics: Sequence[str]) -> None:
        """Counts what waits, where its file cannot be relied on. Call once, after `load_text`."""
        pending = None if self._state is None else self._state.files.start.pending
        if pending is not None:
            self.metrics.recount(pending, topics)

    # Sends.

    def reroute(self, topic: str, queue_id: int, properties: dict[str, str], now: int) -> Rerouted | None:
        """The place where a message with a time has to wait, with the properties to store; None if due now.

        Raises Refused: the time is too far away or cannot be read, or there are too many for it.
        """
        if TIMER_OUT_MS in properties or topic == TIMER_TOPIC:
            # It has waited already; a consumer sends it back, or on.
            return None
        settings = self._settings
        try:
            deliver_ms = deliver_time(properties, now)
        except NotATime as error:
            raise self._illegal(f": {error}") from None
        if deliver_ms is None:
            return None
        if self._state is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false"
            )
        if deliver_ms <= now:
            if TIMER_DEL_UNIQKEY in properties:
                raise self._illegal("")
            return None
        if deliver_ms - now > settings.timer_max_delay_sec * 1000:
            raise self._illegal(f": {deliver_ms - now} ms were asked for")
        out_ms = rounded(deliver_ms, self._precision_ms)
        if settings.timer_congest_num_each_slot < NO_LIMIT:
            self._check_congestion(out_ms)
        self.metrics.asked(topic, deliver_ms - now)
        return Rerouted(
            TIMER_TOPIC,
            0,
            {
                **properties,
                TIMER_OUT_MS: str(out_ms),
                REAL_TOPIC: topic,
                REAL_QUEUE_ID: str(queue_id),
            },
            None,
        )

    def _illegal(self, why: str) -> Refused:
        return Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{self._settings.timer_max_delay_sec * 1000}ms; or if set del msg, the delay time should be "
            f"bigger than the current time{why}",
        )

    def _check_congestion(self, out_ms: int) -> None:
        """Refuses sends for a slot that is crowded: the more the fuller it is, all at twice the limit."""
        assert self._state is not None
        limit = self._settings.timer_congest_num_each_slot
        number = self._state.files.wheel.get(out_ms).number
        if number <= limit:
            return
        if number < 2 * limit:
            # As many of a thousand as the limit is exceeded by, without chance.
            self._shed += 1000 * (number - limit) // max(1, limit)
            if self._shed < 1000:
                return
            self._shed -= 1000
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"timer message is under flow control, max num limit is {2 * limit} or the current value is "
            f"greater than {limit} and less than {2 * limit}, trigger random flow control",
        )

    # Work.

    def step(self, now: int) -> Step:
        """Does a slice of what is to be done. Call every 50 ms, again at once after `again`."""
        state = self._state
        if state is None or self.is_held:
            return IDLE
        again = False
        if self._intake.is_halfway or not (self._settings.timer_stop_enqueue or state.overdue):
            again = self._intake.run(now)
        fetch = None
        try:
            if not (self._fetching or self._settings.timer_stop_dequeue or self._intake.is_halfway):
                more, fetch = self._delivery.run(now)
                again = again or more
                self._fetching = fetch is not None
            if self._keeps_positions:
                self._note(state, now)
            return Step(again, fetch)
        except BaseException:
            if fetch is not None:
                self.fetched()  # no thread will do it
            raise

    def fetched(self) -> None:
        """Continues after a job."""
        self._fetching = False
        self._delivery.fetched()

    # State that is kept.

    def _note(self, state: TimerState, now: int) -> None:
        """Writes how far everything is, and passes on the newest mark that is on the disk."""
        here = (state.read_ms, *state.cursor, state.queue_offset, state.files.log.end)
        # While messages ahead have units already, or are delivered, log and queue offset are no point to
        # begin at.
        if self._candidate is None and here != self._proposed and not self._is_amid_intake(state):
            self._proposed = here
            physical_offset = state.mark_from(self._started_ms)
            self._candidate = TimerMark(*here, physical_offset, state.files.start.passed_to)
            self._durable_needed = state.durable_needed
        mark = None
        if self._candidate is not None and self._store.durable_offset >= self._durable_needed:
            mark, self._candidate = self._candidate, None
        if mark is None and here == self._noted:
            return
        self._noted = here
        fields = TimerFields(
            read_ms=state.read_ms,
            queue_offset=state.queue_offset,
            master_queue_offset=state.queue_offset,
        )
        try:
            state.files.note(fields, mark, now)
        except OSError as error:
            state.complain(f"config/timercheck cannot be written: {error}")

    def _is_amid_intake(self, state: TimerState) -> bool:
        """True if the first message that is still to be taken in is not known yet."""
        return self._intake.has_known or self._intake.is_halfway or state.takes_in_anew

    def stop(self, now: int) -> TimerMark | None:
        """The last mark, for a store that is about to be closed; brings the slot that is half delivered into
        a form that Apache reads right. None where that fails, or where the start has not been worked up yet:
        the next start then does more work.
        """
        state = self._state
        if state is None:
            return None
        self._note(state, now)
        if state.delivered or state.is_ahead or self._is_amid_intake(state):
            return None
        try:
            self._delivery.leave_open_slot()
        except OSError as error:
            log.error("timers: the slot that is half delivered cannot be written: %s", error)
            return None
        self._noted = ()
        self._note(state, now)
        return TimerMark(
            state.read_ms,
            *state.cursor,
            state.queue_offset,
            state.files.log.end,
            self._store.max_physical,
        )

    # Figures.

    @property
    def read_ms(self) -> int:
        """The slot that is delivered: everything due before it was. 0 without files; at a slave as of its
        master.
        """
        if self._state is None:
            return 0
        followed = self._state.files.followed
        return self._state.read_ms if followed is None else followed.read_ms

    @property
    def queue_offset(self) -> int:
        """The next message of the timer topic to take into the wheel. 0 without files; at a slave as of its
        master.
        """
        if self._state is None:
            return 0
        followed = self._state.files.followed
        return self._state.queue_offset if followed is None else followed.master_queue_offset

    @property
    def pending_by_topic(self) -> Counter[str]:
        """Number of waiting messages, by the topic that they are for."""
        return self.metrics.pending_by_topic

    def read_behind_ms(self, now: int) -> int:
        """For how long the slot that is delivered has been due."""
        return 0 if self._state is None else max(0, now - self.read_ms)

    @property
    def offset_behind(self) -> int:
        """Number of messages of the topic that are not in the wheel yet."""
        if self._state is None:
            return 0
        return max(0, self._store.max_offset(TIMER_TOPIC, 0) - self.queue_offset)

    def pending_between(self, from_ms: int, to_ms: int) -> int:
        """Number of messages that are due within [from, to)."""
        if self._state is None or to_ms <= from_ms:
            return 0
        return sum(max(0, slot.number) for _, slot in self._state.files.wheel.between(from_ms, to_ms))

    def fields(self) -> TimerFields | None:
        return None if self._state is None else self._state.files.check.fields

    def oldest_waiting(self) -> int | None:
        """The physical offset of the oldest message that waits; None if none does."""
        state = self._state
        if state is None:
            return None
        unit = self._store.physical_offset_of(TIMER_TOPIC, 0, state.queue_offset)
        offsets = [state.files.oldest_waiting(), None if unit is None else unit[0]]
        return min((offset for offset in offsets if offset is not None), default=None)

    def find_oldest(self) -> None:
        """Finds the oldest waiting message; for a thread."""
        if self._state is not None:
            self._state.files.find_head(self._state.read_ms)

"""Timer messages: taken into the wheel, and delivered when they are due (broker behaviour, section 8).

A send with a time is stored in the topic rmq_sys_wheel_timer. From there it gets a unit in the timer log, and
the wheel a slot that leads to it (`store.timer_log`, `store.timer_wheel`). When the time of a slot has come,
its messages are stored once more where they belong, in order of the millisecond at which they are due.

What was delivered is known by a cursor (slot, due time, unit), which only moves behind deliveries, and in the
files only behind deliveries that are on the disk. A crash in between delivers nothing twice: whatever stands
in the commit log behind the cursor is recognised (`store.timer_recovery`).

Everything is done in slices, and nothing here waits for the disk: what is not in memory is a `fetch`, a job
for a thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from orbitmq.broker.delay import PutAside
from orbitmq.broker.timer_due import NotATime, deliver_time, due_time, place, rounded, window_slots
from orbitmq.broker.timer_metrics import TimerMetrics
from orbitmq.broker.timer_slot import OpenSlot
from orbitmq.broker.unsaved import Unsaved
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.hashing import java_hash
from orbitmq.protocol.message import MAX_PROPERTIES_BYTES, StoredMessage
from orbitmq.protocol.names import (
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_PREFIX,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    TIMER_TOPIC,
)
from orbitmq.protocol.properties import decode_properties, find_property
from orbitmq.protocol.recall import RecallHandle
from orbitmq.store import Appended, PendingMessage, PutStatus
from orbitmq.store.timer_check import TimerFields, TimerMark
from orbitmq.store.timer_files import TimerFiles
from orbitmq.store.timer_log import (
    DEFAULT,
    DELETE,
    NO_UNIT,
    ROLL,
    TimerUnit,
    pack_unit,
)
from orbitmq.store.timer_recovery import Identity, identity
from orbitmq.store.timer_wheel import EMPTY, Slot

log = logging.getLogger(__name__)

ENQUEUED_PER_STEP = 128
DELIVERED_PER_STEP = 64
EMPTY_SLOTS_PER_STEP = 5
"""How much one step does before it lets others go first."""
FAR_BEHIND_SLOTS = 10
"""Further behind than this, empty slots are skipped many at a time."""
HOT_BYTES = 64 << 20
"""What this process wrote within this distance of the end of the log is in memory without a look."""
AT_ONCE = (1 << 63) - 1
"""TIMER_ENQUEUE_MS of a message that was due before it could wait."""

Fetch = Callable[[], None]


class Step(NamedTuple):
    """What a step leaves to do."""

    again: bool
    """There is more to do at once."""
    fetch: Fetch | None = None
    """A job for a thread; `Timers.fetched` is to be called after it, whatever came of it."""


IDLE = Step(False)


class TimerSettings(Protocol):
    """What the broker's options say about timers."""

    @property
    def timer_wheel_enable(self) -> bool: ...
    @property
    def timer_precision_ms(self) -> int: ...
    @property
    def timer_max_delay_sec(self) -> int: ...
    @property
    def timer_roll_window_slot(self) -> int: ...
    @property
    def timer_congest_num_each_slot(self) -> int: ...
    @property
    def timer_stop_enqueue(self) -> bool: ...
    @property
    def timer_stop_dequeue(self) -> bool: ...
    @property
    def append_topic_for_timer_delete_key(self) -> bool: ...
    @property
    def file_reserved_time(self) -> int: ...


class TimerStore(Protocol):
    """What timers need of the message store."""

    @property
    def timers(self) -> TimerFiles | None: ...
    @property
    def durable_offset(self) -> int: ...
    @property
    def max_physical(self) -> int: ...
    def min_offset(self, topic: str, queue_id: int) -> int: ...
    def max_offset(self, topic: str, queue_id: int) -> int: ...
    def physical_offset_of(
        self, topic: str, queue_id: int, queue_offset: int
    ) -> tuple[int, int, int] | None: ...
    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None: ...
    def is_resident(self, physical_offset: int, size: int) -> bool: ...
    def read_cold(self, physical_offset: int, size: int) -> None: ...
    def append_many(self, messages: Sequence[PendingMessage], now_ms: int) -> list[Appended]: ...


class TimerStats(Protocol):
    """Where deliveries are counted."""

    def put_delivered(self, topic: str, queue_id: int, size_bytes: int) -> None: ...


@dataclass(slots=True)
class _Ready:
    """A unit whose time has come."""

    due_ms: int
    position: int
    unit: TimerUnit


class Timers:
    """All timers of a broker. Without files (timerWheelEnable=false) nothing is taken and nothing comes."""

    def __init__(
        self,
        settings: TimerSettings,
        store: TimerStore,
        unsaved: Unsaved,
        stats: TimerStats,
        now: int,
    ) -> None:
        self.metrics = TimerMetrics(unsaved, now)
        self._settings = settings
        self._store = store
        self._stats = stats
        self._shed = 0
        self._files = files = store.timers
        self._precision = settings.timer_precision_ms
        self._slot: OpenSlot | None = None
        self._fetching = False
        self._batch: list[_Ready] = []
        self._is_warm = False
        self._needed_offset = 0
        self._opened_end = store.max_physical
        self._complaint = ""
        self._candidate: TimerMark | None = None
        self._needed_durable = 0
        self._noted: tuple[int, ...] = ()
        self._proposed: tuple[int, ...] = ()
        if files is None:
            return
        start = files.start
        self.read_ms = start.read_ms
        """The slot that is delivered; all before it were."""
        self.queue_offset = start.queue_offset
        """The next message of the timer topic to take in."""
        self._cursor = (start.due_ms, start.position)
        self._caught_up_ms = start.caught_up_ms
        self._overdue = list(reversed(start.overdue))
        if not self._overdue and self.read_ms < self._caught_up_ms:
            self.read_ms = self._caught_up_ms
            self._cursor = (self.read_ms, NO_UNIT)
        self._known = start.known
        self._passed_to = start.passed_to
        self._delivered: Counter[Identity] = start.delivered

    def start(self, topics: Sequence[str]) -> None:
        """Counts what waits, where its file cannot be relied on. Call once, after `load_text`."""
        if self._files is not None and self._files.start.pending is not None:
            self.metrics.recount(self._files.start.pending, topics)

    # Sends.

    def put_aside(self, topic: str, queue_id: int, properties: dict[str, str], now: int) -> PutAside | None:
        """Where a message with a time has to wait, with the properties to store; None if it is due now.

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
        if self._files is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false"
            )
        if deliver_ms <= now:
            if TIMER_DEL_UNIQKEY in properties:
                raise self._illegal("")
            return None
        if deliver_ms - now > settings.timer_max_delay_sec * 1000:
            raise self._illegal(f": {deliver_ms - now} ms were asked for")
        out_ms = rounded(deliver_ms, self._precision)
        if settings.timer_congest_num_each_slot < 0x7FFFFFFF:
            self._check_congestion(out_ms)
        self.metrics.asked(topic, deliver_ms - now)
        return PutAside(
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
        assert self._files is not None
        limit = self._settings.timer_congest_num_each_slot
        number = self._files.wheel.get(out_ms).number
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
        if self._files is None:
            return IDLE
        again = False
        if not self._settings.timer_stop_enqueue and not self._overdue:
            again = self._enqueue(now)
        fetch = None
        if not self._fetching and not self._settings.timer_stop_dequeue:
            more, fetch = self._dequeue(now)
            again = again or more
        self._note(now)
        if fetch is not None:
            self._fetching = True
        return Step(again, fetch)

    def fetched(self) -> None:
        """Takes what a fetch has read."""
        self._fetching = False
        slot = self._slot
        if slot is not None and not slot.is_loaded:
            slot.loaded()
            self.metrics.lost += slot.broken

    # From the topic into the wheel.

    def _enqueue(self, now: int) -> bool:
        store = self._store
        end = store.max_offset(TIMER_TOPIC, 0)
        if self.queue_offset >= end:
            return False
        first = store.min_offset(TIMER_TOPIC, 0)
        if self.queue_offset < first:
            log.warning("timers: messages %d to %d are gone from the topic", self.queue_offset, first)
            self.queue_offset = first
        stop = min(end, self.queue_offset + ENQUEUED_PER_STEP)
        units = _NewUnits(self._files_there())
        queue_offset = self.queue_offset
        while queue_offset < stop:
            if not self._enqueue_one(queue_offset, units, now):
                break
            queue_offset += 1
        try:
            units.write()
        except OSError as error:
            self._complain(f"the timer log cannot be written: {error}")
            # The slice comes again as a whole; what was delivered at once out of it does not.
            self._delivered.update(_identity_of(message) for message in units.at_once)
            return False
        for due_ms, position in units.for_open_slot:
            assert self._slot is not None
            self._slot.add(due_ms, position)
        if self._slot is not None:
            self._slot.taken_back |= units.taken_back
        for topic in units.topics:
            self.metrics.came(topic, now)
        more = queue_offset == stop < end
        self.queue_offset = queue_offset
        if self._known and queue_offset >= end:
            self._known = frozenset()
        return more

    def _files_there(self) -> TimerFiles:
        assert self._files is not None
        return self._files

    def _enqueue_one(self, queue_offset: int, units: _NewUnits, now: int) -> bool:
        """Whether a message of the topic was dealt with; False: not now, try again."""
        entry = self._store.physical_offset_of(TIMER_TOPIC, 0, queue_offset)
        if entry is None:
            self._lose(f"message {queue_offset} is missing in {TIMER_TOPIC}")
            return True
        physical_offset, size, _ = entry
        if physical_offset in self._known:
            return True
        record = self._read(physical_offset, size)
        if record is None:
            self._lose(f"message {queue_offset} of {TIMER_TOPIC} cannot be read")
            return True
        properties = decode_properties(record.properties)
        topic = properties.get(REAL_TOPIC, "")
        try:
            out_ms = int(properties[TIMER_OUT_MS])
            int(properties[REAL_QUEUE_ID])
        except (KeyError, ValueError):
            topic = ""
        if not topic:
            self._lose(f"message {queue_offset} of {TIMER_TOPIC} does not say when and where it belongs")
            return True
        precision = self._precision
        due_ms = due_time(properties, out_ms, record.store_timestamp, precision)
        settings = self._settings
        written_ms = min(record.store_timestamp, now)
        slots = window_slots(settings.timer_roll_window_slot, precision, settings.file_reserved_time)
        slot_ms, is_rolled = place(due_ms, written_ms, slots, precision)
        if slot_ms - self.read_ms >= self._files_there().wheel.span_ms - precision:
            return False
        is_delete = TIMER_DEL_UNIQKEY in properties
        is_past = slot_ms < self.read_ms or (
            slot_ms == self.read_ms and due_ms <= self._cursor[0] and not is_rolled
        )
        if is_past and queue_offset < self._passed_to:
            return True
        self._needed_durable = max(self._needed_durable, physical_offset + size)
        if is_past and not is_rolled:
            return is_delete or self._deliver_at_once(record, units, now)
        if is_past:
            slot_ms = self.read_ms + precision
        units.add(
            slot_ms,
            TimerUnit(
                NO_UNIT,
                DEFAULT | (ROLL if is_rolled else 0) | (DELETE if is_delete else 0),
                written_ms // precision * precision,
                0,
                physical_offset,
                size,
                java_hash(topic),
                0 if is_rolled else due_ms,
            ),
        )
        slot = self._slot
        if slot is not None and slot_ms == slot.time_ms:
            if is_delete and not is_rolled:
                units.taken_back.add(properties[TIMER_DEL_UNIQKEY])
            else:
                units.waits_in_open_slot(slot.end_ms if is_rolled else due_ms)
        if not is_delete:
            units.topics.append(topic)
        return True

    def _deliver_at_once(self, record: StoredMessage, units: _NewUnits, now: int) -> bool:
        message = waited(record, AT_ONCE, now)
        if message is None or self._was_delivered(message):
            return True
        (appended,) = self._store.append_many([message], now)
        if appended.status is PutStatus.PUT_OK:
            self._needed_durable = appended.end_offset
            self._stats.put_delivered(message.topic, message.queue_id, appended.size)
            self.metrics.passed(message.topic)
            units.at_once.append(message)
            return True
        return self._is_final(appended.status, message)

    # From the wheel to where messages belong.

    def _dequeue(self, now: int) -> tuple[bool, Fetch | None]:
        """Whether more is due at once, and a job that has to be done first."""
        if self._batch:
            return self._deliver(now)
        empty = 0
        while True:
            slot = self._slot
            if slot is None:
                if empty >= EMPTY_SLOTS_PER_STEP:
                    return True, None
                fetch = self._open(now)
                if fetch is not None:
                    return False, fetch
                if self._slot is None:
                    return False, None
                continue
            if self._waits_for_intake(slot):
                return False, None
            taken = slot.take(now, DELIVERED_PER_STEP)
            if taken:
                window = self._files_there().log.walk(taken[0][1])
                for due_ms, position in taken:
                    unit = window.unit(position)
                    if unit is None:
                        self._lose(f"there is no unit at {position} of the timer log")
                        continue
                    self._batch.append(_Ready(due_ms, position, unit))
                return self._deliver(now)
            if not slot.is_empty or now < slot.end_ms:
                return False, None
            self._close_slot()
            empty += 1

    def _waits_for_intake(self, slot: OpenSlot) -> bool:
        """Whether messages that were there when the slot's time came are not in the wheel yet: one of them
        may be the first, or take another one back.
        """
        return (
            self.queue_offset < self._needed_offset
            and slot.time_ms >= self._caught_up_ms
            and not self._settings.timer_stop_enqueue
        )

    def _open(self, now: int) -> Fetch | None:
        """Opens the next slot if its time has come; gives the job that reads it, if it is not empty."""
        time_ms = self._overdue[-1] if self._overdue else self.read_ms
        if now < time_ms:
            return None
        files = self._files_there()
        if now - time_ms > FAR_BEHIND_SLOTS * self._precision and not self._overdue:
            time_ms = files.wheel.next_time(time_ms, now - self._precision)
        if time_ms != self.read_ms:
            self.read_ms = time_ms
            self._cursor = (time_ms, NO_UNIT)
        slot = self._slot = OpenSlot(time_ms, self._precision)
        self._needed_offset = self._store.max_offset(TIMER_TOPIC, 0)
        last = files.wheel.get(time_ms).last
        if last == NO_UNIT:
            return None
        slot.is_loaded = False
        after = self._cursor
        return lambda: slot.load(files.log, last, after, self._key_of)

    def _close_slot(self) -> None:
        assert self._slot is not None
        time_ms, end_ms = self._slot.time_ms, self._slot.end_ms
        self._slot = None
        if self._overdue and self._overdue[-1] == time_ms:
            self._overdue.pop()
            if not self._overdue:
                end_ms = max(end_ms, self._caught_up_ms)
        self.read_ms = end_ms
        self._cursor = (end_ms, NO_UNIT)

    def _deliver(self, now: int) -> tuple[bool, Fetch | None]:
        """Delivers what was taken out of the open slot."""
        store = self._store
        batch = self._batch
        if not self._is_warm:
            cold = self._cold(batch)
            if cold:
                self._is_warm = True
                return False, lambda: self._warm(cold)
        self._is_warm = False
        messages: list[PendingMessage] = []
        of: list[tuple[_Ready, str, bool]] = []
        done: dict[int, tuple[str, bool]] = {}
        for index, ready in enumerate(batch):
            record = self._read(ready.unit.physical_offset, ready.unit.size_bytes)
            is_rolled = bool(ready.unit.magic & ROLL)
            message = None
            if record is None:
                self._lose(f"the message at {ready.unit.physical_offset} is gone")
            else:
                message = waited(record, ready.unit.written_ms, now, roll=is_rolled)
            if record is None:
                real_topic = self.metrics.topic_of(ready.unit.topic_hash)
            else:
                real_topic = _text(record.properties, REAL_TOPIC)
            if message is None or self._is_taken_back(record, is_rolled):
                done[index] = (real_topic, False)
            elif self._was_delivered(message):
                done[index] = (real_topic, not is_rolled)
            else:
                messages.append(message)
                of.append((ready, real_topic, is_rolled))
        stored = store.append_many(messages, now)
        return self._settle(batch, messages, stored, of, done, now), None

    def _settle(
        self,
        batch: list[_Ready],
        messages: list[PendingMessage],
        stored: list[Appended],
        of: list[tuple[_Ready, str, bool]],
        done: dict[int, tuple[str, bool]],
        now: int,
    ) -> bool:
        """Moves the cursor over what was stored, up to the first message that has to be tried again."""
        at = 0
        for index, ready in enumerate(batch):
            if index in done:
                topic, delivered = done[index]
                self.metrics.went(topic, now, delivered=delivered)
            else:
                appended, message = stored[at], messages[at]
                _, topic, is_rolled = of[at]
                at += 1
                if appended.status is PutStatus.PUT_OK:
                    self._needed_durable = max(self._needed_durable, appended.end_offset)
                    if is_rolled:
                        self.metrics.rolled += 1
                    else:
                        self._stats.put_delivered(message.topic, message.queue_id, appended.size)
                    if not (is_rolled and ready.unit.magic & DELETE):
                        self.metrics.went(topic, now, delivered=not is_rolled)
                elif self._is_final(appended.status, message):
                    self.metrics.went(topic, now, delivered=False)
                else:
                    later = zip(stored[at:], messages[at:], strict=True)
                    self._delivered.update(
                        _identity_of(one) for put, one in later if put.status is PutStatus.PUT_OK
                    )
                    self._batch = batch[index:]
                    self._is_warm = True
                    return False
            self._cursor = (ready.due_ms, ready.position)
        self._batch = []
        self._complaint = ""
        return True

    def _is_final(self, status: PutStatus, message: PendingMessage) -> bool:
        """Whether a message that was not stored never will be."""
        if status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED):
            self._lose(f"a message for {message.topic} cannot be stored: {status.name}")
            return True
        self._complain(f"timers wait for the store: {status.name}")
        return False

    def _is_taken_back(self, record: StoredMessage | None, is_rolled: bool) -> bool:
        slot = self._slot
        if record is None or is_rolled or slot is None or not slot.taken_back:
            return False
        key = record.unique_id
        if key is not None and self._settings.append_topic_for_timer_delete_key:
            key = f"{_text(record.properties, REAL_TOPIC)}+{key}"
        if key not in slot.taken_back:
            return False
        self.metrics.recalled += 1
        return True

    def _was_delivered(self, message: PendingMessage) -> bool:
        """Whether a message was delivered before the crash that this process began after."""
        if not self._delivered:
            return False
        key = _identity_of(message)
        if not self._delivered[key]:
            return False
        self._delivered[key] -= 1
        if not self._delivered[key]:
            del self._delivered[key]
        return True

    # Reading.

    def _read(self, physical_offset: int, size: int) -> StoredMessage | None:
        found = self._store.message_at(physical_offset, size)
        return found if found is not None and found.topic == TIMER_TOPIC else None

    def _key_of(self, physical_offset: int, size: int) -> str | None:
        """What a recall takes back. In a thread."""
        record = self._read(physical_offset, size)
        return None if record is None else _text(record.properties, TIMER_DEL_UNIQKEY) or None

    def _cold(self, batch: list[_Ready]) -> list[tuple[int, int]]:
        """Which messages have to come from the disk."""
        store = self._store
        hot_from = max(self._opened_end, store.max_physical - HOT_BYTES)
        return [
            (ready.unit.physical_offset, ready.unit.size_bytes)
            for ready in batch
            if ready.unit.physical_offset < hot_from
            and not store.is_resident(ready.unit.physical_offset, ready.unit.size_bytes)
        ]

    def _warm(self, cold: list[tuple[int, int]]) -> None:
        """Brings messages into memory. In a thread."""
        for physical_offset, size in cold:
            self._store.read_cold(physical_offset, size)

    def _lose(self, what: str) -> None:
        self.metrics.lost += 1
        log.error("timers: %s: it is not delivered", what)

    def _complain(self, what: str) -> None:
        if what != self._complaint:
            self._complaint = what
            log.warning("%s; it is tried again", what)

    # What is kept.

    def _note(self, now: int) -> None:
        """Writes how far everything is, and passes on the newest mark that is on the disk."""
        files = self._files_there()
        state = (self.read_ms, *self._cursor, self.queue_offset, files.log.end)
        if self._candidate is None and state != self._proposed:
            self._proposed = state
            self._candidate = TimerMark(*state, self._needed_durable)
        mark = None
        if self._candidate is not None and self._store.durable_offset >= self._candidate.physical_offset:
            mark, self._candidate = self._candidate, None
        if mark is None and state == self._noted:
            return
        self._noted = state
        fields = TimerFields(
            read_ms=self.read_ms, queue_offset=self.queue_offset, master_queue_offset=self.queue_offset
        )
        try:
            files.note(fields, mark, now)
        except OSError as error:
            self._complain(f"config/timercheck cannot be written: {error}")

    def stop(self, now: int) -> TimerMark | None:
        """The last mark, for a store that is about to be closed; brings the slot that is half delivered into
        a form that Apache reads right. Raises OSError.
        """
        files = self._files
        if files is None:
            return None
        self._leave_open_slot()
        self._noted = ()
        self._note(now)
        return TimerMark(
            self.read_ms, *self._cursor, self.queue_offset, files.log.end, self._store.max_physical
        )

    def _leave_open_slot(self) -> None:
        """Takes delivered units out of the chain of the open slot, for Apache knows no half slots."""
        files = self._files_there()
        time_ms = self.read_ms
        slot = files.wheel.get(time_ms)
        if slot is EMPTY or self._cursor <= (time_ms, NO_UNIT):
            return
        opened = OpenSlot(time_ms, self._precision)
        position, later, first, last, number = slot.last, NO_UNIT, NO_UNIT, NO_UNIT, 0
        window = files.log.walk(position)
        while position != NO_UNIT:
            unit = window.unit(position, backwards=True)
            if unit is None:
                return
            if (opened.due_of(unit), position) <= self._cursor:
                files.log.void(position)
            else:
                if later != NO_UNIT:
                    files.log.relink(later, position)
                later = first = position
                last = position if last == NO_UNIT else last
                number += -1 if unit.magic & DELETE else 1
            position = unit.previous
        if later != NO_UNIT:
            files.log.relink(later, NO_UNIT)
        files.wheel.put(time_ms, Slot(first, last, number))

    # Figures.

    @property
    def pending_by_topic(self) -> Counter[str]:
        """How many messages wait, by the topic that they are for."""
        return self.metrics.pending_by_topic

    def read_behind_ms(self, now: int) -> int:
        """For how long the slot that is delivered has been due."""
        return 0 if self._files is None else max(0, now - self.read_ms)

    @property
    def offset_behind(self) -> int:
        """How many messages of the topic are not in the wheel yet."""
        if self._files is None:
            return 0
        return max(0, self._store.max_offset(TIMER_TOPIC, 0) - self.queue_offset)

    def pending_within(self, seconds: int, now: int) -> int:
        """How many messages are due within so many seconds."""
        if self._files is None:
            return 0
        return sum(
            max(0, slot.number) for _, slot in self._files.wheel.between(self.read_ms, now + seconds * 1000)
        )

    def fields(self) -> TimerFields | None:
        """What slaves are told."""
        return None if self._files is None else self._files.check.fields

    def oldest_waiting(self) -> int | None:
        """The physical offset of the oldest message that waits; None if none does."""
        files = self._files
        if files is None:
            return None
        unit = self._store.physical_offset_of(TIMER_TOPIC, 0, self.queue_offset)
        offsets = [files.oldest_waiting(), None if unit is None else unit[0]]
        return min((offset for offset in offsets if offset is not None), default=None)

    def find_head(self) -> None:
        """Looks which message is the oldest that waits. Every few seconds, in a thread."""
        if self._files is not None:
            self._files.find_head(self.read_ms)


class _NewUnits:
    """The units of one slice, and their slots, written together."""

    def __init__(self, files: TimerFiles) -> None:
        self._files = files
        self._end = files.log.end
        self._slots: dict[int, Slot] = {}
        self._last = NO_UNIT
        self.for_open_slot: list[tuple[int, int]] = []
        self.taken_back: set[str] = set()
        self.topics: list[str] = []
        self.at_once: list[PendingMessage] = []

    def add(self, slot_ms: int, unit: TimerUnit) -> None:
        slot = self._slots.get(slot_ms)
        if slot is None:
            slot = self._files.wheel.get(slot_ms)
        unit = unit._replace(previous=slot.last, delay_ms=slot_ms - unit.written_ms)
        position = self._last = self._files.log.append(pack_unit(unit))
        number = slot.number + (-1 if unit.magic & DELETE else 1)
        self._slots[slot_ms] = Slot(position if slot.first == NO_UNIT else slot.first, position, number)

    def waits_in_open_slot(self, due_ms: int) -> None:
        """The unit added last is one of the slot that is being delivered."""
        self.for_open_slot.append((due_ms, self._last))

    def write(self) -> None:
        """Writes the log, and then the slots that lead to it. Raises OSError, and nothing counts then."""
        try:
            self._files.log.write()
        except OSError:
            self._files.log.forget(self._end)
            raise
        for slot_ms, slot in self._slots.items():
            self._files.wheel.put(slot_ms, slot)


def _identity_of(message: PendingMessage) -> Identity:
    return identity(
        message.topic, message.queue_id, message.properties, message.born_timestamp, len(message.body)
    )


def _text(properties: bytes, name: str) -> str:
    value = find_property(properties, name.encode())
    return "" if value is None else value.decode("utf-8", "replace")


_OWN = (b"TIMER_ENQUEUE_MS\x01", b"TIMER_DEQUEUE_MS\x01")


def waited(record: StoredMessage, enqueued_ms: int, now: int, *, roll: bool = False) -> PendingMessage | None:
    """A message as it is stored where it belongs; with `roll` once more in the timer topic.

    None if it does not say where it belongs, or only takes another one back.
    """
    properties = record.properties
    topic, queue_id = record.topic, record.queue_id
    own = b"TIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%d\x02" % (enqueued_ms, now)
    dropped: tuple[bytes, ...] = _OWN
    if roll:
        times = find_property(properties, b"TIMER_ROLL_TIMES") or b"0"
        own += b"TIMER_ROLL_TIMES\x01%d\x02" % (int(times) + 1 if times.isdigit() else 1)
        dropped = (*_OWN, b"TIMER_ROLL_TIMES\x01")
    else:
        topic = _text(properties, REAL_TOPIC)
        number = _text(properties, REAL_QUEUE_ID)
        if not topic or not number.isdigit() or find_property(properties, TIMER_DEL_UNIQKEY.encode()):
            return None
        queue_id = int(number)
    if any(name in properties for name in dropped):
        entries = properties.split(b"\x02")
        properties = b"\x02".join([entry for entry in entries if not entry.startswith(dropped)])
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    # A message that has no room for them goes without.
    if len(properties) + len(own) <= MAX_PROPERTIES_BYTES:
        properties += own
    return PendingMessage(
        topic,
        queue_id,
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.store_host,
        record.reconsume_times,
        0,
        record.body,
        properties,
    )


def recall_handle(message: PendingMessage, broker_name: str, unique_id: str | None) -> str | None:
    """What the sender of a message that waits may take it back by; None for a retry."""
    topic = _text(message.properties, REAL_TOPIC)
    out_ms = _text(message.properties, TIMER_OUT_MS)
    if unique_id is None or topic.startswith(RETRY_PREFIX) or not out_ms.isdigit():
        return None
    return RecallHandle(topic, broker_name, int(out_ms) + 1, unique_id).encode()

"""From the timer topic into the wheel: every message gets a unit in the timer log, and a slot leads to it."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from orbitmq.broker.delay.timer_due import Place, due_time, place, window_slots
from orbitmq.broker.delay.timer_intake_cy import Plain, plain_units
from orbitmq.broker.delay.timer_records import AT_ONCE, recall_key, waited
from orbitmq.broker.delay.timer_slot import OpenSlot
from orbitmq.broker.delay.timer_state import TimerState
from orbitmq.protocol.names import REAL_QUEUE_ID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, TIMER_TOPIC
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import decode_properties, whole_number
from orbitmq.store import Appended, PendingMessage, PutStatus
from orbitmq.store.timer.files import TimerFiles
from orbitmq.store.timer.log import DEFAULT, DELETE, NO_UNIT, ROLL, UNIT_BYTES, TimerUnit, pack_unit
from orbitmq.store.timer.wheel import Slot

log = logging.getLogger(__name__)

TAKEN_PER_STEP = 128
"""Number of messages that one step takes in before it lets others go first."""
LONGEST_DELAY_MS = 2_000_000_000
"""From when a message was stored to its slot, as a unit can say it: 32 bits."""


class _Waiting(NamedTuple):
    """Content of a message of the timer topic."""

    topic: str
    due_ms: int
    key: str | None
    """It takes the message with this key back."""


@dataclass(slots=True)
class _AtOnce:
    """A message whose time passed before it could wait, handed to the store."""

    message: PendingMessage
    following: int
    """The queue offset behind it in the timer topic."""
    answers: list[Appended] = field(default_factory=list)


class Intake:
    """Goes through the timer topic, from `state.queue_offset` on.

    A slice that has been written is kept until all of it was taken account of, and so is a message that was
    handed to the store: what ends a turn in between, a lack of memory for instance, repeats nothing.
    """

    def __init__(self, state: TimerState) -> None:
        self._state = state
        self._known = state.files.start.known
        self._window_slots = 0
        """Number of slots ahead for which messages are put into the wheel; looked at once per slice."""
        self._written: NewUnits | None = None
        self._at_once: _AtOnce | None = None

    @property
    def has_known(self) -> bool:
        """True if messages ahead have units from before the start."""
        return bool(self._known)

    @property
    def is_halfway(self) -> bool:
        """True if a slice was written and not taken account of."""
        return self._written is not None or self._at_once is not None

    def run(self, now: int) -> bool:
        """Takes in a slice. True if there is more."""
        if self._at_once is not None:
            self._passed(self._at_once, now)
        if self._written is None:
            self._written = self._write_slice(now)
        return self._written is not None and self._commit(self._written, now)

    def _write_slice(self, now: int) -> NewUnits | None:
        """Makes the units of the next messages and writes them; None if there are none, or it failed."""
        state = self._state
        end = state.store.max_offset(TIMER_TOPIC, 0)
        if state.queue_offset >= end:
            return None
        first = state.store.min_offset(TIMER_TOPIC, 0)
        if state.queue_offset < first:
            log.warning("timers: messages %d to %d are gone from the topic", state.queue_offset, first)
            state.queue_offset = first
        settings = state.settings
        self._window_slots = window_slots(
            settings.timer_roll_window_slot, state.precision_ms, settings.file_reserved_time
        )
        stop = min(end, state.queue_offset + TAKEN_PER_STEP)
        units = NewUnits(state.files, state.slot)
        try:
            units.following = state.queue_offset
            if not self._known:
                units.following += self._schedule_plain(units, stop - state.queue_offset, now)
            while units.following < stop and self._schedule(units.following, units, now):
                units.following += 1
            units.is_more = units.is_more or units.following == stop < end
            units.write()
        except BaseException as error:
            # The slice comes again as a whole.
            units.forget()
            if not isinstance(error, OSError):
                raise
            state.complain(f"the timer log cannot be written: {error}")
            return None
        return units

    def _commit(self, units: NewUnits, now: int) -> bool:
        """Has a slice count that is written. True if there is more."""
        state = self._state
        try:
            units.put()
        except OSError as error:
            state.complain(f"the timer wheel cannot be written: {error}")
            return False
        slot = state.slot
        if slot is not None and slot is units.slot:  # another one has read them
            while units.for_open_slot:
                slot.add(*units.for_open_slot[0])
                units.for_open_slot.popleft()
            slot.taken_back |= units.taken_back
        while units.topics:
            topic, count = units.topics.pop()
            state.metrics.came(topic, now, count)
        if self._known and units.following >= state.store.max_offset(TIMER_TOPIC, 0):
            self._known = frozenset()
        state.queue_offset = units.following
        self._written = None
        return units.is_more

    def _schedule_plain(self, units: NewUnits, count: int, now: int) -> int:
        """Takes in the messages at the start of a slice that need nothing but a unit; how many."""
        state = self._state
        store, files = state.store, state.files
        entries = store.lookup.units(TIMER_TOPIC, 0, units.following, count)
        writer = store.appending.reserve(now) if entries else None
        if writer is None:
            return 0
        plain = plain_units(
            entries,
            now,
            writer,
            files.log.end,
            files.log.units_left,
            files.wheel.get,
            state.precision_ms,
            self._window_slots * state.precision_ms,
            state.read_ms,
            files.wheel.span_ms,
            -1 if state.slot is None else state.slot.time_ms,
        )
        if plain is None:
            return 0
        state.durable_needed = max(state.durable_needed, plain.end)
        units.add_plain(plain)
        return len(plain.units) // UNIT_BYTES

    def _schedule(self, queue_offset: int, units: NewUnits, now: int) -> bool:
        """True if a message was dealt with; False: not now, try again."""
        state = self._state
        entry = state.store.physical_offset_of(TIMER_TOPIC, 0, queue_offset)
        if entry is None:
            state.lose(f"message {queue_offset} is missing in {TIMER_TOPIC}")
            return True
        physical_offset, size, _ = entry
        if physical_offset in self._known:
            return True
        record = state.message_at(physical_offset, size)
        waiting = None if record is None else self._read(record)
        if record is None or waiting is None:
            state.lose(f"message {queue_offset} of {TIMER_TOPIC} is damaged, or says not when and where to")
            return True
        written_ms = min(record.store_timestamp, now)
        where = place(waiting.due_ms, written_ms, self._window_slots, state.precision_ms)
        if where.slot_ms - state.read_ms >= state.files.wheel.span_ms - state.precision_ms:
            # A turn of the wheel ahead of what is delivered: its slot may still be taken.
            return False
        if queue_offset < state.passed_to and self._is_past(where, waiting, *state.passed):
            return True
        if self._is_past(where, waiting, state.read_ms, state.cursor[0]):
            if not where.is_rolled:
                state.durable_needed = max(state.durable_needed, physical_offset + size)
                is_done = waiting.key is not None or state.was_delivered_elsewhere(
                    record, waiting.due_ms, waiting.topic
                )
                return is_done or self._pass_on(queue_offset, record, units, now)
            where = Place(state.read_ms + state.precision_ms, True)
        # A store time may be of long ago, or damaged.
        written_ms = max(written_ms, where.slot_ms - LONGEST_DELAY_MS)
        state.durable_needed = max(state.durable_needed, physical_offset + size)
        self._add(waiting, where, written_ms, physical_offset, size, units)
        return True

    def _read(self, record: StoredMessage) -> _Waiting | None:
        properties = decode_properties(record.properties)
        topic = properties.get(REAL_TOPIC, "")
        out_ms = whole_number(properties.get(TIMER_OUT_MS))
        if not topic or out_ms is None or whole_number(properties.get(REAL_QUEUE_ID)) is None:
            return None
        due_ms = due_time(properties, out_ms, record.store_timestamp, self._state.precision_ms)
        key = properties.get(TIMER_DEL_UNIQKEY)
        if key is not None:
            names_topic = self._state.settings.append_topic_for_timer_delete_key
            key = recall_key(topic, key, names_topic=names_topic)
        return _Waiting(topic, due_ms, key)

    def _is_past(self, where: Place, waiting: _Waiting, read_ms: int, due_ms: int) -> bool:
        """True if the messages that wait there were delivered already: those of the slots before `read_ms`,
        and in it what was due until `due_ms`. A recall counts while its slot is open.
        """
        if where.slot_ms != read_ms:
            return where.slot_ms < read_ms
        is_message = not where.is_rolled and waiting.key is None
        return is_message and waiting.due_ms <= due_ms

    def _add(
        self,
        waiting: _Waiting,
        where: Place,
        written_ms: int,
        physical_offset: int,
        size: int,
        units: NewUnits,
    ) -> None:
        precision_ms = self._state.precision_ms
        is_delete = waiting.key is not None
        unit = TimerUnit(
            previous=NO_UNIT,
            magic=DEFAULT | (ROLL if where.is_rolled else 0) | (DELETE if is_delete else 0),
            written_ms=written_ms // precision_ms * precision_ms,
            delay_ms=0,
            physical_offset=physical_offset,
            size_bytes=size,
            topic_hash=java_hash(waiting.topic),
            due_ms=0 if where.is_rolled else waiting.due_ms,
        )
        units.add(where.slot_ms, unit)
        slot = self._state.slot
        if slot is not None and where.slot_ms == slot.time_ms:
            if waiting.key is not None and not where.is_rolled:
                units.taken_back.add(waiting.key)
            else:
                units.waits_in_open_slot(slot.end_ms if where.is_rolled else waiting.due_ms)
        if not is_delete:
            units.topics.append((waiting.topic, 1))

    def _pass_on(self, queue_offset: int, record: StoredMessage, units: NewUnits, now: int) -> bool:
        """Delivers a message whose time passed before it could wait; those before it come first."""
        if not units.is_empty:
            units.is_more = True
            return False
        state = self._state
        message = waited(record, AT_ONCE, now)
        if message is not None and state.destinations.is_gone(message.topic, record.physical_offset):
            message = None
        if message is not None:
            message.queue_id = state.destinations.queue_of(message.topic, message.queue_id)
        key = None if message is None else state.delivered_as(message)
        following = queue_offset + 1
        if message is None or key is not None:
            state.queue_offset = following
            if key is not None:
                state.met(key)
            return True
        at_once = self._at_once = _AtOnce(message, following)
        state.into.append_many([message], now, at_once.answers)
        return self._passed(at_once, now)

    def _passed(self, at_once: _AtOnce, now: int) -> bool:
        """Takes account of what the store said. True if the message is dealt with."""
        state, message = self._state, at_once.message
        status = at_once.answers[0].status if at_once.answers else None
        if status is PutStatus.PUT_OK:
            (appended,) = at_once.answers
            state.durable_needed = max(state.durable_needed, appended.end_offset)
            state.queue_offset = at_once.following
            self._at_once = None
            state.stats.put_delivered(message.topic, message.queue_id, appended.size)
            state.metrics.passed(message.topic)
            return True
        self._at_once = None
        if status is None or not state.is_final(status):
            return False
        (stored,) = state.into.append_many([state.letter_of(message, message.topic, now)], now, [])
        if stored.status is PutStatus.PUT_OK:
            state.kept(message.topic, status.name)
        elif state.is_final(stored.status):
            state.lose(f"a message for {message.topic} can be stored nowhere: {stored.status.name}")
        else:
            return False
        state.queue_offset = at_once.following
        return True


class NewUnits:
    """The units of one slice, and their slots, written together.

    `slot` is the one that is open meanwhile.
    """

    def __init__(self, files: TimerFiles, slot: OpenSlot | None) -> None:
        self.slot = slot
        self.following = 0
        """The queue offset behind the last message of the slice."""
        self.is_more = False
        """There is more to take in at once."""
        self._files = files
        self._end = files.log.end
        self._slots: dict[int, Slot] = {}
        self._last = NO_UNIT
        self.for_open_slot: deque[tuple[int, int]] = deque()
        self.taken_back: set[str] = set()
        self.topics: list[tuple[str, int]] = []
        """Of messages that wait now, and how many there are."""

    @property
    def is_empty(self) -> bool:
        return not self._slots

    def add(self, slot_ms: int, unit: TimerUnit) -> None:
        """Puts a unit behind the last one of its slot."""
        slot = self._slots.get(slot_ms)
        if slot is None:
            slot = self._files.wheel.get(slot_ms)
        linked = TimerUnit(slot.last, unit.magic, unit.written_ms, slot_ms - unit.written_ms, *unit[4:])
        position = self._last = self._files.log.append(pack_unit(linked))
        number = slot.number + (-1 if unit.magic & DELETE else 1)
        self._slots[slot_ms] = Slot(position if slot.first == NO_UNIT else slot.first, position, number)

    def add_plain(self, plain: Plain) -> None:
        """Takes over units that were made for here, before any other."""
        self._files.log.append(plain.units)
        for slot_ms, (first, last, number) in plain.slots.items():
            self._slots[slot_ms] = Slot(first, last, number)
        self.topics += plain.topics.items()

    def waits_in_open_slot(self, due_ms: int) -> None:
        """The unit added last is one of the slot that is being delivered."""
        self.for_open_slot.append((due_ms, self._last))

    def write(self) -> None:
        """Writes the log. Raises OSError."""
        if self._slots:
            self._files.wheel.make()
        self._files.log.write()

    def forget(self) -> None:
        """After that has failed, or was not reached: there are no such units."""
        self._files.log.forget(self._end)

    def put(self) -> None:
        """Has the slots lead to what was written. Raises OSError, and is to be called again then."""
        for slot_ms, slot in self._slots.items():
            self._files.wheel.put(slot_ms, slot)

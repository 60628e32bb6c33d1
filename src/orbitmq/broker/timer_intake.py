"""From the timer topic into the wheel: every message gets a unit in the timer log, and a slot leads to it."""

from __future__ import annotations

import logging
from typing import NamedTuple

from orbitmq.broker.timer_due import Place, due_time, place, window_slots
from orbitmq.broker.timer_records import AT_ONCE, waited
from orbitmq.broker.timer_state import TimerState
from orbitmq.protocol.hashing import java_hash
from orbitmq.protocol.message import StoredMessage
from orbitmq.protocol.names import REAL_QUEUE_ID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, TIMER_TOPIC
from orbitmq.protocol.properties import decode_properties
from orbitmq.store import PendingMessage, PutStatus
from orbitmq.store.timer_files import TimerFiles
from orbitmq.store.timer_log import DEFAULT, DELETE, NO_UNIT, ROLL, TimerUnit, pack_unit
from orbitmq.store.timer_wheel import Slot

log = logging.getLogger(__name__)

TAKEN_PER_STEP = 128
"""How many messages one step takes in before it lets others go first."""


class _Waiting(NamedTuple):
    """What a message of the timer topic says."""

    topic: str
    due_ms: int
    key: str | None
    """It takes the message with this key back."""


class Intake:
    """Goes through the timer topic, from `state.queue_offset` on."""

    def __init__(self, state: TimerState) -> None:
        self._state = state
        self._known = state.files.start.known
        self._passed_to = state.files.start.passed_to
        self._window_slots = 0
        """How many slots ahead messages are put; looked at once per slice."""

    @property
    def has_known(self) -> bool:
        """Whether messages ahead have units from before the start."""
        return bool(self._known)

    def run(self, now: int) -> bool:
        """Takes in a slice; whether there is more."""
        state = self._state
        end = state.store.max_offset(TIMER_TOPIC, 0)
        if state.queue_offset >= end:
            return False
        first = state.store.min_offset(TIMER_TOPIC, 0)
        if state.queue_offset < first:
            log.warning("timers: messages %d to %d are gone from the topic", state.queue_offset, first)
            state.queue_offset = first
        settings = state.settings
        self._window_slots = window_slots(
            settings.timer_roll_window_slot, state.precision_ms, settings.file_reserved_time
        )
        stop = min(end, state.queue_offset + TAKEN_PER_STEP)
        units = NewUnits(state.files)
        queue_offset = state.queue_offset
        while queue_offset < stop and self._take(queue_offset, units, now):
            queue_offset += 1
        try:
            units.write()
        except OSError as error:
            state.complain(f"the timer log cannot be written: {error}")
            # The slice comes again as a whole; what was delivered at once out of it does not.
            state.remember_delivered(units.at_once)
            return False
        slot = state.slot
        if slot is not None:
            for due_ms, position in units.for_open_slot:
                slot.add(due_ms, position)
            slot.taken_back |= units.taken_back
        for topic in units.topics:
            state.metrics.came(topic, now)
        state.queue_offset = queue_offset
        if self._known and queue_offset >= end:
            self._known = frozenset()
        return queue_offset == stop < end

    def _take(self, queue_offset: int, units: NewUnits, now: int) -> bool:
        """Whether a message was dealt with; False: not now, try again."""
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
        if self._is_past(where, waiting):
            if queue_offset < self._passed_to:
                return True
            if not where.is_rolled:
                state.durable_needed = max(state.durable_needed, physical_offset + size)
                return waiting.key is not None or self._deliver(record, units, now)
            where = Place(state.read_ms + state.precision_ms, True)
        state.durable_needed = max(state.durable_needed, physical_offset + size)
        self._add(waiting, where, written_ms, physical_offset, size, units)
        return True

    def _read(self, record: StoredMessage) -> _Waiting | None:
        properties = decode_properties(record.properties)
        topic = properties.get(REAL_TOPIC, "")
        out_ms = properties.get(TIMER_OUT_MS, "")
        if not (topic and out_ms.isdigit() and properties.get(REAL_QUEUE_ID, "").isdigit()):
            return None
        due_ms = due_time(properties, int(out_ms), record.store_timestamp, self._state.precision_ms)
        return _Waiting(topic, due_ms, properties.get(TIMER_DEL_UNIQKEY))

    def _is_past(self, where: Place, waiting: _Waiting) -> bool:
        """Whether what waits there has been delivered already; a recall counts while its slot is open."""
        read_ms = self._state.read_ms
        if where.slot_ms != read_ms:
            return where.slot_ms < read_ms
        is_message = not where.is_rolled and waiting.key is None
        return is_message and waiting.due_ms <= self._state.cursor[0]

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
            units.topics.append(waiting.topic)

    def _deliver(self, record: StoredMessage, units: NewUnits, now: int) -> bool:
        """Delivers a message whose time passed before it could wait."""
        state = self._state
        message = waited(record, AT_ONCE, now)
        if message is None or state.was_delivered(message):
            return True
        (appended,) = state.store.append_many([message], now)
        if appended.status is not PutStatus.PUT_OK:
            return state.is_final(appended.status, message)
        state.durable_needed = max(state.durable_needed, appended.end_offset)
        state.stats.put_delivered(message.topic, message.queue_id, appended.size)
        state.metrics.passed(message.topic)
        units.at_once.append(message)
        return True


class NewUnits:
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
        """Puts a unit behind the last one of its slot."""
        slot = self._slots.get(slot_ms)
        if slot is None:
            slot = self._files.wheel.get(slot_ms)
        linked = TimerUnit(slot.last, unit.magic, unit.written_ms, slot_ms - unit.written_ms, *unit[4:])
        position = self._last = self._files.log.append(pack_unit(linked))
        number = slot.number + (-1 if unit.magic & DELETE else 1)
        self._slots[slot_ms] = Slot(position if slot.first == NO_UNIT else slot.first, position, number)

    def waits_in_open_slot(self, due_ms: int) -> None:
        """The unit added last is one of the slot that is being delivered."""
        self.for_open_slot.append((due_ms, self._last))

    def write(self) -> None:
        """Writes the log, and then the slots that lead to it. Raises OSError, and nothing counts then."""
        try:
            if self._slots:
                self._files.wheel.make()
            self._files.log.write()
        except OSError:
            self._files.log.forget(self._end)
            raise
        for slot_ms, slot in self._slots.items():
            self._files.wheel.put(slot_ms, slot)

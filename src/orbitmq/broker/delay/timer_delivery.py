"""From the wheel to where messages belong: slot after slot, in each by due time and then by arrival."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from orbitmq.broker.delay.timer_records import recall_key, text_of, waited
from orbitmq.broker.delay.timer_slot import OpenSlot
from orbitmq.broker.delay.timer_state import TimerState
from orbitmq.protocol.names import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_TOPIC
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.store import Appended, PendingMessage, PutStatus
from orbitmq.store.log.log_writer import HOT_BYTES
from orbitmq.store.timer.log import DELETE, NO_UNIT, ROLL, TimerUnit
from orbitmq.store.timer.recovery import Identity
from orbitmq.store.timer.wheel import EMPTY, Slot

DELIVERED_PER_STEP = 64
EMPTY_SLOTS_PER_STEP = 5
"""Number of empty slots that one step passes before it lets others go first."""
FAR_BEHIND_SLOTS = 10
"""Further behind than this, empty slots are skipped many at a time."""

Fetch: TypeAlias = Callable[[], None]
"""A job for a thread."""


@dataclass(slots=True)
class _Ready:
    """A unit whose time has come."""

    due_ms: int
    position: int
    unit: TimerUnit
    topic: str = ""
    message: PendingMessage | None = None
    """Message to store; None: nothing."""
    known: Identity | None = None
    """By what its message was recognised, if it was delivered before a crash."""
    stored: Appended | None = None
    """Answer of the store when it took the message."""
    refused: str = ""
    """The reason why its message is a dead letter: it can never be stored where it is to go."""

    @property
    def is_rolled(self) -> bool:
        """It goes around once more."""
        return bool(self.unit.magic & ROLL)

    @property
    def is_counted(self) -> bool:
        """Its message is one of those that wait; what takes another one back is not."""
        return not self.unit.magic & DELETE


class Delivery:
    """Moves `state.cursor` on, never ahead of what was stored.

    A batch is kept until the cursor has passed all of it, with what the store said of each message: what ends
    a turn in between, a lack of memory for instance, has nothing stored twice. If it ends before units
    are in a batch, their slot is opened again, behind the cursor.
    """

    def __init__(self, state: TimerState) -> None:
        self._state = state
        self._batch: list[_Ready] = []
        self._done = 0
        """Number of messages of the batch that the cursor has passed."""
        self._put: list[_Ready] = []
        """Those of the batch whose messages were handed to the store,"""
        self._answers: list[Appended] = []
        """and what it said so far."""
        self._is_warm = False
        self._needed_offset = 0
        self._opened_end = state.store.max_physical

    def run(self, now: int) -> tuple[bool, Fetch | None]:
        """Does a slice. Gives true if more is due at once, and a job to be done before it continues."""
        try:
            return self._run(now)
        except BaseException:
            self.fetched()  # a job that was made is not known to anybody
            raise

    def _run(self, now: int) -> tuple[bool, Fetch | None]:
        if self._batch:
            return self._deliver(now)
        state = self._state
        empty = 0
        while True:
            slot = state.slot
            if slot is None:
                if empty >= EMPTY_SLOTS_PER_STEP:
                    return True, None
                fetch = self._open(now)
                if fetch is not None or state.slot is None:
                    return False, fetch
                continue
            if self._waits_for_intake(slot):
                return False, None
            if self._collect_due(slot, now):
                return self._deliver(now)
            if not slot.is_empty or now < slot.end_ms:
                return False, None
            self._close()
            empty += 1

    def fetched(self) -> None:
        """Takes what a job has read. A slot that could not be read is opened again."""
        slot = self._state.slot
        if slot is None or slot.is_loaded:
            return
        self._state.slot = None
        if slot.was_read:
            slot.loaded()
            self._state.slot = slot
            self._state.metrics.lost += slot.broken

    # Slots.

    def _open(self, now: int) -> Fetch | None:
        """Opens the next slot if its time has come; gives the job that reads it, if it is not empty."""
        state = self._state
        time_ms = state.overdue[-1] if state.overdue else state.read_ms
        if now < time_ms:
            return None
        wheel, timer_log = state.files.wheel, state.files.log
        is_far = now - time_ms > FAR_BEHIND_SLOTS * state.precision_ms
        # A broker that was just elected has an empty wheel, and all messages still to take in.
        if is_far and not state.overdue and self._has_taken_in_all():
            time_ms = wheel.next_time(time_ms, now - state.precision_ms)
        if time_ms != state.read_ms:
            state.go_to(time_ms)
        slot = OpenSlot(time_ms, state.precision_ms)
        self._needed_offset = state.store.queue_end(TIMER_TOPIC, 0)
        last = wheel.get(time_ms).last
        after = state.cursor
        fetch: Fetch | None = None
        if last != NO_UNIT:
            slot.is_loaded = False
            fetch = partial(slot.load, timer_log, last, after, self._key_of)
        state.slot = slot
        return fetch

    def _key_of(self, physical_offset: int, size: int) -> str | None:
        """The key by which a recall takes a message back. In a thread."""
        record = self._state.message_at(physical_offset, size)
        key = "" if record is None else text_of(record.properties, TIMER_DEL_UNIQKEY)
        if record is None or not key:
            return None
        names_topic = self._state.settings.append_topic_for_timer_delete_key
        return recall_key(text_of(record.properties, REAL_TOPIC), key, names_topic=names_topic)

    def _waits_for_intake(self, slot: OpenSlot) -> bool:
        """True if messages that were there when the slot's time came are not in the wheel yet: one of them
        may be the first, or take another one back.

        Those that slaves do not hold yet count as well. That delays no delivery: all stand behind them
        in the log, so readers would not see them sooner.
        """
        state = self._state
        return (
            state.queue_offset < min(self._needed_offset, state.store.queue_end(TIMER_TOPIC, 0))
            and slot.time_ms >= state.caught_up_ms
            and not state.settings.timer_stop_enqueue
        )

    def _has_taken_in_all(self) -> bool:
        state = self._state
        return state.settings.timer_stop_enqueue or (
            state.queue_offset >= state.store.max_offset(TIMER_TOPIC, 0)
        )

    def _close(self) -> None:
        state = self._state
        assert state.slot is not None
        time_ms, end_ms = state.slot.time_ms, state.slot.end_ms
        state.slot = None
        if state.overdue and state.overdue[-1] == time_ms:
            state.overdue.pop()
            if not state.overdue:
                end_ms = max(end_ms, state.caught_up_ms)
        state.go_to(end_ms)

    # Messages.

    def _collect_due(self, slot: OpenSlot, now: int) -> bool:
        """True if something is due; it is in the batch then."""
        try:
            taken = slot.take(now, DELIVERED_PER_STEP)
            if taken:
                window = self._state.files.log.walk(taken[0][1])
                for due_ms, position in taken:
                    unit = window.unit(position)
                    if unit is None:
                        self._state.lose(f"there is no unit at {position} of the timer log")
                    else:
                        self._batch.append(_Ready(due_ms, position, unit))
        except BaseException:
            self._batch.clear()
            self._state.slot = None
            raise
        return bool(taken)

    def _deliver(self, now: int) -> tuple[bool, Fetch | None]:
        if self._answers:
            return self._advance(now), None
        if not self._is_warm:
            cold = self._cold()
            if cold:
                self._is_warm = True
                return False, lambda: self._warm(cold)
        self._is_warm = False
        met: Counter[Identity] = Counter()
        put: list[_Ready] = []
        for ready in self._batch[self._done :]:
            if ready.stored is None and not ready.refused:
                self._prepare(ready, met, now)
            if ready.message is not None and ready.stored is None:
                put.append(ready)
        messages = [ready.message for ready in put if ready.message is not None]
        self._put = put
        self._state.is_ahead = True
        self._state.into.append_many(messages, now, self._answers)
        return self._advance(now), None

    def _cold(self) -> list[tuple[int, int]]:
        """Messages of the batch that have to come from the disk."""
        store = self._state.store
        hot_from = max(self._opened_end, store.max_physical - HOT_BYTES)
        batch = self._batch[self._done :]
        places = ((ready.unit.physical_offset, ready.unit.size_bytes) for ready in batch)
        return [place for place in places if place[0] < hot_from and not store.reader.is_resident(*place)]

    def _warm(self, cold: list[tuple[int, int]]) -> None:
        """Brings messages into memory. In a thread."""
        for physical_offset, size in cold:
            self._state.store.reader.read_cold(physical_offset, size)

    def _prepare(self, ready: _Ready, met: Counter[Identity], now: int) -> None:
        """Finds out what is to be stored. `met` counts what was recognised before it in the batch."""
        state, unit = self._state, ready.unit
        ready.message = ready.known = None
        record = state.message_at(unit.physical_offset, unit.size_bytes)
        if record is None:
            state.lose(f"the message at {unit.physical_offset} is gone")
            ready.topic = state.metrics.topic_of(unit.topic_hash)
            return
        ready.topic = text_of(record.properties, REAL_TOPIC)
        if not ready.is_rolled and state.was_delivered_elsewhere(record, ready.due_ms, ready.topic):
            return
        if not ready.is_rolled and self._is_taken_back(record, ready.topic):
            state.metrics.recalled += 1
            return
        if state.destinations.is_gone(ready.topic, unit.physical_offset):
            return
        message = waited(record, unit.written_ms, now, roll=ready.is_rolled)
        if message is not None and not ready.is_rolled:
            message.queue_id = state.destinations.queue_of(message.topic, message.queue_id)
        key = None if message is None else state.delivered_as(message)
        if key is not None:
            met[key] += 1
            if met[key] <= state.delivered[key]:
                ready.known = key
                return
        ready.message = message

    def _is_taken_back(self, record: StoredMessage, topic: str) -> bool:
        slot = self._state.slot
        if slot is None or not slot.taken_back:
            return False
        unique_id = record.unique_id
        return unique_id is not None and recall_key(topic, unique_id, names_topic=False) in slot.taken_back

    def _advance(self, now: int) -> bool:
        """Moves the cursor over what was stored, up to the first message that has to be tried again."""
        state, batch = self._state, self._batch
        refused: dict[int, PutStatus] = {}
        for ready, appended in zip(self._put, self._answers, strict=False):
            if appended.status is PutStatus.PUT_OK:
                ready.stored = appended
            else:
                refused[ready.position] = appended.status
        while self._done < len(batch):
            ready = batch[self._done]
            if ready.message is not None and ready.stored is None:
                status = refused.get(ready.position)
                if status is None or not state.is_final(status):
                    self._is_warm = True
                    self._answers.clear()
                    return False
                if not ready.refused:
                    ready.message = state.letter_of(ready.message, ready.topic, now)
                    ready.refused = status.name
                    self._is_warm = True
                    self._answers.clear()
                    return True
                state.lose(f"a message for {ready.topic} can be stored nowhere: {status.name}")
            self._pass(ready, now)
        self._answers.clear()
        batch.clear()
        self._done = 0
        state.is_ahead = False
        state.complaint = ""
        return True

    def _pass(self, ready: _Ready, now: int) -> None:
        """Moves the cursor over a unit: as a whole, or not at all."""
        state, stored = self._state, ready.stored
        done, cursor = self._done + 1, (ready.due_ms, ready.position)
        if stored is not None:
            state.durable_needed = max(state.durable_needed, stored.end_offset)
        if ready.known is not None:
            state.met(ready.known)
        state.cursor = cursor
        self._done = done
        delivered = stored is not None and not ready.is_rolled
        if stored is not None and ready.refused:
            state.kept(ready.topic, ready.refused)
        if stored is not None and ready.message is not None:
            if ready.is_rolled:
                state.metrics.rolled += 1
            else:
                state.stats.put_delivered(ready.message.topic, ready.message.queue_id, stored.size)
        if ready.is_counted:
            state.metrics.went(ready.topic, now, delivered=delivered)

    @property
    def delivered_to_ms(self) -> int:
        """Everything that is due until then was delivered, and maybe more."""
        first = self._first_due_ms
        if first is not None:
            return first - 1
        state = self._state
        slot = state.slot
        is_known = slot is not None and slot.is_loaded and state.cursor[1] != NO_UNIT
        return state.cursor[0] if is_known else state.read_ms - 1

    @property
    def is_amid_due_time(self) -> bool:
        """True if messages that are due at the same millisecond were delivered in part."""
        due_ms, position = self._state.cursor
        return position != NO_UNIT and self._first_due_ms == due_ms

    @property
    def _first_due_ms(self) -> int | None:
        """Due time of the next message of the batch or of the open slot; None if neither has one."""
        if self._batch:
            return self._batch[self._done].due_ms
        slot = self._state.slot
        return slot.first_due_ms if slot is not None and slot.is_loaded else None

    # The end.

    def leave_open_slot(self) -> None:
        """Takes delivered units out of the chain of the open slot, for Apache knows no half slots.

        Recalls stay: what they take back may be still to come. Raises OSError.
        """
        state = self._state
        wheel, timer_log = state.files.wheel, state.files.log
        time_ms = state.read_ms
        slot = wheel.get(time_ms)
        if slot is EMPTY or state.cursor <= (time_ms, NO_UNIT):
            return
        opened = OpenSlot(time_ms, state.precision_ms)
        position, later, last, number = slot.last, NO_UNIT, NO_UNIT, 0
        window = timer_log.walk(position)
        while position != NO_UNIT:
            unit = window.unit(position, backwards=True)
            if unit is None:
                return
            is_recall = unit.magic & DELETE and not unit.magic & ROLL
            if not is_recall and (opened.due_of(unit), position) <= state.cursor:
                timer_log.void(position)
            else:
                if later != NO_UNIT:
                    timer_log.relink(later, position)
                later = position
                last = position if last == NO_UNIT else last
                number += -1 if unit.magic & DELETE else 1
            position = unit.previous
        if later != NO_UNIT:
            timer_log.relink(later, NO_UNIT)
        wheel.put(time_ms, Slot(later, last, number))

"""The start of timers: timer log and wheel brought in order, and what was delivered since they last were.

After a clean stop the files are taken as they are. Otherwise the whole timer log is read, the wheel is made
anew from it, and the commit log is searched for what was delivered behind the last mark: a kill at any point
neither loses a message nor delivers one twice.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.protocol.records.message import FIXED_BYTES, BadRecord
from orbitmq.protocol.records.message_cy import decode_record, read_header
from orbitmq.protocol.records.properties import find_property, whole_number
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.sound_records import last_record_before, next_record_in
from orbitmq.store.timer.check_point import TimerCheck, TimerMark
from orbitmq.store.timer.log import BLANK, DELETE, NO_UNIT, UNIT_BYTES, TimerLog
from orbitmq.store.timer.wheel import Slot, TimerWheel

log = logging.getLogger(__name__)

LOOK_BACK_MS = 7 * 86_400_000 - 60_000
"""If it is unknown what was delivered, messages due within this time are delivered again, as by Apache."""
LATE_DELIVERY_MS = 60_000
"""By how much deliveries may have been late at the end of a log that was cut,"""
LAG_BYTES = 64 << 20
"""unless one of them within so many bytes of that end says more."""
_CHUNK_BYTES = 8 << 20
_COMPARED = 256
"""Most units that are compared to see whether log and wheel belong together."""

Identity: TypeAlias = tuple[str, int, bytes | None, bytes | None, bytes | None, int, int]
"""The identity of a delivery."""


def identity(topic: str, queue_id: int, properties: bytes, born_timestamp: int, body_length: int) -> Identity:
    """The identity of a record that a timer has put where it belongs, or around for another turn."""
    return (
        topic,
        queue_id,
        find_property(properties, b"UNIQ_KEY"),
        find_property(properties, b"TIMER_OUT_MS"),
        find_property(properties, b"TIMER_ROLL_TIMES"),
        born_timestamp,
        body_length,
    )


def delivered_to_ms(commit_log: CommitLog) -> int:
    """A time before which every due timer message had been delivered when the last record was stored, as far
    as the end of the log shows: 1 for an empty one.
    """
    last = last_record_before(commit_log, commit_log.max_physical)
    segment = None if last is None else commit_log.find(last[0])
    if last is None or segment is None:
        return 1
    found = last[4] - LATE_DELIVERY_MS
    first = next_record_in(segment, max(0, last[0] - segment.start - LAG_BYTES))
    for record in () if first is None else commit_log.records(segment.start + first[0]):
        due = whole_number(find_property(record.properties, b"TIMER_OUT_MS"))
        if due is not None and find_property(record.properties, b"TIMER_DEQUEUE_MS"):
            found = min(last[4] - LATE_DELIVERY_MS, due)
    return max(1, found)


@dataclass(slots=True)
class TimerStart:
    """The state to continue from."""

    read_ms: int
    due_ms: int
    position: int
    queue_offset: int
    passed_to: int = 0
    """Messages of the timer topic before this queue offset whose time is over were delivered."""
    known: frozenset[int] = frozenset()
    """Physical offsets of messages from `queue_offset` on that have units already."""
    delivered: Counter[Identity] = field(default_factory=Counter)
    """Deliveries since the mark,"""
    delivered_from: int = 0
    """found in the commit log from this physical offset on."""
    pending: Counter[int] | None = None
    """Number of waiting messages by the hash of their topic; None: as in the file `timermetrics`."""
    head: int = 0
    """No unit before this position of the timer log waits."""
    overdue: list[int] = field(default_factory=list)
    """After a very long time: the slots that are not empty, in order, from `read_ms` on,"""
    caught_up_ms: int = 0
    """and up to here. `read_ms` otherwise."""


@dataclass(slots=True, kw_only=True)
class TimerRecovery:
    """One start."""

    timer_log: TimerLog
    wheel: TimerWheel
    check: TimerCheck
    commit_log: CommitLog
    queue_min: int
    """The first queue offset of the timer topic, and the one behind its last."""
    queue_max: int
    physical_of: Callable[[int], int]
    """Physical offset of the message at a queue offset of the timer topic; the end of the log if none."""
    clean: bool
    """True if the store was closed in order."""

    def run(self, now_ms: int) -> TimerStart:
        """Brings everything in order. Raises OSError."""
        start = self._begin(now_ms)
        has_gone_back = start.read_ms > now_ms
        if has_gone_back:
            self._go_back(start, now_ms)
        mark = self.check.mark
        if self.clean and not has_gone_back and mark is not None and self._is_whole(mark):
            self.timer_log.end = mark.log_end
            start.head = self.timer_log.start
        else:
            self._read_log(start, self.physical_of(start.queue_offset))
        if start.pending is None or start.pending or start.queue_offset < self.queue_max:
            self._find_delivered(start, None if mark is None else mark.physical_offset)
        else:
            # Nothing waits: nothing can be delivered a second time.
            start.delivered_from = self.commit_log.max_physical
        start.passed_to = min(start.passed_to, self.queue_max)
        start.caught_up_ms = start.read_ms
        if now_ms - start.read_ms > self.wheel.span_ms // 2:
            # The wheel may come round to slots that were not delivered: they are delivered first.
            precision = self.wheel.precision_ms
            start.caught_up_ms = now_ms // precision * precision - precision
            start.overdue = [t for t in self.wheel.times() if start.read_ms <= t < start.caught_up_ms]
        return start

    def _begin(self, now_ms: int) -> TimerStart:
        precision = self.wheel.precision_ms
        fields, mark = self.check.fields, self.check.mark
        if mark is not None:
            return TimerStart(
                mark.read_ms, mark.due_ms, mark.position, mark.queue_offset, passed_to=mark.passed_to
            )
        if fields is not None and fields.read_ms > now_ms + self.wheel.span_ms:
            log.warning("config/timercheck speaks of a time that is not near: it is not relied on")
            fields = self.check.fields = None
        if fields is not None:
            read_ms = fields.read_ms // precision * precision
            return TimerStart(read_ms, read_ms, NO_UNIT, max(0, fields.master_queue_offset))
        if self.wheel.exists or not self.timer_log.is_empty:
            log.warning("config/timercheck is missing: timers of the last days may be delivered again")
            read_ms = (now_ms - LOOK_BACK_MS) // precision * precision
            return TimerStart(read_ms, read_ms, NO_UNIT, 0, passed_to=self.queue_max)
        # Messages that were not taken in yet go through the wheel, so that their order and recalls count.
        first_ms = (
            self.commit_log.stored_ms(self.physical_of(self.queue_min))
            if self.queue_min < self.queue_max
            else None
        )
        read_ms = min(now_ms, now_ms if first_ms is None else first_ms) // precision * precision
        return TimerStart(read_ms, read_ms, NO_UNIT, self.queue_min)

    def _go_back(self, start: TimerStart, now_ms: int) -> None:
        """Begins with the slot of now, for the clock was set back, or a master's clock was ahead: a message
        that is sent now waits for its time. Messages that were delivered in the time that comes once more are
        recognised in the log: they were stored there when they were due.
        """
        precision = self.wheel.precision_ms
        read_ms = start.read_ms = start.due_ms = now_ms // precision * precision
        start.position = NO_UNIT
        fields, mark = self.check.fields, self.check.mark
        assert fields is not None, "no other start is ahead of the clock"
        fields = fields._replace(read_ms=read_ms)
        if mark is None:
            self.check.write_fields(fields)
        else:
            delivered_from = min(mark.physical_offset, self.commit_log.segment_before(read_ms))
            again = mark._replace(
                read_ms=read_ms, due_ms=read_ms, position=NO_UNIT, physical_offset=delivered_from
            )
            self.check.write(fields, again)
        # A start that found the later time once more would pass over what is due until then.
        self.check.sync()

    def _is_whole(self, mark: TimerMark) -> bool:
        """True if log and wheel are those of the mark, and nothing was stored since."""
        if mark.physical_offset != self.commit_log.max_physical:
            return False
        if self.timer_log.is_empty:
            return mark.log_end == 0
        end = mark.log_end
        if self.timer_log.unit(end) is not None or self.timer_log.last_segment > end:
            return False
        return self.wheel.exists and self.timer_log.start <= end and self._agree(mark)

    def _agree(self, mark: TimerMark) -> bool:
        """True if the newest waiting unit is the last one of its slot; false if either file was
        emptied or replaced.
        """
        segment = self.timer_log.segment_bytes
        first = mark.log_end - mark.log_end % segment
        for position in range(mark.log_end - UNIT_BYTES, first - 1, -UNIT_BYTES)[:_COMPARED]:
            unit = self.timer_log.unit(position)
            if unit is None:
                return False
            if unit.slot_ms >= mark.read_ms + self.wheel.precision_ms:
                return self.wheel.get(unit.slot_ms).last == position
        return True

    def _read_log(self, start: TimerStart, taken_in_to: int) -> None:
        """Makes the wheel again. Messages from physical offset `taken_in_to` on may have units already."""
        timer_log, wheel = self.timer_log, self.wheel
        precision = wheel.precision_ms
        end_of_log = self.commit_log.max_physical
        slots: dict[int, Slot] = {}
        known: set[int] = set()
        waiting: set[int] = set()
        pending: Counter[int] = Counter()
        position = timer_log.start
        head = -1
        for at, unit in timer_log.units(position, 1 << 62):
            if unit.physical_offset + unit.size_bytes > end_of_log:
                # Its message was lost with the end of the commit log, and so is everything behind it.
                break
            position = at + UNIT_BYTES
            if unit.physical_offset >= taken_in_to:
                known.add(unit.physical_offset)
            time_ms = unit.slot_ms // precision * precision
            if time_ms < start.read_ms:
                continue
            if head < 0:
                head = at
            waiting.add(unit.physical_offset)
            slot = slots.get(time_ms)
            previous = NO_UNIT if slot is None else slot.last
            if unit.previous != previous:
                timer_log.relink(at, previous)
            is_delete = bool(unit.magic & DELETE)
            number = (0 if slot is None else slot.number) + (-1 if is_delete else 1)
            slots[time_ms] = Slot(at if slot is None else slot.first, at, number)
            due_ms = unit.due_ms if unit.due_ms > time_ms else time_ms + precision
            is_over = time_ms == start.read_ms and (due_ms, at) <= (start.due_ms, start.position)
            if not is_delete and not is_over:
                pending[unit.topic_hash] += 1
        flushed = self._flushed()
        is_damaged = position < flushed and not self._ends_blank(position, flushed)
        timer_log.truncate(position)
        # A slave has noted how far its master was, and its own log begins with its time as master.
        lacks_first = timer_log.is_empty or (self.check.mark is None and flushed == 0)
        if slots or wheel.exists:
            wheel.refill(slots)
        start.head = position if head < 0 else head
        start.known = frozenset(known)
        start.pending = pending
        if is_damaged:
            log.warning(
                "the timer log ends at %d instead of %d: what waits is read from the topic %s again",
                position, flushed, TIMER_TOPIC,
            )  # fmt: skip
        elif lacks_first and start.queue_offset > self.queue_min:
            log.info("the timer log lacks what a master took in: it is read from the topic %s", TIMER_TOPIC)
        else:
            return
        self._replay_topic(start, waiting | known)

    def _replay_topic(self, start: TimerStart, known: set[int]) -> None:
        """Begins with the first message of the timer topic; those at `known` offsets have units."""
        start.passed_to = max(start.passed_to, start.queue_offset)
        start.queue_offset = self.queue_min
        start.known = frozenset(known)

    def _flushed(self) -> int:
        if self.check.mark is not None:
            return self.check.mark.log_end
        return 0 if self.check.fields is None else self.check.fields.log_flushed

    def _ends_blank(self, position: int, end: int) -> bool:
        """True if only the blank end of a segment lies between two positions."""
        segment = self.timer_log.segment_bytes
        return end == position - position % segment + segment and end - position < UNIT_BYTES + BLANK.size

    # Earlier deliveries.

    def _find_delivered(self, start: TimerStart, physical_offset: int | None) -> None:
        """Deliveries of timers in the commit log from a physical offset on, or else from a time on."""
        commit_log = self.commit_log
        since_ms = 0
        if physical_offset is None:
            if self.check.fields is None:
                # Of a replica that its master has sent nothing yet, for instance.
                physical_offset = self.physical_of(self.queue_min)
            else:
                since_ms = start.read_ms
                physical_offset = commit_log.segment_before(since_ms)
        found = start.delivered
        position = start.delivered_from = max(physical_offset, commit_log.min_physical)
        end = commit_log.max_physical
        while position < end:
            data = commit_log.read(position, _CHUNK_BYTES)
            at = 0
            while len(data) - at >= FIXED_BYTES:
                size = int.from_bytes(data[at : at + 4], "big", signed=True)
                if not FIXED_BYTES <= size <= len(data) - at:
                    break
                self._note(found, data, at, since_ms)
                at += size
            if at:
                position += at
                continue
            size = int.from_bytes(commit_log.read(position, 4), "big", signed=True)
            record = commit_log.read(position, size) if size >= FIXED_BYTES else b""
            if len(record) == size:
                self._note(found, record, 0, since_ms)
                position += size
            else:
                position = commit_log.next_segment_start(position)

    def _note(self, found: Counter[Identity], data: bytes, at: int, since_ms: int) -> None:
        try:
            if since_ms and read_header(data, at)[6] < since_ms:
                return
            record = decode_record(data, at, False)
        except BadRecord:
            return
        properties = record.properties
        if find_property(properties, b"TIMER_DEQUEUE_MS") is None:
            return
        if record.topic == TIMER_TOPIC and find_property(properties, b"TIMER_ROLL_TIMES") is None:
            return
        key = identity(record.topic, record.queue_id, properties, record.born_timestamp, len(record.body))
        found[key] += 1

"""Delivery of delayed messages: from the queue of their level to their own topic, when they are due.

They are stored once more under that topic. Delivered positions are in
`config/delayOffset.json`: level -> next queue offset. After a crash a few seconds may be delivered again.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace

from orbitmq.broker.delay.delay_cy import copy_due
from orbitmq.broker.delay.delivered_messages import (
    Identity,
    as_pending,
    delivered,
    identity_of,
    was_delivered,
)
from orbitmq.broker.delay.destinations import Destinations
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.broker.delay.undelivered import Undelivered
from orbitmq.broker.metadata import names
from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.broker.stats.passed_over import DEAD_LETTER, NOWHERE, PassedOver
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.offset import ActedFor, DelayOffsetSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.names import SCHEDULE_TOPIC
from orbitmq.protocol.records.message import BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.schema.json_body import require_member
from orbitmq.store import FINAL_REFUSALS, Appended, MessageStore, PendingMessage, PutStatus
from orbitmq.store.timer.recovery import LATE_DELIVERY_MS

log = logging.getLogger(__name__)

SCAN_INTERVAL_MS = 100
KIND = "delay levels"
FIRST_SCAN_MS = 1_000
MESSAGES_PER_SCAN = 256
"""Messages that one turn delivers at most; other work follows."""
BATCH_BYTES = 1 << 20
"""Approximate size of the bodies that one append delivers."""
UPDATES_PER_VERSION = 200
CLOCKS_DIFFER_MS = 60_000
"""Difference of the clocks of two successive masters that is not taken for a clock that was set. The store
time of a message from the last master may be later than now by so much, and the message waits all the same:
otherwise a delay of two hours would end at once.
"""


@dataclass(slots=True)
class LevelProgress:
    """Positions, and the part of the log whose deliveries give the rest of them."""

    physical_offset: int | None
    """Deliveries beyond the positions stand behind it; None if it is unknown."""
    log_end: int
    """Deliveries up to the positions stand before it: a log that ends earlier lacks some."""
    positions: dict[int, int]


@dataclass(slots=True)
class _Put:
    """Messages that stand in a level from a position on, and what the store said of them so far."""

    level: int
    position: int
    messages: Sequence[PendingMessage]
    answers: list[Appended] = field(default_factory=list)
    noted: int = 0
    """Number of answers that were taken account of."""
    taken: int = 0
    """Number of messages that were stored before the first one that was not."""


@dataclass(eq=False, repr=False)
class DelayDelivery:
    """Moves due messages from the waiting queues to their own topics.

    `positions` is where each level continues. The file lags behind until the messages delivered so far are on
    the disk: a power cut skips none. Messages delivered behind the saved positions are recognised at the next
    start, in the log: a crash repeats none either. Nor does a lack of memory: what was handed to the store is
    remembered before, and taken account of by the next turn if not by this one.
    """

    FILE = "delayOffset.json"
    NAME = "delay"

    levels: DelayLevels
    _store: MessageStore
    _dirty_tables: DirtyTables
    now: InitVar[int]
    _updates_per_version: int = UPDATES_PER_VERSION

    def __post_init__(self, now: int) -> None:
        self.positions: dict[int, int] = {}
        self.version = DataVersion(timestamp=now)
        self.is_held = False
        """Nothing is delivered yet: another broker may have acted for this one and is asked first."""
        self.acted: ActedFor | None = None
        """Work that this broker did for its master when it last acted for it; kept in the same file."""
        self.skipped = 0
        """Waiting records that could not be read, or were of no deliverable kind."""
        self.on_delivered: Callable[[str, int, int, int], None] = lambda topic, queue_id, size, count: None
        """Hears of the topic, queue, bytes and number of messages of about the same size whose time came."""
        self.undelivered = Undelivered()
        self.destinations = Destinations()
        self.passed = PassedOver()
        self._saved_to: int | None = None
        self._savable = LevelProgress(0, 0, {})
        self._progress: LevelProgress | None = None
        self._delivered_to = 0
        self._is_started = False
        self._put: _Put | None = None
        self._left: deque[int] = deque()
        self._left_done: set[int] = set()
        """Physical offsets of messages that a broker which acted for this one has left, and those of them
        that this one has delivered."""
        self._has_passed = False
        """A message was passed over in this scan: those behind it come at once."""
        self._known: Counter[Identity] = Counter()
        self._known_to_ms = 0
        """When the last of them was delivered; the machine's clock may have been set back since."""
        self._updates = 0

    def stop(self) -> None:
        """Ends deliveries; `start` continues from the saved positions, or from followed ones."""
        self._confirm_progress()
        self._put = self._progress = None
        self._known.clear()
        self._is_started = False
        self.positions = dict(self._savable.positions)
        self._saved_to = self._savable.physical_offset

    def start(self) -> None:
        """Brings the positions into the range of their queues, and looks in the log for what was delivered
        behind them. Call after `load_text`, and to continue after `stop`.
        """
        self._delivered_to = self._store.max_physical
        self._is_started = True
        if self._saved_to is None and not self.positions:
            # There is no file, and it may be that it could never be written: on a disk that was full.
            self._saved_to = 0
        if self._saved_to is not None and self._has_waiting():
            for record in self._store.log.records(self._saved_to):
                if was_delivered(record):
                    self._known[identity_of(record.topic, record.queue_id, record)] += 1
                    self._known_to_ms = record.store_timestamp
        for level in self._all_levels():
            first, end = self._range(level)[0], self._end(level)
            position = self.positions.get(level)
            if position is not None:
                self.positions[level] = min(max(position, first), end)
        progress = self._all_delivered()
        self._savable = replace(progress, physical_offset=self._saved_to) if self._known else progress
        # The next start has to find out from where on to look, even if it comes before the first saving.
        self._dirty_tables.mark(self.NAME)

    def _has_waiting(self) -> bool:
        """True if messages are behind a position: no others are delivered from now on, or a second time."""
        return any(self.positions.get(level, 0) < self._end(level) for level in self._all_levels())

    def _here(self) -> LevelProgress:
        if not self._is_started:
            return self._savable
        # While known deliveries are to be met, only the positions before all of them go with a place in the
        # log: of messages that are all alike, one that was met would count for the next once more.
        return self._savable if self._known else self._all_delivered()

    def _all_delivered(self) -> LevelProgress:
        return LevelProgress(self._delivered_to, self._delivered_to, dict(self.positions))

    def deliver_left(self, offsets: Iterable[int]) -> None:
        """Has messages delivered that another broker, which acted for this one, could not send on: they are
        behind the positions that it tells. Each is delivered once, however often it is told.
        """
        first = self._store.min_physical
        self._left_done = {offset for offset in self._left_done if offset >= first}
        self._left += [one for one in offsets if one >= first and one not in self._left_done | {*self._left}]

    def _deliver_left(self, now: int) -> None:
        while self._left:
            data = self._store.record_at(self._left[0])
            try:
                record = None if data is None else decode_record(data)
            except BadRecord:
                record = None
            if record is not None and record.topic == SCHEDULE_TOPIC and not self._store_left(record, now):
                return
            self._left_done.add(self._left.popleft())
            self._dirty_tables.mark(self.NAME)

    def _store_left(self, record: StoredMessage, now: int) -> bool:
        """Delivers a message of a level, or keeps it. False where nothing can be stored at present."""
        message = delivery_of(record)
        if message is not None:
            if self._is_gone(message, record):
                return True
            (stored,) = self._store.append_many([message], now, [])
            if stored.status not in FINAL_REFUSALS:
                return stored.status is PutStatus.PUT_OK
        letter = self.undelivered.letter(as_pending(record), None if message is None else message.topic, now)
        (stored,) = self._store.append_many([letter], now, [])
        if stored.status is PutStatus.PUT_OK:
            self.passed.note(
                KIND, DEAD_LETTER, f"the message at {record.physical_offset}", "it cannot be stored"
            )
        return stored.status is PutStatus.PUT_OK or stored.status in FINAL_REFUSALS

    def deliver_due(self, now: int, limit: int = MESSAGES_PER_SCAN) -> bool:
        """Delivers what is due, at most `limit` messages. True if more is due at once.

        Call every 100 ms, and again directly after True.
        """
        if self.is_held:
            return False
        if self._put is not None:
            self._note_all(self._put, now)
        if self._left:
            self._deliver_left(now)
        caught_up = True
        for level in self._all_levels():
            count, taken = self._deliver_level(level, now, limit)
            limit -= count
            caught_up = caught_up and taken
            if limit <= 0:
                break
        # The clock of the master that delivered them may have been ahead: then they are due here later.
        is_over = now >= self._known_to_ms + CLOCKS_DIFFER_MS
        if self._known and caught_up and limit > 0 and is_over and self._sees_all():
            self._known.clear()
        self._note_progress()
        has_passed, self._has_passed = self._has_passed, False
        return limit <= 0 or has_passed

    def _sees_all(self) -> bool:
        """True if no message waits that readers do not see yet: a known one may be among those."""
        return all(self._range(level)[1] == self._end(level) for level in self._all_levels())

    def _all_levels(self) -> list[int]:
        """The levels there are, and those that are gone from the options but still have messages."""
        waiting = {queue_id + 1 for queue_id in self._store.queue_ids(SCHEDULE_TOPIC)}
        return sorted(waiting.union(self.levels.delay_ms))

    def _is_due(self, level: int, position: int, due_ms: int, now: int) -> bool:
        """True if a message's time has come.

        A time further away than the level's delay was promised while the level had another one, and holds;
        unless the message says it was stored much later than now: then the machine's clock was set back, and
        the time means nothing.
        """
        if due_ms <= now:
            return True
        if due_ms <= now + self.levels.delay_ms.get(level, 0):
            return False
        return self._store.lookup.store_time(SCHEDULE_TOPIC, level - 1, position) > now + CLOCKS_DIFFER_MS

    def _deliver_level(self, level: int, now: int, limit: int) -> tuple[int, bool]:
        """Delivers of one level; how many, and whether the store took all that were tried."""
        queue_id = level - 1
        first, end = self._range(level)
        position = self.positions.get(level, 0)
        if end == 0 and level not in self.positions:
            return 0, True
        if not first <= position <= self._end(level):
            log.warning(
                "delay level %d: position %d is outside [%d, %d]", level, position, first, self._end(level)
            )
            position = min(max(position, first), self._end(level))
        start = self.positions[level] = position
        taken = True
        batch: list[PendingMessage] = []
        """Those from `position` on that are due and not delivered yet."""
        batch_bytes = 0
        try:
            position = self._copy_due(level, position, min(end - position, limit), now)
            while taken and position + len(batch) < min(end, start + limit):
                at = position + len(batch)
                unit = self._store.physical_offset_of(SCHEDULE_TOPIC, queue_id, at)
                if unit is not None and not self._is_due(level, at, unit[2], now):
                    break
                record = self._waiting_record(level, at, unit)
                message = None if record is None else delivery_of(record)
                is_gone = message is not None and record is not None and self._is_gone(message, record)
                if is_gone:
                    message = None
                known = None if message is None else self._known_as(message)
                is_over = message is None or known is not None
                if message is not None and not is_over:
                    batch.append(message)
                    batch_bytes += len(message.body)
                # A delivery met before a crash is met once: nothing that may be tried again stands before it.
                if is_over or batch_bytes >= BATCH_BYTES or self._known:
                    taken = self._append(level, position, batch, now)
                    position = self.positions[level]
                    if taken and record is not None and message is None and not is_gone:
                        taken = self._keep_undeliverable(level, position, record, now)
                        position = self.positions[level]
                    elif taken and is_over:
                        position += 1
                        self._step_over(level, position, known)
                    batch, batch_bytes = [], 0
            if batch:
                taken = self._append(level, position, batch, now)
        finally:
            if self.positions[level] != start:
                self._moved(now)
        return self.positions[level] - start, taken

    def _copy_due(self, level: int, position: int, count: int, now: int) -> int:
        """Delivers from a position on what needs nothing but copying; gives the position behind it."""
        if self._known or count <= 0:
            return position
        units = self._store.lookup.units(SCHEDULE_TOPIC, level - 1, position, count)
        writer = self._store.appending.reserve(now) if units else None
        if writer is None:
            return position
        try:
            copied = copy_due(
                units, now, writer, names.HALF_TOPICS, self.destinations.topics, self.destinations.deleted
            )
            delivered_to = writer.segment_start + writer.position
            behind = position if copied is None else position + copied.messages
        except BaseException:
            self._store.appending.rollback(writer)
            raise
        if copied is None:
            return position
        # A failure before it has delivered nothing, and nothing fails before all of it is known.
        self._store.appending.commit(writer)
        self.positions[level] = behind
        self._delivered_to = delivered_to
        for topic, queue_id, messages, size_bytes in copied.counted:
            self.on_delivered(topic, queue_id, size_bytes, messages)
        return behind

    def _append(self, level: int, position: int, batch: Sequence[PendingMessage], now: int) -> bool:
        """Delivers messages that stand from a position on. True if all were taken. Those behind one that was
        not are recognised when they are met again.
        """
        if not batch:
            return True
        put = self._put = _Put(level, position, batch)
        self._store.append_many(batch, now, put.answers)
        return self._note_all(put, now)

    def _note_all(self, put: _Put, now: int) -> bool:
        """Takes account of what the store said. True if it took all."""
        while put.noted < len(put.answers):
            self._note(put, now)
        self._put = None
        if put.taken == len(put.messages):
            return True
        if put.taken < len(put.answers):
            status = put.answers[put.taken].status
            if status in FINAL_REFUSALS:
                message = put.messages[put.taken]
                self._keep(put.level, put.position + put.taken, message, message.topic, status.name, now)
            else:
                log.warning(
                    "delay level %d: message %d is tried again: %s",
                    put.level, put.position + put.taken, status,
                )  # fmt: skip
        return False

    def _keep(
        self, level: int, position: int, message: PendingMessage, topic: str | None, why: str, now: int
    ) -> bool:
        """Keeps a message that cannot be delivered, and moves its level over it. False where nothing can be
        stored at present.
        """
        letter = self.undelivered.letter(message, topic, now)
        (stored,) = self._store.append_many([letter], now, [])
        if stored.status is not PutStatus.PUT_OK and stored.status not in FINAL_REFUSALS:
            return False
        self.positions[level] = position + 1
        place = DEAD_LETTER if stored.status is PutStatus.PUT_OK else NOWHERE
        self.passed.note(KIND, place, f"message {position} of level {level}", why)
        self._has_passed = True
        return True

    def _note(self, put: _Put, now: int) -> None:
        """Takes account of the next answer: as a whole, or not at all."""
        message, appended = put.messages[put.noted], put.answers[put.noted]
        following = put.noted + 1
        if appended.status is not PutStatus.PUT_OK:
            put.noted = following
            return
        if put.taken == put.noted:
            self._delivered_to = appended.physical_offset + appended.size
            self.positions[put.level] = put.position + following
            put.taken = following
        else:
            self._known_to_ms = max(self._known_to_ms, now)
            self._known[identity_of(message.topic, message.queue_id, message)] += 1
        put.noted = following
        self.on_delivered(message.topic, message.queue_id, appended.size, 1)

    def _known_as(self, message: PendingMessage) -> Identity | None:
        """By what a message is recognised that was delivered already; None if it was not."""
        if not self._known:
            return None
        identity = identity_of(message.topic, message.queue_id, message)
        return identity if self._known[identity] else None

    def _step_over(self, level: int, position: int, known: Identity | None) -> None:
        """Moves on to a position; the message before it may be one that was recognised, which counts once."""
        left = 0 if known is None else self._known[known] - 1
        self.positions[level] = position
        if known is None:
            return
        if left:
            self._known[known] = left
        else:
            del self._known[known]

    def _waiting_record(
        self, level: int, position: int, unit: tuple[int, int, int] | None
    ) -> StoredMessage | None:
        record = None if unit is None else self._store.lookup.message_at(unit[0], unit[1])
        if record is None:
            self.skipped += 1
            log.error("delay level %d: message %d is missing, or no sound record", level, position)
        return record

    def _is_gone(self, message: PendingMessage, record: StoredMessage) -> bool:
        """True if a message was for a topic that was deleted since; if not, it gets a queue that is there."""
        if self.destinations.is_gone(message.topic, record.physical_offset):
            return True
        message.queue_id = self.destinations.queue_of(message.topic, message.queue_id)
        return False

    def _keep_undeliverable(self, level: int, position: int, record: StoredMessage, now: int) -> bool:
        """Keeps a record that does not say where it belongs, or is a half message."""
        self.skipped += 1
        return self._keep(level, position, as_pending(record), None, "it says no place to go to", now)

    def _range(self, level: int) -> tuple[int, int]:
        queue_id = level - 1
        return (
            max(0, self._store.min_offset(SCHEDULE_TOPIC, queue_id)),
            max(0, self._store.max_offset(SCHEDULE_TOPIC, queue_id)),
        )

    def _end(self, level: int) -> int:
        """The end of a level's queue, though readers may not see all of it."""
        return self._store.queue_end(SCHEDULE_TOPIC, level - 1)

    def _moved(self, now: int) -> None:
        self._updates += 1
        if self._updates % self._updates_per_version == 0:
            self.version.next(now)
        self._dirty_tables.mark(self.NAME, soon=False)

    def _note_progress(self) -> None:
        if self._confirm_progress():
            self._dirty_tables.mark(self.NAME, soon=False)
        if self._progress is None and not self._known and self._savable.positions != self.positions:
            self._progress = self._all_delivered()

    def _confirm_progress(self) -> bool:
        """Takes over the noted positions once their deliveries are on the disk. True if it did."""
        progress = self._progress
        if progress is None or self._store.durable_offset < progress.log_end:
            return False
        self._savable, self._progress = progress, None
        return True

    def follow(self, text: str, asked_at: int, log_end: int, keeps_own: bool = False) -> None:
        """Takes over a master's positions once this log is on the disk up to `log_end`, where the master's
        ended behind them. A master that does not say from where on deliveries beyond them stand has done
        none of these before `asked_at`, where this log ended when it was asked.

        With `keeps_own` positions that are ahead stay: this broker has acted for the master. Raises
        MalformedJson.
        """
        before, acted = dict(self.positions), self.acted
        self.load_text(text)
        self.acted = acted
        if self._saved_to is None:
            self._saved_to = asked_at
        if keeps_own:
            self._go_forward(before)
        self._progress = None
        self._savable = LevelProgress(self._saved_to, log_end, dict(self.positions))
        if before != self.positions:
            self._dirty_tables.mark(self.NAME, soon=False)

    def follow_truncation(self) -> None:
        """Goes back with a log that was cut: what was delivered behind its end is to be delivered again.

        Messages due up to a minute before the end may have been delivered behind it; the next `start`
        recognises in that minute of the log what was not.
        """
        store = self._store
        end = store.max_physical
        is_behind = max(self._saved_to or 0, self._savable.log_end) > end
        since_ms = store.newest.timestamp_ms - LATE_DELIVERY_MS
        for level, position in self.positions.items():
            first = self._range(level)[0]
            position = min(position, store.queue_end(SCHEDULE_TOPIC, level - 1))
            while is_behind and position > first:
                unit = store.physical_offset_of(SCHEDULE_TOPIC, level - 1, position - 1)
                if unit is not None and unit[2] < since_ms:
                    break
                position -= 1
            self.positions[level] = position
        if self.acted is not None:
            self.acted.log_end = min(self.acted.log_end, end)
        if is_behind:
            self._saved_to = store.log.segment_before(since_ms)
        self._saved_to = min(self._saved_to or 0, end)
        self._progress = None
        self._savable = LevelProgress(self._saved_to, end, dict(self.positions))
        self._dirty_tables.mark(self.NAME)

    def adopt(self, text: str) -> ActedFor | None:
        """Goes forward to where another broker has got that acted for this one; gives what else it has done.
        Raises MalformedJson.
        """
        require_member(text, "offsetTable")
        adopted = DelayOffsetSerializeWrapper.from_json(text)
        self._go_forward(adopted.offset_table)
        self._dirty_tables.mark(self.NAME, soon=False)
        return adopted.acted_for

    def note_acted(self, acted: ActedFor, *, soon: bool) -> None:
        """Notes work that this broker has done for its master; `soon` where messages have left."""
        self.acted = acted
        self._dirty_tables.mark(self.NAME, soon=soon)

    def _go_forward(self, positions: Mapping[int, int]) -> None:
        for level, position in positions.items():
            self.positions[level] = max(position, self.positions.get(level, 0))

    def due_elsewhere(self, now: int) -> Iterator[tuple[int, int, PendingMessage | None]]:
        """Messages that are due and not delivered yet, as (level, position, message), for a broker that acts
        for its master and stores nothing itself. None for a message that needs no delivery.
        Call `delivered_elsewhere` for each, in order, before the next of its level is asked for.
        """
        for level in self._all_levels():
            first, end = self._range(level)
            position = max(first, self.positions.get(level, 0))
            unit = self._store.physical_offset_of(SCHEDULE_TOPIC, level - 1, position)
            if position >= end or (unit is not None and not self._is_due(level, position, unit[2], now)):
                continue
            record = self._waiting_record(level, position, unit)
            message = None if record is None else delivery_of(record)
            if message is not None and record is not None and self._is_gone(message, record):
                message = None
            elif message is None and record is not None:
                message = as_pending(record)  # no broker takes it so: its master keeps it
            known = None if message is None else self._known_as(message)
            if known is not None:
                self._step_over(level, position, known)
                message = None
            yield level, position, message

    def delivered_elsewhere(self, level: int, position: int) -> None:
        """Notes that a message was stored by another master."""
        self.positions[level] = position + 1
        self._savable = replace(self._savable, positions=dict(self.positions))
        self._dirty_tables.mark(self.NAME)

    def oldest_waiting(self) -> int | None:
        """The physical offset of the oldest message that still waits; None if none does."""
        oldest: int | None = None
        for level, position in self.positions.items():
            unit = self._store.physical_offset_of(SCHEDULE_TOPIC, level - 1, position)
            if unit is not None and (oldest is None or unit[0] < oldest):
                oldest = unit[0]
        return oldest

    def max_offset(self, level: int) -> int:
        """The end of a level's waiting queue."""
        return self._range(level)[1]

    def to_body(self) -> DelayOffsetSerializeWrapper:
        """The positions as they go over the wire."""
        here = self._here()
        return DelayOffsetSerializeWrapper(
            dict(here.positions), self.version, here.physical_offset, self.acted, self._store.max_physical
        )

    def snapshot(self) -> Snapshot:
        """The content of `delayOffset.json`: positions whose deliveries are on the disk."""
        self._confirm_progress()
        savable = self._savable
        acted = None if self.acted is None else replace(self.acted, left=list(self.acted.left))
        return DelayOffsetSerializeWrapper(
            dict(savable.positions),
            self.version.copy(),
            savable.physical_offset,
            acted,
            savable.log_end,
            sorted(self._left_done) or None,
        ).to_pretty_json

    def load_text(self, text: str) -> None:
        """Takes over the content of `delayOffset.json`. Raises MalformedJson."""
        require_member(text, "offsetTable")
        wrapper = DelayOffsetSerializeWrapper.from_json(text)
        self.positions = dict(wrapper.offset_table)
        self._saved_to = saved_to = wrapper.delivered_to
        log_end = wrapper.log_end if wrapper.log_end is not None else saved_to or 0
        self._savable = LevelProgress(saved_to, log_end, dict(self.positions))
        self.acted = wrapper.acted_for
        self._left_done = set(wrapper.left_done or ())
        if self.acted is not None:
            self.acted.is_open = False  # whoever did it is gone
        if wrapper.data_version is not None:
            self.version = wrapper.data_version


def delivery_of(record: StoredMessage) -> PendingMessage | None:
    """The message as it is delivered; None if the record says no place where it may go."""
    try:
        message = delivered(record)
    except ValueError:
        return None
    return None if message.topic in names.HALF_TOPICS else message

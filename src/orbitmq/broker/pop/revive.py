"""Revival: messages that were popped and not acknowledged in time are delivered once more.

Each queue of the revive topic is read from where the offset of CID_RMQ_SYS_REVIVE_GROUP says. A check point
that is due, with every acknowledgement that came before it, says which messages to copy into the POP retry
topic of their group. The offset is the position of the last check point that is finished, so after a crash
what was open is looked at again: a copy may be made twice, none is forgotten. Only check points that are due
within seconds are in memory; all others wait as timer messages.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from dataclasses import dataclass, field

from orbitmq.broker.copied_properties import NoRoom
from orbitmq.broker.delay.timer_records import AT_ONCE
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.in_flight import InFlight
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.pop.records import (
    ACK_LEAD_MS,
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    PointKey,
    ReviveRecords,
    died,
    key_of_point,
    offsets_of,
    point_key,
    revived,
    room_for_handle,
)
from orbitmq.broker.stats.passed_over import AGAIN, DEAD_LETTER, PassedOver
from orbitmq.protocol.bodies.pop import AckMsg, BatchAckMsg, PopCheckPoint
from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.handles.pop import REVIVE_GROUP, normal_topic, pop_retry_topic
from orbitmq.protocol.names import RETRY_PREFIX, TIMER_DELIVER_MS, TIMER_ENQUEUE_MS, dlq_topic
from orbitmq.protocol.records.message import BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, decode_records
from orbitmq.protocol.records.properties import BadProperty, find_property, whole_number
from orbitmq.store import FINAL_REFUSALS, Appended, MessageStore, PendingMessage, PutStatus

log = logging.getLogger(__name__)

SLACK_MS = 2 * ACK_LEAD_MS
"""A check point is looked at so long after it is due: timers come to the second."""
RECORDS_PER_READ = 32
READS_PER_RUN = 32
COPIES_PER_RUN = 256
"""Number of copies that one turn makes before it lets others go first."""
MOST_POINTS = 10_000
"""Check points in memory, per queue, beyond which only acknowledgements of them are looked for."""
EARLY_ACKS = 10_000
"""Acknowledgements that came before their check point and are kept for it, per queue."""


KIND = "revival"
MOST_PER_POINT = 1024
"""Messages of one check point: a pop has far fewer."""
AGAIN_AFTER_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Times after which a message that can be stored nowhere is tried again; as Apache's broker has them."""


@dataclass(slots=True)
class OpenPoint:
    """A check point that was read, and the offsets of its messages that are still to be acknowledged."""

    point: PopCheckPoint
    revive_offset: int
    open: list[int]
    copied: int = -1
    """The last of them of which a copy was handed to the store,"""
    is_letter: bool = False
    """as a dead letter,"""
    answers: list[Appended] = field(default_factory=list)
    """and what that said, until it is taken account of."""

    @property
    def due_ms(self) -> int:
        return self.point.pop_time + self.point.invisible_time


@dataclass(slots=True)
class ReviveQueue:
    """One queue of the revive topic."""

    queue_id: int
    next_offset: int
    points: deque[OpenPoint] = field(default_factory=deque)
    by_key: dict[PointKey, OpenPoint] = field(default_factory=dict)
    early: dict[PointKey, set[int]] = field(default_factory=dict)
    seen_ms: int = 0
    """Everything that was due until then has been read."""


@dataclass(slots=True)
class ReviveFigures:
    """Counts since the start."""

    points: int = 0
    acks: int = 0
    copies: int = 0
    lost: int = 0
    """Messages that could not be copied because the store does not have them any more."""
    read: Counter[tuple[str, str, str, int]] = field(default_factory=Counter)
    """Records read from the revive topic, by kind (CK, ACK), group, topic and revive queue."""
    retried: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Copies for another delivery, by group, topic and status of the store."""


@dataclass(eq=False, repr=False)
class Reviver:
    """Works through the revive topic of one broker. `run` it every second or so."""

    _identity: BrokerIdentity
    _settings: PopOptions
    _topics: TopicTable
    _groups: GroupTable
    _offsets: OffsetTable
    _in_flight: InFlight
    _records: ReviveRecords
    _store: MessageStore

    def __post_init__(self) -> None:
        self._queues: dict[int, ReviveQueue] = {}
        self._copies_left = 0
        self.is_held = False
        """Nothing is read or revived yet: a slave may have acted for this broker and is asked first."""
        self.elsewhere = (0, 0)
        """Check points before this physical offset that are due until this time, in ms, were worked up by a
        slave that acted for this broker."""
        self.figures = ReviveFigures()
        self.passed = PassedOver()
        self.deletions: Deletions | None = None

    def forget(self) -> None:
        """Forgets what it has read; it continues from the stored offsets of the revive queues."""
        self._queues.clear()

    def run(self, now: int, confirmed_ms: int) -> bool:
        """Reads what is new and revives what is due. True if there is more to do at once.

        `confirmed_ms`: timer messages that are due until then are in their queues already.
        """
        if self.is_held:
            return False
        topic = self._records.topic
        config = self._topics.get(topic)
        more = False
        self._copies_left = COPIES_PER_RUN
        for queue_id in range(0 if config is None else config.read_queue_nums):
            queue = self._queues.get(queue_id)
            if queue is None:
                committed = self._offsets.get(REVIVE_GROUP, topic, queue_id)
                first = max(committed + 1, self._store.min_offset(topic, queue_id), 0)
                queue = self._queues[queue_id] = ReviveQueue(queue_id, first)
            if self._wants_more(queue):
                more = self._read(queue, topic) or more
            if queue.next_offset >= self._store.max_offset(topic, queue_id):
                queue.seen_ms = max(queue.seen_ms, confirmed_ms)
            self._revive(queue, now)
            self._commit(queue, topic, now)
        return more or not self._copies_left

    def behind_ms(self, queue_id: int, now: int) -> int:
        """Time by which the oldest check point of a revive queue is overdue (metrics: revive latency)."""
        queue = self._queues.get(queue_id)
        return max(0, now - queue.points[0].due_ms) if queue is not None and queue.points else 0

    def behind_messages(self, queue_id: int) -> int:
        """Number of records of a revive queue that were not read yet (metrics: revive lag)."""
        queue = self._queues.get(queue_id)
        end = self._store.max_offset(self._records.topic, queue_id)
        return max(0, end - (0 if queue is None else queue.next_offset))

    def _wants_more(self, queue: ReviveQueue) -> bool:
        """True if there is room for more check points, or acknowledgements of the first one may be ahead."""
        return len(queue.points) < MOST_POINTS or queue.seen_ms < queue.points[0].due_ms + ACK_LEAD_MS

    def _read(self, queue: ReviveQueue, topic: str) -> bool:
        """Takes in new records. True if there are more."""
        for _ in range(READS_PER_RUN):
            result = self._store.get(topic, queue.queue_id, queue.next_offset, RECORDS_PER_READ)
            if result.cold is not None:
                # Read record by record: what waits here is from a moment ago, or a start after a long time.
                return self._read_cold(queue, topic)
            for view in result.records:
                records, _ = decode_records(view)
                for record in records:
                    following = record.queue_offset + 1
                    self._read_record(queue, record)
                    queue.next_offset = following
            if result.next_offset <= queue.next_offset:
                return False
            queue.next_offset = result.next_offset
            if not result.count:
                return False
        return queue.next_offset < self._store.max_offset(topic, queue.queue_id)

    def _read_cold(self, queue: ReviveQueue, topic: str) -> bool:
        end = min(
            queue.next_offset + RECORDS_PER_READ * READS_PER_RUN,
            self._store.max_offset(topic, queue.queue_id),
        )
        while queue.next_offset < end:
            record = self._record(topic, queue.queue_id, queue.next_offset)
            following = queue.next_offset + 1
            if record is not None:
                self._read_record(queue, record)
            queue.next_offset = following
        return queue.next_offset < self._store.max_offset(topic, queue.queue_id)

    def _read_record(self, queue: ReviveQueue, record: StoredMessage) -> None:
        """Takes account of a record: as a whole, or where memory ends so that it can be done again."""
        queue.seen_ms = max(queue.seen_ms, _in_turn_ms(record))
        try:
            match record.tags:
                case tag if tag == CHECK_POINT_TAG:
                    point = PopCheckPoint.from_json(record.body)
                    if not self.was_worked_up_elsewhere(point, record.physical_offset):
                        self._add_point(queue, point, record.queue_offset)
                case tag if tag == ACK_TAG:
                    ack = AckMsg.from_json(record.body)
                    self._add_ack(queue, ack, [ack.ack_offset])
                case tag if tag == BATCH_ACK_TAG:
                    batch = BatchAckMsg.from_json(record.body)
                    self._add_ack(queue, batch, batch.ack_offset_list)
                case _:
                    log.warning(
                        "revive queue %d: offset %d is of no known kind", queue.queue_id, record.queue_offset
                    )
        except MalformedJson as error:
            log.error(
                "revive queue %d: offset %d cannot be read: %s", queue.queue_id, record.queue_offset, error
            )

    def has_worked_up(self, record: StoredMessage) -> bool:
        """True if a record in the timer topic is a check point that a slave has worked up."""
        if record.tags != CHECK_POINT_TAG:
            return False
        try:
            point = PopCheckPoint.from_json(record.body)
        except MalformedJson:
            return False
        return self.was_worked_up_elsewhere(point, record.physical_offset)

    def was_worked_up_elsewhere(self, point: PopCheckPoint, physical_offset: int) -> bool:
        log_end, to_ms = self.elsewhere
        return physical_offset < log_end and point.pop_time + point.invisible_time <= to_ms

    def _add_point(self, queue: ReviveQueue, point: PopCheckPoint, revive_offset: int) -> None:
        if not point.topic or not point.cid or not 0 <= point.num <= MOST_PER_POINT:
            log.error("revive queue %d: offset %d is no check point", queue.queue_id, revive_offset)
            return
        self.figures.points += 1
        self.figures.read["CK", point.cid, point.topic, queue.queue_id] += 1
        offsets = [offset for index, offset in enumerate(offsets_of(point)) if not point.bit_map >> index & 1]
        key = key_of_point(point)
        if key in queue.by_key:
            return  # stored once more, where memory ended behind the first time
        early = queue.early.get(key, ())
        taken = OpenPoint(point, revive_offset, [offset for offset in offsets if offset not in early])
        queue.by_key[key] = taken
        queue.points.append(taken)
        queue.early.pop(key, None)

    def _add_ack(self, queue: ReviveQueue, ack: AckMsg, offsets: list[int]) -> None:
        self.figures.acks += 1
        self.figures.read["ACK", ack.consumer_group or "", ack.topic or "", queue.queue_id] += 1
        key = point_key(
            ack.topic,
            ack.consumer_group,
            ack.queue_id,
            ack.start_offset,
            ack.pop_time,
            ack.broker_name or self._identity.name,
        )
        taken = queue.by_key.get(key)
        if taken is not None:
            taken.open = [offset for offset in taken.open if offset not in offsets]
        else:
            queue.early.setdefault(key, set()).update(offsets)
            if len(queue.early) > EARLY_ACKS:
                del queue.early[next(iter(queue.early))]

    def _revive(self, queue: ReviveQueue, now: int) -> None:
        """Finishes the check points that are due, in order, as far as this run goes."""
        while queue.points and self._finish_first(queue, now):
            pass

    def _finish_first(self, queue: ReviveQueue, now: int) -> bool:
        """Finishes the first check point; False if it is not due, or has to be tried again."""
        first = queue.points[0]
        is_due = first.due_ms + SLACK_MS <= now and first.due_ms + ACK_LEAD_MS <= queue.seen_ms
        if first.open and not is_due:
            return False
        while first.open or first.answers:
            if not self._copies_left or not self._revive_one(first, now):
                return False
            self._copies_left -= 1
        queue.points.popleft()
        key = key_of_point(first.point)
        if queue.by_key.get(key) is first:
            del queue.by_key[key]
        return True

    def _revive_one(self, first: OpenPoint, now: int) -> bool:
        """Copies the next message; False if that has to be tried again."""
        point = first.point
        if not first.answers:
            queue_offset = first.open[0]
            copy = self._copy_of(point, queue_offset, now)
            if copy is None:
                first.open = first.open[1:]
                return True
            if copy.topic in self._topics.dirty_names:
                return False
            first.copied = queue_offset
            first.is_letter = copy.topic == dlq_topic(point.cid)
            self._store.append_many([copy], now, first.answers)
        status = first.answers[0].status
        is_done = status is PutStatus.PUT_OK
        if is_done and first.is_letter:
            why = "its properties leave no room for its next handle"
            self.passed.note(KIND, DEAD_LETTER, _named(point, first.copied), why)
        elif status in FINAL_REFUSALS:
            is_done = self._keep(point, first.copied, status.name, now)
        if is_done:
            first.open = [offset for offset in first.open if offset != first.copied]
        first.answers.clear()
        self.figures.retried[point.cid, point.topic, status.name] += 1
        if not is_done:
            return False
        self.figures.copies += 1
        self._in_flight.subtract(point.topic, point.cid, point.queue_id, point.pop_time)
        return True

    def _keep(self, point: PopCheckPoint, queue_offset: int, why: str, now: int) -> bool:
        """Keeps a message that cannot be delivered again: as a dead letter, or with a check point of its own
        that is due later. True if it is kept.
        """
        record = self._record(point.topic, point.queue_id, queue_offset)
        if record is None:
            return True
        what = _named(point, queue_offset)
        letter = died(record, point.cid, self._identity.host)
        self._make_dead_letter_topic(point.cid, now)
        if letter.topic in self._topics.dirty_names:
            return False
        (stored,) = self._store.append_many([letter], now, [])
        if stored.status is PutStatus.PUT_OK:
            self.passed.note(KIND, DEAD_LETTER, what, why)
            return True
        if stored.status not in FINAL_REFUSALS:
            return False
        times = whole_number(point.re_put_times) or 0
        later_ms = AGAIN_AFTER_S[min(times, len(AGAIN_AFTER_S) - 1)] * 1000
        later = PopCheckPoint(
            start_offset=queue_offset,
            pop_time=point.pop_time,
            invisible_time=now + later_ms - point.pop_time,
            num=1,
            queue_id=point.queue_id,
            topic=point.topic,
            cid=point.cid,
            queue_offset_diff=[0],
            broker_name=point.broker_name,
            re_put_times=str(times + 1),
        )
        (stored,) = self._store.append_many([self._records.full_check_point(later, 0, now)], now, [])
        if stored.status is PutStatus.PUT_OK:
            self.passed.note(KIND, AGAIN, what, why)
        return stored.status is PutStatus.PUT_OK

    def _copy_of(self, point: PopCheckPoint, queue_offset: int, now: int) -> PendingMessage | None:
        """A message as it is delivered again; None if it is not: it, its topic or its group is gone."""
        topic = normal_topic(point.topic, point.cid)
        if self._topics.get(topic) is None:
            return None
        if self.deletions is not None and any(
            self.deletions.was_popped_from_deleted(name, point.pop_time) for name in (topic, point.topic)
        ):
            return None
        if self._groups.get(point.cid) is None:
            return None
        record = self._record(point.topic, point.queue_id, queue_offset)
        if record is None:
            self.figures.lost += 1
            log.error(
                "%s, queue %d, offset %d is gone: group %s does not get it again",
                point.topic,
                point.queue_id,
                queue_offset,
                point.cid,
            )
            return None
        topic, queue_id = self._retry_queue(point, now)
        room = room_for_handle(self._identity.name)
        try:
            return revived(record, point, topic, queue_id, self._identity.host, room)
        except (NoRoom, BadProperty):
            self._make_dead_letter_topic(point.cid, now)
            return died(record, point.cid, self._identity.host)

    def _make_dead_letter_topic(self, group: str, now: int) -> None:
        self._topics.ensure(dlq_topic(group), 1, now)

    def _retry_queue(self, point: PopCheckPoint, now: int) -> tuple[str, int]:
        """The queue a copy goes to; its topic is made where it is missing."""
        topic = point.topic
        if not topic.startswith(RETRY_PREFIX):
            topic = pop_retry_topic(topic, point.cid, v2=self._settings.enable_retry_topic_v2)
        queues = 1
        if self._settings.use_separate_retry_queue:
            normal = self._topics.get(normal_topic(topic, point.cid))
            queues = 1 if normal is None else normal.write_queue_nums
        config = self._topics.get(topic)
        if config is None:
            config = self._topics.ensure(topic, queues, now)
            for queue_id in range(queues):
                if self._offsets.get(point.cid, topic, queue_id) < 0:
                    self._offsets.commit(point.cid, topic, queue_id, 0, now)
        queue_id = point.queue_id if self._settings.use_separate_retry_queue else 0
        return topic, queue_id if queue_id < min(config.write_queue_nums, config.read_queue_nums) else 0

    def _record(self, topic: str, queue_id: int, queue_offset: int) -> StoredMessage | None:
        unit = self._store.physical_offset_of(topic, queue_id, queue_offset)
        data = None if unit is None else self._store.record_at(unit[0])
        try:
            return None if data is None else decode_record(data)
        except BadRecord:
            return None

    def _commit(self, queue: ReviveQueue, topic: str, now: int) -> None:
        finished = queue.points[0].revive_offset - 1 if queue.points else queue.next_offset - 1
        if finished > self._offsets.get(REVIVE_GROUP, topic, queue.queue_id):
            self._offsets.commit(REVIVE_GROUP, topic, queue.queue_id, finished, now)


def _named(point: PopCheckPoint, queue_offset: int) -> str:
    return f"{point.topic}, queue {point.queue_id}, offset {queue_offset} of group {point.cid}"


def _in_turn_ms(record: StoredMessage) -> int:
    """Due time of a record that came out of the timers in its turn: all that was due earlier came before it.

    0 for others: what is due when it is stored overtakes what waits.
    """
    enqueued_ms = find_property(record.properties, TIMER_ENQUEUE_MS.encode())
    if enqueued_ms is None or enqueued_ms == b"%d" % AT_ONCE:
        return 0
    return whole_number(find_property(record.properties, TIMER_DELIVER_MS.encode())) or 0

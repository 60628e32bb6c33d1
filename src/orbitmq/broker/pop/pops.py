"""Pops: messages for a group from any queue of a topic, hidden from the rest of the group for a while.

A pop reads the topic's queues from a start that changes with every request, and now and then first the topic
of what the group did not acknowledge in time. A pop stores a check point in the revive topic (see
`check_points`), or for ordered groups a batch in the order table (see `order`), before its messages leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field

from orbitmq.broker.copied_properties import NoRoom, copied_properties
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.check_points import CheckPoints
from orbitmq.broker.pop.in_flight import InFlight
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.pop.order import OrderTable
from orbitmq.protocol.bodies.pop import PopCheckPoint
from orbitmq.protocol.handles.pop import (
    ORDER_REVIVE_QUEUE,
    PopHandle,
    message_offset_info,
    pop_retry_topic,
    start_offset_info,
    topic_type,
)
from orbitmq.protocol.names import CRC32, POP_CK, RETRY_PREFIX
from orbitmq.protocol.records.encoding_cy import encode_record, record_size
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.store import GetResult, GetStatus, MessageStore, PutStatus
from orbitmq.store.log.messages import Cold
from orbitmq.store.queue.filtering import Accept
from orbitmq.store.queue.records_cy import record_offsets

INIT_MIN = 0
INIT_MAX = 1
"""Start of a group without an offset: the oldest message, or the newest."""

MOST_MESSAGES = 32
LONGEST_INVISIBLE_MS = 3 * 24 * 3600_000
"""No message is hidden for longer: a timer message may be due in three days at most (timerMaxDelaySec)."""
MAX_POP_BYTES = 8 << 20
"""No further queue is read once a pop holds so much."""

_MOVED = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)
_NOTHING_HERE = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_FOUND_NULL, GetStatus.MESSAGE_WAS_REMOVING)


@dataclass(slots=True, frozen=True)
class PopWish:
    """The request of a pop. `queue_id` below 0 means any queue."""

    group: str
    topic: str
    queue_id: int
    most: int
    invisible_ms: int
    init_mode: int = INIT_MAX
    order: bool = False
    attempt_id: str | None = None
    accept: Accept = None
    """Selection of messages; None: all."""


@dataclass(slots=True)
class Popped:
    """The result of a pop. The lists hold the entries of the reply's fields."""

    pop_time: int
    invisible_ms: int
    revive_queue_id: int
    rest: int = 0
    """Number of messages left in the queues that were read."""
    count: int = 0
    records: list[memoryview | bytes] = field(default_factory=list)
    size_bytes: int = 0
    start_offsets: list[str] = field(default_factory=list)
    message_offsets: list[str] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)
    end_offset: int = 0
    """Physical offset behind the last check point that was stored for it."""
    cold: Cold | None = None
    """(physical offset, bytes) of what has to come from the disk first, where nothing else was found."""


class Dice:
    """Numbers that spread pops over queues; the same seed gives the same numbers."""

    def __init__(self, seed: int) -> None:
        self._state = seed & 0xFFFFFFFF

    def roll(self, sides: int) -> int:
        """A number from 0 on, below `sides`."""
        self._state = (self._state * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
        return (self._state >> 8) % sides


@dataclass(eq=False, repr=False)
class Pops:
    """Pops of one broker. Belongs to the loop: a queue is never read for two pops at a time."""

    _identity: BrokerIdentity
    _settings: PopOptions
    _topics: TopicTable
    _groups: GroupTable
    _offsets: OffsetTable
    _order: OrderTable
    _in_flight: InFlight
    _points: CheckPoints
    _store: MessageStore
    seed: InitVar[int]

    def __post_init__(self, seed: int) -> None:
        self._dice = Dice(seed)
        self._revive_turn = 0
        self.deletions: Deletions | None = None

    def pop(self, wish: PopWish, now: int, *, passes_cold: bool = False) -> Popped:
        """Takes messages for a group. The topic and the group have to be there.

        Where the first queue with messages has to be read from the disk before, it takes nothing, unless it
        `passes_cold`: others that always have something in memory would keep that queue from ever being read.
        """
        if self.deletions is not None:
            now = self.deletions.not_before(wish.topic, now)
        settings = self._settings
        roll = self._dice.roll(100)
        by_priority = self._is_by_priority(wish, roll)
        retry_share = (
            settings.pop_from_retry_probability_for_priority
            if by_priority
            else settings.pop_from_retry_probability
        )
        if wish.order:
            revive_queue_id = ORDER_REVIVE_QUEUE
        else:
            self._revive_turn = (self._revive_turn + 1) % self._revive_queues()
            revive_queue_id = self._revive_turn
        popped = Popped(now, wish.invisible_ms, revive_queue_id)
        retry_first = not wish.order and roll < retry_share
        start = 0 if by_priority else self.any_start()
        queues: list[tuple[str, int]] = []
        if retry_first:
            queues += self._retry_queues(wish, start)
        if wish.queue_id < 0:
            queues += self._queues_of(wish.topic, start)
        else:
            queues.append((wish.topic, wish.queue_id))
        if not retry_first and not wish.order:
            queues += self._retry_queues(wish, start)
        cold: Cold | None = None
        for topic, queue_id in queues:
            result = self._pop_queue(wish, popped, topic, queue_id, now)
            cold = cold or result
            if cold and not (popped.count or passes_cold):
                break
        if not popped.count:
            popped.cold = cold
        return popped

    def _revive_queues(self) -> int:
        """Number of revive queues to use: as the option says, but none without a reader."""
        topic = self._topics.get(self._points.topic)
        wanted = self._settings.revive_queue_num
        return wanted if topic is None else max(1, min(wanted, topic.read_queue_nums))

    def has_message(
        self, group: str, topic: str, queue_id: int, order: bool, attempt_id: str | None, now: int
    ) -> bool:
        """True if a pop without filters would find something. A blocked ordered queue counts as empty."""
        queues = list(self._queues_of(topic, 0)) if queue_id < 0 else [(topic, queue_id)]
        for name in self._retry_topics(topic, group):
            queues += self._queues_of(name, 0)
        for name, number in queues:
            if order and self._order.is_blocked((topic, group, number), attempt_id, 0, now):
                continue
            if self._store.max_offset(name, number) > self._position(name, group, number):
                return True
        return False

    def any_start(self) -> int:
        """A number by which looks at any queue begin with another one each time."""
        return self._dice.roll(1 << 16)

    def peek(self, group: str, topic: str, queue_id: int, most: int, start: int) -> Popped:
        """Messages that a pop would find, which stay free for everybody.

        Where it finds nothing but what is on the disk, `cold` is of the first such queue from `start` on.
        """
        popped = Popped(0, 0, 0)
        queues = list(self._queues_of(topic, start)) if queue_id < 0 else [(topic, queue_id)]
        for name in self._retry_topics(topic, group):
            queues += self._queues_of(name, start)
        wish = PopWish(group, topic, queue_id, most, 0)
        for name, number in queues:
            begin = max(0, self._position(name, group, number), self._store.min_offset(name, number))
            rest = self._store.max_offset(name, number) - begin
            if popped.count < most and rest > 0:
                result = self._store.get(name, number, begin, most - popped.count)
                self._add_records(wish, popped, name, result, None)
                rest -= result.count
                popped.cold = popped.cold or result.cold
            popped.rest += max(0, rest)
        if popped.count:
            popped.cold = None
        return popped

    def _is_by_priority(self, wish: PopWish, roll: int) -> bool:
        topic = self._topics.get(wish.topic)
        group = self._groups.get(wish.group)
        if wish.order or topic is None or topic.attributes.get("message.type") != "PRIORITY":
            return False
        factor = "" if group is None else group.attributes.get("priority.factor", "")
        return roll < (int(factor) if factor.isdigit() else 100)

    def _queues_of(self, topic: str, start: int) -> Iterator[tuple[str, int]]:
        """The queues of a topic, each once: from a random one on, or by priority from the end where 0."""
        config = self._topics.get(topic)
        count = 0 if config is None else config.read_queue_nums
        for i in range(count):
            place = count - 1 - i if self._settings.priority_order_asc else i
            yield topic, (place + start) % count

    def _retry_topics(self, topic: str, group: str) -> list[str]:
        """The topics of what the group did not acknowledge in time."""
        if not self._settings.enable_retry_topic_v2:
            return [pop_retry_topic(topic, group)]
        names = [pop_retry_topic(topic, group, v2=True)]
        if self._settings.retrieve_message_from_pop_retry_topic_v1:
            names.append(pop_retry_topic(topic, group))
        return names

    def _retry_queues(self, wish: PopWish, start: int) -> Iterator[tuple[str, int]]:
        """The queues of one retry topic: an answer can hold messages of one form of it only."""
        names = [
            name for name in self._retry_topics(wish.topic, wish.group) if self._topics.get(name) is not None
        ]
        return self._queues_of(names[self._dice.roll(len(names))], start) if names else iter(())

    def _pop_queue(self, wish: PopWish, popped: Popped, topic: str, queue_id: int, now: int) -> Cold | None:
        """Takes what one queue has for the wish; gives the range of the log that has to be read first."""
        group, store = wish.group, self._store
        key = (topic, group, queue_id)
        limit = self._settings.pop_inflight_message_threshold
        begin = self._begin(topic, group, queue_id, wish.init_mode, now)
        stop = (
            self._settings.enable_pop_message_threshold and self._in_flight.of(topic, group, queue_id) > limit
        )
        if wish.order and not stop:
            if self._order.is_blocked(key, wish.attempt_id, wish.invisible_ms, now):
                return None
            self._in_flight.clear(topic, group, queue_id)
        if stop or popped.count >= wish.most or popped.size_bytes >= MAX_POP_BYTES:
            popped.rest += max(0, store.max_offset(topic, queue_id) - begin)
            return None
        most = wish.most - popped.count
        result = store.get(topic, queue_id, begin, most, MAX_POP_BYTES, wish.accept)
        if result.status in _MOVED:
            begin = result.next_offset
            self._offsets.commit(group, topic, queue_id, begin, now)
            result = store.get(topic, queue_id, begin, most, MAX_POP_BYTES, wish.accept)
        if result.cold is not None:
            popped.rest += max(0, result.max_offset - begin)
            return result.cold
        if result.count:
            self._deliver(wish, popped, topic, queue_id, begin, result, now)
        elif result.status in _NOTHING_HERE and result.next_offset >= 0:
            if wish.order:
                self._offsets.commit(group, topic, queue_id, result.next_offset, now)
            else:
                self._points.skip(key, result.next_offset, now)
        popped.rest += max(0, result.max_offset - result.next_offset)
        return None

    def _deliver(
        self,
        wish: PopWish,
        popped: Popped,
        topic: str,
        queue_id: int,
        begin: int,
        result: GetResult,
        now: int,
    ) -> None:
        offsets = record_offsets(result.records)
        if wish.order:
            key = (topic, wish.group, queue_id)
            popped.order_counts += self._order.begin(key, wish.attempt_id, offsets, wish.invisible_ms, now)
            self._offsets.commit(wish.group, topic, queue_id, begin, now)
        else:
            point = PopCheckPoint(
                start_offset=begin,
                pop_time=now,
                invisible_time=wish.invisible_ms,
                num=len(offsets),
                queue_id=queue_id,
                topic=topic,
                cid=wish.group,
                queue_offset_diff=[offset - begin for offset in offsets],
                broker_name=self._identity.name,
            )
            stored = self._points.add(point, popped.revive_queue_id, result.next_offset, now)
            if stored.status is not PutStatus.PUT_OK:
                # Messages without a check point may not leave: they would not come back.
                popped.rest += len(offsets)
                return
            popped.end_offset = max(popped.end_offset, stored.end_offset)
        popped.start_offsets.append(start_offset_info(topic, queue_id, begin))
        popped.message_offsets.append(message_offset_info(topic, queue_id, offsets))
        handle = PopHandle(
            begin,
            now,
            wish.invisible_ms,
            popped.revive_queue_id,
            topic_type(topic),
            self._identity.name,
            queue_id,
        )
        self._add_records(wish, popped, topic, result, handle)
        self._in_flight.add(topic, wish.group, queue_id, len(offsets))

    def _add_records(
        self, wish: PopWish, popped: Popped, topic: str, result: GetResult, handle: PopHandle | None
    ) -> None:
        popped.count += result.count
        popped.size_bytes += result.size_bytes
        if topic == wish.topic or self._settings.pop_response_return_actual_retry_topic:
            popped.records += result.records
            return
        for view in result.records:
            for start, end in _record_ranges(view):
                try:
                    popped.records.append(as_original(view[start:end], wish.topic, handle))
                except NoRoom:
                    # Without a handle no client could acknowledge it: revival makes it a dead letter.
                    popped.count -= 1

    def _begin(self, topic: str, group: str, queue_id: int, init_mode: int, now: int) -> int:
        """Queue offset at which a pop begins. A group without an offset gets one."""
        reset = self._offsets.pop_reset(group, topic, queue_id)
        if reset is not None:
            key = (topic, group, queue_id)
            self._order.clear(key)
            self._points.forget_steps(key)
            self._in_flight.clear(topic, group, queue_id)
            self._offsets.store(group, topic, queue_id, reset, now)
            return reset
        stored = self._offsets.get(group, topic, queue_id)
        if stored < 0:
            stored = self._first(topic, queue_id, init_mode)
            self._offsets.commit(group, topic, queue_id, stored, now)
        return max(stored, self._points.next_offset(topic, group, queue_id))

    def _first(self, topic: str, queue_id: int, init_mode: int) -> int:
        store = self._store
        lowest = max(0, store.min_offset(topic, queue_id))
        if init_mode == INIT_MIN or topic.startswith(RETRY_PREFIX):
            return lowest
        if (
            self._settings.init_pop_offset_by_check_msg_in_mem
            and lowest == 0
            and store.is_in_memory(topic, queue_id, 0)
        ):
            return 0
        return max(0, store.max_offset(topic, queue_id) - 1)

    def _position(self, topic: str, group: str, queue_id: int) -> int:
        """Queue offset at which the next pop begins. Changes nothing."""
        stored = self._offsets.get(group, topic, queue_id)
        if stored < 0:
            stored = max(0, self._store.min_offset(topic, queue_id))
        return max(stored, self._points.next_offset(topic, group, queue_id))


def _record_ranges(view: memoryview) -> Iterator[tuple[int, int]]:
    position = 0
    while position < len(view):
        size = int.from_bytes(view[position : position + 4], "big")
        yield position, position + size
        position += size


def as_original(record: memoryview, topic: str, handle: PopHandle | None) -> bytes:
    """A record of a retry topic as its consumer knows it: of the topic it subscribed, with its handle.

    Raises NoRoom if its properties cannot hold that.
    """
    message = decode_record(record)
    properties = message.properties
    if handle is not None:
        own = PopHandle(
            handle.start_offset,
            handle.pop_time,
            handle.invisible_ms,
            handle.revive_queue_id,
            handle.topic_type,
            handle.broker_name,
            message.queue_id,
            message.queue_offset,
        )
        # Never one that the sender wrote: its handle would acknowledge other messages.
        changes = {POP_CK: own.to_text(), CRC32: None}
        properties = copied_properties(properties, changes)
    name = topic.encode()
    out = bytearray(
        record_size(
            len(message.body), len(name), len(properties), len(message.born_host), len(message.store_host)
        )
    )
    size = encode_record(
        out,
        0,
        queue_id=message.queue_id,
        flag=message.flag,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_timestamp=message.store_timestamp,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
        body=message.body,
        topic=name,
        properties=properties,
    )
    return bytes(out[:size])

"""Pops of lite topics, acknowledgements, and changes of the invisible time.

A group has one batch of a light queue in work at a time (see `pop.order`). That is known in memory only:
after a restart nothing is blocked, and what was not acknowledged is delivered again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.broker.lite.events import LiteEvents
from orbitmq.broker.lite.groups import is_exclusive
from orbitmq.broker.lite.subscriptions import LiteClient, LiteSubscriptions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.pop.order import NotInWork, OrderTable, QueueKey
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.handles.pop import ORDER_REVIVE_QUEUE, PopHandle
from orbitmq.protocol.lite_topics import bound_topic, lite_queue, lmq_places
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.store import GetStatus, MessageStore
from orbitmq.store.log.messages import Cold


@dataclass(slots=True, frozen=True)
class LiteWish:
    """A pop, as its client asked for it."""

    client_id: str
    group: str
    topic: str
    """The parent."""
    most: int
    invisible_ms: int
    attempt_id: str | None


@dataclass(slots=True)
class LitePopped:
    """The messages of a pop."""

    records: list[bytes] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    """The parts of orderCountInfo."""
    count: int = 0
    size_bytes: int = 0
    cold: Cold | None = None
    """A range that has to come from the disk before anything can be read."""


@dataclass(eq=False, repr=False)
class LitePops:
    """The lite topics' part of POP."""

    _settings: PopOptions
    _groups: GroupTable
    _offsets: OffsetTable
    _subscriptions: LiteSubscriptions
    _events: LiteEvents
    _store: MessageStore

    def __post_init__(self) -> None:
        # A table of its own that is not written to a file.
        self.order = OrderTable(DirtyTables())

    def pop(self, wish: LiteWish, now: int) -> LitePopped:
        """Messages of a client's lite topics, up to the number asked for."""
        popped = LitePopped()
        client = self._subscriptions.clients.get(wish.client_id)
        if client is None or client.group != wish.group:
            return popped
        names = self._events.take(client, now)
        for place, lmq in enumerate(names):
            if popped.count >= wish.most:
                self._events.give_back(client, names[place:], now)
                break
            self._pop_from(wish, client, lmq, popped, now)
            if popped.cold is not None:
                self._events.give_back(client, names[place:], now)
                if popped.count:
                    popped.cold = None  # first what is there
                break
        return popped

    def _pop_from(self, wish: LiteWish, client: LiteClient, lmq: str, popped: LitePopped, now: int) -> None:
        if lmq in client.taken_over and is_exclusive(self._groups.get(wish.group)):
            return
        key = (lmq, wish.group, 0)
        if self._offsets.has_reset(wish.group, lmq, 0):
            self.order.clear(key)
        elif self.order.is_blocked(key, wish.attempt_id, wish.invisible_ms, now):
            return
        queue_offset = self._start(wish.group, lmq, now)
        wanted = wish.most - popped.count
        found = self._store.get(lmq, 0, queue_offset, wanted)
        if found.cold is None and found.status is not GetStatus.FOUND and found.next_offset != queue_offset:
            self._offsets.commit(wish.group, lmq, 0, found.next_offset, now)
            found = self._store.get(lmq, 0, found.next_offset, wanted)
        if found.cold is not None:
            popped.cold = found.cold
            return
        if found.status is not GetStatus.FOUND:
            return
        data = b"".join(found.records)
        offsets = list(range(found.next_offset - found.count, found.next_offset))
        if offsets[0] != queue_offset:
            offsets = _offsets(data, lmq)  # some were damaged, and stepped over
        self.order.begin(key, wish.attempt_id, offsets, wish.invisible_ms, now)
        counts = self.order.counts(key)
        popped.records.append(data)
        popped.count += len(offsets)
        popped.size_bytes += len(data)
        popped.counts += [
            f"0 qo0%{offset} {counts[offset]}" if counts.get(offset) else "0" for offset in offsets
        ]

    def _start(self, group: str, lmq: str, now: int) -> int:
        """The offset from which a group continues; where it has none, all that is in memory is for it."""
        reset = self._offsets.pop_reset(group, lmq, 0)
        if reset is not None:
            self._offsets.store(group, lmq, 0, reset, now)
            return reset
        stored = self._offsets.get(group, lmq, 0)
        if stored >= 0:
            return stored
        store = self._store
        is_whole = store.min_offset(lmq, 0) <= 0
        in_memory = self._settings.init_pop_offset_by_check_msg_in_mem and store.is_in_memory(lmq, 0, 0)
        first = 0 if is_whole and in_memory else max(0, store.max_offset(lmq, 0) - 1)
        self._offsets.commit(group, lmq, 0, first, now)
        return first

    def acknowledge(
        self, group: str, topic: str, lite_topic: str, queue_offset: int, handle: PopHandle, now: int
    ) -> None:
        """Notes a message as handled. Raises Refused."""
        if bound_topic(self._groups.get(group)) != topic:
            raise Refused(ResponseCode.INVALID_PARAMETER, "group type or bind topic not match.")
        lmq = lite_queue(topic, lite_topic)
        if queue_offset > self._store.max_offset(lmq, 0):
            raise Refused(ResponseCode.NO_MESSAGE, "ack offset illegal.")
        if handle.queue_id != 0 or handle.revive_queue_id != ORDER_REVIVE_QUEUE:
            raise Refused(ResponseCode.INVALID_PARAMETER, "ack queue illegal.")
        key = (lmq, group, 0)
        committed = max(0, self._offsets.get(group, lmq, 0))
        if queue_offset < committed:
            return
        if key not in self.order:
            # Popped before a restart. Only what comes next: what is before it may be in work.
            if queue_offset == committed:
                self._commit(key, queue_offset + 1, now)
            return
        try:
            following = self.order.acknowledge(key, queue_offset, handle.pop_time, now)
        except NotInWork:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "ack offset illegal.") from None
        if following is not None:
            self._commit(key, following, now)

    def _commit(self, key: QueueKey, queue_offset: int, now: int) -> None:
        lmq, group, _ = key
        self._offsets.commit(group, lmq, 0, queue_offset, now)
        if not self.order.is_blocked(key, None, 0, now):
            if not self.order.has_open(key):
                self.order.clear(key)  # all of it was handled: there is nothing to remember
            if self._events.has_unread(group, lmq):
                self._events.tell(lmq, now, group)

    def hide(
        self,
        group: str,
        topic: str,
        lite_topic: str,
        queue_offset: int,
        invisible_ms: int,
        handle: PopHandle,
        *,
        suspend: bool,
        now: int,
    ) -> tuple[int, int]:
        """Hides a message for another while, or its whole batch; gives its pop and invisible times, 0 and 0
        for one that was handled before. Raises Refused.
        """
        lmq = lite_queue(topic, lite_topic)
        if queue_offset > self._store.max_offset(lmq, 0):
            raise Refused(ResponseCode.NO_MESSAGE, "the lite topic has no such message")
        if queue_offset < self._offsets.get(group, lmq, 0):
            return 0, 0
        key = (lmq, group, 0)
        visible_ms = now + invisible_ms
        if suspend:
            self.order.suspend(key, handle.pop_time, visible_ms)
        else:
            self.order.hide_until(key, queue_offset, handle.pop_time, visible_ms)
        return handle.pop_time, visible_ms - handle.pop_time

    def release(self, now: int) -> None:
        """Tells clients of queues that nothing blocks any more. Call every 100 ms or so."""
        for lmq, group, _ in self.order.drain_released(now):
            if self._events.has_unread(group, lmq):
                self._events.tell(lmq, now, group)


def _offsets(data: bytes, lmq: str) -> list[int]:
    """The offsets of records in a light queue, which each of them has among its properties."""
    return [
        queue_offset
        for record in decode_records(data)[0]
        for name, queue_offset in lmq_places(record.topic, record.properties)
        if name == lmq
    ]

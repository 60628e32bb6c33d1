"""Answers of groups about messages they popped: handled, or not yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.acks_cy import AckTemplate
from orbitmq.broker.pop.check_points import CheckPoints
from orbitmq.broker.pop.in_flight import InFlight
from orbitmq.broker.pop.order import NotInWork, OrderTable
from orbitmq.broker.pop.renewed import RenewedHandles
from orbitmq.protocol.bodies.pop import PopCheckPoint
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.handles.pop import BadHandle, PopHandle, revive_topic
from orbitmq.store import Appended, MessageStore, PutStatus

MOST_ACK_TEMPLATES = 1024
"""Pops whose acknowledgements have a template: so many are remembered."""


@dataclass(slots=True, frozen=True)
class Hidden:
    """The new times of a message whose invisible time was changed; None where nothing had to be changed."""

    pop_time: int
    invisible_ms: int
    revive_queue_id: int
    end_offset: int
    """Physical offset behind what was stored for it."""


@dataclass(eq=False, repr=False)
class PopAcks:
    """Acknowledgements and changes of the invisible time."""

    _identity: BrokerIdentity
    _topics: TopicTable
    _offsets: OffsetTable
    _order: OrderTable
    _in_flight: InFlight
    _points: CheckPoints
    _store: MessageStore

    def __post_init__(self) -> None:
        self._freed: list[tuple[str, str, int]] = []
        self.deletions: Deletions | None = None
        self.renewed = RenewedHandles()
        self._templates: dict[bytes, AckTemplate] = {}
        """By topic, group and handle."""

    def acknowledge(self, group: str, topic: str, queue_offset: int, handle: PopHandle, now: int) -> int:
        """Notes a message as handled; gives the physical offset behind what was stored for it, 0 for nothing.

        `topic` is the topic the message is stored in: a retry topic where it came from there. Raises Refused.
        """
        self.check_queue(topic, handle.queue_id)
        self.check_offset(topic, queue_offset, handle)
        if handle.is_order:
            self._acknowledge_order(group, topic, queue_offset, handle, now)
            return 0
        return self.acknowledge_checked(group, topic, [queue_offset], handle, now)

    def ack_template(self, key: bytes, now: int) -> AckTemplate | None:
        """Fields that acknowledgements of a pop have in common: see `acks_cy`, which stores them. None where
        `acknowledge` has to decide.
        """
        pop = self._templates.get(key)
        if pop is None:
            topic, group, text, _ = key.decode().split("\0")
            try:
                handle = PopHandle.from_text(text)
            except BadHandle:
                return None
            if handle.is_order or handle.queue_offset >= 0 or handle.visible_ms <= now:
                return None
            pop = self._points.ack_template(topic, group, handle, now)
            if pop is None:
                return None
            if len(self._templates) >= MOST_ACK_TEMPLATES:
                del self._templates[next(iter(self._templates))]
            self._templates[key] = pop
        topic, handle = pop.topic, pop.handle
        # A record that is due already does not wait in the timer topic.
        if handle.visible_ms <= now or self._points.is_kept(topic, pop.group, handle):
            return None
        try:
            self.check_queue(topic, handle.queue_id)
            self._check_revive_queue(handle)
        except Refused:
            return None
        pop.lowest, pop.end = self._range(topic, handle.queue_id)
        return pop

    def stored(self, pops: Iterable[tuple[AckTemplate, int]]) -> None:
        """Counts messages of such pops whose acknowledgements are stored. Without memory for that, those
        that were not counted count as in flight.
        """
        with contextlib.suppress(MemoryError):
            for pop, count in pops:
                self._points.stored["ACK", pop.group, pop.topic, PutStatus.PUT_OK.name] += 1
                handle = pop.handle
                self._in_flight.subtract(pop.topic, pop.group, handle.queue_id, handle.pop_time, count)

    def check_offset(self, topic: str, queue_offset: int, handle: PopHandle) -> tuple[int, int]:
        """Raises Refused for an offset that the handle's queue does not have; gives the range it has."""
        lowest, end = self._range(topic, handle.queue_id)
        if not lowest <= queue_offset <= end:
            raise Refused(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{topic}@{handle.queue_id}, commit:{queue_offset}, "
                f"store:{lowest}~{end}",
            )
        return lowest, end

    def acknowledge_many(
        self, group: str, topic: str, queue_offsets: Sequence[int], handle: PopHandle, now: int
    ) -> int:
        """The same for several messages of one pop; offsets the queue does not have are passed over."""
        lowest, end = self._range(topic, handle.queue_id)
        here = [offset for offset in queue_offsets if lowest <= offset <= end]
        if handle.is_order:
            for offset in here:
                self._acknowledge_order(group, topic, offset, handle, now)
            return 0
        return self.acknowledge_checked(group, topic, here, handle, now) if here and lowest >= 0 else 0

    def hide(
        self, group: str, topic: str, queue_offset: int, invisible_ms: int, handle: PopHandle, now: int
    ) -> Hidden | None:
        """Keeps a popped message hidden for `invisible_ms` from now on. Raises Refused."""
        self.check_queue(topic, handle.queue_id)
        lowest, end = self._range(topic, handle.queue_id)
        is_old = self.deletions is not None and self.deletions.was_popped_from_deleted(topic, handle.pop_time)
        if is_old or not lowest <= queue_offset < end:
            raise Refused(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{topic}@{handle.queue_id}, offset:{queue_offset}, "
                f"store:{lowest}~{end}",
            )
        if handle.is_order:
            return self._hide_order(group, topic, queue_offset, invisible_ms, handle, now)
        self._check_revive_queue(handle)
        # Two check points of one message differ by their time: within a millisecond the old one's
        # acknowledgement would count for the new one as well.
        pop_time = max(now, handle.pop_time + 1)
        point = PopCheckPoint(
            start_offset=queue_offset,
            pop_time=pop_time,
            invisible_time=invisible_ms,
            num=1,
            queue_id=handle.queue_id,
            topic=topic,
            cid=group,
            queue_offset_diff=[0],
            broker_name=handle.broker_name,
        )
        # The new check point comes first: a crash in between delivers the message twice, not never.
        stored = self._points.store(point, handle.revive_queue_id, now)
        _check_stored(stored)
        acked, _ = self._points.acknowledge(handle, group, topic, [queue_offset], now)
        _check_stored(acked)
        end_offset = max(stored.end_offset, acked.end_offset)
        return Hidden(pop_time, invisible_ms, handle.revive_queue_id, end_offset)

    def drain_freed(self) -> list[tuple[str, str, int]]:
        """The queues (topic, group, queue id) that ordered acknowledgements have unblocked since the last
        call.
        """
        freed, self._freed = self._freed, []
        return freed

    def check_queue(self, topic: str, queue_id: int) -> None:
        """Raises Refused unless the topic has the queue."""
        config = self._topics.get(topic)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        if not 0 <= queue_id < config.read_queue_nums:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queue_nums}]",
            )

    def _range(self, topic: str, queue_id: int) -> tuple[int, int]:
        return self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)

    def _check_revive_queue(self, handle: PopHandle) -> None:
        """A record in a queue without a reader would be as good as lost."""
        config = self._topics.get(revive_topic(self._identity.cluster))
        queues = 0 if config is None else config.write_queue_nums
        if not handle.revive_queue_id < queues:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"reviveQid[{handle.revive_queue_id}] is illegal, the revive topic has {queues} queues",
            )

    def acknowledge_checked(
        self, group: str, topic: str, offsets: Sequence[int], handle: PopHandle, now: int
    ) -> int:
        """Notes messages of one pop that was not in order, of a queue and at offsets that are there."""
        self._check_revive_queue(handle)
        stored, count = self._points.acknowledge(handle, group, topic, offsets, now)
        _check_stored(stored)
        self._in_flight.subtract(topic, group, handle.queue_id, handle.pop_time, count)
        return stored.end_offset

    def _acknowledge_order(
        self, group: str, topic: str, queue_offset: int, handle: PopHandle, now: int
    ) -> None:
        queue_id = handle.queue_id
        committed = self._offsets.get(group, topic, queue_id)
        if queue_offset < committed:
            return
        key = (topic, group, queue_id)
        try:
            following = self._order.acknowledge(key, queue_offset, handle.pop_time, now)
        except NotInWork:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{committed}, "
                f"commit:{queue_offset}, next:-1",
            ) from None
        if following is None:
            return
        self._offsets.commit(group, topic, queue_id, following, now)
        self._in_flight.subtract(topic, group, queue_id, handle.pop_time)
        if not self._order.is_blocked(key, None, handle.invisible_ms, now):
            self._freed.append(key)

    def _hide_order(
        self, group: str, topic: str, queue_offset: int, invisible_ms: int, handle: PopHandle, now: int
    ) -> Hidden | None:
        if queue_offset < self._offsets.get(group, topic, handle.queue_id):
            return None
        key = (topic, group, handle.queue_id)
        visible_ms = now + invisible_ms
        self._order.hide_until(key, queue_offset, handle.pop_time, visible_ms)
        return Hidden(handle.pop_time, visible_ms - handle.pop_time, handle.revive_queue_id, 0)


def read_handle(text: str) -> PopHandle:
    """The handle of an extraInfo field. Raises Refused."""
    try:
        return PopHandle.from_text(text)
    except BadHandle as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"extraInfo[{text[:200]}] is illegal: {error}") from None


def _check_stored(appended: Appended) -> None:
    if appended.status is not PutStatus.PUT_OK:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"the store takes nothing now: {appended.status.name}")

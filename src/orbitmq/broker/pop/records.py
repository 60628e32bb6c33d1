"""The records of POP: check points, acknowledgements, and the copies for those who did not acknowledge.

A check point says which messages a group holds and until when; it is stored as a timer message that comes
into a queue of the revive topic a second before that time, an acknowledgement as one that comes at that time.
So whoever reads the revive queue has seen the acknowledgements when a check point is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from orbitmq.broker.copied_properties import copied_properties
from orbitmq.broker.pop.templates import Numbers, RecordTemplates
from orbitmq.broker.pop.timers import TimerQueue
from orbitmq.broker.retry.rules import dead_letter_properties, origin_of
from orbitmq.protocol.bodies.pop import AckMsg, BatchAckMsg, PopCheckPoint
from orbitmq.protocol.handles.pop import PopHandle, revive_topic
from orbitmq.protocol.names import (
    FIRST_POP_TIME,
    ORIGIN_GROUP,
    ORIGIN_MESSAGE_ID,
    RETRY_PREFIX,
    RETRY_TOPIC,
    TAGS,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    dlq_topic,
)
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import encode_properties, find_property
from orbitmq.store import PendingMessage

CHECK_POINT_TAG = "ck"
ACK_TAG = "ack"
BATCH_ACK_TAG = "bAck"

ACK_LEAD_MS = 1000
"""A check point comes so much earlier than the acknowledgements of its messages."""


class _Sample(NamedTuple):
    """Numbers of a record, each another one."""

    start_offset: int
    pop_time: int
    invisible_ms: int
    revive_offset: int
    bit_map: int
    num: int
    queue_id: int
    revive_queue_id: int
    offsets: tuple[int, ...]


_SAMPLES = (
    _Sample(
        811_111_111_111_111_103,
        411_222_222_222_222_207,
        433_333_333_333_333_309,
        822_222_222_222_222_201,
        733_333_304,
        766_666_601,
        755_555_502,
        744_444_403,
        (799_999_905, 788_888_806),
    ),
    _Sample(5, 1_700_000_000_123, 60_001, 9, 1, 3, 2, 7, (14, 17)),
)
"""Templates are made of the first, in which no number is a part of another, and tried with the second."""


@dataclass(slots=True, frozen=True)
class ReviveRecords:
    """Makes the records of one broker's revive topic."""

    cluster: str
    host: bytes
    timers: TimerQueue
    _templates: RecordTemplates = field(default_factory=RecordTemplates)

    @property
    def topic(self) -> str:
        return revive_topic(self.cluster)

    def check_point(self, point: PopCheckPoint, revive_queue_id: int, now: int) -> PendingMessage:
        """The record to store for a pop before its messages leave."""
        if _due_ms(point) <= now or not point.queue_offset_diff or point.re_put_times is not None:
            return self.full_check_point(point, revive_queue_id, now)

        def samples() -> Iterator[tuple[PendingMessage, Numbers]]:
            for of in _SAMPLES:
                sample = replace(
                    point,
                    start_offset=of.start_offset,
                    pop_time=of.pop_time,
                    invisible_time=of.invisible_ms,
                    bit_map=of.bit_map,
                    num=of.num,
                    queue_id=of.queue_id,
                    revive_offset=of.revive_offset,
                    queue_offset_diff=list(of.offsets),
                )
                queue_id = of.revive_queue_id
                yield self.full_check_point(sample, queue_id, 0), self._numbers_of_point(sample, queue_id)

        template = self._templates.find((CHECK_POINT_TAG, point.topic, point.cid, point.broker_name), samples)
        if template is None:
            return self.full_check_point(point, revive_queue_id, now)
        return template.render(self._numbers_of_point(point, revive_queue_id), now)

    def _numbers_of_point(self, point: PopCheckPoint, revive_queue_id: int) -> Numbers:
        due_ms = _due_ms(point)
        return {
            b"so": point.start_offset,
            b"pt": point.pop_time,
            b"it": point.invisible_time,
            b"bm": point.bit_map,
            b"ro": point.revive_offset,
            b"n": point.num,
            b"q": point.queue_id,
            b"d": _listed(point.queue_offset_diff or ()),
            b"revived": point.pop_time + point.invisible_time,
            b"rq": revive_queue_id,
            b"due": due_ms,
            b"out": self.timers.waits_until(due_ms),
        }

    def full_check_point(self, point: PopCheckPoint, revive_queue_id: int, now: int) -> PendingMessage:
        """The record of a check point, made without a template."""
        unique_id = (
            f"{point.topic}@{point.queue_id}@{point.start_offset}@{point.cid}@{point.pop_time}"
            f"@{point.broker_name}@{CHECK_POINT_TAG}"
        )
        return self._record(CHECK_POINT_TAG, unique_id, point.to_json(), revive_queue_id, _due_ms(point), now)

    def ack(
        self, handle: PopHandle, group: str, topic: str, offsets: Sequence[int], now: int
    ) -> PendingMessage:
        if handle.visible_ms <= now:
            return self.full_ack(handle, group, topic, offsets, now)
        count = min(len(offsets), 2)

        def samples() -> Iterator[tuple[PendingMessage, Numbers]]:
            for of in _SAMPLES:
                sample = replace(
                    handle,
                    start_offset=of.start_offset,
                    pop_time=of.pop_time,
                    invisible_ms=of.invisible_ms,
                    queue_id=of.queue_id,
                    revive_queue_id=of.revive_queue_id,
                )
                some = of.offsets[:count]
                yield self.full_ack(sample, group, topic, some, 0), self._numbers_of_ack(sample, some)

        kind = ACK_TAG if count == 1 else BATCH_ACK_TAG
        template = self._templates.find((kind, topic, group, handle.broker_name), samples)
        if template is None:
            return self.full_ack(handle, group, topic, offsets, now)
        return template.render(self._numbers_of_ack(handle, offsets), now)

    def _numbers_of_ack(self, handle: PopHandle, offsets: Sequence[int]) -> Numbers:
        due_ms = handle.visible_ms
        return {
            b"so": handle.start_offset,
            b"pt": handle.pop_time,
            b"q": handle.queue_id,
            b"ao": _listed(offsets),
            b"rq": handle.revive_queue_id,
            b"due": due_ms,
            b"out": self.timers.waits_until(due_ms),
        }

    def full_ack(
        self, handle: PopHandle, group: str, topic: str, offsets: Sequence[int], now: int
    ) -> PendingMessage:
        """The record of an acknowledgement, made without a template."""
        message: AckMsg
        if len(offsets) == 1:
            tag = ACK_TAG
            message = AckMsg(ack_offset=offsets[0])
        else:
            tag = BATCH_ACK_TAG
            message = BatchAckMsg(ack_offset=-1, ack_offset_list=list(offsets))
        message.start_offset = handle.start_offset
        message.consumer_group = group
        message.topic = topic
        message.queue_id = handle.queue_id
        message.pop_time = handle.pop_time
        message.broker_name = handle.broker_name
        unique_id = (
            f"{topic}@{handle.queue_id}@{message.ack_offset}@{group}@{handle.pop_time}"
            f"@{handle.broker_name}@{ACK_TAG}"
        )
        return self._record(tag, unique_id, message.to_json(), handle.revive_queue_id, handle.visible_ms, now)

    def _record(
        self, tag: str, unique_id: str, body: bytes, queue_id: int, deliver_ms: int, now: int
    ) -> PendingMessage:
        topic = self.topic
        properties: Mapping[str, str] = {
            UNIQ_KEY: unique_id,
            TAGS: tag,
            TIMER_DELIVER_MS: str(deliver_ms),
        }
        tags_code: int | None = None
        rerouted = self.timers.reroute(topic, queue_id, properties, now) if deliver_ms > now else None
        if rerouted is not None:
            topic, queue_id, properties = rerouted.topic, rerouted.queue_id, rerouted.properties
            tags_code = rerouted.tags_code
        return PendingMessage(
            topic=topic,
            queue_id=queue_id,
            flag=0,
            sys_flag=0,
            born_timestamp=now,
            born_host=self.host,
            store_host=self.host,
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=body,
            properties=encode_properties(properties),
            tags_code=tags_code,
        )


def _due_ms(point: PopCheckPoint) -> int:
    return point.pop_time + point.invisible_time - ACK_LEAD_MS


def _listed(numbers: Sequence[int]) -> bytes:
    return ",".join(map(str, numbers)).encode()


def point_key(
    topic: str, group: str, queue_id: int, start_offset: int, pop_time: int, broker: str
) -> PointKey:
    """Key that a check point and its acknowledgements have in common."""
    return (topic, group, queue_id, start_offset, pop_time, broker)


PointKey = tuple[str, str, int, int, int, str]


def key_of_point(point: PopCheckPoint) -> PointKey:
    """The key of a check point."""
    return point_key(
        point.topic, point.cid, point.queue_id, point.start_offset, point.pop_time, point.broker_name
    )


def offsets_of(point: PopCheckPoint) -> list[int]:
    """The queue offsets of a check point's messages."""
    start = point.start_offset
    if point.queue_offset_diff:
        return [start + distance for distance in point.queue_offset_diff[: point.num]]
    return list(range(start, start + point.num))


def room_for_handle(broker_name: str) -> int:
    """Bytes that a retry topic's message needs for the handle with which it is popped."""
    return 128 + len(broker_name.encode())


def revived(
    record: StoredMessage, point: PopCheckPoint, topic: str, queue_id: int, host: bytes, room: int
) -> PendingMessage:
    """The copy of a message that was not acknowledged in time, for the POP retry topic `topic`.

    Raises NoRoom if the properties do not leave `room` bytes for its next handle.
    """
    changes: dict[str, str | None] = {}
    if record.reconsume_times == 0 or find_property(record.properties, FIRST_POP_TIME.encode()) is None:
        changes[FIRST_POP_TIME] = str(point.pop_time)
    changes[ORIGIN_GROUP] = point.cid
    if not record.topic.startswith(RETRY_PREFIX):
        # In a retry topic they count; and these are its sender's.
        changes |= {RETRY_TOPIC: None, ORIGIN_MESSAGE_ID: None}
    properties = copied_properties(record.properties, changes, (FIRST_POP_TIME, ORIGIN_GROUP), room)
    return _delivered_again(record, topic, queue_id, host, properties)


def died(record: StoredMessage, group: str, host: bytes) -> PendingMessage:
    """The dead letter of a message that cannot be delivered again."""
    properties = dead_letter_properties(record.properties, origin_of(record, group))
    return _delivered_again(record, dlq_topic(group), 0, host, properties)


def _delivered_again(
    record: StoredMessage, topic: str, queue_id: int, host: bytes, properties: bytes
) -> PendingMessage:
    return PendingMessage(
        topic=topic,
        queue_id=queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=host,
        store_host=host,
        reconsume_times=record.reconsume_times + 1,
        prepared_transaction_offset=0,
        body=record.body,
        properties=properties,
        copy_of=record.physical_offset,
    )

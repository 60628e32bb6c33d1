"""From the body of a pull's answer to the messages that an application gets.

A small record may hold a large body, so bodies are inflated within the limits of a reader: each body, and all
of an answer together. An `AnswerReading` can stop in between, so that a thread may do the rest.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from orbitmq.client.core.errors import BodyTooLarge, UnreadableBody
from orbitmq.client.core.message import ReceivedMessage, UnreadableMessage
from orbitmq.client.core.subscription import wants
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import RETRY_TOPIC, TAGS, retry_topic
from orbitmq.protocol.records.compression import (
    DEFAULT_MAX_INFLATED_BYTES,
    CompressionError,
    InflatedTooLarge,
    inflate,
)
from orbitmq.protocol.records.inner_batch import is_inner_batch, plain_messages
from orbitmq.protocol.records.message import COMPRESSED, BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import SplitRecord, joined_record, split_records
from orbitmq.protocol.records.properties import find_property

ON_LOOP_BYTES = 512 << 10
"""Bodies of one answer are inflated on the event loop up to so many bytes, some two milliseconds; the others
in a thread."""
_PACKED = 0x1 | 0x40 | 0x80
_RETRY_TOPIC, _TAGS = RETRY_TOPIC.encode(), TAGS.encode()


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Sizes of inflated bodies that a reader takes, in bytes."""

    body_bytes: int = DEFAULT_MAX_INFLATED_BYTES
    """Of one body: the option `max_inflated_body_bytes`."""
    answer_bytes: int | None = None
    """Of all bodies of an answer together: the last one may exceed it. None: no limit."""


class AnswerReading:
    """The messages of an answer that `wanted` means, in the order of the queue.

    Messages of `group`'s retry topic get the topic back that they were sent to. Topics are shown without
    `namespace`. A message whose body cannot be inflated is there as an UnreadableMessage.
    """

    def __init__(
        self,
        body: bytes | memoryview | None,
        queue: MessageQueue,
        wanted: SubscriptionData | None = None,
        group: str | None = None,
        namespace: str = "",
        limits: BodyLimits = BodyLimits(),
    ) -> None:
        self.messages: list[ReceivedMessage] = []
        self.problems: list[Exception] = []
        """Records that are damaged."""
        self.stopped_at: int | None = None
        """Queue offset of the first record that was left for the next answer: the limit was reached."""
        self._queue = queue
        self._wanted = wanted
        self._retried = group is not None and queue.topic == retry_topic(group)
        self._namespace = namespace
        self._limits = limits
        self._size_bytes = 0
        self._records: list[SplitRecord] = []
        self._next = 0
        if not body:
            return
        split, bad = split_records(body)
        self.problems += bad
        if wanted is not None and wanted.tags_set:
            # Before a message is made or inflated: reading one property costs less.
            split = [one for one in split if is_inner_batch(one[1]) or wants(wanted, _text(one[4], _TAGS))]
        if self._retried or any(one[1] & _PACKED for one in split):
            self._records = split
        else:
            self.messages = ReceivedMessage.of_split(split, queue, queue.topic, namespace)

    def read(self, most_bytes: int | None = None) -> bool:
        """Reads on, up to bodies of about `most_bytes`; True if nothing is left to be read."""
        end_bytes = None if most_bytes is None else self._size_bytes + most_bytes
        while self._next < len(self._records):
            one = self._records[self._next]
            if not one[1] & _PACKED:
                self._add_plain(one)
            elif self._is_full():
                self.stopped_at = one[0]
                self._records = self._records[: self._next]
                return True
            elif not self._add_packed(one, None if end_bytes is None else end_bytes - self._size_bytes):
                return False
            self._next += 1
        return True

    def _is_full(self) -> bool:
        most = self._limits.answer_bytes
        return most is not None and self._size_bytes >= most and bool(self.messages)

    def _add_plain(self, one: SplitRecord) -> None:
        self.messages += ReceivedMessage.of_split(
            (one,), self._queue, self._topic_of(one[4]), self._namespace
        )
        self._size_bytes += len(one[3])

    def _add_packed(self, one: SplitRecord, most_bytes: int | None) -> bool:
        """Inflates one record; False if its body has more than `most_bytes`: then nothing was added."""
        limit = self._limits.body_bytes
        tried = limit if most_bytes is None else min(limit, max(most_bytes, 0))
        record = joined_record(one)
        try:
            plain = plain_messages(record, tried)
        except (CompressionError, BadRecord) as error:
            if isinstance(error, InflatedTooLarge) and tried < limit:
                return False
            topic = self._topic_of(record.properties)
            self.messages.append(_unreadable(record, self._queue, topic, self._namespace, error))
            return True
        for message in plain:
            self._size_bytes += len(message.body)
            if self._wanted is None or wants(self._wanted, message.tags):
                topic = self._topic_of(message.properties)
                self.messages.append(ReceivedMessage(message, self._queue, topic, self._namespace))
        return True

    def _topic_of(self, properties: bytes) -> str:
        return (_text(properties, _RETRY_TOPIC) if self._retried else None) or self._queue.topic


async def read_answer(
    body: bytes | memoryview | None,
    queue: MessageQueue,
    wanted: SubscriptionData | None = None,
    group: str | None = None,
    namespace: str = "",
    limits: BodyLimits = BodyLimits(),
    offset_delta: int | None = None,
) -> AnswerReading:
    """An answer that has been read; large bodies are inflated in a thread.

    `offset_delta` is the distance from offsets of the physical queue, which records have, to those of the
    logical queue that was asked for.
    """
    reading = AnswerReading(body, queue, wanted, group, namespace, limits)
    if not reading.read(ON_LOOP_BYTES):
        await asyncio.to_thread(reading.read)
    if offset_delta:
        for message in reading.messages:
            message.queue_offset += offset_delta
        if reading.stopped_at is not None:
            reading.stopped_at += offset_delta
    return reading


async def read_record(record: StoredMessage, queue: MessageQueue, limits: BodyLimits) -> ReceivedMessage:
    """The message of a record that came by itself; a large body is inflated in a thread."""
    if not record.sys_flag & COMPRESSED:
        return ReceivedMessage(record, queue, record.topic)
    body: bytes
    try:
        try:
            body = inflate(record.body, record.sys_flag, min(ON_LOOP_BYTES, limits.body_bytes))
        except InflatedTooLarge:
            if limits.body_bytes <= ON_LOOP_BYTES:
                raise
            body = await asyncio.to_thread(inflate, record.body, record.sys_flag, limits.body_bytes)
    except CompressionError as error:
        return _unreadable(record, queue, record.topic, "", error)
    return ReceivedMessage(record.with_body(body), queue, record.topic)


def _unreadable(
    record: StoredMessage, queue: MessageQueue, topic: str, namespace: str, error: Exception
) -> UnreadableMessage[Any]:
    """The message of a record that could not be inflated for `error`."""
    message: UnreadableMessage[Any] = UnreadableMessage(record, queue, topic, namespace)
    what = f"{message.message_id}: the body, stored in {message.size_bytes} bytes, cannot be read: {error}"
    if isinstance(error, InflatedTooLarge):
        message.body_error = BodyTooLarge(
            f"{what}; raise max_inflated_body_bytes to take it", error.limit_bytes
        )
    else:
        message.body_error = UnreadableBody(what)
    message.body_error.__cause__ = error
    return message


def _text(properties: bytes, name: bytes) -> str | None:
    """The value of one property."""
    value = find_property(properties, name)
    return None if value is None else value.decode("utf-8", "replace")

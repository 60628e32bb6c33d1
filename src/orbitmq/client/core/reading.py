"""From the body of a pull's answer to the messages that an application gets."""

from __future__ import annotations

from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.subscription import wants
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import RETRY_TOPIC, retry_topic
from orbitmq.protocol.records.compression import CompressionError
from orbitmq.protocol.records.inner_batch import plain_messages
from orbitmq.protocol.records.message import BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import joined_record, split_records
from orbitmq.protocol.records.properties import find_property

MAX_BODY_BYTES = 64 << 20
"""A body that would inflate to more is not handed on: brokers accept 4 MiB by default."""

_PACKED = 0x1 | 0x40 | 0x80
_RETRY_TOPIC = RETRY_TOPIC.encode()


def read_messages(
    body: bytes | memoryview | None,
    queue: MessageQueue,
    wanted: SubscriptionData | None = None,
    group: str | None = None,
    namespace: str = "",
) -> tuple[list[ReceivedMessage], list[Exception]]:
    """The messages of an answer that `wanted` means, in the order of the queue, and what could not be read.

    Messages of `group`'s retry topic get the topic back that they were sent to. Topics are shown without
    `namespace`.
    """
    if not body:
        return [], []
    retried = group is not None and queue.topic == retry_topic(group)
    filtered = wanted is not None and bool(wanted.tags_set)
    split, bad = split_records(body)
    problems: list[Exception] = list(bad)
    if not (retried or filtered or any(record[1] & _PACKED for record in split)):
        return ReceivedMessage.of_split(split, queue, queue.topic, namespace), problems
    messages: list[ReceivedMessage] = []
    for record in map(joined_record, split):
        if record.sys_flag & _PACKED:
            try:
                plain = plain_messages(record, MAX_BODY_BYTES)
            except (CompressionError, BadRecord) as error:
                problems.append(error)
                continue
        else:
            plain = [record]
        for one in plain:
            if filtered and wanted is not None and not wants(wanted, one.tags):
                continue
            topic = (_original_topic(one) if retried else None) or queue.topic
            messages.append(ReceivedMessage(one, queue, topic, namespace))
    return messages, problems


def _original_topic(record: StoredMessage) -> str | None:
    value = find_property(record.properties, _RETRY_TOPIC)
    return None if value is None else value.decode("utf-8", "replace")

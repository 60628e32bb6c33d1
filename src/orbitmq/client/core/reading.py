"""From the body of a pull's answer to the messages that an application gets."""

from __future__ import annotations

from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.subscription import wants
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import RETRY_TOPIC, TAGS, retry_topic
from orbitmq.protocol.records.compression import MAX_BODY_BYTES, CompressionError
from orbitmq.protocol.records.inner_batch import plain_messages
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import joined_record, split_records
from orbitmq.protocol.records.properties import find_property

_PACKED = 0x1 | 0x40 | 0x80
_RETRY_TOPIC, _TAGS = RETRY_TOPIC.encode(), TAGS.encode()


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
    split, bad = split_records(body)
    problems: list[Exception] = list(bad)
    if wanted is not None and wanted.tags_set:
        # Before a message is made: reading one property costs less.
        split = [one for one in split if one[1] & _PACKED or wants(wanted, _text(one[4], _TAGS))]
    if not retried and not any(one[1] & _PACKED for one in split):
        return ReceivedMessage.of_split(split, queue, queue.topic, namespace), problems
    messages: list[ReceivedMessage] = []
    for one in split:
        if not one[1] & _PACKED:
            topic = (_text(one[4], _RETRY_TOPIC) if retried else None) or queue.topic
            messages += ReceivedMessage.of_split((one,), queue, topic, namespace)
            continue
        try:
            plain = plain_messages(joined_record(one), MAX_BODY_BYTES)
        except (CompressionError, BadRecord) as error:
            problems.append(error)
            continue
        for record in plain:
            if wanted is None or wants(wanted, record.tags):
                topic = (_text(record.properties, _RETRY_TOPIC) if retried else None) or queue.topic
                messages.append(ReceivedMessage(record, queue, topic, namespace))
    return messages, problems


def _text(properties: bytes, name: bytes) -> str | None:
    """The value of one property."""
    value = find_property(properties, name)
    return None if value is None else value.decode("utf-8", "replace")

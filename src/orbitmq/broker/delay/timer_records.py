"""Records of timer messages: as they are stored where they belong, and what tells them apart."""

from __future__ import annotations

from orbitmq.broker.copied_properties import MAX_COPIED_PROPERTIES_BYTES
from orbitmq.protocol.handles.recall import RecallHandle
from orbitmq.protocol.lite_topics import named_lmqs
from orbitmq.protocol.names import REAL_QUEUE_ID, REAL_TOPIC, RETRY_PREFIX, TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import find_property, whole_number
from orbitmq.store import PendingMessage
from orbitmq.store.timer.recovery import Identity, identity

AT_ONCE = (1 << 63) - 1
"""TIMER_ENQUEUE_MS of a message that was due before it could wait."""


def identity_of(message: PendingMessage) -> Identity:
    """Marks that distinguish a delivery from every other."""
    return identity(
        message.topic, message.queue_id, message.properties, message.born_timestamp, len(message.body)
    )


def text_of(properties: bytes, name: str) -> str:
    """A property as text; empty without it."""
    value = find_property(properties, name.encode())
    return "" if value is None else value.decode("utf-8", "replace")


_OWN = (b"TIMER_ENQUEUE_MS\x01", b"TIMER_DEQUEUE_MS\x01")


def waited(record: StoredMessage, enqueued_ms: int, now: int, *, roll: bool = False) -> PendingMessage | None:
    """A message as it is stored where it belongs; with `roll` once more in the timer topic.

    None if it does not say where it belongs, or only takes another one back.
    """
    properties = record.properties
    topic, queue_id = record.topic, record.queue_id
    own = b"TIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%d\x02" % (enqueued_ms, now)
    dropped: tuple[bytes, ...] = _OWN
    if roll:
        times = whole_number(find_property(properties, b"TIMER_ROLL_TIMES")) or 0
        own += b"TIMER_ROLL_TIMES\x01%d\x02" % (times + 1)
        dropped = (*_OWN, b"TIMER_ROLL_TIMES\x01")
    else:
        topic = text_of(properties, REAL_TOPIC)
        number = whole_number(text_of(properties, REAL_QUEUE_ID))
        if not topic or number is None or find_property(properties, TIMER_DEL_UNIQKEY.encode()):
            return None
        queue_id = number
    if any(name in properties for name in dropped):
        entries = properties.split(b"\x02")
        properties = b"\x02".join([entry for entry in entries if not entry.startswith(dropped)])
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    # A message that has no room for them goes without.
    if len(properties) + len(own) <= MAX_COPIED_PROPERTIES_BYTES:
        properties += own
    return PendingMessage(
        topic,
        queue_id,
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.store_host,
        record.reconsume_times,
        0,
        record.body,
        properties,
        copy_of=record.physical_offset,
        lmqs=() if roll else named_lmqs(properties),
    )


def recall_key(topic: str, key: str, *, names_topic: bool) -> str:
    """The key by which a recall of `topic` takes a message back: a message of that topic alone, by its id.

    `names_topic`: whether keys begin with their topics (appendTopicForTimerDeleteKey). If not,
    Apache lets a recall of one topic drop the messages of any.
    """
    return f"{topic}+{key.removeprefix(f'{topic}+') if names_topic else key}"


def recall_handle(message: PendingMessage, broker_name: str, unique_id: str | None) -> str | None:
    """Handle by which the sender of a waiting message may take it back; None for a retry."""
    topic = text_of(message.properties, REAL_TOPIC)
    out_ms = whole_number(text_of(message.properties, TIMER_OUT_MS))
    if unique_id is None or topic.startswith(RETRY_PREFIX) or out_ms is None:
        return None
    return RecallHandle(topic, broker_name, out_ms + 1, unique_id).encode()

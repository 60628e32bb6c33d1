"""Messages that a consumer sends back: stored again for its group's retry topic, or as a dead letter.

The new record keeps body, flags, born time and host; it says how often the message was delivered, where it
came from first (RETRY_TOPIC, ORIGIN_MESSAGE_ID), and when it is due (a delay level).

A consumer may also send a copy to the retry topic by itself; `broker.send.rules` decides then if the copy
becomes a dead letter. A pop that is not acknowledged is delivered again by `broker.pop.revive`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from orbitmq.broker.copied_properties import NoRoom, copied_properties, last_properties
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.broker.delay.timer_due import TIMER_PROPERTIES
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.delay_levels import FIRST_RETRY_LEVEL
from orbitmq.protocol.handles.pop import normal_topic
from orbitmq.protocol.names import (
    DELAY,
    DLQ_ORIGIN_TOPIC,
    ORIGIN_MESSAGE_ID,
    RETRY_PREFIX,
    RETRY_TOPIC,
    WAIT,
    dlq_topic,
    retry_topic,
)
from orbitmq.protocol.records.ids import offset_message_id
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.store import PendingMessage

_OPTIONAL = (WAIT, ORIGIN_MESSAGE_ID)
"""Properties of a message that is sent back which it does without if it has to."""
_VERSION_WITH_MAX_RECONSUME = 121
"""Clients from this version on say how often a message may be delivered again (V3_4_9)."""


@dataclass(slots=True, frozen=True)
class SendBack:
    """The request of the consumer."""

    group: str
    delay_level: int
    """0 leaves it to the broker; below 0 means: a dead letter at once."""
    max_reconsume_times: int
    retry_queue_id: int


def retry_limit(group: SubscriptionGroupConfig, asked: int | None, client_version: int) -> int:
    """The number of retries of a message: the client's choice if it names one, else the group's."""
    if asked is not None and client_version >= _VERSION_WITH_MAX_RECONSUME:
        return asked
    return group.retry_max_times


def is_dead(record: StoredMessage, back: SendBack) -> bool:
    """True if the message was delivered often enough, or is given up by the consumer."""
    return record.reconsume_times >= back.max_reconsume_times or back.delay_level < 0


def sent_back(
    record: StoredMessage, back: SendBack, levels: DelayLevels, store_host: bytes, now: int
) -> PendingMessage:
    """The record to store for a message that a consumer sends back.

    A message that has no room for a retry, which says more than a dead letter, becomes one of these.
    """
    origin = origin_of(record, back.group)
    retry = None if is_dead(record, back) else _retry(record, back, origin, levels, now)
    if retry is None:
        dead = dead_letter_properties(record.properties, origin)
        retry = _Place(dlq_topic(back.group), 0, dead, None)
    return PendingMessage(
        topic=retry.topic,
        queue_id=retry.queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times + 1,
        prepared_transaction_offset=0,
        body=record.body,
        properties=retry.properties,
        tags_code=retry.tags_code,
        copy_of=record.physical_offset,
    )


class _Place(NamedTuple):
    """The queue that a message is stored in, with its properties there."""

    topic: str
    queue_id: int
    properties: bytes
    tags_code: int | None


def _retry(
    record: StoredMessage, back: SendBack, origin: dict[str, str | None], levels: DelayLevels, now: int
) -> _Place | None:
    """The place where a message waits for its next delivery; None if it has no room to say so."""
    level = str(back.delay_level or FIRST_RETRY_LEVEL + record.reconsume_times)
    topic, queue_id, tags_code = retry_topic(back.group), back.retry_queue_id, None
    changes: dict[str, str | None] = {**origin, WAIT: "false", DELAY: level}
    rerouted = levels.reroute(topic, queue_id, {DELAY: level}, now)
    if rerouted is not None:
        topic, queue_id, waiting, tags_code = rerouted
        changes |= dict.fromkeys(TIMER_PROPERTIES)  # a level wins over a time
        changes |= waiting
    try:
        properties = copied_properties(record.properties, changes, _OPTIONAL)
    except NoRoom:
        return None
    return _Place(topic, queue_id, properties, tags_code)


def origin_of(record: StoredMessage, group: str) -> dict[str, str | None]:
    """RETRY_TOPIC and ORIGIN_MESSAGE_ID of a message: where its group got it from first.

    Only a message of a retry topic says it itself: what a sender writes into another one counts for nothing,
    or an operator's redrive would write for somebody who has no right to.
    """
    found = decode_properties(record.properties) if record.topic.startswith(RETRY_PREFIX) else {}
    return {
        RETRY_TOPIC: found.get(RETRY_TOPIC) or normal_topic(record.topic, group),
        ORIGIN_MESSAGE_ID: found.get(ORIGIN_MESSAGE_ID)
        or offset_message_id(record.store_host, record.physical_offset),
    }


def dead_letter_properties(properties: bytes, origin: dict[str, str | None]) -> bytes:
    """The properties of a dead letter; where there is no room, neither the broker tells its origin nor its
    sender.
    """
    changes: dict[str, str | None] = {**origin, DLQ_ORIGIN_TOPIC: None, WAIT: "false", DELAY: "0"}
    return last_properties(properties, changes, (*_OPTIONAL, DELAY))

"""Messages that a consumer sends back: stored again for its group's retry topic, or as a dead letter.

The new record keeps body, flags, born time and host; it says how often the message was delivered, where it
came from first (RETRY_TOPIC, ORIGIN_MESSAGE_ID), and when it is due (a delay level).

A consumer may also send a copy to the retry topic by itself; `broker.send.rules` decides then if the copy
becomes a dead letter. A pop that is not acknowledged is delivered again by `broker.pop.revive`.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.delay_levels import FIRST_RETRY_LEVEL
from orbitmq.protocol.names import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, WAIT, dlq_topic, retry_topic
from orbitmq.protocol.records.ids import offset_message_id
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import decode_properties, encode_properties
from orbitmq.store import PendingMessage

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
    """The record to store for a message that a consumer sends back."""
    properties = decode_properties(record.properties)
    properties.setdefault(RETRY_TOPIC, record.topic)
    properties.setdefault(ORIGIN_MESSAGE_ID, offset_message_id(record.store_host, record.physical_offset))
    properties[WAIT] = "false"
    tags_code: int | None = None
    if is_dead(record, back):
        topic, queue_id = dlq_topic(back.group), 0
        properties[DELAY] = "0"
    else:
        topic, queue_id = retry_topic(back.group), back.retry_queue_id
        level = back.delay_level or FIRST_RETRY_LEVEL + record.reconsume_times
        properties[DELAY] = str(level)
        rerouted = levels.reroute(topic, queue_id, properties, now)
        if rerouted is not None:
            topic, queue_id, properties, tags_code = rerouted
    return PendingMessage(
        topic=topic,
        queue_id=queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times + 1,
        prepared_transaction_offset=0,
        body=record.body,
        properties=encode_properties(properties),
        tags_code=tags_code,
    )

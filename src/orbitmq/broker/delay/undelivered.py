"""Messages whose time came and that cannot be stored where they are to go: dead letters of no consumer's.

They are in the dead-letter topic of the group CID_RMQ_SYS_UNDELIVERED, where they are listed and from where
they can be sent again as those of any group.
"""

from __future__ import annotations

from dataclasses import replace

from orbitmq.broker.copied_properties import last_properties
from orbitmq.broker.delay.timer_due import TIMER_PROPERTIES
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.stats.passed_over import UNDELIVERED_TOPIC
from orbitmq.protocol.names import (
    DELAY,
    DLQ_ORIGIN_TOPIC,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TIMER_OUT_MS,
)
from orbitmq.store import PendingMessage


class Undelivered:
    """Makes such dead letters, and their topic with the first one."""

    def __init__(self, topics: TopicTable | None = None) -> None:
        self._topics = topics

    def letter(self, message: PendingMessage, topic: str | None, now: int) -> PendingMessage:
        """The dead letter of a message that was to go to `topic`; None if it did not say where."""
        if self._topics is not None:
            self._topics.ensure(UNDELIVERED_TOPIC, 1, now)
        waited = dict.fromkeys((REAL_TOPIC, REAL_QUEUE_ID, TIMER_OUT_MS, DLQ_ORIGIN_TOPIC, *TIMER_PROPERTIES))
        changes: dict[str, str | None] = {**waited, RETRY_TOPIC: topic, DELAY: "0"}
        properties = last_properties(message.properties, changes, (DELAY,))
        return replace(message, topic=UNDELIVERED_TOPIC, queue_id=0, properties=properties, tags_code=None)

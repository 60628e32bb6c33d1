"""Queues for messages whose time has come: those that they were sent to, if they are still there."""

from __future__ import annotations

from collections.abc import Container, Mapping

from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.protocol.bodies.topic import TopicConfig


class Destinations:
    """Looks at the topics as they are now; without tables every place is as it was."""

    def __init__(self, topics: TopicTable | None = None, deletions: Deletions | None = None) -> None:
        self._topics = topics
        self._deletions = deletions

    def is_gone(self, topic: str, physical_offset: int) -> bool:
        """True if the message that waits there was for a topic that was deleted since."""
        return self._deletions is not None and self._deletions.is_of_deleted(topic, physical_offset)

    @property
    def topics(self) -> Mapping[str, TopicConfig] | None:
        """The configs by name; None without a table."""
        return None if self._topics is None else self._topics.by_name

    @property
    def deleted(self) -> Container[str]:
        """Topics that were deleted, of which messages may still wait; one of that name may be there again."""
        return () if self._deletions is None else self._deletions.by_topic

    def queue_of(self, topic: str, queue_id: int) -> int:
        """The queue for a message that was sent to a queue: another one if the topic has fewer by now."""
        config = None if self._topics is None else self._topics.get(topic)
        if config is None or queue_id < config.read_queue_nums:
            return queue_id
        return queue_id % max(1, config.read_queue_nums)

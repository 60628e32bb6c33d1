"""Topics that were deleted while the log still holds messages for them.

A topic of the same name that is made later has nothing to do with them: a delayed message, a timer or a check
point of a pop that waited for the old topic is not for the new one. The log says of each how old it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.store.recovery.deleted_topics import (
    FILE_NAME,
    Deletion,
    DeletionsBody,
    LogEnd,
    read_deletions,
)

MOST_DELETIONS = 100_000
"""Topics that are remembered; the oldest are forgotten beyond it."""


class Deletions:
    """The last deletion of each topic; a file of OrbitMQ's own, `config/deletedTopics.json`."""

    FILE = FILE_NAME
    NAME = "deletions"

    def __init__(self, dirty_tables: DirtyTables) -> None:
        self.by_topic: dict[str, Deletion] = {}
        self.noted = 0
        """Number of deletions since the start."""
        self._dirty_tables = dirty_tables

    def note(self, topic: str, log_end: LogEnd, now: int) -> None:
        """Notes that a topic was deleted when the log ended there."""
        self.noted += 1
        self.by_topic.pop(topic, None)
        self.by_topic[topic] = Deletion(log_end.physical_offset, now, log_end.last_record, log_end.checksum)
        if len(self.by_topic) > MOST_DELETIONS:
            del self.by_topic[next(iter(self.by_topic))]
        self._dirty_tables.mark(self.NAME)

    def is_of_deleted(self, topic: str, physical_offset: int) -> bool:
        """True if a record that stands there, and is for a topic, is for one that was deleted since."""
        deletion = self.by_topic.get(topic)
        return deletion is not None and physical_offset < deletion.log_end

    def was_popped_from_deleted(self, topic: str, pop_time: int) -> bool:
        deletion = self.by_topic.get(topic)
        return deletion is not None and pop_time < deletion.time_ms

    def not_before(self, topic: str, now: int) -> int:
        """The time now, or that of the topic's deletion where the clock was set back since."""
        deletion = self.by_topic.get(topic)
        return now if deletion is None else max(now, deletion.time_ms)

    def keep(self, of_this_log: Callable[[Mapping[str, Deletion]], dict[str, Deletion]]) -> None:
        """Forgets topics of which the log holds nothing any more, and those that were deleted in another log:
        in one that was cut since, the messages behind its end of then are not theirs.
        """
        kept = of_this_log(self.by_topic)
        if kept != self.by_topic:
            self.by_topic = kept
            self._dirty_tables.mark(self.NAME)

    def cut_to(self, log_end: LogEnd) -> None:
        """Follows a log that was cut: the messages that come behind its end now are not those of then."""
        for topic, deletion in list(self.by_topic.items()):
            if deletion.log_end > log_end.physical_offset:
                self.by_topic[topic] = Deletion(
                    log_end.physical_offset, deletion.time_ms, log_end.last_record, log_end.checksum
                )
                self._dirty_tables.mark(self.NAME)

    def snapshot(self) -> Snapshot:
        copy = {topic: replace(deletion) for topic, deletion in self.by_topic.items()}
        return DeletionsBody(copy).to_pretty_json

    def load_text(self, text: str) -> None:
        """Takes over the content of the file. Raises MalformedJson."""
        self.by_topic = read_deletions(text)

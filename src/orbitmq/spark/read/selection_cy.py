"""Selection of the messages that become rows: by topic, tag, store time and queue offset.

Hot: every record that Spark reads is checked here. Compiled code passes the places of a record's parts;
interpreted code passes the decoded record. The rules are the same.
"""

from __future__ import annotations

from collections.abc import Callable

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.message import TRANSACTION_PREPARED, StoredMessage
from orbitmq.spark.read.column_types import MAX_QUEUE_OFFSET

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.parts import *  # type: ignore[import-not-found]


@cython.final
@cython.cclass
class Selection:
    """The messages to read. `selection_cy.pxd` has its fields for compiled code.

    `accept` is asked once per topic; None accepts every topic. `tags` names the tags to take, None takes all.
    The store time has to be in [`from_time_ms`, `to_time_ms`), where None is no bound, and the queue offset
    in the range of `set_offsets`. Half messages and those that were rolled back are never taken.
    """

    def __init__(
        self,
        accept: Callable[[str], bool] | None = None,
        tags: frozenset[str] | None = None,
        from_time_ms: int | None = None,
        to_time_ms: int | None = None,
    ) -> None:
        self._accept = accept
        self._tags = None if tags is None else {tag.encode() for tag in tags}
        self._tag_list = list(self._tags or ())
        self.has_tags = tags is not None
        self._answers: dict[bytes, bool] = {}
        self._met: list[bytes | None] = [None] * 64
        self._from_time_ms = -MAX_QUEUE_OFFSET - 1 if from_time_ms is None else from_time_ms
        self._last_time_ms = MAX_QUEUE_OFFSET if to_time_ms is None else to_time_ms - 1
        self.set_offsets(0, MAX_QUEUE_OFFSET)

    def set_offsets(self, from_queue_offset: int, to_queue_offset: int) -> None:
        """Sets the bounds of queue offsets, the second not included."""
        self.from_queue_offset = from_queue_offset
        self.to_queue_offset = to_queue_offset

    def takes(self, record: StoredMessage) -> bool:
        """True if messages of a record are read, as far as topic, store time and transaction decide."""
        return (
            not record.sys_flag & TRANSACTION_PREPARED
            and self.takes_topic(record.topic.encode())
            and self._from_time_ms <= record.store_timestamp <= self._last_time_ms
        )

    def takes_offset(self, queue_offset: int) -> bool:
        """True if a queue offset is in the range."""
        return self.from_queue_offset <= queue_offset < self.to_queue_offset

    def takes_tag(self, tag: str | None) -> bool:
        """True if messages with a tag are read; None stands for messages without one."""
        return self._tags is None or (tag is not None and tag.encode() in self._tags)

    def takes_topic(self, topic: bytes) -> bool:
        """True if messages of a topic are read."""
        if self._accept is None:
            return True
        answer = self._answers.get(topic)
        if answer is None:
            answer = self._answers[topic] = bool(self._accept(topic.decode()))
        return answer

    def takes_located(self, data, parts):
        """`takes` for the parts of a record in a buffer. Compiled only."""
        if is_unpublished(sys_flag_of(data, parts)):
            return False
        if self._accept is not None and not self._takes_topic_span(topic_of(data, parts)):
            return False
        return self._from_time_ms <= store_timestamp_of(data, parts) <= self._last_time_ms

    def takes_tag_span(self, tag):
        """`takes_tag` for bytes in a buffer. Compiled only."""
        # No look into the set, which needs an object for each message: most selections have only a few tags.
        wanted: bytes
        found: cython.bint = False
        if is_there(tag):
            for wanted in self._tag_list:
                found |= is_same(span_of(wanted), tag)
        return found

    def _takes_topic_span(self, topic):
        """`takes_topic`, without an object for a topic that was met before. Compiled only."""
        name: bytes
        slot: cython.int = (
            cython.cast(cython.int, topic.size) * 31
            + byte_of(topic, topic.size - 1) * 7
            + byte_of(topic, topic.size >> 1)
        ) & 63
        if self._met[slot] is not None:
            name = self._met[slot]
            if is_same(span_of(name), topic):
                return self._is_selected[slot]
        name = bytes_of(topic)
        self._is_selected[slot] = self.takes_topic(name)
        self._met[slot] = name
        return self._is_selected[slot]

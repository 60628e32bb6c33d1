"""Messages of lite topics that a group has not consumed yet."""

from __future__ import annotations

from collections.abc import Iterator

from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.protocol.lite_topics import lite_parts
from orbitmq.store import MessageStore


def backlogs(
    offsets: OffsetTable, store: MessageStore, group: str, parent: str
) -> Iterator[tuple[str, str, int]]:
    """The light queue, the lite topic and the number of messages, for each that a group is behind in."""
    for lmq in offsets.topics_of(group):
        parts = lite_parts(lmq)
        if parts is not None and parts[0] == parent:
            lag = store.max_offset(lmq, 0) - offsets.get(group, lmq, 0)
            if lag > 0:
                yield lmq, parts[1], lag

"""Topics that clients have made and that are in no file yet: no client sees their messages before they are.

A crash would take such a topic back, and with it the way to messages that somebody has seen.
"""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.handling.call import Outcome, Result, Saved, Wait
from orbitmq.handling.saving import SAVE_TIMEOUT_MS
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused


def once_saved(topics: TopicTable, topic: str, read: Callable[[int], Result], now: int) -> Wait:
    """The result of `read(now)` when the topic is in its file; Refused (SYSTEM_BUSY) if it gets into none."""

    def saved(outcome: Outcome, later: int) -> Result:
        if outcome.timed_out:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"topic[{topic}] is new, and cannot be saved")
        return read(later)

    return Wait((Saved(topics.NAME),), now + SAVE_TIMEOUT_MS, saved)

"""The common part of sources: to whom orders go, and how far each queue has been read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from orbitmq.delay_service.rules.intake import Queue, SourceMessage

log = logging.getLogger(__name__)


class Taker(Protocol):
    """Carries orders out."""

    def position(self, queue: Queue) -> int | None:
        """The offset to be read next."""

    def go_back(self, queue: Queue, offset: int) -> None:
        """The queue has lost messages that were read: from this offset on it has others."""

    async def take(self, queue: Queue, messages: Sequence[SourceMessage], next_offset: int) -> None:
        """Returns when the orders are in the store, though not yet safe from a power cut."""

    async def synced(self) -> None:
        """Returns when everything taken so far is on the disk."""


@dataclass(slots=True)
class SourceState:
    """The place up to which a source was read."""

    name: str
    problem: str = "not connected yet"
    """Empty while it is read."""
    behind: dict[Queue, bool] = field(default_factory=dict)
    """True for a queue whose end, as it was at the start, is not reached yet."""
    lost: int = 0
    """Messages that were gone before they were read: the retention was shorter than the downtime."""

    @property
    def is_read(self) -> bool:
        """True if every queue has been read to the end that it had at the start."""
        return not self.problem and bool(self.behind) and not any(self.behind.values())


def begin_at(state: SourceState, taker: Taker, queue: Queue, first: int, end: int) -> int:
    """The offset to begin at, between the first and the end of what a queue has."""
    position = taker.position(queue)
    if position is None:
        return first
    if position < first:
        state.lost += first - position
        log.warning(
            "%s: %d messages were deleted before they were read (offsets %d to %d): the retention of the "
            "topic is shorter than the service was down",
            queue, first - position, position, first - 1,
        )  # fmt: skip
        return first
    if position > end:
        log.warning(
            "%s: read up to offset %d, and its end is %d: the cluster has lost messages, or the topic was "
            "deleted and created. Reading continues at the end",
            queue, position, end,
        )  # fmt: skip
        taker.go_back(queue, end)
        return end
    return position

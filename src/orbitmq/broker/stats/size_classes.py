"""Messages counted by their size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from orbitmq.broker.stats.metric_families import SIZE_BOUNDS

SMALL_BYTES = SIZE_BOUNDS[0]


@dataclass(slots=True)
class SizeClasses:
    """Messages, their bytes, and how many are in each class above the smallest, where nearly all are."""

    messages: int = 0
    size_bytes: int = 0
    large: Sequence[int] = ()

    def add(self, messages: int, size_bytes: int) -> None:
        """Counts messages of about the same size."""
        self.messages += messages
        self.size_bytes += size_bytes
        if size_bytes > SMALL_BYTES * messages:
            self.large = with_large(self.large, messages, size_bytes)

    def without(self, others: SizeClasses) -> SizeClasses:
        """The classes left if `others` are among these."""
        large = list(self.large) or [0] * len(SIZE_BOUNDS)
        for index, count in enumerate(others.large):
            large[index] -= count
        return SizeClasses(self.messages - others.messages, self.size_bytes - others.size_bytes, large)

    def counts(self, above: int) -> tuple[int, ...]:
        """Messages in each class, the smallest first; `above` is the number of classes above it."""
        large = tuple(self.large) or (0,) * above
        return (self.messages - sum(large), *large)


def with_large(large: Sequence[int], messages: int, size_bytes: int) -> list[int]:
    """The classes above the smallest with some more messages; changed in place once they are a list."""
    counts = large if isinstance(large, list) else [0] * len(SIZE_BOUNDS)
    counts[bisect_left(SIZE_BOUNDS, size_bytes / messages) - 1] += messages
    return counts

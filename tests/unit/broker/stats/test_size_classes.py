"""Messages by size: nearly all are in the smallest class, which is not counted by itself."""

from __future__ import annotations

from orbitmq.broker.stats.metric_families import SIZE_BOUNDS
from orbitmq.broker.stats.size_classes import SizeClasses

ABOVE = len(SIZE_BOUNDS)


def test_messages_are_counted_by_their_average_size() -> None:
    classes = SizeClasses()
    classes.add(10, 10 * SIZE_BOUNDS[0])
    classes.add(2, 2 * (SIZE_BOUNDS[0] + 1))
    classes.add(1, SIZE_BOUNDS[-1] + 1)
    counts = classes.counts(ABOVE)
    assert (counts[0], counts[1], counts[-1], sum(counts)) == (10, 2, 1, 13)


def test_other_messages_are_taken_out_class_by_class() -> None:
    all_of_them, some = SizeClasses(), SizeClasses()
    for classes, small, large in ((all_of_them, 5, 3), (some, 2, 1)):
        classes.add(small, small)
        classes.add(large, large * (SIZE_BOUNDS[-1] + 1))
    left = all_of_them.without(some)
    counts = left.counts(ABOVE)
    assert (left.messages, counts[0], counts[-1]) == (5, 3, 2)
    assert left.size_bytes == 3 + 2 * (SIZE_BOUNDS[-1] + 1)


def test_without_large_messages_only_the_smallest_class_has_any() -> None:
    assert SizeClasses(4, 400).counts(ABOVE) == (4, *[0] * ABOVE)

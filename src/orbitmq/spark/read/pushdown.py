"""Spark's predicates on what is known before a message is read: they choose queues and offsets.

Exact are predicates on topic, broker and queue, and bounds on offsets; they are not checked again. Those on
store times and tags narrow what is read, and Spark applies them once more to the rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from orbitmq.spark.read.cluster import Cluster
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue

_OF_QUEUE: dict[str, Callable[[Queue], Any]] = {
    "topic": lambda queue: queue.topic,
    "brokerName": lambda queue: queue.broker_name,
    "queueId": lambda queue: queue.queue_id,
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_NEVER_NULL = frozenset({*_OF_QUEUE, "queueOffset", "physicalOffset", "body", "storeTimestamp"})


@dataclass(slots=True)
class Pushed:
    """A read as narrowed by predicates."""

    of_queue: list[tuple[str, Filter]] = field(default_factory=list)
    low: int = 0
    """Offsets from here (inclusive)."""
    high: int | None = None
    """Up to there (exclusive)."""
    from_ms: int | None = None
    """Store times from here (inclusive)."""
    until_ms: int | None = None
    """Up to there (exclusive)."""
    tags: frozenset[str] | None = None

    def push(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Takes in what it can; yields what Spark has still to apply."""
        for one in filters:
            if not self._push(one):
                yield one

    def _push(self, one: Filter) -> bool:
        column = _column(one)
        if isinstance(one, IsNotNull):
            return column in _NEVER_NULL
        if column in _OF_QUEUE and _holds(one) is not None:
            self.of_queue.append((column, one))
            return True
        if column == "queueOffset":
            return self._push_offset(one)
        if column == "storeTimestamp":
            self._push_time(one)
        if column == "tags":
            self._push_tags(one)
        return False

    def _push_offset(self, one: Filter) -> bool:
        if isinstance(one, In):
            numbers = [value for value in one.value if value is not None]
            self._offsets(min(numbers, default=0), max(numbers, default=-1) + 1)
            return False
        edges = _edges(one)
        if edges is None:
            return False
        self._offsets(*edges)
        return True

    def _offsets(self, low: int | None, high: int | None) -> None:
        self.low = max(self.low, low or 0)
        if high is not None:
            self.high = high if self.high is None else min(self.high, high)

    def _push_time(self, one: Filter) -> None:
        if isinstance(one, In):
            times = [_floor_ms(value) for value in one.value if value is not None]
            self._times(min(times, default=0), max(times, default=-1) + 1)
        elif isinstance(getattr(one, "value", None), datetime.datetime):
            # Whole milliseconds around what was asked for: Spark looks at the microseconds.
            timed: Any = one
            edges = _edges(replace(timed, value=_floor_ms(timed.value)))
            if edges is not None:
                low, high = edges
                self._times(low, high + 1 if isinstance(one, LessThan) and high is not None else high)

    def _times(self, low: int | None, high: int | None) -> None:
        if low is not None:
            self.from_ms = max(self.from_ms or 0, low)
        if high is not None:
            self.until_ms = high if self.until_ms is None else min(self.until_ms, high)

    def _push_tags(self, one: Filter) -> None:
        if isinstance(one, EqualTo | EqualNullSafe) and one.value is not None:
            values = [one.value]
        elif isinstance(one, In):
            values = [value for value in one.value if value is not None]
        else:
            return
        if all(_is_plain_tag(value) for value in values):
            wanted = frozenset(values)
            self.tags = wanted if self.tags is None else self.tags & wanted

    def queues(self, queues: Iterable[Queue]) -> list[Queue]:
        left = []
        for queue in queues:
            checks = ((_holds(one), _OF_QUEUE[column](queue)) for column, one in self.of_queue)
            if all(holds is not None and holds(value) for holds, value in checks):
                left.append(queue)
        return left

    def options(self, options: ReadOptions) -> ReadOptions | None:
        """The options with the tags that are left; None where no message can have one of them."""
        if self.tags is None or options.sql is not None:
            return options
        left = self.tags & frozenset(options.tags) if options.tags else self.tags
        return replace(options, tags=tuple(sorted(left))) if left else None

    def ranges(self, cluster: Cluster, ranges: Sequence[OffsetRange], group: str) -> list[OffsetRange]:
        """The offsets that are left. Asks brokers for times. Raises NetError, BrokerRefused."""
        queues = [work.queue for work in ranges]
        after, before = self.from_ms, self.until_ms
        lows = {} if after is None else cluster.offsets_at(dict.fromkeys(queues, after), group)
        highs = {} if before is None else cluster.offsets_at(dict.fromkeys(queues, before), group)
        left = []
        for work in ranges:
            low, high = max(work.from_queue_offset, self.low), work.to_queue_offset
            if self.high is not None:
                high = min(high, self.high)
            if after is not None:
                first = lows[work.queue]
                low = high if first is None else max(low, first)
            end = highs.get(work.queue)
            if end is not None:
                high = min(high, end)
            if low < high:
                left.append(replace(work, from_queue_offset=low, to_queue_offset=high))
        return left


def _column(one: Filter) -> str:
    if isinstance(one, Not):
        return _column(one.child)
    path: tuple[str, ...] = getattr(one, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _holds(one: Filter) -> Callable[[Any], bool] | None:
    """A predicate on a value that is never null; None for one that is not understood."""
    if isinstance(one, Not):
        inner = _holds(one.child)
        # `x <> null` and `x not in (1, null)` hold for nothing.
        if inner is None or (isinstance(one.child, In) and None in one.child.value):
            return None
        return lambda value: not inner(value)
    if isinstance(one, IsNull):
        return lambda value: False
    if isinstance(one, In):
        return lambda value: value in one.value
    wanted = getattr(one, "value", None)
    if wanted is None:
        return None
    for kind, holds in _COMPARE.items():
        if isinstance(one, kind):
            return lambda value: holds(value, wanted)
    return None


_COMPARE: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, wanted: bool(value == wanted),
    EqualNullSafe: lambda value, wanted: bool(value == wanted),
    GreaterThan: lambda value, wanted: bool(value > wanted),
    GreaterThanOrEqual: lambda value, wanted: bool(value >= wanted),
    LessThan: lambda value, wanted: bool(value < wanted),
    LessThanOrEqual: lambda value, wanted: bool(value <= wanted),
    StringStartsWith: lambda value, wanted: value.startswith(wanted),
    StringEndsWith: lambda value, wanted: value.endswith(wanted),
    StringContains: lambda value, wanted: wanted in value,
}


def _edges(one: Filter) -> tuple[int | None, int | None] | None:
    """From (inclusive) to (exclusive), for a bound on a whole number; None for anything else."""
    value = getattr(one, "value", None)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if isinstance(one, EqualTo | EqualNullSafe):
        return value, value + 1
    if isinstance(one, GreaterThanOrEqual):
        return value, None
    if isinstance(one, GreaterThan):
        return value + 1, None
    if isinstance(one, LessThan):
        return None, value
    if isinstance(one, LessThanOrEqual):
        return None, value + 1
    return None


def _floor_ms(time: datetime.datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
    return max(0, (aware - _EPOCH) // _MILLISECOND)


def _is_plain_tag(tag: object) -> bool:
    return isinstance(tag, str) and bool(tag) and tag == tag.strip() and "|" not in tag and tag != "*"

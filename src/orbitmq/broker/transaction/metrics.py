"""Figures of transactions: how many are open, by topic and producer group, and what became of the others."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from orbitmq.broker.stats.metric_families import FINISH_BOUNDS_S
from orbitmq.protocol.bodies.metrics import Metric, TransactionMetricsSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.schema.json_body import require_member


@dataclass(slots=True)
class Latencies:
    """Ages of half messages when they were committed."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(FINISH_BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, age_ms: int) -> None:
        seconds = max(0, age_ms) / 1000
        self.sum_s += seconds
        self.buckets[bisect_left(FINISH_BOUNDS_S, seconds)] += 1


class TransactionFigures:
    """Plain numbers since the start; `open` is exact at any time, restarts included."""

    def __init__(self, now: int) -> None:
        self.open: dict[tuple[str, str], int] = {}
        """Undecided half messages, by topic and producer group; none is no entry."""
        self.committed: Counter[str] = Counter()
        """Commits by topic."""
        self.rolled_back: Counter[str] = Counter()
        """Rollbacks by topic."""
        self.given_up: Counter[str] = Counter()
        """Half messages given up to TRANS_CHECK_MAX_TIME_TOPIC, by topic."""
        self.asked: Counter[str] = Counter()
        """Questions sent to producers, by group."""
        self.unreadable = 0
        """Half messages and op records that cannot be read, and were stepped over."""
        self.latencies: dict[str, Latencies] = {}
        """Age at the commit, by topic."""
        self.version = DataVersion(timestamp=now)
        self._changed_ms: dict[str, int] = {}

    @property
    def open_count(self) -> int:
        """All undecided half messages."""
        return sum(self.open.values())

    def open_by_topic(self) -> dict[str, int]:
        """The same by topic; a topic that had some keeps its 0."""
        counts = dict.fromkeys(self._changed_ms, 0)
        for (topic, _), count in self.open.items():
            counts[topic] = counts.get(topic, 0) + count
        return counts

    def opened(self, topic: str, group: str, now: int) -> None:
        """A half message has come."""
        key = topic, group
        self._changed_ms[topic] = now
        self.open[key] = self.open.get(key, 0) + 1

    def published(self, topic: str, age_ms: int) -> None:
        """A commit has published a half message of that age."""
        self.committed[topic] += 1
        latencies = self.latencies.get(topic)
        if latencies is None:
            latencies = self.latencies[topic] = Latencies()
        latencies.add(age_ms)

    def closed(self, topic: str, group: str, now: int) -> None:
        """A half message was decided, or given up."""
        key = topic, group
        self._changed_ms[topic] = now
        left = self.open.get(key, 0) - 1
        if left > 0:
            self.open[key] = left
        else:
            self.open.pop(key, None)

    def to_text(self) -> str:
        """The content of `config/transactionMetrics`."""
        self.version.next(max(self._changed_ms.values(), default=self.version.timestamp))
        return TransactionMetricsSerializeWrapper(
            {
                topic: Metric(count, self._changed_ms.get(topic, 0))
                for topic, count in self.open_by_topic().items()
            },
            self.version.copy(),
        ).to_json_text()

    def load_text(self, text: str) -> None:
        """Takes over when counts last changed; the counts themselves come from the half messages."""
        require_member(text, "transactionCount")
        wrapper = TransactionMetricsSerializeWrapper.from_json(text)
        self.version = wrapper.data_version
        self._changed_ms = {topic: metric.time_stamp for topic, metric in wrapper.transaction_count.items()}

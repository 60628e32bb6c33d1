"""Figures about timer messages: how many wait per topic, what came and went; the file `timermetrics`."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.broker.stats.metric_families import DELAY_BOUNDS_S
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.metrics import Metric, TimerMetricsSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.schema.json_body import require_member

RATE_SAMPLES = 10
UNKNOWN_TOPIC = ""


class TimerMetrics:
    """Plain counters. A message counts as waiting from when its unit is written until it is delivered,
    dropped because it was recalled, or stored again for another turn of the wheel.
    """

    NAME = "timermetrics"
    FILE = "timermetrics"

    def __init__(self, dirty_tables: DirtyTables, now: int) -> None:
        self.pending_by_topic: Counter[str] = Counter()
        self.enqueued_by_topic: Counter[str] = Counter()
        self.delivered_by_topic: Counter[str] = Counter()
        self.delays_by_topic: dict[str, list[int]] = {}
        """Number of messages by length of the delay asked for, by `DELAY_BOUNDS_S`; the last two numbers are
        the seconds of all together and the number of all."""
        self.recalled = 0
        self.rolled = 0
        self.lost = 0
        """Messages that could not be read when their time came."""
        self.version = DataVersion(timestamp=now)
        self._changed_ms: dict[str, int] = {}
        self._enqueued = 0
        self._delivered = 0
        self._samples: deque[tuple[int, int, int]] = deque([(now, 0, 0)], maxlen=RATE_SAMPLES + 1)
        self._dirty_tables = dirty_tables

    @property
    def pending(self) -> int:
        """Number of waiting messages."""
        return self.pending_by_topic.total()

    def came(self, topic: str, now: int, count: int = 1) -> None:
        self.pending_by_topic[topic] += count
        self._enqueued += count
        self._touch(topic, now)

    def asked(self, topic: str, delay_ms: int) -> None:
        self.enqueued_by_topic[topic] += 1
        classes = self.delays_by_topic.get(topic)
        if classes is None:
            classes = self.delays_by_topic[topic] = [0] * (len(DELAY_BOUNDS_S) + 3)
        seconds = max(0, delay_ms) // 1000
        for index, bound in enumerate(DELAY_BOUNDS_S):
            if seconds <= bound:
                classes[index] += 1
                break
        else:
            classes[len(DELAY_BOUNDS_S)] += 1
        classes[-2] += seconds
        classes[-1] += 1

    def went(self, topic: str, now: int, *, delivered: bool) -> None:
        """Counts a message that waited; not `delivered`: it was recalled, or waits once more."""
        if self.pending_by_topic[topic] > 1:
            self.pending_by_topic[topic] -= 1
        else:
            del self.pending_by_topic[topic]
        if delivered:
            self.passed(topic)
        self._touch(topic, now)

    def passed(self, topic: str) -> None:
        """Counts a message that was delivered."""
        self.delivered_by_topic[topic] += 1
        self._delivered += 1

    def topic_of(self, topic_hash: int) -> str:
        """The topic with a hash, among those that something waits for."""
        for topic in self.pending_by_topic:
            if java_hash(topic) == topic_hash:
                return topic
        return UNKNOWN_TOPIC

    def _touch(self, topic: str, now: int) -> None:
        self._changed_ms[topic] = now
        self.version.next(now)
        self._dirty_tables.mark(self.NAME, soon=False)

    def forget(self, topic: str) -> None:
        """Lets go of the figures of a topic that was deleted; what waits for it is delivered all the same."""
        for table in (self.enqueued_by_topic, self.delivered_by_topic, self.delays_by_topic):
            table.pop(topic, None)

    # Rates.

    def tick(self, now: int) -> None:
        """Takes a sample. Call once a second."""
        self._samples.append((now, self._enqueued, self._delivered))

    @property
    def enqueue_tps(self) -> float:
        """Messages per second that began to wait, over the last ten seconds."""
        return self._rate(1)

    @property
    def dequeue_tps(self) -> float:
        """Messages per second that were delivered, over the last ten seconds."""
        return self._rate(2)

    def _rate(self, index: int) -> float:
        first, last = self._samples[0], self._samples[-1]
        elapsed_ms = last[0] - first[0]
        return (last[index] - first[index]) * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0

    # The file.

    def recount(self, by_hash: Counter[int], topics: Iterable[str]) -> None:
        """Takes what waits out of a count by the hashes of topics, of which `topics` may be meant."""
        names = {java_hash(topic): topic for topic in [*topics, *self.pending_by_topic]}
        self.pending_by_topic = Counter()
        for code, count in by_hash.items():
            self.pending_by_topic[names.get(code, UNKNOWN_TOPIC)] += count

    def to_body(self) -> TimerMetricsSerializeWrapper:
        """The counts as they go over the wire and into the file."""
        return TimerMetricsSerializeWrapper(
            {
                topic: Metric(count, self._changed_ms.get(topic, 0))
                for topic, count in self.pending_by_topic.items()
            },
            self.version.copy(),
        )

    def snapshot(self) -> Snapshot:
        """The content of `timermetrics`."""
        return self.to_body().to_json_text

    def load_text(self, text: str) -> None:
        """Takes over the content of `timermetrics`. Raises MalformedJson."""
        require_member(text, "timingCount")
        body = TimerMetricsSerializeWrapper.from_json(text)
        self.pending_by_topic = Counter(
            {topic: metric.count for topic, metric in body.timing_count.items() if metric.count > 0}
        )
        self._changed_ms = {topic: metric.time_stamp for topic, metric in body.timing_count.items()}
        self.version = body.data_version

"""Counters of what went through a broker, by topic, queue and group, and since the start.

Handlers add to plain counters; `tick`, called once a second, samples them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from orbitmq.broker.stats.rate_counters import DAY_STEP_MS, HOUR_STEP_MS, MINUTE_STEP_MS, Flow, Flows
from orbitmq.broker.stats.size_classes import SMALL_BYTES, SizeClasses, with_large

PUT_TIME_BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
PUT_TIME_NAMES = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]",
    "[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip


FRESH_QUEUES = 1_000
"""Queues whose new counts wait to be added up: some 2 ms."""
FLOWS_PER_STEP = 2_000
"""Flows that are sampled before others have a turn: some 3 ms."""


@dataclass(slots=True)
class StoreTotals:
    """Calls since the start, as the runtime info shows them."""

    put_times: int = 0
    put_messages: int = 0
    put_failed: int = 0
    put_size_bytes: int = 0
    put_took_max_ms: int = 0
    put_took_counts: list[int] = field(default_factory=lambda: [0] * len(PUT_TIME_NAMES))
    get_took_max_ms: int = 0
    get_found_times: int = 0
    get_miss_times: int = 0
    get_messages: int = 0


class Rates(NamedTuple):
    """The totals at a moment, of which rates are made."""

    at_ms: int
    put: int
    found: int
    miss: int
    transferred: int


class BrokerStats:
    """All counters of a broker."""

    def __init__(self, cluster: str, now: int) -> None:
        self.cluster = cluster
        self.is_system: Callable[[str], bool] = lambda topic: False
        """True for topics that are none of the users'; set by whoever knows."""
        self._fresh: dict[str, dict[int, list[int]]] = {}
        self._fresh_queues = 0
        self._fresh_pulls: dict[tuple[str, int, str], list[int]] = {}
        """Topic, queue and group -> calls, messages and bytes of pulls that wait to be added up."""
        self._totals = StoreTotals()
        self.large: dict[str, list[int]] = {}
        """Of what clients sent, messages above 1 KiB by topic: how many in each class of sizes."""
        self.by_type: dict[str, dict[str, SizeClasses]] = {}
        """Of what was stored, the messages that are not of the type of their topic, by topic and type."""
        self.dead: dict[tuple[str, str], int] = {}
        """Messages that became dead letters, by topic and group."""
        self.topic_put: Flows[str] = Flows()
        self.queue_put: Flows[tuple[str, int]] = Flows()
        self.group_get: Flows[tuple[str, str]] = Flows()
        self.queue_get: Flows[tuple[str, int, str]] = Flows()
        self.group_acked: Flows[tuple[str, str]] = Flows()
        self.put_back: Flows[tuple[str, str]] = Flows()
        self.broker_put: Flows[str] = Flows()
        self.broker_get: Flows[str] = Flows()
        self.broker_put_user: Flows[str] = Flows()
        self.broker_get_user: Flows[str] = Flows()
        self.put_yesterday_morning = self.put_today_morning = 0
        self.get_yesterday_morning = self.get_today_morning = 0
        self._sampling: deque[Iterator[None]] = deque()
        """Samples still to take."""
        self._rates: deque[Rates] = deque(maxlen=601)
        self._sampled_ms = now
        self._hour_sampled_ms = now
        self._day_sampled_ms = now
        self._day = _day_of(now)

    @property
    def totals(self) -> StoreTotals:
        """The counters since the start."""
        if self._fresh or self._fresh_pulls:
            self.add_up()
        return self._totals

    def put_fresh(self, topic: str, queue_id: int, messages: int, size_bytes: int, calls: int = 1) -> None:
        """Counts messages that a client sent, in so many sends of about the same size, and the store took;
        cheap, added up when somebody looks.
        """
        queues = self._fresh.get(topic)
        if queues is None:
            queues = self._fresh[topic] = {}
        fresh = queues.get(queue_id)
        if fresh is None:
            queues[queue_id] = [calls, messages, size_bytes]
            self._fresh_queues += 1
            if self._fresh_queues >= FRESH_QUEUES:
                self.add_up()  # with very many queues a bit at a time
        else:
            fresh[0] += calls
            fresh[1] += messages
            fresh[2] += size_bytes
        if size_bytes > SMALL_BYTES * messages:
            self.large[topic] = with_large(self.large.get(topic, ()), messages, size_bytes)

    def put_typed(self, message_type: str, topic: str, size_bytes: int, messages: int = 1) -> None:
        """Notes of what type messages are that `put_fresh` counts: fifo with a sharding key, delay when their
        time came, transaction when they were committed.
        """
        types = self.by_type.get(topic)
        if types is None:
            types = self.by_type[topic] = {}
        sizes = types.get(message_type)
        if sizes is None:
            sizes = types[message_type] = SizeClasses()
        sizes.add(messages, size_bytes)

    def put_delivered(self, topic: str, queue_id: int, size_bytes: int, messages: int = 1) -> None:
        """Counts messages of about the same size whose time came."""
        self.put_fresh(topic, queue_id, messages, size_bytes, messages)
        self.put_typed("delay", topic, size_bytes, messages)

    def died(self, group: str, topic: str) -> None:
        """Counts a message that was delivered too often, or that its consumer gave up."""
        self.dead[topic, group] = self.dead.get((topic, group), 0) + 1

    def add_up(self) -> None:
        """Adds up what `put_fresh` and `pulled` have counted."""
        pulls, self._fresh_pulls = self._fresh_pulls, {}
        for key, (calls, messages, size_bytes) in pulls.items():
            self._add_pulls(key, calls, messages, size_bytes)
        fresh, self._fresh, self._fresh_queues = self._fresh, {}, 0
        for topic, queues in fresh.items():
            system = self.is_system(topic)
            for queue_id, (calls, messages, size_bytes) in queues.items():
                self.put(topic, queue_id, messages, size_bytes, calls=calls, system=system)

    def put(
        self,
        topic: str,
        queue_id: int,
        messages: int,
        size_bytes: int,
        took_ms: int = 0,
        *,
        calls: int = 1,
        system: bool = False,
    ) -> None:
        """Counts messages that came in so many sends of about the same duration."""
        self.topic_put.add(topic, messages, size_bytes, took_ms, calls)
        self.queue_put.add((topic, queue_id), messages, size_bytes, took_ms, calls)
        self.broker_put.add(self.cluster, messages, calls=calls)
        if not system:
            self.broker_put_user.add(self.cluster, messages, calls=calls)
        totals = self._totals
        totals.put_times += calls
        totals.put_messages += messages
        totals.put_size_bytes += size_bytes
        if took_ms > totals.put_took_max_ms:
            totals.put_took_max_ms = took_ms
        totals.put_took_counts[0 if took_ms <= 0 else _bucket(took_ms)] += calls

    def put_failed(self) -> None:
        """Counts a send that the store refused."""
        self._totals.put_failed += 1

    def pulled(
        self,
        group: str,
        topic: str,
        queue_id: int,
        messages: int,
        size_bytes: int,
    ) -> None:
        """Counts messages that a group was given at once; cheap, added up when somebody looks."""
        key = (topic, queue_id, group)
        fresh = self._fresh_pulls.get(key)
        if fresh is None:
            self._fresh_pulls[key] = [1, messages, size_bytes]
            if len(self._fresh_pulls) >= FRESH_QUEUES:
                self.add_up()
        else:
            fresh[0] += 1
            fresh[1] += messages
            fresh[2] += size_bytes

    def _add_pulls(self, key: tuple[str, int, str], calls: int, messages: int, size_bytes: int) -> None:
        topic, _, group = key
        totals = self._totals
        totals.get_found_times += calls
        totals.get_messages += messages
        self.group_get.add((topic, group), messages, size_bytes, calls=calls)
        self.queue_get.add(key, messages, size_bytes, calls=calls)
        self.broker_get.add(self.cluster, messages, calls=calls)
        if not self.is_system(topic):
            self.broker_get_user.add(self.cluster, messages, calls=calls)

    def missed(self) -> None:
        """Counts a pull that found nothing."""
        self._totals.get_miss_times += 1

    def sent_back(self, group: str, topic: str) -> None:
        """Counts a message that a group gave back."""
        self.put_back.add((topic, group), 1)

    def tick(self, now: int) -> bool:
        """Samples what is due, so many flows at a step. True if there is more to do at once.

        Call once a second.
        """
        if not self._sampling:
            self._begin_to_sample(now)
        left = FLOWS_PER_STEP
        while self._sampling:
            for _ in self._sampling[0]:
                left -= 1
                if not left:
                    return True
            self._sampling.popleft()
        return False

    def _begin_to_sample(self, now: int) -> None:
        totals = self.totals
        self._rates.append(
            Rates(
                now, totals.put_messages, totals.get_found_times, totals.get_miss_times, totals.get_messages
            )
        )
        if now - self._sampled_ms >= MINUTE_STEP_MS:
            self._sampled_ms = now
            self._sampling.extend(flows.sample_minute(now) for flows in self._all)
        if now - self._hour_sampled_ms >= HOUR_STEP_MS:
            self._hour_sampled_ms = now
            self._sampling.extend(flows.sample_hour(now) for flows in self._all)
        if now - self._day_sampled_ms >= DAY_STEP_MS:
            self._day_sampled_ms = now
            self._sampling.extend(flows.sample_day(now) for flows in self._all)
        if _day_of(now) != self._day:
            self._day = _day_of(now)
            self.put_yesterday_morning, self.put_today_morning = self.put_today_morning, totals.put_messages
            self.get_yesterday_morning, self.get_today_morning = self.get_today_morning, totals.get_messages

    def rates(self, field_name: str) -> tuple[float, ...]:
        """Calls per second over the last 10, 60 and 600 s, as far as the broker is old enough for each."""
        rates = []
        for seconds in (10, 60, 600):
            if len(self._rates) > seconds:
                last, before = self._rates[-1], self._rates[-1 - seconds]
                elapsed_ms = max(1, last.at_ms - before.at_ms)
                rates.append((getattr(last, field_name) - getattr(before, field_name)) * 1000 / elapsed_ms)
            elif not rates:
                rates.append(self._young_rate(field_name))
        return tuple(rates)

    def forget_topic(self, topic: str) -> None:
        self.add_up()
        self.topic_put.remove(lambda key: key == topic)
        self.large.pop(topic, None)
        self.by_type.pop(topic, None)
        self.dead = {key: count for key, count in self.dead.items() if key[0] != topic}
        for flows in (self.queue_put, self.group_get, self.queue_get, self.group_acked, self.put_back):
            flows.remove(lambda key: key[0] == topic)

    def forget_group(self, group: str) -> None:
        self.add_up()
        self.dead = {key: count for key, count in self.dead.items() if key[1] != group}
        for flows in (self.group_get, self.queue_get, self.group_acked, self.put_back):
            flows.remove(lambda key: key[-1] == group)

    def find(self, name: str, key: str) -> tuple[Flow, str] | None:
        """The flow and counter behind a statistics name and key (request 315); None if there is none."""
        self.add_up()
        kind = _NAMES.get(name)
        if kind is None:
            return None
        attribute, order, counter = kind
        flows: Flows[Hashable] = getattr(self, attribute)
        flow = flows.by_key.get(_parse_key(key, order))
        return None if flow is None else (flow, counter)

    def tps(self, topic: str, group: str) -> float:
        """Messages per second that a group pulled of a topic in the last minute."""
        self.add_up()
        flow = self.group_get.by_key.get((topic, group))
        return 0.0 if flow is None else flow.window(flow.minute, "messages").tps

    def put_tps(self, topic: str) -> float:
        """Messages per second sent to a topic in the last minute."""
        self.add_up()
        flow = self.topic_put.by_key.get(topic)
        return 0.0 if flow is None else flow.window(flow.minute, "messages").tps

    def _young_rate(self, field_name: str) -> float:
        if len(self._rates) < 2:
            return 0.0
        first, last = self._rates[0], self._rates[-1]
        elapsed_ms = max(1, last.at_ms - first.at_ms)
        amount: int = getattr(last, field_name) - getattr(first, field_name)
        return amount * 1000 / elapsed_ms

    @property
    def _all(self) -> tuple[Flows[Any], ...]:
        return (
            self.topic_put, self.queue_put, self.group_get, self.queue_get, self.group_acked, self.put_back,
            self.broker_put, self.broker_get, self.broker_put_user, self.broker_get_user,
        )  # fmt: skip


_NAMES = {
    "TOPIC_PUT_NUMS": ("topic_put", "t", "messages"),
    "TOPIC_PUT_SIZE": ("topic_put", "t", "size_bytes"),
    "TOPIC_PUT_LATENCY": ("queue_put", "qt", "took_ms"),
    "QUEUE_PUT_NUMS": ("queue_put", "tq", "messages"),
    "QUEUE_PUT_SIZE": ("queue_put", "tq", "size_bytes"),
    "GROUP_GET_NUMS": ("group_get", "tg", "messages"),
    "GROUP_GET_SIZE": ("group_get", "tg", "size_bytes"),
    "GROUP_GET_LATENCY": ("queue_get", "qtg", "took_ms"),
    "GROUP_ACK_NUMS": ("group_acked", "tg", "messages"),
    "QUEUE_GET_NUMS": ("queue_get", "tqg", "messages"),
    "QUEUE_GET_SIZE": ("queue_get", "tqg", "size_bytes"),
    "SNDBCK_PUT_NUMS": ("put_back", "tg", "messages"),
    "BROKER_PUT_NUMS": ("broker_put", "t", "messages"),
    "BROKER_GET_NUMS": ("broker_get", "t", "messages"),
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": ("broker_put_user", "t", "messages"),
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": ("broker_get_user", "t", "messages"),
}
"""Statistics name -> table, the parts of its text key (topic, queue, group), counter."""


def _parse_key(text: str, order: str) -> Hashable:
    """`queueId@topic@group` and the like as the key of a flow, whose parts go topic, queue, group."""
    if order == "t":
        return text
    texts = text.split("@", len(order) - 1)
    if len(texts) != len(order):
        return None
    parts = dict(zip(order, texts, strict=True))
    if "q" in parts and not parts["q"].isdigit():
        return None
    return tuple(int(parts[part]) if part == "q" else parts[part] for part in "tqg" if part in parts)


def _bucket(took_ms: int) -> int:
    for index, bound in enumerate(PUT_TIME_BOUNDS_MS):
        if took_ms <= bound:
            return index
    return len(PUT_TIME_BOUNDS_MS)


def _day_of(now: int) -> int:
    return datetime.fromtimestamp(now / 1000).toordinal()

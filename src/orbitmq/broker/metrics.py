"""The samples of a broker's metrics, made out of its tables when somebody asks for them.

Nothing here runs for a message: handlers count in plain integers (see `stats`), and this reads them.
`samples` is a generator, so that whoever runs it can let others have their turn in between; all tables may
change then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.broker.lite.backlogs import backlogs
from orbitmq.broker.stats.metric_families import SIZE_BOUNDS, TIMER_BOUNDS_S
from orbitmq.broker.stats.size_classes import SizeClasses
from orbitmq.protocol.bodies.heartbeat import ConsumeType
from orbitmq.protocol.lite_topics import bound_topic
from orbitmq.protocol.names import (
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    ROCKSDB_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_system_group,
    is_system_topic,
)
from orbitmq.protocol.remoting.command import LANGUAGES
from orbitmq.protocol.remoting.versions import version_description

if TYPE_CHECKING:
    from orbitmq.broker.broker import Broker

LOCAL_DISK = ("disk", "local")
"""The labels `storage_medium` and `storage_type`."""

TIMER_STRETCH_S = 3600
"""So much of the timer wheel is looked at at once."""

PROCESSORS = (
    "ack", "admin", "async_put", "client_manager", "consumer_manager", "heartbeat", "lite_pull", "pull",
    "query_message", "reply", "send", "transaction",
)  # fmt: skip
"""Apache's thread pools, which this broker does not have."""

_MODES = {
    ConsumeType.CONSUME_ACTIVELY: "pull",
    ConsumeType.CONSUME_PASSIVELY: "push",
    ConsumeType.CONSUME_POP: "pop",
}
_TYPE_BY_TOPIC = {
    SCHEDULE_TOPIC: "delay",
    TIMER_TOPIC: "delay",
    HALF_TOPIC: "transaction",
    ROCKSDB_HALF_TOPIC: "transaction",
}

Position = tuple[str, int, int]
"""Topic, queue id, queue offset of a message."""


class Distribution(NamedTuple):
    """Values of a histogram: how many values each class has, the last one without a bound, and their sum."""

    counts: tuple[int, ...]
    total: float


@dataclass(slots=True, frozen=True)
class AgeOf:
    """A value that is the age of the oldest of some messages, in ms: for whoever may wait for the disk."""

    positions: tuple[Position, ...]
    unit: float = 1.0
    """Milliseconds in the unit of the metric."""


class Sample(NamedTuple):
    """A value of a metric; `labels` are in the order of the family's."""

    family: str
    labels: tuple[str, ...]
    value: float | Distribution | AgeOf


def samples(broker: Broker, now: int) -> Iterator[Sample | None]:
    """Every sample there is now; None is a good moment for others to have their turn."""
    yield from _broker(broker, now)
    yield from _store(broker, now)
    yield from _connections(broker)
    yield from _stored(broker)
    yield from _handed_out(broker)
    yield from _dead_letters(broker)
    yield from _transactions(broker)
    yield from _timers(broker, now)
    yield from _pops(broker, now)
    yield from _lag(broker)
    yield from _lite(broker)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _is_retry(topic: str) -> bool:
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _broker(broker: Broker, now: int) -> Iterator[Sample]:
    yield Sample("rocketmq_broker_permission", (), broker.settings.broker_permission)
    yield Sample("rocketmq_topic_number", (), len(broker.topics.by_name))
    yield Sample("rocketmq_consumer_group_number", (), len(broker.groups.by_name))
    for processor in PROCESSORS:
        yield Sample("rocketmq_processor_watermark", (processor,), 0)
    yield Sample("orbitmq_start_time_seconds", (), broker.boot_ms / 1000)
    for level in sorted(broker.levels.delay_ms):
        waiting = broker.delay.max_offset(level) - broker.delay.positions.get(level, 0)
        yield Sample("orbitmq_pending_delayed_messages", (str(level),), max(0, waiting))


def _replication(broker: Broker, now: int) -> Iterator[Sample]:
    replication = broker.replication
    if broker.role.is_slave:
        following = replication.following
        yield Sample("orbitmq_follows_master", (), 0 if following is None else 1)
        received = 0 if following is None else following.rate(now)
        yield Sample("orbitmq_replication_bytes_per_second", ("",), received)
        return
    end, gap = broker.store.max_physical, broker.settings.ha_max_gap_not_in_sync
    yield Sample("orbitmq_in_sync_replicas", (), 1 + replication.links.in_sync(end, gap))
    since = broker.role.blind_since
    yield Sample("orbitmq_blind_seconds", (), 0 if since is None else (now - since) / 1000)
    for cause, number in sorted(replication.links.refused.items()):
        yield Sample("orbitmq_replication_refused_total", (cause,), number)
    for link in replication.links.all:
        yield Sample("orbitmq_replication_gap_bytes", (link.address,), end - max(0, link.acknowledged))
        yield Sample("orbitmq_replication_gap_seconds", (link.address,), replication.gap_ms(link, now) / 1000)
        yield Sample("orbitmq_replication_bytes_per_second", (link.address,), link.rate(now))


def _store(broker: Broker, now: int) -> Iterator[Sample]:
    figures = broker.figures()
    unflushed_bytes, unflushed_ms = broker.store.flushing.unflushed(now)
    used = figures.disk_total_bytes - figures.disk_free_bytes
    yield Sample("rocketmq_storage_size_bytes", LOCAL_DISK, used)
    yield Sample("rocketmq_storage_flush_behind_bytes", LOCAL_DISK, unflushed_bytes)
    yield Sample("rocketmq_storage_dispatch_behind_bytes", LOCAL_DISK, figures.dispatch_behind_bytes)
    if figures.earliest_store_time_ms > 0:
        age_ms = max(0, now - figures.earliest_store_time_ms)
        yield Sample("rocketmq_storage_message_reserve_time_milliseconds", LOCAL_DISK, age_ms)
    yield Sample("orbitmq_unflushed_bytes", (), unflushed_bytes)
    yield Sample("orbitmq_unflushed_seconds", (), unflushed_ms / 1000)
    yield from _replication(broker, now)
    yield Sample("orbitmq_flushing_seconds", (), figures.flushing_ms / 1000)
    yield Sample("orbitmq_put_failed_total", (), broker.stats.totals.put_failed)
    for labels, count in list(broker.passed.counts.items()):
        yield Sample("orbitmq_passed_over_total", labels, count)
    yield Sample("orbitmq_bad_records_total", (), figures.bad_records)
    yield Sample("orbitmq_index_behind_bytes", (), figures.index_behind_bytes)
    yield Sample("orbitmq_store_writable", (), int(figures.writable))
    yield Sample("orbitmq_disk_total_bytes", (), figures.disk_total_bytes)
    yield Sample("orbitmq_disk_free_bytes", (), figures.disk_free_bytes)
    yield Sample("orbitmq_log_bytes", (), figures.max_physical_offset - figures.min_physical_offset)
    yield Sample("orbitmq_queues", (), figures.queues)


def _connections(broker: Broker) -> Iterator[Sample]:
    producers: Counter[tuple[int, int]] = Counter()
    for members in list(broker.clients.producers.values()):
        producers.update((client.language, client.version) for client in members.values())
    for (language, version), count in producers.items():
        labels = (_language(language), "remoting", version_description(version))
        yield Sample("rocketmq_producer_connections", labels, count)
    yield Sample("orbitmq_filters_differed_total", (), broker.clients.differed)
    for group in list(broker.clients.consumers.values()):
        for topic, filters in group.differing:
            yield Sample("orbitmq_differing_filters", (group.name, topic), len(filters))
        mode = _MODES.get(group.consume_type, "pull")
        consumers = Counter((client.language, client.version) for client in group.members.values())
        for (language, version), count in consumers.items():
            yield Sample(
                "rocketmq_consumer_connections",
                (
                    mode,
                    group.name,
                    _flag(is_system_group(group.name)),
                    _language(language),
                    "remoting",
                    version_description(version),
                ),
                count,
            )


def _language(code: int) -> str:
    return LANGUAGES[code].lower() if 0 <= code < len(LANGUAGES) else str(code)


def _stored(broker: Broker) -> Iterator[Sample]:
    """Messages that came in, by the topic that stores them; dead letters, and retries not yet due, are not
    new.
    """
    stats = broker.stats
    stats.add_up()
    for topic, flow in list(stats.topic_put.by_key.items()):
        system = _flag(is_system_topic(topic))
        plain = SizeClasses(flow.messages, flow.size_bytes, stats.large.get(topic, ()))
        for message_type, sizes in list(stats.by_type.get(topic, {}).items()):
            yield from _sized((system, message_type, topic), sizes)
            plain = plain.without(sizes)
        if plain.messages and not _is_retry(topic):
            yield from _sized((system, _TYPE_BY_TOPIC.get(topic, "normal"), topic), plain)


def _sized(labels: tuple[str, str, str], sizes: SizeClasses) -> Iterator[Sample]:
    yield Sample("rocketmq_messages_in_total", labels, sizes.messages)
    yield Sample("rocketmq_throughput_in_total", labels, sizes.size_bytes)
    counts = sizes.counts(len(SIZE_BOUNDS))
    yield Sample("rocketmq_message_size", labels, Distribution(counts, sizes.size_bytes))


def _handed_out(broker: Broker) -> Iterator[Sample]:
    broker.stats.add_up()
    for (topic, group), flow in list(broker.stats.group_get.by_key.items()):
        system = _flag(is_system_topic(topic) or is_system_group(group))
        labels = (group, _flag(_is_retry(topic)), system, topic)
        yield Sample("rocketmq_messages_out_total", labels, flow.messages)
        yield Sample("rocketmq_throughput_out_total", labels, flow.size_bytes)


def _dead_letters(broker: Broker) -> Iterator[Sample]:
    for (topic, group), count in list(broker.stats.dead.items()):
        system = _flag(is_system_topic(topic) or is_system_group(group))
        yield Sample("rocketmq_send_to_dlq_messages_total", (group, system, topic), count)
    store = broker.store
    for topic in list(broker.topics.by_name):
        if topic.startswith(DLQ_PREFIX):
            there = sum(
                store.max_offset(topic, queue_id) - max(0, store.min_offset(topic, queue_id))
                for queue_id in store.queue_ids(topic)
            )
            yield Sample("orbitmq_dead_letters", (topic.removeprefix(DLQ_PREFIX),), max(0, there))


def _transactions(broker: Broker) -> Iterator[Sample]:
    figures = broker.transactions.figures
    yield Sample("orbitmq_pending_half_messages", (), figures.open_count)
    for topic, count in figures.open_by_topic().items():
        yield Sample("rocketmq_half_messages", (topic,), count)
    for topic, count in list(figures.committed.items()):
        yield Sample("rocketmq_commit_messages_total", (topic,), count)
    for topic, count in list(figures.rolled_back.items()):
        yield Sample("rocketmq_rollback_messages_total", (topic,), count)
    for topic, ages in list(figures.latencies.items()):
        distribution = Distribution(tuple(ages.buckets), ages.sum_s)
        yield Sample("rocketmq_finish_message_latency_milliseconds", (topic,), distribution)


def _timers(broker: Broker, now: int) -> Iterator[Sample | None]:
    timer = broker.timer
    metrics = timer.metrics
    yield Sample("orbitmq_pending_timers", (), metrics.pending)
    yield Sample("orbitmq_lost_timers_total", (), metrics.lost)
    if not broker.settings.timer_wheel_enable:
        return
    yield Sample("rocketmq_timer_enqueue_lag", LOCAL_DISK, timer.offset_behind)
    first = (TIMER_TOPIC, 0, timer.queue_offset)
    waiting = AgeOf((first,)) if timer.offset_behind else 0
    yield Sample("rocketmq_timer_enqueue_latency_milliseconds", LOCAL_DISK, waiting)
    yield Sample("rocketmq_timer_dequeue_latency_milliseconds", LOCAL_DISK, timer.read_behind_ms(now))
    # The wheel is gone through once, a stretch at a time.
    second = now // 1000 * 1000
    overdue = timer.pending_between(timer.read_ms, second)
    yield Sample("rocketmq_timer_dequeue_lag", LOCAL_DISK, overdue)
    since = 0
    for bound in TIMER_BOUNDS_S:
        due = 0
        while since < bound:
            until = min(since + TIMER_STRETCH_S, bound)
            due += timer.pending_between(second + since * 1000, second + until * 1000)
            since = until
            yield None
        yield Sample("rocketmq_timer_message_snapshot", (*LOCAL_DISK, str(bound)), due)
    for name, counts in (
        ("rocketmq_timing_messages", metrics.pending_by_topic),
        ("rocketmq_timer_enqueue_total", metrics.enqueued_by_topic),
        ("rocketmq_timer_dequeue_total", metrics.delivered_by_topic),
    ):
        for topic, count in list(counts.items()):
            yield Sample(name, (*LOCAL_DISK, topic), count)
    for topic, classes in list(metrics.delays_by_topic.items()):
        distribution = Distribution(tuple(classes[:-2]), classes[-2])
        yield Sample("rocketmq_delay_message_latency_seconds", (*LOCAL_DISK, topic), distribution)


def _pops(broker: Broker, now: int) -> Iterator[Sample]:
    points, reviver = broker.points, broker.reviver
    yield Sample("rocketmq_pop_checkpoint_buffer_size", (), points.kept)
    yield Sample("rocketmq_pop_offset_buffer_size", (), points.steps)
    revive = broker.topics.get(points.topic)
    for queue_id in range(0 if revive is None else revive.read_queue_nums):
        label = (str(queue_id),)
        yield Sample("rocketmq_pop_revive_lag_milliseconds", label, reviver.behind_messages(queue_id))
        yield Sample("rocketmq_pop_revive_latency_milliseconds", label, reviver.behind_ms(queue_id, now))
    for (kind, group, topic, status), count in list(points.stored.items()):
        yield Sample("rocketmq_pop_revive_in_message_total", (group, status, kind, topic), count)
    for (kind, group, topic, queue_id), count in list(reviver.figures.read.items()):
        yield Sample("rocketmq_pop_revive_out_message_total", (group, str(queue_id), kind, topic), count)
    for (group, topic, status), count in list(reviver.figures.retried.items()):
        yield Sample("rocketmq_pop_revive_retry_messages_total", (group, status, topic), count)


@dataclass(slots=True)
class _Lag:
    """Lag of a group on a topic."""

    lag: int = 0
    inflight: int = 0
    ready: int = 0
    uncommitted: list[Position] = field(default_factory=list)
    untaken: list[Position] = field(default_factory=list)


def _lag(broker: Broker) -> Iterator[Sample]:
    """Of every group that has an offset of a topic, and of those that subscribe to it now.

    Apache's broker reports groups with a consumer only: the lag of a group whose consumers are all gone is
    what an operator wants to know of first.
    """
    for group, topic in _consumed(broker):
        if topic not in broker.topics.by_name or bound_topic(broker.groups.by_name.get(group)) == topic:
            continue
        found = _Lag()
        yield from _lag_of_queues(broker, group, topic, found)
        system = _flag(is_system_topic(topic) or is_system_group(group))
        labels = (group, _flag(_is_retry(topic)), system, topic)
        yield Sample("rocketmq_consumer_lag_messages", labels, found.lag)
        yield Sample("rocketmq_consumer_lag_latency_milliseconds", labels, AgeOf(tuple(found.uncommitted)))
        yield Sample("rocketmq_consumer_inflight_messages", labels, found.inflight)
        yield Sample("rocketmq_consumer_queueing_latency_milliseconds", labels, AgeOf(tuple(found.untaken)))
        yield Sample("rocketmq_consumer_ready_messages", labels, found.ready)


def _lite(broker: Broker) -> Iterator[Sample | None]:
    """Lite topics, and the lag of groups bound to a parent: they have no offsets of the parent itself."""
    store, settings = broker.store, broker.settings
    yield Sample("orbitmq_light_queues", (), store.lmq_count)
    yield Sample("orbitmq_lite_subscriptions", (), broker.lite_subscriptions.count)
    if not settings.lite_lag_count_metrics_enable and not settings.lite_lag_latency_metrics_enable:
        return
    for group, config in list(broker.groups.by_name.items()):
        parent = bound_topic(config)
        if parent is None:
            continue
        total, first, oldest = 0, store.max_physical, None
        for lmq, _, lag in backlogs(broker.offsets, store, group, parent):
            total += lag
            position = (lmq, 0, broker.offsets.get(group, lmq, 0))
            found = store.physical_offset_of(*position) if settings.lite_lag_latency_metrics_enable else None
            if found is not None and found[0] < first:
                first, oldest = found[0], position
            yield None
        labels = (group, "false", _flag(is_system_topic(parent) or is_system_group(group)), parent)
        if settings.lite_lag_count_metrics_enable:
            yield Sample("rocketmq_consumer_lag_messages", labels, total)
            yield Sample("rocketmq_consumer_ready_messages", labels, total)
        if settings.lite_lag_latency_metrics_enable:
            age = AgeOf((oldest,)) if oldest is not None else 0
            yield Sample("rocketmq_consumer_lag_latency_milliseconds", labels, age)


def _consumed(broker: Broker) -> Iterator[tuple[str, str]]:
    known: set[tuple[str, str]] = set()
    for key in broker.offsets.pairs():
        known.add(key)
        yield key
    for group in list(broker.clients.consumers.values()):
        for topic in list(group.subscriptions):
            if (group.name, topic) not in known and not topic.startswith(RETRY_PREFIX):
                yield group.name, topic


def _lag_of_queues(broker: Broker, group: str, topic: str, found: _Lag) -> Iterator[Sample]:
    store, offsets = broker.store, broker.offsets
    for queue_id in store.queue_ids(topic):
        end = store.max_offset(topic, queue_id)
        next_pop = broker.points.next_offset(topic, group, queue_id)
        committed = next_pop if next_pop >= 0 else offsets.get(group, topic, queue_id)
        if committed < 0:
            # The consumer chooses where it begins: nothing is owed to it yet.
            continue
        low = max(0, store.min_offset(topic, queue_id))
        committed = min(max(committed, low), end)
        taken = min(max(offsets.pulled(group, topic, queue_id), committed), end)
        # The offset of a group that pops is behind what it has taken, whether acknowledged or not.
        committed = max(low, committed - broker.in_flight.of(topic, group, queue_id))
        found.lag += end - committed
        found.inflight += taken - committed
        found.ready += end - taken
        labels = (group, topic, str(queue_id))
        yield Sample("orbitmq_consumer_queue_lag_messages", labels, end - committed)
        if committed < end:
            oldest = (topic, queue_id, committed)
            found.uncommitted.append(oldest)
            yield Sample("orbitmq_consumer_queue_lag_seconds", labels, AgeOf((oldest,), 1000.0))
        else:
            yield Sample("orbitmq_consumer_queue_lag_seconds", labels, 0)
        if taken < end:
            found.untaken.append((topic, queue_id, taken))

"""Metrics that a broker reports on itself: every metric with its name, labels and meaning.

Names and labels without `orbitmq_` in front are those of Apache's broker 5.4.0, so that dashboards made for
it work unchanged; every sample also has the labels `cluster`, `node_type` and `node_id`. The table here is
all there is: a metric that is not in it cannot be reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.broker.stats.options import MetricsOptions

GAUGE = "gauge"
COUNTER = "counter"
HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `switch` says by the options if it is reported."""

    name: str
    kind: str
    doc: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's classes, without the last one, which has none."""
    switch: Callable[[MetricsOptions], bool] = lambda on: True


_CONSUMED = ("consumer_group", "is_retry", "is_system", "topic")
_STORED = ("is_system", "message_type", "topic")
_STORE = ("storage_medium", "storage_type")
_QUEUE = ("consumer_group", "topic", "queue_id")

SIZE_BOUNDS = (1024, 4096, 512 << 10, 1 << 20, 2 << 20, 4 << 20)
RPC_BOUNDS_MS = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
CREATE_BOUNDS_MS = (10, 100, 1000, 3000, 5000)
FINISH_BOUNDS_S = (5, 60, 600, 3600, 43_200, 86_400)
DELAY_BOUNDS_S = (60, 600, 3600, 43_200, 86_400, 259_200)
"""Upper bounds of the buckets in which decisions and delays are counted; a last bucket takes the rest."""
TIMER_BOUNDS_S = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)
"""The values of the label `timer_bound_s`."""


def _stats(on: MetricsOptions) -> bool:
    return on.enable_stats_metrics


def _request(on: MetricsOptions) -> bool:
    return on.enable_request_metrics


def _connection(on: MetricsOptions) -> bool:
    return on.enable_connection_metrics


def _lag_and_dlq(on: MetricsOptions) -> bool:
    return on.enable_lag_and_dlq_metrics


def _transaction(on: MetricsOptions) -> bool:
    return on.enable_transaction_metrics


def _remoting(on: MetricsOptions) -> bool:
    return on.enable_remoting_metrics


def _message_store(on: MetricsOptions) -> bool:
    return on.enable_message_store_metrics


def _pop(on: MetricsOptions) -> bool:
    return on.enable_pop_metrics


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        # The broker.
        Family("rocketmq_broker_permission", GAUGE, "What clients may do: 4 read, 2 write.", switch=_stats),
        Family("rocketmq_topic_number", GAUGE, "Topics of the broker, its own included.", switch=_stats),
        Family("rocketmq_consumer_group_number", GAUGE, "Consumer groups of the broker.", switch=_stats),
        Family(
            "rocketmq_processor_watermark",
            GAUGE,
            "Requests that wait for a thread: always 0, they are handled in the turn they arrive in.",
            ("processor",),
            switch=_stats,
        ),
        # Messages.
        Family(
            "rocketmq_messages_in_total",
            COUNTER,
            "Messages stored, by the topic they are stored in: delayed ones wait in one of the system first.",
            _STORED,
            switch=_request,
        ),
        Family("rocketmq_throughput_in_total", COUNTER, "Bytes of these.", _STORED, switch=_request),
        Family(
            "rocketmq_message_size",
            HISTOGRAM,
            "Bytes of a stored message, all of its record.",
            _STORED,
            SIZE_BOUNDS,
            switch=_request,
        ),
        Family("rocketmq_messages_out_total", COUNTER, "Messages handed out.", _CONSUMED, switch=_request),
        Family("rocketmq_throughput_out_total", COUNTER, "Bytes of these.", _CONSUMED, switch=_request),
        Family(
            "rocketmq_topic_create_execution_time_milliseconds",
            HISTOGRAM,
            "How long the creation or change of a topic took, its file included.",
            ("invocation_status", "is_system"),
            CREATE_BOUNDS_MS,
            switch=_request,
        ),
        Family(
            "rocketmq_consumer_group_create_execution_time_milliseconds",
            HISTOGRAM,
            "How long the creation or change of a consumer group took, its file included.",
            ("invocation_status",),
            CREATE_BOUNDS_MS,
            switch=_request,
        ),
        # Clients.
        Family(
            "rocketmq_producer_connections",
            GAUGE,
            "Connections of producers.",
            ("language", "protocol_type", "version"),
            switch=_connection,
        ),
        Family(
            "rocketmq_consumer_connections",
            GAUGE,
            "Connections of consumers.",
            ("consume_mode", "consumer_group", "is_system", "language", "protocol_type", "version"),
            switch=_connection,
        ),
        Family(
            "rocketmq_rpc_latency_milliseconds",
            HISTOGRAM,
            "From the arrival of a request to its answer.",
            ("is_long_polling", "protocol_type", "request_code", "response_code", "result"),
            RPC_BOUNDS_MS,
            switch=_remoting,
        ),
        # Consumers that fall behind.
        Family(
            "rocketmq_consumer_lag_messages",
            GAUGE,
            "Messages a group has not committed yet.",
            _CONSUMED,
            switch=_lag_and_dlq,
        ),
        Family(
            "rocketmq_consumer_lag_latency_milliseconds",
            GAUGE,
            "Age of the oldest of these.",
            _CONSUMED,
            switch=_lag_and_dlq,
        ),
        Family(
            "rocketmq_consumer_inflight_messages",
            GAUGE,
            "Messages a group has taken and not committed yet.",
            _CONSUMED,
            switch=_lag_and_dlq,
        ),
        Family(
            "rocketmq_consumer_queueing_latency_milliseconds",
            GAUGE,
            "Age of the oldest message that the group has not taken yet.",
            _CONSUMED,
            switch=_lag_and_dlq,
        ),
        Family(
            "rocketmq_consumer_ready_messages",
            GAUGE,
            "Messages that a group has not taken yet.",
            _CONSUMED,
            switch=_lag_and_dlq,
        ),
        Family(
            "rocketmq_send_to_dlq_messages_total",
            COUNTER,
            "Messages that became dead letters, by the topic they were sent to.",
            ("consumer_group", "is_system", "topic"),
            switch=_lag_and_dlq,
        ),
        # Transactions.
        Family(
            "rocketmq_half_messages",
            GAUGE,
            "Half messages nobody has decided about, by the topic they are for.",
            ("topic",),
            switch=_transaction,
        ),
        Family(
            "rocketmq_commit_messages_total",
            COUNTER,
            "Transactions committed.",
            ("topic",),
            switch=_transaction,
        ),
        Family(
            "rocketmq_rollback_messages_total",
            COUNTER,
            "Transactions rolled back.",
            ("topic",),
            switch=_transaction,
        ),
        Family(
            "rocketmq_finish_message_latency_milliseconds",
            HISTOGRAM,
            "Age of a half message when it is committed: in seconds, whatever the name says (Apache's name).",
            ("topic",),
            FINISH_BOUNDS_S,
            switch=_transaction,
        ),
        # The store.
        Family(
            "rocketmq_storage_size_bytes",
            GAUGE,
            "Bytes used on the disk of the store, by whomever.",
            _STORE,
            switch=_message_store,
        ),
        Family(
            "rocketmq_storage_flush_behind_bytes",
            GAUGE,
            "Bytes stored and not yet on the disk.",
            _STORE,
            switch=_message_store,
        ),
        Family(
            "rocketmq_storage_dispatch_behind_bytes",
            GAUGE,
            "Bytes stored and not yet seen by consumers.",
            _STORE,
            switch=_message_store,
        ),
        Family(
            "rocketmq_storage_message_reserve_time_milliseconds",
            GAUGE,
            "Age of the oldest message in the log.",
            _STORE,
            switch=_message_store,
        ),
        # Timers.
        Family(
            "rocketmq_timer_enqueue_lag",
            GAUGE,
            "Timer messages stored and not yet set.",
            _STORE,
            switch=_message_store,
        ),
        Family(
            "rocketmq_timer_enqueue_latency_milliseconds",
            GAUGE,
            "Age of the oldest of these.",
            _STORE,
            switch=_message_store,
        ),
        Family(
            "rocketmq_timer_dequeue_lag",
            GAUGE,
            "Timer messages that are due and not yet delivered.",
            _STORE,
            switch=_message_store,
        ),
        Family(
            "rocketmq_timer_dequeue_latency_milliseconds",
            GAUGE,
            "For how long the first of these has been due.",
            _STORE,
            switch=_message_store,
        ),
        Family(
            "rocketmq_timer_enqueue_total",
            COUNTER,
            "Timer messages set.",
            (*_STORE, "topic"),
            switch=_message_store,
        ),
        Family(
            "rocketmq_timer_dequeue_total",
            COUNTER,
            "Timer messages delivered.",
            (*_STORE, "topic"),
            switch=_message_store,
        ),
        Family(
            "rocketmq_timing_messages",
            GAUGE,
            "Timer messages that wait, by the topic they are for.",
            (*_STORE, "topic"),
            switch=_message_store,
        ),
        Family(
            "rocketmq_timer_message_snapshot",
            GAUGE,
            "Timer messages due between the next smaller bound and this one.",
            (*_STORE, "timer_bound_s"),
            switch=_message_store,
        ),
        Family(
            "rocketmq_delay_message_latency_seconds",
            HISTOGRAM,
            "Delay that timer messages ask for.",
            (*_STORE, "topic"),
            DELAY_BOUNDS_S,
            switch=_message_store,
        ),
        # POP consumption.
        Family(
            "rocketmq_pop_checkpoint_buffer_size",
            GAUGE,
            "Check points of pops that are neither acknowledged nor revived yet, kept in memory.",
            switch=_pop,
        ),
        Family(
            "rocketmq_pop_offset_buffer_size",
            GAUGE,
            "Offsets of pops that wait in memory to be committed.",
            switch=_pop,
        ),
        Family(
            "rocketmq_pop_revive_lag_milliseconds",
            GAUGE,
            "Records of the revive topic not looked at yet: messages, whatever the name (Apache's) says.",
            ("queue_id",),
            switch=_pop,
        ),
        Family(
            "rocketmq_pop_revive_latency_milliseconds",
            GAUGE,
            "Age of the oldest of these.",
            ("queue_id",),
            switch=_pop,
        ),
        Family(
            "rocketmq_pop_revive_in_message_total",
            COUNTER,
            "Check points and acknowledgements written to the revive topic.",
            ("consumer_group", "put_status", "revive_message_type", "topic"),
            switch=_pop,
        ),
        Family(
            "rocketmq_pop_revive_out_message_total",
            COUNTER,
            "Check points and acknowledgements read from the revive topic.",
            ("consumer_group", "queue_id", "revive_message_type", "topic"),
            switch=_pop,
        ),
        Family(
            "rocketmq_pop_revive_retry_messages_total",
            COUNTER,
            "Popped messages that were not acknowledged in time and put up for another delivery.",
            ("consumer_group", "put_status", "topic"),
            switch=_pop,
        ),
        # Metrics that Apache's broker does not have.
        Family(
            "orbitmq_consumer_queue_lag_messages",
            GAUGE,
            "Messages of a queue that a group has not committed yet.",
            _QUEUE,
            switch=_lag_and_dlq,
        ),
        Family(
            "orbitmq_consumer_queue_lag_seconds",
            GAUGE,
            "Age of the oldest of these.",
            _QUEUE,
            switch=_lag_and_dlq,
        ),
        Family(
            "orbitmq_dead_letters",
            GAUGE,
            "Dead letters of a group that are still there.",
            ("consumer_group",),
            switch=_lag_and_dlq,
        ),
        Family(
            "orbitmq_differing_filters",
            GAUGE,
            "Filters by which the members of a group read a topic, while these are more than one.",
            ("consumer_group", "topic"),
        ),
        Family(
            "orbitmq_filters_differed_total",
            COUNTER,
            "Times that members of a group began to read a topic by different filters, or by other ones.",
        ),
        Family("orbitmq_unflushed_bytes", GAUGE, "Bytes acknowledged and not yet on the disk."),
        Family("orbitmq_unflushed_seconds", GAUGE, "For how long the oldest of these has waited."),
        Family(
            "orbitmq_in_sync_replicas",
            GAUGE,
            "Brokers of the group that lack less than haMaxGapNotInSync of the log, the master included.",
        ),
        Family(
            "orbitmq_blind_seconds",
            GAUGE,
            "For how long this master has gone on without a controller that answers; 0 while one does.",
        ),
        Family(
            "orbitmq_replication_gap_bytes",
            GAUGE,
            "What a slave has not acknowledged of the log.",
            ("slave",),
        ),
        Family(
            "orbitmq_replication_gap_seconds",
            GAUGE,
            "For how long the oldest message has waited that a slave has not acknowledged.",
            ("slave",),
        ),
        Family(
            "orbitmq_replication_bytes_per_second",
            GAUGE,
            "Sent to a slave within the last second; of a slave itself what it has got, without a label.",
            ("slave",),
        ),
        Family(
            "orbitmq_replication_refused_total",
            COUNTER,
            "Connections to the HA port that were refused: without sign-in or with a wrong one "
            "(credentials), without TLS or with one that fails (tls), with bytes that no slave of this log "
            "sends (stream), or because there are too many slaves (limit).",
            ("cause",),
        ),
        Family("orbitmq_follows_master", GAUGE, "Of a slave: whether it is connected to its master."),
        Family("orbitmq_flushing_seconds", GAUGE, "For how long the flush has taken that is under way."),
        Family("orbitmq_pending_timers", GAUGE, "Timer messages that wait, of all topics."),
        Family(
            "orbitmq_lost_timers_total", COUNTER, "Timer messages that could not be read when they were due."
        ),
        Family("orbitmq_pending_delayed_messages", GAUGE, "Messages that wait on a delay level.", ("level",)),
        Family("orbitmq_pending_half_messages", GAUGE, "Half messages nobody has decided about."),
        Family(
            "orbitmq_refused_total",
            COUNTER,
            "Requests that were refused to protect the broker: flow control, a full disk, a stopped store.",
            ("request_code", "response_code"),
        ),
        Family(
            "orbitmq_passed_over_total",
            COUNTER,
            "Items that revival, check-back, timers or delay levels could not do, by where they are kept.",
            ("kind", "place"),
        ),
        Family("orbitmq_put_failed_total", COUNTER, "Messages that the store refused."),
        Family("orbitmq_bad_records_total", COUNTER, "Damaged records met since the start; none is served."),
        Family("orbitmq_index_behind_bytes", GAUGE, "Bytes stored and not yet found by key."),
        Family(
            "orbitmq_store_writable", GAUGE, "1 while messages are taken, 0 while the store refuses them."
        ),
        Family("orbitmq_disk_total_bytes", GAUGE, "Size of the disk of the store."),
        Family("orbitmq_disk_free_bytes", GAUGE, "Free bytes on it."),
        Family("orbitmq_log_bytes", GAUGE, "Bytes of the commit log, from its first message to its end."),
        Family("orbitmq_queues", GAUGE, "Queues with an index of their own."),
        Family("orbitmq_light_queues", GAUGE, "Light queues, those of lite topics among them."),
        Family(
            "orbitmq_lite_subscriptions", GAUGE, "Lite topics that clients subscribe to, over all clients."
        ),
        Family("orbitmq_connections", GAUGE, "Open connections of clients, tools and other brokers."),
        Family("orbitmq_held_requests", GAUGE, "Requests held until there is something to answer."),
        Family("orbitmq_start_time_seconds", GAUGE, "When the broker started, in seconds since 1970."),
        Family(
            "process_cpu_seconds_total", COUNTER, "Processor time used by the process, of system and user."
        ),
        Family(
            "process_resident_memory_bytes", GAUGE, "Memory of the process, mapped files it touched included."
        ),
        Family("process_virtual_memory_bytes", GAUGE, "Addresses of the process, mapped files included."),
        Family("process_open_fds", GAUGE, "Open files and connections."),
        Family("process_max_fds", GAUGE, "How many of them the process may have."),
        Family("process_threads", GAUGE, "Threads of the process."),
        Family("orbitmq_build_info", GAUGE, "Always 1; the labels name the release.", ("version",)),
    )
}
"""Every metric by name."""

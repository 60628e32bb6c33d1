"""The broker as a whole: its figures, its replication, and cleaning by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.broker.admin.options import AdminOptions
from orbitmq.broker.admin.runtime_info import TimerFigures, Uptime, runtime_info
from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.ha.replication import Replication
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.state import RoleState
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call
from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.requests.admin import (
    CleanExpiredConsumequeue,
    DeleteExpiredCommitlog,
    GetBrokerRuntimeInfo,
)
from orbitmq.protocol.requests.ha import (
    ExchangeBrokerHaInfo,
    GetBrokerHaStatus,
    HaInfoReply,
    ResetMasterFlushOffset,
)
from orbitmq.protocol.requests.topic import CleanUnusedTopic
from orbitmq.protocol.schema.declare import JsonReply, Reply, Void
from orbitmq.store import MessageStore, StoreFigures


@dataclass(slots=True)
class AdminTables:
    """Tables that runtime figures and cleaning look at."""

    identity: BrokerIdentity
    settings: AdminOptions
    replication: Replication
    role: RoleState
    topics: TopicTable
    delay: DelayDelivery
    timer: Timers
    store: MessageStore
    stats: BrokerStats
    boot_ms: int
    figures: Callable[[], StoreFigures]
    """The store's figures at this moment."""


@handlers(GetBrokerRuntimeInfo)
def get_broker_runtime_info(tables: AdminTables, call: Call[GetBrokerRuntimeInfo], now: int) -> Reply:
    """All figures of the broker as texts."""
    settings = tables.settings
    delay, timer = tables.delay, tables.timer
    info = runtime_info(
        tables.stats,
        tables.figures(),
        Uptime(tables.boot_ms, settings.start_accept_send_request_time_stamp),
        {level: (position, delay.max_offset(level)) for level, position in delay.positions.items()},
        {
            "send": settings.send_thread_pool_queue_capacity,
            "pull": settings.pull_thread_pool_queue_capacity,
            "litePull": settings.lite_pull_thread_pool_queue_capacity,
            "query": settings.query_thread_pool_queue_capacity,
            "ack": settings.ack_thread_pool_queue_capacity,
            "endTransaction": settings.end_transaction_pool_queue_capacity,
        },
        TimerFigures(
            timer.read_behind_ms(now),
            timer.offset_behind,
            timer.metrics.pending,
            timer.metrics.enqueue_tps,
            timer.metrics.dequeue_tps,
        ),
        now,
        tables.replication.unreplicated(now),
    )
    if tables.identity.version:
        info["orbitmqVersion"] = tables.identity.version
    if tables.role.blind_since is not None:
        info["orbitmqBlindSince"] = str(tables.role.blind_since)
    return JsonReply(KVTable(info))


@handlers(GetBrokerHaStatus)
def get_broker_ha_status(tables: AdminTables, call: Call[GetBrokerHaStatus], now: int) -> Reply:
    """Replication as this broker sees it."""
    return JsonReply(tables.replication.status(now))


@handlers(ExchangeBrokerHaInfo)
def exchange_broker_ha_info(tables: AdminTables, call: Call[ExchangeBrokerHaInfo], now: int) -> Reply:
    """Notifies a slave of its master's address; a master answers a slave with its own addresses and
    offsets.
    """
    request, role, identity = call.request, tables.role, tables.identity
    versions = tables.replication.table_versions
    if request.broker_id is not None and request.table_version is not None:
        role.note_epoch(request.known_epoch)
        # Of others than those that follow, notes would have no bound.
        if any(link.broker_id == request.broker_id for link in tables.replication.links.all):
            versions.taken(request.broker_id, request.table_version)
            role.note_member(request.broker_id, is_able=bool(request.may_be_blind))
        return HaInfoReply()
    if request.master_ha_address:
        if not role.is_slave or tables.settings.enable_controller_mode:
            return HaInfoReply()
        role.note_announced(request.master_address, request.master_ha_address)
        return HaInfoReply()
    if tables.settings.enable_controller_mode and role.is_slave:
        return HaInfoReply()  # a broker that was elected a moment ago may still be on its way
    return HaInfoReply(
        master_ha_address=identity.ha_address,
        master_address=identity.address,
        master_flush_offset=tables.store.durable_offset,
        table_version=versions.version if tables.settings.enable_controller_mode else None,
    )


@handlers(ResetMasterFlushOffset)
def reset_master_flush_offset(tables: AdminTables, call: Call[ResetMasterFlushOffset], now: int) -> Reply:
    """Notes how far the master has flushed, as an operator says; a master has nothing to note."""
    if tables.role.is_slave:
        tables.replication.master_flushed = call.request.master_flush_offset
    return Void()


@handlers(CleanUnusedTopic)
def clean_unused_topic(tables: AdminTables, call: Call[CleanUnusedTopic], now: int) -> Reply:
    """Deletes the queues of topics that are not in the table. A slave keeps them: messages come to it before
    the master's table, which may name their topic by now.
    """
    for topic in [] if tables.role.is_slave else tables.store.topics():
        if tables.topics.get(topic) is None and not tables.topics.is_system(topic):
            tables.store.structures.delete_queues(topic)
    return Void()


@handlers(CleanExpiredConsumequeue)
def clean_expired_consumequeue(tables: AdminTables, call: Call[CleanExpiredConsumequeue], now: int) -> Reply:
    """Deletes queue files whose messages are all gone; the store does so by itself as well."""
    tables.store.retention.follow_again()
    return Void()


@handlers(DeleteExpiredCommitlog)
def delete_expired_commitlog(tables: AdminTables, call: Call[DeleteExpiredCommitlog], now: int) -> Reply:
    """Deletes log segments past their time now, without waiting for the hour of deletion."""
    tables.store.retention.ask()
    return Void()

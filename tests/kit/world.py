"""A broker's tables around a store in memory, and a way to ask its handlers."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.broker import handlers
from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.locks import QueueLocks
from orbitmq.broker.client.outbox import Outbox
from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.filter.filters import FilterTable
from orbitmq.broker.ha.replication import Replication
from orbitmq.broker.lite.events import LiteEvents
from orbitmq.broker.lite.expiry import LiteExpiry
from orbitmq.broker.lite.pops import LitePops
from orbitmq.broker.lite.subscriptions import LiteSubscriptions
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.polling import HeldCalls
from orbitmq.broker.pull.broadcasts import BroadcastOffsets
from orbitmq.broker.role.links import Links
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.role.role import RoleRequests
from orbitmq.broker.role.state import RoleState
from orbitmq.broker.send.admission import Admission
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call, Peer, Wait, tables_of
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.schema.declare import Blob, JsonReply, Reply, Request
from orbitmq.store import PendingMessage, StoreFigures
from tests.kit.memory_store import MemoryStore
from tests.kit.waiting import met

NOW = 1_795_000_000_000
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


@dataclass
class Settings:
    auto_create_topic_enable: bool = True
    enable_controller_mode: bool = False
    enable_slave_acting_master: bool = False
    auto_create_subscription_group: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    timer_wheel_enable: bool = False
    timer_precision_ms: int = 1000
    timer_max_delay_sec: int = 259_200
    timer_roll_window_slot: int = 172_800
    timer_congest_num_each_slot: int = 2_147_483_647
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    append_topic_for_timer_delete_key: bool = False
    file_reserved_time: int = 72
    revive_queue_num: int = 8
    broker_permission: int = 6
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    store_reply_message_enable: bool = True
    reject_pull_consumer_enable: bool = False
    notify_consumer_ids_changed_enable: bool = True
    enable_register_producer: bool = True
    validate_system_topic_when_update_topic: bool = True
    enable_mixed_message_type: bool = False
    clear_retry_topic_when_delete_topic: bool = True
    enable_lmq: bool = False
    split_metadata_size: int = 2000
    enable_split_metadata: bool = True
    use_server_side_reset_offset: bool = True
    config_black_list: str = "configBlackList;brokerConfigPath"
    start_accept_send_request_time_stamp: int = 0
    send_thread_pool_queue_capacity: int = 10_000
    pull_thread_pool_queue_capacity: int = 100_000
    lite_pull_thread_pool_queue_capacity: int = 100_000
    query_thread_pool_queue_capacity: int = 20_000
    ack_thread_pool_queue_capacity: int = 100_000
    end_transaction_pool_queue_capacity: int = 100_000
    authentication_enabled: bool = False
    authorization_enabled: bool = False
    auth_secrets_shown_to: str = "superUsers"
    enable_property_filter: bool = True
    enable_calc_filter_bit_map: bool = False
    expect_consumer_num_use_filter: int = 32
    max_error_rate_of_bloom_filter: int = 20
    filter_data_clean_time_span: int = 86_400_000
    filter_support_retry: bool = False
    enable_broadcast_offset_store: bool = True
    broadcast_offset_expire_second: int = 120
    broadcast_offset_expire_max_second: int = 300
    default_query_max_num: int = 32
    broker_role: str = "ASYNC_MASTER"
    flush_disk_type: str = "ASYNC_FLUSH"
    in_sync_replicas: int = 1
    min_in_sync_replicas: int = 1
    enable_auto_in_sync_replicas: bool = False
    ha_max_gap_not_in_sync: int = 268_435_456
    ha_master_address: str | None = None
    sync_flush_timeout: int = 5000
    slave_timeout: int = 3000


class World:
    """One broker without sockets. `ask` gives a handler's reply or raises its refusal; waits are over
    at once."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.identity = BrokerIdentity(
            "DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912", HOST
        )
        self.dirty_tables = DirtyTables()
        self.outbox = Outbox()
        self.store = MemoryStore()
        links = Links()
        self.role = RoleState(self.settings)
        self.promise = Promise(self.settings, self.store, links, self.role)
        self.replication = Replication(self.settings, self.store, links, self.role, NOW)
        self.role_requests = RoleRequests()
        self.topics = TopicTable(self.identity, self.settings, self.dirty_tables, NOW)
        self.admission = Admission(self.identity, self.settings, self.topics)
        self.deletions = Deletions(self.dirty_tables)
        self.groups = GroupTable(self.settings, self.dirty_tables, NOW)
        self.offsets = OffsetTable(self.dirty_tables, NOW)
        self.clients = ClientTable(self.outbox)
        self.filters = FilterTable(self.settings, self.dirty_tables, NOW)
        self.broadcasts = BroadcastOffsets(self.settings, self.clients, self.offsets, self.store)
        self.locks = QueueLocks()
        self.auth = AuthTable(self.dirty_tables)
        self.record_access = RecordAccess(None)
        self.levels = DelayLevels()
        self.delay = DelayDelivery(self.levels, self.store, self.dirty_tables, NOW)
        self.stats = BrokerStats("DefaultCluster", NOW)
        self.timer = Timers(self.settings, self.store, self.dirty_tables, self.stats, NOW)
        self._make_lite()
        self.boot_ms = NOW
        self.config: Any = None
        self.last_wait: Wait | None = None
        self._tables: dict[type, Any] = {}

    def _make_lite(self) -> None:
        settings: Any = self.settings
        store: Any = self.store
        subscriptions = LiteSubscriptions()
        events = LiteEvents(settings, subscriptions, self.groups, self.offsets, HeldCalls(settings), store)
        pops = LitePops(settings, self.groups, self.offsets, subscriptions, events, store)
        self.lite_expiry = LiteExpiry(
            settings, self.topics, self.groups, self.offsets, subscriptions, pops, store, NOW
        )

    def figures(self) -> StoreFigures:
        return StoreFigures(max_physical_offset=self.store.end)

    def peer(self, connection_id: int = 1, version: int = 493, language: int = 0) -> Peer:
        return Peer(connection_id, HOST, f"127.0.0.1:{40_000 + connection_id}", version, language)

    def handle(self, request: Request[Any], peer: Peer | None = None, now: int = NOW) -> Any:
        """The result of the handler of a request: a reply, a wait, or None."""
        peer = peer or self.peer()
        command = request.to_command()
        command.version, command.language = peer.version, peer.language
        handler = handlers.by_request[type(request)]
        kind: Any = tables_of(handler)
        if kind not in self._tables:
            self._tables[kind] = kind(
                **{row.name: getattr(self, row.name) for row in fields(kind) if row.default is MISSING}
            )
        return handler(self._tables[kind], Call(type(request).from_command(command), command, peer), now)

    def ask(self, request: Request[Any], peer: Peer | None = None, now: int = NOW) -> Any:
        """The reply, after what it waits for has come."""
        result = self.handle(request, peer, now)
        self.last_wait = None
        while isinstance(result, Wait):
            self.last_wait = result
            result = result.then(met(result), now)
        assert isinstance(result, Reply)
        # Bytes that go over the wire have to be readable at the other end.
        kind = request.REPLY if type(result) in (Blob, JsonReply) else type(result)
        return kind.from_command(result.to_command(1))

    def refusal(self, request: Request[Any], peer: Peer | None = None) -> Refused:
        """The refusal of a request by its handler."""
        try:
            result = self.ask(request, peer)
        except Refused as refused:
            return refused
        raise AssertionError(f"{request} was accepted: {result}")

    def put(self, topic: str, queue_id: int = 0, count: int = 1, now: int = NOW, tag: str = "t") -> None:
        """Stores messages, as a send would."""
        for _ in range(count):
            self.store.append(
                PendingMessage(
                    topic, queue_id, 0, 0, now, HOST, HOST, 0, 0, b"body", f"TAGS\x01{tag}\x02".encode(), None
                ),
                now,
            )

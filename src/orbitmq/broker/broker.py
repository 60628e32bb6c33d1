"""One broker's tables, and the handlers that work on them."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any

import orbitmq.broker as broker_package
from orbitmq.broker.ack.frames import POP_BEGINS, handle_pop_frames
from orbitmq.broker.ack.handlers import ACK_BEGINS, PopAckTables, ack_many, handle_ack_frames
from orbitmq.broker.assignment.request_modes import RequestModes
from orbitmq.broker.auth.gate import guard
from orbitmq.broker.auth.permissions import PUB
from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.locks import QueueLocks
from orbitmq.broker.client.outbox import Outbox
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.delay.destinations import Destinations
from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.delay.undelivered import Undelivered
from orbitmq.broker.filter.filters import FilterTable
from orbitmq.broker.ha.replication import REFUSED_BY_SLAVES, Replication, flow_control
from orbitmq.broker.lite.changes import SubscriptionChanges
from orbitmq.broker.lite.events import LiteEvents
from orbitmq.broker.lite.expiry import LiteExpiry
from orbitmq.broker.lite.pops import LitePops
from orbitmq.broker.lite.subscriptions import LiteSubscriptions
from orbitmq.broker.mastership.acting import ActingWork
from orbitmq.broker.mastership.mastership import Mastership
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.routes import RouteTable
from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import LMQ_FILE, IsGone, OffsetTable
from orbitmq.broker.offset.upkeep import ExpiredOffsets, SlowReaders
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.pop.acks import PopAcks
from orbitmq.broker.pop.check_points import CheckPoints
from orbitmq.broker.pop.handlers import PopTables
from orbitmq.broker.pop.in_flight import InFlight
from orbitmq.broker.pop.order import OrderTable
from orbitmq.broker.pop.polling import HeldCalls
from orbitmq.broker.pop.pops import Pops
from orbitmq.broker.pop.records import ReviveRecords
from orbitmq.broker.pop.revive import Reviver
from orbitmq.broker.pop.timers import TimerProgress, TimerQueue
from orbitmq.broker.pull.broadcasts import BroadcastOffsets
from orbitmq.broker.pull.handlers import PULL_BEGINS, PullFastPath, PullTables
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.blind import REFUSED_WHILE_BLIND, refuse
from orbitmq.broker.role.epochs import Epochs
from orbitmq.broker.role.links import Links
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.role.role import RoleRequests
from orbitmq.broker.role.state import RoleState
from orbitmq.broker.send.admission import Admission
from orbitmq.broker.send.frames import FRAMES_BEGIN, handle_send_frames
from orbitmq.broker.send.handlers import send_many
from orbitmq.broker.send.tables import SendTables
from orbitmq.broker.static_topic.serving import Serving, StaticTables
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.broker.stats.passed_over import PassedOver
from orbitmq.broker.transaction.check_back import CheckBack
from orbitmq.broker.transaction.handlers import TransactionTables, end_many
from orbitmq.broker.transaction.transactions import Transactions
from orbitmq.handling.call import Bound, Call, FastPath, ManyHandler, Result, Signal
from orbitmq.handling.credentials import first_user, own_credentials
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.requests.pop import AckMessage, PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.store import MessageStore, StoreFigures

log = logging.getLogger(__name__)

# Handlers register themselves when their module is imported: each subject's folder has modules `…handlers`.
for _module in pkgutil.walk_packages(broker_package.__path__, f"{broker_package.__name__}."):
    if _module.name.endswith("handlers"):
        importlib.import_module(_module.name)


SEND_CODES = (10, 310, 320)
END_TRANSACTION = 37
"""Requests of which consecutive ones are handled together."""


class Broker:
    """Everything the rules of one broker work on; each attribute is a table that handlers may name.

    A handler's tables are a dataclass whose fields are attributes of this class: that is all the wiring.
    """

    def __init__(
        self,
        identity: BrokerIdentity,
        settings: Any,
        store: MessageStore,
        *,
        now: int,
        new_unique_id: Callable[[int], str],
        figures: Callable[[], StoreFigures],
    ) -> None:
        self.identity = identity
        self.settings = settings
        self.store = store
        self.boot_ms = now
        self.new_unique_id = new_unique_id
        self.figures = figures
        links = Links()
        self.role = RoleState(settings, identity.broker_id, (identity.address, identity.ha_address))
        self.promise = Promise(settings, store, links, self.role)
        self.replication = Replication(settings, store, links, self.role, now)
        self.role_requests = RoleRequests()
        self.epochs = Epochs()
        self.dirty_tables = DirtyTables()
        self.outbox = Outbox()
        self.topics = TopicTable(identity, settings, self.dirty_tables, now)
        self.admission = Admission(identity, settings, self.topics)
        self.deletions = Deletions(self.dirty_tables)
        self.topics.on_made = self._topic_made
        self.groups = GroupTable(settings, self.dirty_tables, now)
        self.offsets = OffsetTable(self.dirty_tables, now, settings.consumer_offset_update_version_step)
        if settings.enable_lmq:
            self.offsets.FILE = LMQ_FILE
        self.clients = ClientTable(self.outbox)
        self.filters = FilterTable(settings, self.dirty_tables, now)
        store.structures.extension.bits_of = self.filters.bit_map
        self.broadcasts = BroadcastOffsets(settings, self.clients, self.offsets, store)
        self.slow_readers = SlowReaders(settings, self.groups, self.offsets, store)
        self.expired_offsets = ExpiredOffsets(settings, self.clients, self.offsets, store)
        self.locks = QueueLocks()
        self.auth = AuthTable(self.dirty_tables)
        self.gate = guard(settings, self.auth, identity.cluster)
        self.record_access = RecordAccess(self.gate)
        self.levels = DelayLevels(settings.message_delay_level)
        self.delay = DelayDelivery(
            self.levels, store, self.dirty_tables, now, settings.delay_offset_update_version_step
        )
        self.passed = self.delay.passed = PassedOver()
        self.delay.undelivered = undelivered = Undelivered(self.topics)
        self.delay.destinations = destinations = Destinations(self.topics, self.deletions)
        self._make_config(now)
        self.stats = BrokerStats(identity.cluster, now)
        self.stats.is_system = self.topics.is_system
        self.delay.on_delivered = self.stats.put_delivered
        self._make_transactions(now)
        self.timer = Timers(
            settings, store, self.dirty_tables, self.stats, now, undelivered, self.passed, destinations
        )
        self.modes = RequestModes(
            self.dirty_tables, settings.default_message_request_mode, settings.default_pop_share_queue_num
        )
        self.routes = RouteTable(identity.name, has_name_servers=bool(settings.namesrv_addr))
        self._make_pop(now)
        self._make_lite(now)
        self.check_back.passed = self.reviver.passed = self.passed
        self.mastership: Mastership = _Tables(self)[Mastership]
        self.acting = ActingWork(self.mastership)

    def _make_config(self, now: int) -> None:
        identity, settings = self.identity, self.settings
        self.config = BrokerConfig(BROKER_TABLE, settings, self.dirty_tables, now, self.store.options)
        self.config.found = {
            "brokerIP1": identity.address.rpartition(":")[0],
            "brokerIP2": identity.ha_address.rpartition(":")[0],
            "haListenPort": identity.ha_address.rpartition(":")[2],
            "storePathCommitLog": f"{settings.store_path_root_dir}/commitlog",
        }

    def _make_transactions(self, now: int) -> None:
        identity, settings = self.identity, self.settings
        self.transactions = Transactions(
            identity, settings, self.store, self.offsets, self.stats, self.dirty_tables, now
        )
        self.transactions.deletions = self.deletions
        self.check_back = CheckBack(
            identity, settings, self.transactions, self.topics, self.clients, self.outbox, now
        )
        self.check_back.may_see = lambda client, topic: self.record_access.allows(
            client.user, client.host, topic, PUB
        )

    def _make_pop(self, now: int) -> None:
        identity, settings, store = self.identity, self.settings, self.store
        topics, groups, offsets = self.topics, self.groups, self.offsets
        self.order = OrderTable(self.dirty_tables)
        self.in_flight = in_flight = InFlight(now)
        records = ReviveRecords(identity.cluster, identity.host, TimerQueue(settings.timer_precision_ms))
        self.points = CheckPoints(settings, records, store, offsets)
        self.pops = Pops(
            identity, settings, topics, groups, offsets, self.order, in_flight, self.points, store, seed=now
        )
        self.pop_acks = PopAcks(identity, topics, offsets, self.order, in_flight, self.points, store)
        offsets.on_removed = self._forget_pops
        self.held_pops = HeldCalls(settings)
        self.held_notices = HeldCalls(settings)
        self.timer_progress = TimerProgress(self.timer, store)
        self.reviver = Reviver(identity, settings, topics, groups, offsets, in_flight, records, store)
        self.reviver.deletions = self.pop_acks.deletions = self.pops.deletions = self.deletions
        self.timer.ask_about_pops(self.reviver.has_worked_up)

    def _make_lite(self, now: int) -> None:
        settings, groups, offsets, store = self.settings, self.groups, self.offsets, self.store
        self.held_lite = HeldCalls(settings)
        self.lite_subscriptions = subscriptions = LiteSubscriptions()
        self.lite_events = LiteEvents(settings, subscriptions, groups, offsets, self.held_lite, store)
        self.lite_pops = LitePops(settings, groups, offsets, subscriptions, self.lite_events, store)
        self.lite_changes = SubscriptionChanges(
            settings, groups, offsets, subscriptions, self.lite_events, self.lite_pops, self.outbox, store
        )
        self.lite_expiry = LiteExpiry(
            settings, self.topics, groups, offsets, subscriptions, self.lite_pops, store, now
        )

    def _topic_made(self, topic: str) -> None:
        consumers = self.clients.consumers

        def runs(group: str) -> bool:
            members = consumers.get(group)
            return members is not None and not members.is_broadcasting

        self.offsets.begin_anew(topic, runs)

    def _forget_pops(self, is_gone: IsGone) -> None:
        self.order.remove(is_gone)
        self.in_flight.remove(is_gone)
        self.points.remove(is_gone)

    @property
    def files(self) -> Mapping[str, tuple[str, Callable[[], Snapshot], Callable[[str], None]]]:
        """The tables that live in files: name -> file name, `snapshot`, `load_text`."""
        return {
            table.NAME: (table.FILE, table.snapshot, table.load_text)
            for table in (
                self.topics,
                self.topics.static,
                self.groups,
                self.offsets,
                self.delay,
                self.transactions,
                self.auth,
                self.filters,
                self.order,
                self.modes,
                self.timer.metrics,
                self.deletions,
            )
        }

    def start(self, now: int) -> None:
        """Makes what every broker has; call once, after the tables were loaded."""
        self.deletions.keep(self.store.of_this_log)
        self.topics.add_system_topics(now)
        self.groups.add_system_groups(now)
        for credentials in (first_user(self.settings), own_credentials(self.settings)):
            if credentials is not None:
                self.auth.ensure_super_user(credentials.access_key, credentials.secret_key)
        if not self.role.is_slave:
            self.mastership.start()

    def held_signals(self) -> list[Signal]:
        return self.held_pops.signals() + self.held_notices.signals() + self.held_lite.signals()

    def recover(self, now: int) -> Iterator[None]:
        """Recovers the work that the log holds, a slice at a step; call once, after `start`.

        A slave leaves it to its master: it begins with all this when it is started as one.
        """
        if not self.role.is_slave:
            yield from self.mastership.load_transactions(now)

    def stop(self, now: int) -> None:
        """Stores what is in memory only; call once, before the tables are saved for the last time."""
        if not self.role.is_slave:
            self.points.store_all(now)
            self.store.timer_mark = self.timer.stop(now)

    def oldest_waiting(self) -> int | None:
        """The physical offset of the oldest message that waits for something; None if none does."""
        waiting = (
            self.delay.oldest_waiting(),
            self.timer.oldest_waiting(),
            self.transactions.oldest_waiting(),
        )
        return min((offset for offset in waiting if offset is not None), default=None)

    def connection_closed(self, connection_id: int) -> None:
        """Forgets what a peer was and waited for."""
        self.clients.connection_closed(connection_id)
        self.held_pops.connection_closed(connection_id)
        self.held_notices.connection_closed(connection_id)
        self.held_lite.connection_closed(connection_id)

    def drain_woken(self) -> Sequence[Signal]:
        """The signals of held calls that may continue. Cheap: asked after every turn."""
        pops, notices, lite, routes = self.held_pops, self.held_notices, self.held_lite, self.routes
        static = self.topics.static
        if not (pops.woken or notices.woken or lite.woken or routes.woken or static.woken):
            return ()
        held = pops.drain_woken() + notices.drain_woken() + lite.drain_woken()
        return held + routes.drain_notified() + static.drain_woken()

    def run_pop_timers(self, now: int) -> None:
        """Stores check points that were in memory for long enough, and wakes those whose ordered queues are
        free by the clock. Call every 100 ms or so.
        """
        self.points.run(now)
        self.lite_pops.release(now)
        if self.settings.enable_notify_after_pop_order_lock_release:
            for topic, group, queue_id in self.order.drain_released(now):
                self.held_pops.wake(topic, group, queue_id)
                self.held_notices.wake(topic, group, queue_id)

    def revive(self, now: int) -> bool:
        """Has messages delivered again that were not acknowledged. True if there is more to do at once."""
        return self.reviver.run(now, self.timer_progress.confirmed_ms(now))

    def expire_order_locks(self, now: int) -> None:
        """Forgets what is known of ordered pops of queues and groups that are gone."""
        topics, groups = self.topics, self.groups

        def exists(topic: str, group: str, queue_id: int) -> bool:
            config = topics.get(topic)
            return config is not None and queue_id < config.read_queue_nums and groups.get(group) is not None

        self.order.expire(now, exists)

    def bind(self) -> Bound:
        """The handlers and fast paths of the broker's present role."""
        tables = _Tables(self)
        together = partial(send_many, tables[SendTables])
        many: dict[int, ManyHandler] = dict.fromkeys(SEND_CODES, together)
        many[END_TRANSACTION] = partial(end_many, tables[TransactionTables])
        many[AckMessage.CODE] = partial(ack_many, tables[PopAckTables])
        takers = (
            FastPath(FRAMES_BEGIN, partial(handle_send_frames, tables[SendTables]), SendMessageV2.CODE),
            FastPath((PULL_BEGINS,), PullFastPath(tables[PullTables]).handle, PullMessage.CODE),
            FastPath(
                (POP_BEGINS, ACK_BEGINS),
                partial(handle_pop_frames, tables[PopTables], tables[PopAckTables]),
                PopMessage.CODE,
            ),
            # Through a port on which no pops are served.
            FastPath((ACK_BEGINS,), partial(handle_ack_frames, tables[PopAckTables]), AckMessage.CODE),
        )
        bound = handlers.bind(tables)
        bound |= Serving(tables[StaticTables], bound).handlers()
        if self.role.is_slave:
            for request in REFUSED_BY_SLAVES:
                bound[request.CODE] = _refuse
            return Bound(bound, {}, [taker for taker in takers if taker.code == PullMessage.CODE])
        if self.promise.is_blind:
            for refused in REFUSED_WHILE_BLIND:
                bound[refused.CODE] = partial(refuse, self.role)
        return Bound(bound, many, takers)


def _refuse(call: Call[Any], now: int) -> Result:
    """Handles what a slave does not take."""
    raise flow_control()


class _Tables(dict[type, Any]):
    """Makes the tables of a subject out of the broker's attributes, once."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker

    def __missing__(self, kind: type) -> Any:
        if not is_dataclass(kind):
            raise TypeError(f"{kind.__name__} cannot be the tables of a handler")
        parts = {
            field.name: getattr(self._broker, field.name)
            for field in fields(kind)
            if field.default is field.default_factory is MISSING or hasattr(self._broker, field.name)
        }
        self[kind] = kind(**parts)
        return self[kind]

"""One broker's tables, and the handlers that work on them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any

from orbitmq.broker import handlers as subjects
from orbitmq.broker.auth.gate import guard
from orbitmq.broker.auth.reading import first_user, own_credentials
from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.broadcasts import BroadcastOffsets
from orbitmq.broker.clients import ClientTable
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.delay import DelayDelivery, DelayLevels
from orbitmq.broker.filters import FilterTable
from orbitmq.broker.groups import GroupTable
from orbitmq.broker.handlers import handlers
from orbitmq.broker.handlers.pop import PopTables
from orbitmq.broker.handlers.pop_ack import ACK_BEGINS, PopAckTables, ack_many, take_ack_frames
from orbitmq.broker.handlers.pop_frames import POP_BEGINS, take_pop_frames
from orbitmq.broker.handlers.pull import PULL_BEGINS, PullTables, ShortWay
from orbitmq.broker.handlers.send import ManyResult, send_many
from orbitmq.broker.handlers.send_frames import (
    BATCHES_BEGIN,
    FRAMES_BEGIN,
    take_batch_frames,
    take_frames,
)
from orbitmq.broker.handlers.send_tables import SendTables
from orbitmq.broker.handlers.transaction import TransactionTables, end_many
from orbitmq.broker.identity import BrokerIdentity
from orbitmq.broker.locks import QueueLocks
from orbitmq.broker.offsets import IsGone, OffsetTable
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.outbox import Outbox
from orbitmq.broker.pop import Pops
from orbitmq.broker.pop_acks import PopAcks
from orbitmq.broker.pop_in_flight import InFlight
from orbitmq.broker.pop_order import OrderTable
from orbitmq.broker.pop_points import CheckPoints
from orbitmq.broker.pop_polling import HeldCalls
from orbitmq.broker.pop_records import ReviveRecords
from orbitmq.broker.pop_revive import Reviver
from orbitmq.broker.pop_timers import TimerProgress, TimerQueue
from orbitmq.broker.request_modes import RequestModes
from orbitmq.broker.routes import RouteTable
from orbitmq.broker.snapshots import Snapshot
from orbitmq.broker.stats import BrokerStats
from orbitmq.broker.timer import Timers
from orbitmq.broker.topics import TopicTable
from orbitmq.broker.transactions import Transactions
from orbitmq.broker.transactions_check import CheckBack
from orbitmq.broker.transactions_loading import TransactionLoading
from orbitmq.broker.unsaved import Unsaved
from orbitmq.protocol.call import BoundHandler, Peer, Signal, TakeFrames
from orbitmq.protocol.command import Command
from orbitmq.protocol.requests.pop import AckMessage, PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.store import MessageStore, StoreFigures

for _module in pkgutil.iter_modules(subjects.__path__):
    importlib.import_module(f"{subjects.__name__}.{_module.name}")

ManyHandler = Callable[[Sequence[Command], Peer, int], list[ManyResult]]

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
        sync_flush: bool,
    ) -> None:
        self.identity = identity
        self.settings = settings
        self.store = store
        self.boot_ms = now
        self.new_unique_id = new_unique_id
        self.figures = figures
        self.sync_flush = sync_flush
        self.unsaved = Unsaved()
        self.outbox = Outbox()
        self.topics = TopicTable(identity, settings, self.unsaved, now)
        self.groups = GroupTable(settings, self.unsaved, now)
        self.offsets = OffsetTable(self.unsaved, now, settings.consumer_offset_update_version_step)
        self.clients = ClientTable(self.outbox)
        self.filters = FilterTable(settings, self.unsaved, now)
        store.filter_bits = self.filters.bit_map
        self.broadcasts = BroadcastOffsets(settings, self.clients, self.offsets, store)
        self.locks = QueueLocks()
        self.auth = AuthTable(self.unsaved)
        self.gate = guard(settings, self.auth, identity.cluster)
        self.record_access = RecordAccess(self.gate)
        self.levels = DelayLevels(settings.message_delay_level)
        self.delay = DelayDelivery(
            self.levels, store, self.unsaved, now, settings.delay_offset_update_version_step
        )
        self.config = BrokerConfig(BROKER_TABLE, settings, self.unsaved, now, store.options)
        self.config.found = {
            "brokerIP1": identity.address.rpartition(":")[0],
            "brokerIP2": identity.ha_address.rpartition(":")[0],
            "haListenPort": identity.ha_address.rpartition(":")[2],
            "storePathCommitLog": f"{settings.store_path_root_dir}/commitlog",
        }
        self.stats = BrokerStats(identity.cluster, now)
        self.stats.is_system = self.topics.is_system
        self.delay.on_delivered = self.stats.put_delivered
        self.transactions = Transactions(
            identity, settings, store, self.offsets, self.stats, self.unsaved, now
        )
        self.check_back = CheckBack(
            identity, settings, self.transactions, self.topics, self.clients, self.outbox, now
        )
        self.timer = Timers(settings, store, self.unsaved, self.stats, now)
        self.modes = RequestModes(
            self.unsaved, settings.default_message_request_mode, settings.default_pop_share_queue_num
        )
        self.routes = RouteTable(identity.name, has_name_servers=bool(settings.namesrv_addr))
        self._make_pop(now)

    def _make_pop(self, now: int) -> None:
        identity, settings, store = self.identity, self.settings, self.store
        topics, groups, offsets = self.topics, self.groups, self.offsets
        self.order = OrderTable(self.unsaved)
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
                self.groups,
                self.offsets,
                self.delay,
                self.transactions,
                self.auth,
                self.filters,
                self.order,
                self.modes,
                self.timer.metrics,
            )
        }

    def start(self, now: int) -> None:
        """Makes what every broker has; call once, after the tables were loaded."""
        self.topics.add_system_topics(now)
        self.groups.add_system_groups(now)
        for credentials in (first_user(self.settings), own_credentials(self.settings)):
            if credentials is not None:
                self.auth.ensure_super_user(credentials.access_key, credentials.secret_key)
        self.delay.start()
        self.timer.start(list(self.topics.by_name))

    def take_up(self, now: int) -> Iterator[None]:
        """Takes up the work that the log holds, a slice at a step; call once, after `start`."""
        loading = TransactionLoading(self.transactions, self.settings, self.store, self.offsets)
        yield from loading.run(now)

    def stop(self, now: int) -> None:
        """Stores what is in memory only; call once, before the tables are saved for the last time."""
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

    def take_woken(self) -> Sequence[Signal]:
        """The signals of held calls that may go on. Cheap: asked after every turn."""
        pops, notices, routes = self.held_pops, self.held_notices, self.routes
        if not (pops.woken or notices.woken or routes.told):
            return ()
        return pops.take_woken() + notices.take_woken() + routes.take_told()

    def tend_pops(self, now: int) -> None:
        """Stores check points that were in memory for long enough, and wakes those whose ordered queues are
        free by the clock. Call every 100 ms or so.
        """
        self.points.run(now)
        if self.settings.enable_notify_after_pop_order_lock_release:
            for topic, group, queue_id in self.order.take_released(now):
                self.held_pops.wake(topic, group, queue_id)
                self.held_notices.wake(topic, group, queue_id)

    def revive(self, now: int) -> bool:
        """Has messages delivered again that were not acknowledged; whether there is more to do at once."""
        return self.reviver.run(now, self.timer_progress.settled_ms(now))

    def sweep_order(self, now: int) -> None:
        """Forgets what is known of ordered pops of queues and groups that are gone."""
        topics, groups = self.topics, self.groups

        def exists(topic: str, group: str, queue_id: int) -> bool:
            config = topics.get(topic)
            return config is not None and queue_id < config.read_queue_nums and groups.get(group) is not None

        self.order.sweep(now, exists)

    def bind(self) -> tuple[dict[int, BoundHandler], dict[int, ManyHandler], Sequence[TakeFrames]]:
        """The handlers by request code, those that take one call and those that take many; and what takes
        frames.
        """
        tables = _Tables(self)
        together = partial(send_many, tables[SendTables])
        many: dict[int, ManyHandler] = dict.fromkeys(SEND_CODES, together)
        many[END_TRANSACTION] = partial(end_many, tables[TransactionTables])
        many[AckMessage.CODE] = partial(ack_many, tables[PopAckTables])
        takers = (
            TakeFrames(FRAMES_BEGIN, partial(take_frames, tables[SendTables]), SendMessageV2.CODE),
            TakeFrames(BATCHES_BEGIN, partial(take_batch_frames, tables[SendTables]), SendBatchMessage.CODE),
            TakeFrames((PULL_BEGINS,), ShortWay(tables[PullTables]).take, PullMessage.CODE),
            TakeFrames(
                (POP_BEGINS, ACK_BEGINS),
                partial(take_pop_frames, tables[PopTables], tables[PopAckTables]),
                PopMessage.CODE,
            ),
            # Through a port on which no pops are served.
            TakeFrames((ACK_BEGINS,), partial(take_ack_frames, tables[PopAckTables]), AckMessage.CODE),
        )
        return handlers.bind(tables), many, takers


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

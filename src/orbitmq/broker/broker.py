"""One broker's tables, and the handlers that work on them."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import partial
from typing import Any, cast

import orbitmq.broker as broker_package
from orbitmq.broker.acting.escape import EscapeStore
from orbitmq.broker.assignment.request_modes import RequestModes
from orbitmq.broker.auth.config_values import first_user, own_credentials
from orbitmq.broker.auth.gate import guard
from orbitmq.broker.auth.permissions import PUB
from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.locks import QueueLocks
from orbitmq.broker.client.outbox import Outbox
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.filter.filters import FilterTable
from orbitmq.broker.ha.epochs import Epochs
from orbitmq.broker.ha.links import Links
from orbitmq.broker.ha.promise import Promise
from orbitmq.broker.ha.replication import REFUSED_BY_SLAVES, Replication, flow_control
from orbitmq.broker.ha.role import RoleRequests
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.routes import RouteTable
from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import IsGone, OffsetTable
from orbitmq.broker.offset.upkeep import ExpiredOffsets, SlowReaders
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.pop.ack_handlers import ACK_BEGINS, PopAckTables, ack_many, handle_ack_frames
from orbitmq.broker.pop.acks import PopAcks
from orbitmq.broker.pop.acting import ActingReviver
from orbitmq.broker.pop.check_points import CheckPoints
from orbitmq.broker.pop.frames import POP_BEGINS, handle_pop_frames
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
from orbitmq.broker.send.frames import (
    BATCHES_BEGIN,
    FRAMES_BEGIN,
    handle_batch_frames,
    handle_send_frames,
)
from orbitmq.broker.send.handlers import send_many
from orbitmq.broker.send.tables import SendTables
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.broker.transaction.check_back import CheckBack
from orbitmq.broker.transaction.handlers import TransactionTables, end_many
from orbitmq.broker.transaction.recovery import TransactionLoading
from orbitmq.broker.transaction.transactions import Transactions
from orbitmq.handling.call import BoundHandler, Call, FastPath, Peer, Result, Signal
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.offset import ActedFor
from orbitmq.protocol.handles.pop import REVIVE_GROUP
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.pop import AckMessage, PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2
from orbitmq.store import MessageStore, PendingMessage, StoreFigures
from orbitmq.store.timer.check_point import TimerMark

log = logging.getLogger(__name__)

# Handlers register themselves when their module is imported: each subject's folder has modules `…handlers`.
for _module in pkgutil.walk_packages(broker_package.__path__, f"{broker_package.__name__}."):
    if _module.name.endswith("handlers"):
        importlib.import_module(_module.name)

ManyHandler = Callable[[Sequence[Command], Peer, int], Sequence["Result | Exception | bytes"]]

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
        self.promise = Promise(settings, store, links)
        self.replication = Replication(settings, store, links, now)
        self.replication.own_addresses = frozenset((identity.address, identity.ha_address))
        self.replication.slave_id = identity.broker_id
        self.role_requests = RoleRequests()
        self.epochs = Epochs()
        self.dirty_tables = DirtyTables()
        self.outbox = Outbox()
        self.topics = TopicTable(identity, settings, self.dirty_tables, now)
        self.groups = GroupTable(settings, self.dirty_tables, now)
        self.offsets = OffsetTable(self.dirty_tables, now, settings.consumer_offset_update_version_step)
        self.clients = ClientTable(self.outbox)
        self.filters = FilterTable(settings, self.dirty_tables, now)
        store.filter_with(self.filters.bit_map)
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
        self._make_config(now)
        self.stats = BrokerStats(identity.cluster, now)
        self.stats.is_system = self.topics.is_system
        self.delay.on_delivered = self.stats.put_delivered
        self._make_transactions(now)
        self.timer = Timers(settings, store, self.dirty_tables, self.stats, now)
        self.modes = RequestModes(
            self.dirty_tables, settings.default_message_request_mode, settings.default_pop_share_queue_num
        )
        self.routes = RouteTable(identity.name, has_name_servers=bool(settings.namesrv_addr))
        self._make_pop(now)

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
        self.timer.ask_about_pops(self.reviver.has_worked_up)
        self.acting_reviver: ActingReviver | None = None
        """Of a slave that acts for its master."""
        self.has_lost_pops = False
        """True after the log was cut: offsets may have moved over pops whose check points are gone with it.
        Those of the next master count."""

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
        if not self.replication.is_slave:
            self._start_deliveries()

    def _start_deliveries(self) -> None:
        self.delay.start()
        self.timer.start(list(self.topics.by_name))

    def hold_deliveries(self) -> None:
        """Stops deliveries and decisions of earlier messages: a slave may have acted for this broker."""
        self.delay.is_held = self.timer.is_held = self.check_back.is_held = self.reviver.is_held = True
        self.transactions.held_to = self.transactions.end

    def resume_deliveries(self) -> None:
        """Starts again what `hold_deliveries` has stopped."""
        self.delay.is_held = self.timer.is_held = self.check_back.is_held = self.reviver.is_held = False
        self.transactions.held_to = 0

    def adopt(self, acted: ActedFor, now: int) -> None:
        """Does nothing again that a slave has done in place of its master, be that this broker or not."""
        self._did_elsewhere(acted)
        moved = self.transactions.were_moved(acted.halves_to, now)
        if moved:
            log.info("%d half messages were moved to other masters meanwhile", moved)

    def begin_acting(self, escape: EscapeStore, now: int) -> Iterator[None]:
        """Takes up, in place of a master that is away, what the log says is open, a slice at a step; what is
        due goes into `escape`. The store has opened the files of timers anew before.
        """
        self.delay.stop()
        self.delay.start()
        before = self.delay.acted or ActedFor()
        # Its master may not know of the work that it did the last time.
        self._did_elsewhere(before)
        self.acting_reviver = ActingReviver(self.reviver)
        self.timer.open(now, cast("Any", escape))
        self.timer.start(list(self.topics.by_name))
        self.transactions.forget()
        loading = TransactionLoading(self.transactions, self.settings, self.store, self.offsets)
        yield from loading.run(now)
        end = self.store.max_physical
        acted = ActedFor(True, end, before.timers_to, before.halves_to, before.points_to)
        self.delay.note_acted(acted, soon=False)

    def _did_elsewhere(self, acted: ActedFor) -> None:
        self.timer.were_delivered_elsewhere(acted.log_end, acted.timers_to)
        self.reviver.elsewhere = acted.log_end, acted.points_to

    def take_due_pop(self, message: PendingMessage) -> None:
        """Takes a record of POP that is due, and that the master would store in the revive topic now."""
        if self.acting_reviver is not None:
            self.acting_reviver.take(message)

    def revive_acting(self, now: int) -> bool:
        """Goes on with popped messages in place of the master; true if a copy waits to leave."""
        reviver = self.acting_reviver
        if reviver is None:
            return False
        reviver.run(now, self.timer.delivered_to_ms)
        return bool(reviver.outbox)

    def note_acting(self, *, is_open: bool = True, soon: bool = False) -> None:
        """Notes how far timers and pops got in place of the master; `soon` where messages have left."""
        acted = self.delay.acted
        if acted is None:
            return
        delivered_to_ms = self.timer.delivered_to_ms
        timers_to, points_to = max(acted.timers_to, delivered_to_ms), acted.points_to
        if self.acting_reviver is not None:
            points_to = max(points_to, self.acting_reviver.worked_up_to_ms(delivered_to_ms))
        noted = replace(acted, is_open=is_open, timers_to=timers_to, points_to=points_to)
        if noted != acted:
            self.delay.note_acted(noted, soon=soon)

    def end_acting(self) -> None:
        """Lets go of that work. The next one who does it begins where the files of timers say, as if nobody
        had, and passes over what `delay.acted` says was done.
        """
        self.note_acting(is_open=False, soon=True)
        self.timer.close()
        self.delay.stop()
        self.transactions.forget()
        self.acting_reviver = None

    def end_mastership(self, now: int) -> TimerMark | None:
        """Lets go of the work that only a master does; gives where timers stopped, for the store."""
        mark = self.timer.stop(now)
        self.timer.close()
        self.delay.stop()
        self.transactions.forget()
        self.check_back.forget(now)
        self.points.forget()
        self.in_flight.forget(now)
        self.reviver.forget()
        self.timer_progress.forget()
        return mark

    def held_signals(self) -> list[Signal]:
        """The signals of all pops and notifications that are held."""
        return self.held_pops.signals() + self.held_notices.signals()

    def truncate(self, physical_offset: int, now: int) -> int:
        """Cuts the log, and has offsets of groups and positions of delayed messages follow; gives where it
        ends. See `MessageStore.truncate_to`.
        """
        self.timer.close()
        end = self.store.truncate_to(physical_offset, now)
        self._bound_offsets(now)
        self.has_lost_pops = True
        self.delay.follow_truncation()
        self.dirty_tables.mark(self.offsets.NAME)
        return end

    def _bound_offsets(self, now: int) -> None:
        """Takes groups back to the ends of their queues.

        An offset beyond one was committed where the log went further. A group that kept it would skip what is
        stored here from now on.
        """
        for group, topic, queues in list(self.offsets):
            # Revival notes the last record that it has finished, others the next one that they want.
            after_last = 1 if group == REVIVE_GROUP else 0
            for queue_id, queue_offset in list(queues.items()):
                end = self.store.queue_end(topic, queue_id) - after_last
                if queue_offset > end:
                    log.info("%s of %s:%d goes back, %d to %d", group, topic, queue_id, queue_offset, end)
                    self.offsets.store(group, topic, queue_id, end, now)

    def begin_mastership(self, now: int) -> Iterator[None]:
        """Takes up a master's work where the log and the tables say that it stands, a slice at a step. The
        store has opened the files of timers anew before.
        """
        self._adopt_topics(now)
        self._bound_offsets(now)
        self.offsets.for_master.clear()
        self.topics.begin_epoch(self.replication.epoch, now)
        self.timer.open(now)
        self._start_deliveries()
        yield from self._load_transactions(now)
        if self.delay.acted is not None:
            self.adopt(self.delay.acted, now)

    def _adopt_topics(self, now: int) -> None:
        """Makes topics anew whose messages came with the log, and which the table of the master before had
        not brought here yet: without them nobody could read these messages.
        """
        for topic in self.store.topics():
            if self.topics.get(topic) is None and not self.topics.is_system(topic):
                queues = max(self.store.queue_ids(topic), default=0) + 1
                self.topics.ensure(topic, queues, now)
                log.warning("topic %s is known from its messages alone: made with %d queues", topic, queues)

    def recover(self, now: int) -> Iterator[None]:
        """Recovers the work that the log holds, a slice at a step; call once, after `start`.

        A slave leaves it to its master: it begins with all this when it is started as one.
        """
        if not self.replication.is_slave:
            yield from self._load_transactions(now)

    def _load_transactions(self, now: int) -> Iterator[None]:
        loading = TransactionLoading(self.transactions, self.settings, self.store, self.offsets)
        yield from loading.run(now)

    def stop(self, now: int) -> None:
        """Stores what is in memory only; call once, before the tables are saved for the last time."""
        if not self.replication.is_slave:
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

    def drain_woken(self) -> Sequence[Signal]:
        """The signals of held calls that may go on. Cheap: asked after every turn."""
        pops, notices, routes = self.held_pops, self.held_notices, self.routes
        if not (pops.woken or notices.woken or routes.woken):
            return ()
        return pops.drain_woken() + notices.drain_woken() + routes.drain_notified()

    def run_pop_timers(self, now: int) -> None:
        """Stores check points that were in memory for long enough, and wakes those whose ordered queues are
        free by the clock. Call every 100 ms or so.
        """
        self.points.run(now)
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

    def bind(self) -> tuple[dict[int, BoundHandler], dict[int, ManyHandler], Sequence[FastPath]]:
        """The handlers by request code, those that take one call and those that take many; and what takes
        frames.
        """
        tables = _Tables(self)
        together = partial(send_many, tables[SendTables])
        many: dict[int, ManyHandler] = dict.fromkeys(SEND_CODES, together)
        many[END_TRANSACTION] = partial(end_many, tables[TransactionTables])
        many[AckMessage.CODE] = partial(ack_many, tables[PopAckTables])
        takers = (
            FastPath(FRAMES_BEGIN, partial(handle_send_frames, tables[SendTables]), SendMessageV2.CODE),
            FastPath(BATCHES_BEGIN, partial(handle_batch_frames, tables[SendTables]), SendBatchMessage.CODE),
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
        if self.replication.is_slave:
            for request in REFUSED_BY_SLAVES:
                bound[request.CODE] = _refuse
            return bound, {}, [taker for taker in takers if taker.code == PullMessage.CODE]
        return bound, many, takers


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

"""The work that only a master does (deliveries, timers, half messages, revivals)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.check_points import CheckPoints
from orbitmq.broker.pop.in_flight import InFlight
from orbitmq.broker.pop.revive import Reviver
from orbitmq.broker.pop.timers import TimerProgress
from orbitmq.broker.role.state import RoleState
from orbitmq.broker.transaction.check_back import CheckBack
from orbitmq.broker.transaction.options import TransactionOptions
from orbitmq.broker.transaction.recovery import TransactionLoading
from orbitmq.broker.transaction.transactions import Transactions
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.offset import ActedFor
from orbitmq.protocol.handles.pop import REVIVE_GROUP
from orbitmq.store import MessageStore
from orbitmq.store.timer.check_point import TimerMark

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Mastership:
    """One broker's, whatever its role is now. The fields without a default are its tables."""

    settings: TransactionOptions
    store: MessageStore
    role: RoleState
    dirty_tables: DirtyTables
    topics: TopicTable
    deletions: Deletions
    offsets: OffsetTable
    delay: DelayDelivery
    timer: Timers
    transactions: Transactions
    check_back: CheckBack
    points: CheckPoints
    in_flight: InFlight
    timer_progress: TimerProgress
    reviver: Reviver
    has_lost_pops: bool = field(default=False, init=False)
    """True after the log was cut: offsets may have moved over pops whose check points are gone with it. Those
    of the next master count."""

    def start(self) -> None:
        self.delay.start()
        self.timer.start(list(self.topics.by_name))

    def hold(self) -> None:
        """Stops deliveries and decisions of earlier messages: a slave may have acted for this broker."""
        self.delay.is_held = self.timer.is_held = self.check_back.is_held = self.reviver.is_held = True
        self.transactions.held_to = self.transactions.end

    def resume(self) -> None:
        """Starts again what `hold` has stopped."""
        self.delay.is_held = self.timer.is_held = self.check_back.is_held = self.reviver.is_held = False
        self.transactions.held_to = 0

    def begin(self, now: int) -> Iterator[None]:
        """Takes up a master's work where the log and the tables say that it stands, a slice at a step. The
        store has opened the files of timers again before.
        """
        self._adopt_topics(now)
        self._bound_offsets(now)
        self.offsets.for_master.clear()
        self.topics.begin_epoch(self.role.epoch, now)
        self.timer.open(now)
        self.start()
        yield from self.load_transactions(now)
        if self.delay.acted is not None:
            self.adopt(self.delay.acted, now)

    def end(self, now: int) -> TimerMark | None:
        """Lets go of a master's work; gives where timers stopped, for the store."""
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

    def adopt(self, acted: ActedFor, now: int) -> None:
        """Does nothing again that a slave has done in place of its master, be that this broker or not."""
        self.note_elsewhere(acted)
        self.delay.deliver_left(acted.left)
        moved = self.transactions.were_moved(acted.halves_to, now, frozenset(acted.left))
        if moved:
            log.info("%d half messages were moved to other masters meanwhile", moved)

    def note_elsewhere(self, acted: ActedFor) -> None:
        """Has timers and revivals pass over what a slave has done."""
        self.timer.were_delivered_elsewhere(acted.log_end, acted.timers_to, frozenset(acted.left))
        self.reviver.elsewhere = acted.log_end, acted.points_to

    def load_transactions(self, now: int) -> Iterator[None]:
        """Takes up the half messages that are open, a slice at a step."""
        loading = TransactionLoading(self.transactions, self.settings, self.store, self.offsets)
        yield from loading.run(now)

    def truncate(self, physical_offset: int, now: int) -> int:
        """Cuts the log, and has offsets of groups and positions of delayed messages follow; gives where it
        ends. See `Truncation.run`.
        """
        self.timer.close()
        end = self.store.truncation.run(physical_offset, now)
        self.deletions.cut_to(self.store.log_end())
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

    def _adopt_topics(self, now: int) -> None:
        """Makes topics whose messages came with the log, and which the table of the master before had
        not brought here yet: without them no consumer could read these messages.
        """
        for topic in self.store.topics():
            if self.topics.get(topic) is None and not self.topics.is_system(topic):
                queues = max(self.store.queue_ids(topic), default=0) + 1
                self.topics.ensure(topic, queues, now)
                log.warning("topic %s is known from its messages alone: made with %d queues", topic, queues)

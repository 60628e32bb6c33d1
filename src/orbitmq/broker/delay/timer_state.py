"""State that the parts of timers share: how far everything is, and where messages are read and stored."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from orbitmq.broker.delay.destinations import Destinations
from orbitmq.broker.delay.timer_metrics import TimerMetrics
from orbitmq.broker.delay.timer_records import identity_of
from orbitmq.broker.delay.timer_slot import OpenSlot
from orbitmq.broker.delay.undelivered import Undelivered
from orbitmq.broker.stats.passed_over import DEAD_LETTER, PassedOver
from orbitmq.protocol.names import REVIVE_TOPIC_PREFIX, TIMER_TOPIC
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.store import FINAL_REFUSALS, Appended, MessageStore, PendingMessage, PutStatus
from orbitmq.store.option_rows import StoreSettings
from orbitmq.store.timer.files import TimerFiles
from orbitmq.store.timer.log import NO_UNIT
from orbitmq.store.timer.recovery import Identity

log = logging.getLogger(__name__)

KIND = "timers"


class Appends(Protocol):
    """A place for messages that are due: the store, or another master's."""

    def append_many(
        self, messages: Sequence[PendingMessage], now_ms: int, answers: list[Appended]
    ) -> list[Appended]:
        """Answers for the first messages, as many as are stored; the rest is to be asked for again."""


def is_of_pop(topic: str) -> bool:
    """True if a topic is one in which check points of pops and their acknowledgements come."""
    return topic.startswith(REVIVE_TOPIC_PREFIX)


class TimerStats(Protocol):
    """Counts deliveries."""

    def put_delivered(self, topic: str, queue_id: int, size_bytes: int) -> None: ...


@dataclass(slots=True)
class TimerState:
    """One broker's timers, where there are files for them."""

    settings: StoreSettings
    store: MessageStore
    into: Appends
    """Takes the messages that are due."""
    files: TimerFiles
    metrics: TimerMetrics
    stats: TimerStats
    precision_ms: int
    read_ms: int = 0
    """The slot that is delivered; all before it were."""
    cursor: tuple[int, int] = (0, NO_UNIT)
    """(due time, position) of the unit in it that was delivered last."""
    queue_offset: int = 0
    """The next message of the timer topic to take in."""
    slot: OpenSlot | None = None
    overdue: list[int] = field(default_factory=list)
    """After a very long time: slots to deliver before all others, the last one first."""
    caught_up_ms: int = 0
    """Up to where they are overdue."""
    durable_needed: int = 0
    """Physical offset up to which the commit log has to be on the disk for all that was done to be there."""
    delivered: Counter[Identity] = field(default_factory=Counter)
    """Messages that were delivered already, though the cursor does not say so."""
    delivered_from: int = 0
    """Physical offset of the first of it, or an earlier one."""
    is_ahead: bool = False
    """Something may be stored that neither the cursor accounts for yet, nor `delivered`."""
    passed_to: int = 0
    """Messages before this queue offset are taken in again, by a new master for instance;"""
    passed: tuple[int, int] = (0, 0)
    """(slot, due time) up to which those of them were delivered."""
    met_by: int = 0
    """Deliveries from before the start are met until the messages before this queue offset are taken in."""
    elsewhere: tuple[int, int] = (0, 0)
    """Messages before this physical offset that are due until this time, in ms, were delivered by a slave
    that acted for this broker."""
    left_elsewhere: Container[int] = ()
    """Physical offsets of those that it could not send on."""
    complaint: str = ""
    undelivered: Undelivered = field(default_factory=Undelivered)
    passed_over: PassedOver = field(default_factory=PassedOver)
    destinations: Destinations = field(default_factory=Destinations)

    def __post_init__(self) -> None:
        start = self.files.start
        self.read_ms, self.cursor = start.read_ms, (start.due_ms, start.position)
        self.queue_offset = start.queue_offset
        self.passed_to, self.passed = start.passed_to, (start.read_ms, start.due_ms)
        self.caught_up_ms = start.caught_up_ms
        self.overdue = list(reversed(start.overdue))
        self.delivered = start.delivered
        self.delivered_from = start.delivered_from
        self.durable_needed = self.store.max_physical
        self.met_by = self.store.max_offset(TIMER_TOPIC, 0)
        if not self.overdue and self.read_ms < self.caught_up_ms:
            self.go_to(self.caught_up_ms)

    was_revived_elsewhere: Callable[[StoredMessage], bool] = lambda record: False
    """True for a record of POP in the timer topic that a slave has worked up."""

    def was_delivered_elsewhere(self, record: StoredMessage, due_ms: int, topic: str) -> bool:
        log_end, to_ms = self.elsewhere
        if record.physical_offset >= log_end or record.physical_offset in self.left_elsewhere:
            return False
        return self.was_revived_elsewhere(record) if is_of_pop(topic) else due_ms <= to_ms

    @property
    def takes_in_anew(self) -> bool:
        """True while messages that may have been delivered before the start are still to be taken in."""
        return self.queue_offset < self.passed_to

    def go_to(self, slot_ms: int) -> None:
        """Says that everything before a slot was delivered, and nothing in it."""
        self.read_ms = slot_ms
        self.cursor = (slot_ms, NO_UNIT)

    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None:
        """A message of the timer topic; None if it cannot be read."""
        found = self.store.lookup.message_at(physical_offset, size)
        return found if found is not None and found.topic == TIMER_TOPIC else None

    def delivered_as(self, message: PendingMessage) -> Identity | None:
        """By what a message is recognised that was delivered before a crash; None if it was not.

        Once it was passed over, `met` says that it counts no more.
        """
        if not self.delivered:
            return None
        key = identity_of(message)
        return key if self.delivered[key] else None

    def met(self, key: Identity) -> None:
        if self.delivered[key] > 1:
            self.delivered[key] -= 1
        else:
            del self.delivered[key]

    def mark_from(self, started_ms: int) -> int:
        """From where on in the commit log the next start has to look for what was delivered."""
        if self.delivered and self.read_ms > started_ms and self.queue_offset >= self.met_by:
            # The rest was not met in its time: it was never ours.
            self.delivered.clear()
        if not self.delivered and not self.is_ahead:
            # Deliveries from now on come behind all there is; and a power cut leaves at least this.
            self.delivered_from = max(self.durable_needed, self.store.durable_offset)
        return self.delivered_from

    def is_final(self, status: PutStatus) -> bool:
        """True if a message that was not stored never will be."""
        if status in FINAL_REFUSALS:
            return True
        self.complain(f"timers wait for the store: {status.name}")
        return False

    def letter_of(self, message: PendingMessage, topic: str, now: int) -> PendingMessage:
        """The dead letter of a message that cannot be stored in the topic that it is for."""
        return self.undelivered.letter(message, topic, now)

    def kept(self, topic: str, why: str) -> None:
        """Notes that a message for a topic is a dead letter now."""
        self.passed_over.note(KIND, DEAD_LETTER, f"a message for {topic}", why)

    def lose(self, what: str) -> None:
        """Counts and names a message that will not be delivered."""
        self.metrics.lost += 1
        log.error("timers: %s: it is not delivered", what)

    def complain(self, what: str) -> None:
        """Says once what has to be tried again."""
        if what != self.complaint:
            self.complaint = what
            log.warning("%s; it is tried again", what)

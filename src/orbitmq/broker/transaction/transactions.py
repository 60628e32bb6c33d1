"""Transactions: half messages, what is decided about them, and how that is put into the log.

A decision is written in the turn in which the producer's word came: the published message first, then the op
record that names its half message. Nothing decided waits in memory, so a crash can only fall between those
two, and then the published messages are the last records of the log: `TransactionLoading` finds them there.
A half message that stays open is copied to the end of its queue when its producers are asked; an op record
names the old copy at once. So of every half message there is one open copy at most, after any crash; a
decision that names an older one counts for it.

A message handed to the store is remembered before, with the note that is to follow: where memory ends in
between, the next one who looks at half messages notes it first. So nothing is published or copied twice for
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from orbitmq.broker.copied_properties import NoRoom
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.broker.transaction.events import EndedHalf, StoredHalf
from orbitmq.broker.transaction.metrics import TransactionFigures
from orbitmq.broker.transaction.options import TransactionOptions
from orbitmq.broker.transaction.records import (
    QUEUE_ID,
    Half,
    committed,
    copied,
    is_usual,
    op_records,
    read_half,
)
from orbitmq.broker.transaction.window import HalfState, HalfWindow, OpWindow
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from orbitmq.protocol.records.properties import find_property
from orbitmq.store import Appended, MessageStore, PendingMessage, PutStatus
from orbitmq.store.log.messages import Cold

log = logging.getLogger(__name__)

MOST_RECENT = 16_384
"""Half messages that are known by their place in the log: so many."""


@dataclass(slots=True)
class Decision:
    """A producer's decision about a half message, and its result."""

    half: Half
    """The newest copy."""
    is_commit: bool
    status: PutStatus = PutStatus.PUT_OK
    end_offset: int = 0
    """The physical offset behind what the decision put into the log."""


@dataclass(slots=True)
class _Put:
    """Messages handed to the store, each for a half message, and what it said of them so far."""

    halves: Sequence[Any]
    note: Callable[[Any, Appended, int], None]
    """The note to take of a half message once its message is stored. Twice is as good as once."""
    now: int
    answers: list[Appended] = field(default_factory=list)
    noted: int = 0
    """Number of answers that were taken account of."""


@dataclass(slots=True)
class _Handled:
    """Records written into the log straight from a read, and the number of them that were noted."""

    halves: Sequence[StoredHalf]
    ended: Sequence[EndedHalf]
    op_offset: int
    now: int
    noted_halves: int = 0
    noted_ended: int = 0


@dataclass(slots=True)
class _Reached:
    """Offsets that may be saved once the log is on the disk up to `physical_offset`."""

    physical_offset: int
    half_offset: int
    op_offset: int


@dataclass(eq=False, repr=False)
class Transactions:
    """The half messages of one broker. `load` (of `TransactionLoading`) comes first, once."""

    FILE = "transactionMetrics"
    NAME = "transactions"

    _identity: BrokerIdentity
    _settings: TransactionOptions
    _store: MessageStore
    _offsets: OffsetTable
    _stats: BrokerStats
    _dirty_tables: DirtyTables
    now: InitVar[int]

    def __post_init__(self, now: int) -> None:
        self.window = HalfWindow()
        self.ops = OpWindow()
        self.newest: dict[int, int] = {}
        """First half message -> its open copy, for those that were copied."""
        self.figures = TransactionFigures(now)
        self.held_to = 0
        """No decision about half messages before this queue offset is taken: a slave may have moved them."""
        self.deletions: Deletions | None = None
        self._deletions_seen = 0
        self._recent: dict[int, int] = {}
        """Physical offset -> queue offset of half messages that are open, not copied, and of the usual form.
        The oldest are forgotten beyond `MOST_RECENT`."""
        self._handled: _Handled | None = None
        self._put: _Put | None = None
        self._owed: list[int] = []
        """Half messages that have ended, and whose op record is not stored yet."""
        self._reached: _Reached | None = None
        self._saved = (-1, -1)

    def forget(self) -> None:
        """Forgets what is open: this broker is not master any more. `TransactionLoading` fills it again."""
        self.window, self.ops = HalfWindow(), OpWindow()
        self.newest.clear()
        self.figures.open.clear()
        self._recent.clear()
        self._handled = self._put = self._reached = None
        self._owed.clear()
        self._saved = (-1, -1)

    # Half messages.

    @property
    def end(self) -> int:
        """The queue offset behind the last half message."""
        return max(0, self._store.max_offset(HALF_TOPIC, QUEUE_ID))

    def stored(self, message: PendingMessage, stored: Appended, now: int) -> None:
        """Notes that a half message of a client was stored."""
        if is_usual(message.properties):
            self._recent[stored.physical_offset] = stored.queue_offset
        topic, group = (find_property(message.properties, name) or b"" for name in (b"REAL_TOPIC", b"PGROUP"))
        self.begun(topic.decode("utf-8", "replace"), group.decode("utf-8", "replace"), now)

    def begun(self, topic: str, group: str, now: int) -> None:
        """Notes that a half message was stored."""
        self._dirty_tables.mark(self.NAME, soon=False)
        # The last that may fail: it counts.
        self.figures.opened(topic, group, now)

    def recent_halves(self) -> dict[int, int] | None:
        """The half messages (physical offset -> queue offset) whose decision needs nothing but their record;
        None while decisions have to be made one by one.
        """
        self.note_stored()
        if self.deletions is not None and self.deletions.noted != self._deletions_seen:
            # A topic was deleted: which of these were for it, only their records say.
            self._deletions_seen = self.deletions.noted
            self._recent.clear()
        while len(self._recent) > MOST_RECENT:
            del self._recent[next(iter(self._recent))]
        return None if self._owed else self._recent

    def will_note(
        self, halves: Sequence[StoredHalf], ended: Sequence[EndedHalf], op_offset: int, now: int
    ) -> None:
        """Remembers what is about to be in the log, for `note_handled`."""
        self._handled = _Handled(halves, ended, op_offset, now)

    def note_handled(self) -> None:
        """Notes what was written into the log straight from a read. If memory ends here, the next call notes
        the rest.
        """
        try:  # noqa: SIM105 - it runs in every turn with transactions, and `suppress` makes an object
            self._note_handled()
        except MemoryError:
            pass

    def _note_handled(self) -> None:
        handled = self._handled
        if handled is None:
            return
        now = handled.now
        self._dirty_tables.mark(self.NAME, soon=False)
        while handled.noted_halves < len(handled.halves):
            half = handled.halves[handled.noted_halves]
            following = handled.noted_halves + 1
            self._recent[half.physical_offset] = half.offset
            self.figures.opened(half.topic, half.group, now)
            handled.noted_halves = following
        while handled.noted_ended < len(handled.ended):
            ended = handled.ended[handled.noted_ended]
            following = handled.noted_ended + 1
            state = HalfState.COMMITTED if ended.is_commit else HalfState.ROLLED_BACK
            if ended.is_commit:
                self.figures.published(ended.topic, ended.age_ms)
            else:
                self.figures.rolled_back[ended.topic] += 1
            self._end(ended, state, now)
            handled.noted_ended = following
        if handled.ended:
            self.ops.add(handled.op_offset, max(ended.offset for ended in handled.ended))
        self._handled = None

    def half_at(self, physical_offset: int) -> Half | None:
        return read_half(self._store.record_at(physical_offset)) if physical_offset >= 0 else None

    def cold(self, physical_offset: int) -> Cold | None:
        """The range of the disk that a look at a half message, or at its open copy, would wait for."""
        if physical_offset < 0:
            return None
        cold = self._store.reader.cold_record(physical_offset)
        if cold is not None or not self.newest:
            return cold
        half = self.half_at(physical_offset)
        copy = None if half is None else self.newest.get(half.root)
        if half is None or copy is None or copy == half.offset:
            return None
        cold = self._store.reader.cold_unit(HALF_TOPIC, QUEUE_ID, copy)
        if cold is not None:
            return cold
        unit = self._store.physical_offset_of(HALF_TOPIC, QUEUE_ID, copy)
        return None if unit is None else self._store.reader.cold_record(unit[0])

    def named(self, physical_offset: int) -> Half | None:
        self.note_stored()
        return self.half_at(physical_offset)

    def half(self, offset: int) -> Half | None:
        """A half message by queue offset; None where it cannot be read."""
        unit = self._store.physical_offset_of(HALF_TOPIC, QUEUE_ID, offset)
        return None if unit is None else self.half_at(unit[0])

    def live(self, half: Half) -> Half | None:
        """The open copy of a half message, be it this one or a newer one; None if it has ended."""
        self.note_stored()
        offset = self.newest.get(half.root, half.offset)
        if self.window[offset] is not HalfState.OPEN:
            return None
        if offset == half.offset:
            return half
        # Under SYNC_FLUSH a copy cannot be read before its flush; but it is a copy.
        return self.half(offset) or half.at(offset)

    # Half messages of deleted topics.

    def is_of_deleted(self, topic: str, physical_offset: int) -> bool:
        """True if a half message that stands there was for a topic that was deleted since: one that was made
        anew under its name is not to get it.
        """
        return self.deletions is not None and self.deletions.is_of_deleted(topic, physical_offset)

    def drop(self, halves: Sequence[Half], now: int) -> None:
        """Ends open half messages of deleted topics as a rollback does."""
        self.end_all([Decision(half, is_commit=False) for half in halves], now)
        log.warning("%d half messages were dropped: their topics were deleted", len(halves))

    # Storing and noting.

    def _store_all(
        self,
        halves: Sequence[Any],
        messages: Sequence[PendingMessage],
        note: Callable[[Any, Appended, int], None],
        now: int,
    ) -> list[Appended]:
        """Stores a message for each half message; one answer each. Stored messages are noted as well."""
        self.note_stored()
        put = self._put = _Put(halves, note, now)
        self._store.append_many(messages, now, put.answers)
        self.note_stored()
        return put.answers

    def note_stored(self) -> None:
        """Notes of what was stored the part that could not be noted then, for want of memory."""
        if self._handled is not None:
            self._note_handled()
        put = self._put
        if put is None:
            return
        while put.noted < len(put.answers):
            following = put.noted + 1
            if put.answers[put.noted].status is PutStatus.PUT_OK:
                put.note(put.halves[put.noted], put.answers[put.noted], put.now)
            put.noted = following
        self._put = None

    def _close(self, half: Half, state: HalfState, now: int) -> None:
        self.newest.pop(half.root, None)
        self._dirty_tables.mark(self.NAME, soon=False)
        self._end(half, state, now)

    def _end(self, half: Half | EndedHalf, state: HalfState, now: int) -> None:
        self._recent.pop(half.physical_offset, None)
        self.window[half.offset] = state
        # The last that may fail: it counts.
        self.figures.closed(half.topic, half.group, now)

    def _owe(self, offset: int) -> None:
        if not self._owed or self._owed[-1] != offset:
            self._owed.append(offset)

    # Decisions.

    def end_all(self, decisions: Sequence[Decision], now: int) -> None:
        """Publishes or drops open half messages, each named once; each decision gets its outcome."""
        commits = [decision for decision in decisions if decision.is_commit]
        rollbacks = [decision for decision in decisions if not decision.is_commit]
        if commits:
            published = [committed(decision.half, self._identity.host) for decision in commits]
            halves = [decision.half for decision in commits]
            stored = self._store_all(halves, published, self._note_commit, now)
            for decision, message, appended in zip(commits, published, stored, strict=True):
                decision.status = appended.status
                if appended.status is PutStatus.PUT_OK:
                    self._stats.put_fresh(message.topic, message.queue_id, 1, appended.size)
                    self._stats.put_typed("transaction", message.topic, appended.size)
                    self.figures.published(message.topic, decision.half.age_ms(now))
                else:
                    self._stats.put_failed()
        for decision in rollbacks:
            self._owe(decision.half.offset)
            self._close(decision.half, HalfState.ROLLED_BACK, now)
            self.figures.rolled_back[decision.half.topic] += 1
        self.write_ops((), now)
        end = self._store.max_physical
        owed = set(self._owed)
        for decision in decisions:
            if decision.status is not PutStatus.PUT_OK:
                continue
            decision.end_offset = end
            if not decision.is_commit and decision.half.offset in owed:
                # It will be written, but a crash before that forgets it: not what is to be acknowledged.
                decision.status = PutStatus.SERVICE_NOT_AVAILABLE

    def _note_commit(self, half: Half, published: Appended, now: int) -> None:
        self._owe(half.offset)
        self._close(half, HalfState.COMMITTED, now)

    def owes(self, offset: int, now: int) -> bool:
        """True if no op record of a half message that has ended can be stored: a crash forgets its end."""
        self.write_ops((), now)
        return offset in self._owed

    def write_ops(self, offsets: Iterable[int], now: int) -> None:
        """Names half messages in op records; those that cannot be stored now are tried again later.

        One that is named twice has ended all the same: nothing has to be remembered of this.
        """
        self._owed += offsets
        if not self._owed:
            return
        size = self._settings.transaction_op_msg_max_size
        records = list(op_records(self._owed, size, self._identity.host, now))
        stored = self._store.append_many([record for record, _ in records], now)
        owed: list[int] = []
        for (_, named), appended in zip(records, stored, strict=True):
            if appended.status is PutStatus.PUT_OK:
                self.ops.add(appended.queue_offset, max(named))
            else:
                owed += named
        self._owed = owed
        if owed:
            log.warning("%d decided half messages could not be noted; tried again", len(owed))

    # Copies.

    def replace(self, halves: Sequence[Half], copies: Sequence[PendingMessage], now: int) -> list[Appended]:
        """Stores the copies that take the place of half messages; one answer each."""
        stored = self._store_all(halves, copies, self._note_copy, now) if copies else []
        self.write_ops((), now)
        return stored

    def _note_copy(self, half: Half, copy: Appended, now: int) -> None:
        self._owe(half.offset)
        self._recent.pop(half.physical_offset, None)
        self.newest[half.root] = copy.queue_offset
        self.window[half.offset] = HalfState.COPIED

    def give_up(self, halves: Sequence[Half], copies: Sequence[PendingMessage], now: int) -> list[Appended]:
        """Gives half messages up once their copies elsewhere are stored; one answer each."""
        stored = self._store_all(halves, copies, self._note_given_up, now) if copies else []
        given_up = [half for half, put in zip(halves, stored, strict=True) if put.status is PutStatus.PUT_OK]
        self.figures.given_up.update(half.topic for half in given_up)
        self.write_ops((), now)
        return stored

    def _note_given_up(self, half: Half, laid: Appended, now: int) -> None:
        self._owe(half.offset)
        self._close(half, HalfState.GIVEN_UP, now)

    def found_ended(self, half: Half, now: int) -> None:
        """Takes note of a half message that turns out to have ended before this start."""
        self._close(half, HalfState.ENDED, now)

    def were_moved(self, halves_to: int, now: int, left: Container[int] = ()) -> int:
        """Ends the open half messages before a queue offset, which a slave has moved to another master, but
        for those that it has `left` (physical offsets); gives their number.
        """
        ended, at, end = [], self.window.start, min(halves_to, self.end)
        while (offset := self.window.next_open(at, end)) is not None:
            at = offset + 1
            half = self.half(offset)
            if half is None:
                self.pass_unreadable(offset)
                continue
            if half.physical_offset in left:
                continue
            self.found_ended(half, now)
            ended.append(offset)
        self.write_ops(ended, now)
        return len(ended)

    def pass_unreadable(self, offset: int) -> None:
        """Steps over a half message that is not in the log any more, or damaged."""
        self.window[offset] = HalfState.ENDED
        self.figures.unreadable += 1

    def restart(self, half: Half, now: int) -> Appended:
        """Copies an open half message with its count of checks back at 0."""
        try:
            copy = copied(half, 0, self._identity.host)
        except NoRoom:
            return Appended(PutStatus.PROPERTIES_SIZE_EXCEEDED)
        return self.replace([half], [copy], now)[0]

    def resume(self, message: PendingMessage, group: str, topic: str, now: int) -> Appended:
        """Stores a half message that had been given up, as a new one."""
        (stored,) = self._store.append_many([message], now)
        if stored.status is PutStatus.PUT_OK:
            self.begun(topic, group, now)
        return stored

    # Bookkeeping.

    def note_positions(self, now: int) -> None:
        """Moves the windows on, and saves where they begin as far as the log is on the disk.

        A power cut may take the end of the log, copies included. An offset saved before they were on the disk
        would leave out the originals.
        """
        self.note_stored()
        self.write_ops((), now)
        start = self.window.advance(self.end)
        first = min([start, *self._owed])
        position = first, self.ops.advance(first)
        if self._reached is None and position != self._saved:
            self._reached = _Reached(self._store.max_physical, *position)
        reached = self._reached
        if reached is not None and self._store.durable_offset >= reached.physical_offset:
            self._reached = None
            self._saved = reached.half_offset, reached.op_offset
            self._offsets.store(TRANSACTION_GROUP, HALF_TOPIC, QUEUE_ID, reached.half_offset, now)
            self._offsets.store(TRANSACTION_GROUP, OP_HALF_TOPIC, QUEUE_ID, reached.op_offset, now)

    def oldest_waiting(self) -> int | None:
        """The physical offset of the oldest half message that may be open; None without one."""
        unit = self._store.physical_offset_of(HALF_TOPIC, QUEUE_ID, self.window.start)
        return None if unit is None else unit[0]

    def snapshot(self) -> Snapshot:
        """The content of `config/transactionMetrics`: open half messages by topic, as Apache keeps it."""
        text = self.figures.to_text()
        return lambda: text

    def load_text(self, text: str) -> None:
        """Takes over the content of `config/transactionMetrics`. Raises MalformedJson."""
        self.figures.load_text(text)

"""A relay's statements: they find rows to send, of keys that no other relay has, and note the outcome.

Rows are found by their state, never by the highest number seen: a transaction that began early may commit
late, and its rows appear below others that were sent long ago.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    func,
    literal_column,
    select,
    union_all,
    update,
)

from orbitmq.outbox.locking import try_locks, wait_for_locks
from orbitmq.outbox.tables import LOCKS, State
from orbitmq.outbox.writing import Outbox

LOCKS_AT_ONCE = 16
"""Locks of one batch: a quarter, so that four relays share a backlog."""
MAX_BATCH_BYTES = 16 << 20
"""Payloads of a batch; it has one message at least."""
STATEMENT_ROWS = 500
"""Rows that one statement names."""

Row = Mapping[str, Any]


def of_state(column: ColumnElement[str], *states: State) -> ColumnElement[bool]:
    """The condition that an unsent row is in one of the states; as text, so that partial indexes serve it.

    SQLite uses the index of unsent rows only where the index' own condition is a term of the query.
    """
    texts: list[ColumnElement[str]] = [literal_column(f"'{state.value}'") for state in states]
    wanted = column == texts[0] if len(texts) == 1 else column.in_(texts)
    return and_(wanted, column != literal_column(f"'{State.SENT.value}'"))


@dataclass(slots=True)
class Claimed:
    """Rows that belong to this relay until the end of the transaction, in the order in which they were
    written.
    """

    rows: list[Row] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """Numbers of rows that have to wait: a message of their key is parked, and blocks it."""
    next_lock: int = 0
    """The lock at which the next batch begins, so that all keys have their turn."""


@dataclass(slots=True)
class Noted:
    """The outcome of rows of a batch, by their numbers."""

    sent: list[int] = field(default_factory=list)
    parked: dict[int, str] = field(default_factory=dict)
    """Reason by number."""
    blocking: dict[int, str] = field(default_factory=dict)
    tried: dict[int, str] = field(default_factory=dict)
    """Those that will be tried again."""
    held: list[int] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if nothing has to be written."""
        return not (self.sent or self.parked or self.blocking or self.tried or self.held)


def claim(
    outbox: Outbox,
    connection: Connection,
    *,
    batch_size: int,
    first_lock: int = 0,
    waiting_topics: Collection[str] = (),
) -> Claimed:
    """Rows to send, with their keys locked; none if there is nothing to do, or others do it.

    `first_lock` is the lock to begin with; rows of `waiting_topics` are left.
    """
    messages, locks = outbox.messages, outbox.locks
    pending = [of_state(messages.c.state, State.PENDING)]
    if waiting_topics:
        pending.append(messages.c.aggregatetype.not_in(sorted(waiting_topics)))
    has_rows = exists().where(messages.c.key_lock == locks.c.key_lock, *pending)
    wanted = sorted(
        connection.execute(select(locks.c.key_lock).where(has_rows)).scalars(),
        key=lambda number: (number - first_lock) % LOCKS,
    )
    at_once = min(LOCKS_AT_ONCE, batch_size)  # each lock that was got gives a row
    for start in range(0, len(wanted), at_once):
        part = wanted[start : start + at_once]
        locked = try_locks(outbox, connection, part)
        if locked:
            claimed = _rows_of(outbox, connection, locked, pending, batch_size)
            claimed.next_lock = (part[-1] + 1) % LOCKS
            if claimed.rows or claimed.held:
                return claimed
    return Claimed(next_lock=first_lock)


def _rows_of(
    outbox: Outbox,
    connection: Connection,
    locked: Sequence[int],
    pending: list[ColumnElement[bool]],
    batch_size: int,
) -> Claimed:
    """The next rows of each lock, those that fit into a batch with their payloads."""
    messages = outbox.messages
    blocking = messages.alias("blocking")
    is_held = exists().where(
        of_state(blocking.c.state, State.BLOCKING),
        blocking.c.key_lock == messages.c.key_lock,
        blocking.c.aggregatetype == messages.c.aggregatetype,
        blocking.c.aggregateid == messages.c.aggregateid,
    )
    limit = max(batch_size // len(locked), 1)
    parts = []
    for number in locked:
        first = (
            select(messages.c.seq, func.length(messages.c.payload).label("size"), is_held.label("is_held"))
            .where(messages.c.key_lock == number, *pending)
            .order_by(messages.c.seq)
            .limit(limit)
            .subquery()
        )
        parts.append(select(first.c.seq, first.c.size, first.c.is_held))
    found = sorted(connection.execute(union_all(*parts)).all())
    claimed, size = Claimed(), 0
    chosen: list[int] = []
    for seq, row_size, held in found:
        if held:
            claimed.held.append(seq)
            continue
        size += row_size
        if chosen and size > MAX_BATCH_BYTES:
            break
        chosen.append(seq)
    if chosen:
        whole = select(messages).where(messages.c.seq.in_(chosen)).order_by(messages.c.seq)
        claimed.rows = [dict(row) for row in connection.execute(whole).mappings()]
    return claimed


def note(outbox: Outbox, connection: Connection, noted: Noted, now_ms: int, *, keep_sent: bool) -> None:
    """Write what became of rows; `keep_sent` false deletes those that were sent."""
    messages = outbox.messages
    if connection.dialect.name == "sqlite" and noted.held:
        # A release may have come between; from here on none can.
        wait_for_locks(outbox, connection, ())
    for seqs in _parts(noted.sent):
        if keep_sent:
            changed = {"state": State.SENT.value, "sent_ms": now_ms, "reason": None}
            connection.execute(update(messages).where(messages.c.seq.in_(seqs)).values(changed))
        else:
            connection.execute(delete(messages).where(messages.c.seq.in_(seqs)))
    for state, reasons in (
        (State.PARKED, noted.parked),
        (State.BLOCKING, noted.blocking),
        (State.PENDING, noted.tried),
    ):
        for seq, reason in reasons.items():
            connection.execute(
                update(messages)
                .where(messages.c.seq == seq)
                .values(state=state.value, reason=reason, attempts=messages.c.attempts + 1)
            )
    if noted.held:
        _hold(outbox, connection, noted.held)


def _hold(outbox: Outbox, connection: Connection, held: Sequence[int]) -> None:
    """Rows wait, as far as a message of their key still blocks it."""
    messages = outbox.messages
    blocking = messages.alias("blocking")
    still = (
        select(messages.c.seq)
        .join(
            blocking,
            and_(
                of_state(blocking.c.state, State.BLOCKING),
                blocking.c.key_lock == messages.c.key_lock,
                blocking.c.aggregatetype == messages.c.aggregatetype,
                blocking.c.aggregateid == messages.c.aggregateid,
            ),
        )
        .distinct()
    )
    for seqs in _parts(held):
        waiting = connection.execute(still.where(messages.c.seq.in_(seqs))).scalars().all()
        if waiting:
            connection.execute(
                update(messages).where(messages.c.seq.in_(waiting)).values(state=State.HELD.value)
            )


def _parts(seqs: Sequence[int]) -> list[Sequence[int]]:
    return [seqs[start : start + STATEMENT_ROWS] for start in range(0, len(seqs), STATEMENT_ROWS)]

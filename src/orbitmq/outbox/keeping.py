"""Statements for operators: counts, parked messages and their release; and old rows go, in small batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, select, tuple_, update

from orbitmq.outbox.claiming import STATEMENT_ROWS, of_state
from orbitmq.outbox.errors import NoSuchMessage
from orbitmq.outbox.locking import try_locks, wait_for_locks
from orbitmq.outbox.tables import HOUSEKEEPING, State
from orbitmq.outbox.writing import Outbox

MAX_LISTED = 10_000


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages that are not sent."""

    pending: int = 0
    held: int = 0
    """Those that wait for a parked message of their key."""
    parked: int = 0
    """Those refused for good, with those that block their key."""
    oldest_pending_ms: int | None = None
    """Time at which the oldest pending message was written (ms since 1970); None without one."""

    def age_ms(self, now_ms: int) -> int:
        """Age of the oldest pending message; 0 without one."""
        return 0 if self.oldest_pending_ms is None else max(now_ms - self.oldest_pending_ms, 0)


@dataclass(frozen=True, slots=True)
class ParkedMessage:
    """A message that was refused for good."""

    id: str
    topic: str
    key: str | None
    tag: str | None
    size_bytes: int
    attempts: int
    reason: str
    created_ms: int
    blocks_key: bool


def counts(outbox: Outbox, connection: Connection) -> Counts:
    """Messages that are not sent."""
    messages = outbox.messages
    asked = (
        select(messages.c.state, func.count(), func.min(messages.c.created_ms))
        .where(of_state(messages.c.state, State.PENDING, State.HELD, State.PARKED, State.BLOCKING))
        .group_by(messages.c.state)
    )
    found = {State(state): (count, oldest) for state, count, oldest in connection.execute(asked)}
    number = {state: found.get(state, (0, None))[0] for state in State}
    return Counts(
        pending=number[State.PENDING],
        held=number[State.HELD],
        parked=number[State.PARKED] + number[State.BLOCKING],
        oldest_pending_ms=found.get(State.PENDING, (0, None))[1],
    )


def parked(
    outbox: Outbox, connection: Connection, *, topic: str | None = None, limit: int = 100
) -> list[ParkedMessage]:
    """Parked messages, in the order in which they were written."""
    messages = outbox.messages
    asked = (
        select(
            messages.c.id,
            messages.c.aggregatetype,
            messages.c.aggregateid,
            messages.c.type,
            func.length(messages.c.payload),
            messages.c.attempts,
            messages.c.reason,
            messages.c.created_ms,
            messages.c.state,
        )
        .where(*_chosen(outbox, None, topic))
        .order_by(messages.c.seq)
        .limit(min(limit, MAX_LISTED))
    )
    return [
        ParkedMessage(*row[:6], row[6] or "", row[7], row[8] == State.BLOCKING.value)
        for row in connection.execute(asked)
    ]


def release(
    outbox: Outbox, connection: Connection, *, ids: Sequence[str] = (), topic: str | None = None
) -> int:
    """Have parked messages sent: those with these ids, or of a topic, or all; return their number.

    Messages that their keys held up are sent after them. Raises NoSuchMessage for an id that is not parked.
    """
    return _end_parking(outbox, connection, ids, topic, send=True)


def discard(
    outbox: Outbox, connection: Connection, *, ids: Sequence[str] = (), topic: str | None = None
) -> int:
    """Delete parked messages, chosen as by `release`; return their number. Their keys continue."""
    return _end_parking(outbox, connection, ids, topic, send=False)


def _end_parking(
    outbox: Outbox, connection: Connection, ids: Sequence[str], topic: str | None, *, send: bool
) -> int:
    messages = outbox.messages
    columns = (messages.c.seq, messages.c.id, messages.c.key_lock, messages.c.aggregatetype)
    asked = select(*columns, messages.c.aggregateid, messages.c.state).where(*_chosen(outbox, ids, topic))
    # No relay may be between the look at a blocking message and the note that others wait for it.
    wait_for_locks(outbox, connection, sorted({row.key_lock for row in connection.execute(asked)}))
    # A locking read: under MySQL's REPEATABLE READ another one would show what was there before the wait.
    found = connection.execute(asked.with_for_update()).all()
    missing = sorted(set(ids) - {str(row.id) for row in found})
    if missing:
        raise NoSuchMessage(
            f"message {missing[0]} is not parked: `orbitmq outbox parked` lists those that are"
        )
    for start in range(0, len(found), STATEMENT_ROWS):
        part = found[start : start + STATEMENT_ROWS]
        these = messages.c.seq.in_([row.seq for row in part])
        if send:
            changed = {"state": State.PENDING.value, "attempts": 0}
            connection.execute(update(messages).where(these).values(changed))
        else:
            connection.execute(delete(messages).where(these))
    freed = {(row.aggregatetype, row.aggregateid) for row in found if row.state == State.BLOCKING.value}
    if freed:
        pairs = tuple_(messages.c.aggregatetype, messages.c.aggregateid)
        others = select(messages.c.aggregatetype, messages.c.aggregateid).where(
            of_state(messages.c.state, State.BLOCKING), pairs.in_(sorted(freed))
        )
        still = {(row.aggregatetype, row.aggregateid) for row in connection.execute(others)}
        if freed - still:
            connection.execute(
                update(messages)
                .where(of_state(messages.c.state, State.HELD), pairs.in_(sorted(freed - still)))
                .values(state=State.PENDING.value)
            )
    return len(found)


def _chosen(outbox: Outbox, ids: Sequence[str] | None, topic: str | None) -> list[ColumnElement[bool]]:
    messages = outbox.messages
    chosen = [of_state(messages.c.state, State.PARKED, State.BLOCKING)]
    if ids:
        chosen.append(messages.c.id.in_(ids))
    if topic is not None:
        chosen.append(messages.c.aggregatetype == topic)
    return chosen


def delete_sent(outbox: Outbox, connection: Connection, before_ms: int, limit: int) -> int | None:
    """Delete rows that were sent before a time, `limit` at most; return their number.

    None if another relay is at it. Only the outbox's own rows are locked, and those of one batch.
    """
    if not try_locks(outbox, connection, [HOUSEKEEPING]):
        return None
    messages = outbox.messages
    old = connection.execute(
        select(messages.c.seq).where(messages.c.sent_ms < before_ms).order_by(messages.c.sent_ms).limit(limit)
    )
    seqs = old.scalars().all()
    if seqs:
        connection.execute(delete(messages).where(messages.c.seq.in_(seqs)))
    return len(seqs)

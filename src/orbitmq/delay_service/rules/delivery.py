"""Delivery: which messages leave now, and the changes that follow from what became of them.

A batch is claimed in the store before it is sent. So a start knows what may have left, and neither moves nor
cancels it: of the old and the new version of a message exactly one is delivered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from msgspec.structs import replace

from orbitmq import failpoints
from orbitmq.delay_service.rules import ddmq
from orbitmq.delay_service.rules.forms import with_properties
from orbitmq.delay_service.rules.lanes import Lane, Lanes
from orbitmq.delay_service.rules.repeats import Time, caught_up, following
from orbitmq.delay_service.rules.targets import WEBHOOK, Known
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import Content, Kind, NameEntry, Pending, encode
from orbitmq.delay_service.store.store import Changes, DelayStore

BATCH_MESSAGES = 512
BATCH_BYTES = 1 << 20
"""A batch holds more only if one message does."""
MOST_LOOKED_AT = 2_000
"""Messages of one step, those that expired included: the event loop waits for it."""
HELD_BACK_MS = 100
"""Pause of a lane whose due messages may not leave yet."""
LATE_MS = 1_000
"""A delivery counts as late after this time."""
LATENESS_LIMITS = (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 60_000, 3_600_000)
"""Upper limits (ms) of the histogram of lateness."""


class Result(Enum):
    """Fate of one message of a batch."""

    SENT = "sent"
    REFUSED = "refused"
    """For good, for what the message is: a dead letter."""
    NO_TARGET = "no target"
    """For good: there is no such topic, or no right to send to it."""
    FAILED = "failed"
    """It may have been stored; it is sent again."""
    NOT_SENT = "not sent"
    """It has surely not been stored; it may be moved or cancelled until it is tried again."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Fate of a message, and why."""

    result: Result
    reason: str = ""


@dataclass(slots=True)
class Outgoing:
    """A message that is to leave."""

    key: bytes
    pending: Pending
    may_be_stored: bool = False
    """An earlier try, or one before the start, may have stored it."""

    @property
    def kind(self) -> int:
        return self.key[-1]


@dataclass(slots=True)
class DeliveryCounts:
    """Counts since the start."""

    sent: Counter[str] = field(default_factory=Counter)
    """By target."""
    late: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    replies_lost: int = 0
    """Replies that their target refused."""
    letters_lost: int = 0
    """Dead letters that their topic refused in every form."""
    lateness: list[int] = field(default_factory=lambda: [0] * (len(LATENESS_LIMITS) + 1))
    lateness_sum_ms: int = 0


AGAIN = frozenset({Result.FAILED, Result.NOT_SENT})
SMALLER, SMALLEST = "without properties", "without properties, cut"
"""Forms of dead letters that a broker would not take whole."""
SMALLEST_BYTES = 1024


class Delivery:
    """Takes batches from lanes, and records what became of them."""

    def __init__(self, store: DelayStore, lanes: Lanes, known: Known) -> None:
        self._store = store
        self._lanes = lanes
        self._known = known
        self.counts = DeliveryCounts()

    def take(self, lane: Lane, now: int, most: int = BATCH_MESSAGES) -> list[Outgoing]:
        """Messages of a lane that are due, claimed in the store; none if there are none.

        The lane is busy afterwards unless the batch is empty. The write has to be synced before the batch
        is sent.
        """
        most = lane.allowed(most, now)
        changes = self._store.changes()
        batch: list[Outgoing] = []
        added: list[bytes] = []
        lane.head, start = None, lane.head
        lane.is_behind = False
        size = looked_at = 0
        last_taken = b""
        if start is not None:
            for key, value in self._store.items(start, keys.lane_end(lane.number)):
                if key in lane.on_the_way:
                    continue
                full = len(batch) >= most or size > BATCH_BYTES or looked_at >= MOST_LOOKED_AT
                if full or keys.due_of(key) > now:
                    lane.head = key
                    lane.is_behind = keys.due_of(key) <= now
                    break
                looked_at += 1
                pending = self._store.read_pending(value)
                last_taken = max(last_taken, key)
                found = self._current(key, pending, now, changes, added)
                if found is not None:
                    size += len(pending.content.body or b"") + 100
                    batch.append(found)
                    last_taken = max(last_taken, found.key)
        for one in batch:
            one.may_be_stored = one.key <= lane.may_be_sent
        # Messages on their way stay claimed, and so do those that may have been sent before the start.
        claim = max(last_taken, lane.may_be_sent, *lane.on_the_way)
        if last_taken > lane.may_be_sent:
            lane.may_be_sent = b""
        if batch:
            lane.busy = True
            changes.put(keys.claim_key(lane.number), claim)
            lane.on_the_way.update(one.key for one in batch)
            lane.tokens -= len(batch)
        if changes:
            self._store.write(changes)
            if failpoints.armed:
                failpoints.hit("delay.claimed")
        for key in added:
            if key not in lane.on_the_way:
                self._lanes.added(key)
        self._lanes.changed(lane)
        return batch

    def _current(
        self, key: bytes, pending: Pending, now: int, changes: Changes, added: list[bytes]
    ) -> Outgoing | None:
        """A due message as it leaves now; None if it does not: it is over, or comes at a later time."""
        if 0 <= pending.expires <= now:
            self.counts.expired[str(self._lanes.get(keys.lane_of(key)).target)] += 1
            self._ended(key, pending, changes, now, has_left=False)
            return None
        repeat = pending.repeat
        if (
            repeat is None
            or repeat.catch_up == "all"
            or key <= self._lanes.get(keys.lane_of(key)).may_be_sent
        ):
            return Outgoing(key, pending)  # A message that may have been sent is sent again as it was.
        time = Time(pending.due, pending.occurrence)
        now_due = caught_up(repeat, time, now)
        if now_due is None:
            self._ended(key, pending, changes, now, has_left=False)
            return None
        if now_due == time:
            return Outgoing(key, pending)
        moved = self._put_time(key, pending, now_due, changes)
        if now_due.due <= now:
            return Outgoing(moved, pending)
        added.append(moved)
        return None

    def _put_time(self, key: bytes, pending: Pending, time: Time, changes: Changes) -> bytes:
        """Writes a repetition at another of its times, and gives the new key."""
        lane, _, source, offset, kind = keys.read_pending_key(key)
        pending.due, pending.occurrence = time.due, time.occurrence
        if pending.ddmq:
            pending.ddmq = ddmq.at_time(pending.ddmq, time.due, time.occurrence)
        moved = keys.pending_key(lane, time.due, source, offset, kind)
        entry = self._store.entry(pending.cluster, pending.name)
        changes.remove(key)
        changes.add(moved, encode(pending))
        if entry is not None and entry.key == key:
            changes.put(
                keys.name_key(pending.cluster, pending.name),
                encode(NameEntry(moved, entry.ending, entry.owner)),
            )
        return moved

    def _ended(self, key: bytes, pending: Pending, changes: Changes, now: int, *, has_left: bool) -> None:
        """A message is over: its entry and, if it is the one of its name, the name go."""
        changes.remove(key)
        if key[-1] != Kind.MESSAGE:
            return
        entry = self._store.entry(pending.cluster, pending.name)
        if entry is not None and entry.key == key:
            changes.delete(keys.name_key(pending.cluster, pending.name))
            if has_left:
                changes.put(keys.gone_key(now // keys.HOUR_MS, pending.cluster, pending.name), b"")

    # With several instances: see `sharing`.

    batch_messages = BATCH_MESSAGES

    def choose(
        self, lane: Lane, now: int, may_leave: Callable[[bytes], bool], most: int | None = None
    ) -> list[bytes]:
        """Keys that are due and not on their way, in their order; the lane's head moves past them."""
        most = lane.allowed(most or self.batch_messages, now)
        start, lane.head = lane.head, None
        chosen: list[bytes] = []
        held_back = False
        size = looked_at = 0
        if start is not None:
            for key, value in self._store.items(start, keys.lane_end(lane.number)):
                if key in lane.on_the_way:
                    continue
                full = len(chosen) >= most or size > BATCH_BYTES or looked_at >= MOST_LOOKED_AT
                if full or keys.due_of(key) > now:
                    lane.head = lane.head or key
                    break
                looked_at += 1
                if may_leave(key):
                    size += len(value)
                    chosen.append(key)
                else:
                    held_back = True
                    lane.head = lane.head or key
        if held_back and not chosen:
            lane.paused_until = now + HELD_BACK_MS
        return chosen

    def put_back(self, lane: Lane, left: Sequence[bytes]) -> None:
        """Keys that were chosen and did not leave."""
        lane.head = min([*left, *([] if lane.head is None else [lane.head])], default=None)

    def claim(
        self, lane: Lane, wanted: Sequence[bytes], now: int, changes: Changes
    ) -> tuple[list[Outgoing], list[bytes]]:
        """Those of the wanted keys that are pending and not on their way are on it from now on.

        Gives them, and keys that come at a later time. The same in every instance.
        """
        found: list[Outgoing] = []
        added: list[bytes] = []
        free = [key for key in wanted if key not in lane.on_the_way]
        for key, value in zip(free, self._store.get_many(free), strict=True):
            if value is not None:
                one = self._current(key, self._store.read_pending(value), now, changes, added)
                if one is not None:
                    found.append(one)
        lane.on_the_way.update(one.key for one in found)
        return found, added

    def fates(
        self, lane: Lane, batch: Sequence[Outgoing], results: Sequence[Sent], now: int
    ) -> tuple[list[Outgoing], list[tuple[Outgoing, Sent]]]:
        """The messages to be sent again by this instance, and the fates that all instances have to know."""
        again: list[Outgoing] = []
        settled: list[tuple[Outgoing, Sent]] = []
        target = str(lane.target)
        changes = self._store.changes()
        for one, sent in zip(batch, results, strict=True):
            one.may_be_stored |= sent.result is Result.FAILED
            if sent.result in AGAIN or (one.kind == Kind.DEAD and self._keep_letter(one, sent, changes)):
                again.append(one)
            else:
                self._count(target, one, sent, now)
                settled.append((one, sent))
        if changes:
            self._store.write(changes)
        self._pace(lane, results, now)
        if not any(one.may_be_stored for one in again):
            # They were not sent: they wait in the store, where they can be moved and cancelled.
            settled += [(one, Sent(Result.NOT_SENT)) for one in again]
            again = []
        return again, settled

    def settle(self, lane: Lane, fates: Mapping[bytes, Sent], now: int, changes: Changes) -> list[bytes]:
        """Records fates of messages on their way; gives keys that were added. The same in every instance."""
        added: list[bytes] = []
        known = [key for key in fates if key in lane.on_the_way]
        values = self._store.get_many(known)
        batch = [
            Outgoing(key, self._store.read_pending(value))
            for key, value in zip(known, values, strict=True)
            if value is not None
        ]
        names = self._entries(batch)
        for one in batch:
            sent = fates[one.key]
            if sent.result is Result.SENT:
                self._sent(one, names, changes, added, now)
            elif sent.result is Result.NOT_SENT:
                added.append(one.key)
            else:
                self._refused(one, lane, sent.reason, names, changes, added, now)
        lane.on_the_way.difference_update(known)
        lane.unsent.difference_update(known)
        return added

    def done(
        self, lane: Lane, batch: Sequence[Outgoing], results: Sequence[Sent], now: int
    ) -> list[Outgoing]:
        """Records the fate of a batch in one write; gives the messages to be sent again, in their order.

        The lane is free afterwards unless some are to be sent again. Raises StoreError.
        """
        changes = self._store.changes()
        added: list[bytes] = []
        again: list[Outgoing] = []
        gone: list[bytes] = []
        target = str(lane.target)
        names = self._entries(batch)
        for one, sent in zip(batch, results, strict=True):
            one.may_be_stored |= sent.result is Result.FAILED
            if sent.result in AGAIN or (one.kind == Kind.DEAD and self._keep_letter(one, sent, changes)):
                again.append(one)
                continue
            gone.append(one.key)
            self._count(target, one, sent, now)
            if sent.result is Result.SENT:
                self._sent(one, names, changes, added, now)
            else:
                self._refused(one, lane, sent.reason, names, changes, added, now)
        if failpoints.armed:
            failpoints.hit("delay.sent")
        if changes:
            self._store.write(changes)
            if failpoints.armed:
                failpoints.hit("delay.done")
        lane.on_the_way.difference_update(gone)
        self._pace(lane, results, now)
        if not any(one.may_be_stored for one in again):
            self.release(lane, again)
            again = []
        lane.busy = bool(again)
        for key in added:
            self._lanes.added(key)
        self._lanes.changed(lane)
        return again

    def may_claim_ahead(self, lane: Lane, now: int) -> bool:
        """True if more was due than one batch holds: the next one may be taken while it is sent.

        In time, it would be a small one, and each batch costs a write to the disk. Of web addresses each
        message is a request of its own, so that nothing is won.
        """
        if (
            not lane.is_behind
            or lane.head is None
            or lane.failures
            or lane.may_be_sent
            or lane.target.cluster == WEBHOOK
        ):
            return False
        return keys.due_of(lane.head) <= now

    def release(self, lane: Lane, batch: Sequence[Outgoing]) -> None:
        """These messages were not sent: they wait in the store, where they can be moved and cancelled."""
        left = [one.key for one in batch]
        lane.on_the_way.difference_update(left)
        self.put_back(lane, left)

    def _keep_letter(self, one: Outgoing, sent: Sent, changes: Changes) -> bool:
        """True for a dead letter that is to be tried again: as it is where its topic is missing; in a
        smaller form where the broker refuses the letter.
        """
        if sent.result is Result.NO_TARGET:
            return True
        if sent.result is not Result.REFUSED or one.pending.outcome == SMALLEST:
            return False
        pending = one.pending
        body = pending.content.body or b"-"
        content = Content(body, {} if pending.content.headers is None else None)
        if pending.content.headers is not None:
            content = Content(body, None, 0, [], pending.content.key)
        if pending.outcome == SMALLER:
            content = Content(body[:SMALLEST_BYTES], content.properties, 0, content.headers)
        pending.content = content
        pending.outcome = SMALLEST if pending.outcome == SMALLER else SMALLER
        changes.put(one.key, encode(pending))
        return True

    def _entries(self, batch: Sequence[Outgoing]) -> dict[bytes, NameEntry]:
        """The entries of the names of a batch, by the key that they hold."""
        wanted = [
            keys.name_key(one.pending.cluster, one.pending.name) for one in batch if one.kind == Kind.MESSAGE
        ]
        entries = (self._store.read_entry(v) for v in self._store.get_many(wanted) if v is not None)
        return {entry.key: entry for entry in entries}

    def _count(self, target: str, one: Outgoing, sent: Sent, now: int) -> None:
        if sent.result is not Result.SENT:
            if one.kind == Kind.REPLY:
                self.counts.replies_lost += 1
            elif one.kind == Kind.DEAD:
                self.counts.letters_lost += 1
            else:
                self.counts.dead[target] += 1
            return
        self.counts.sent[target] += 1
        if one.kind != Kind.MESSAGE:
            return
        lateness = max(0, now - one.pending.due)
        self.counts.lateness_sum_ms += lateness
        self.counts.lateness[bisect_left(LATENESS_LIMITS, lateness)] += 1
        if lateness > LATE_MS:
            self.counts.late[target] += 1

    def _sent(
        self, one: Outgoing, names: dict[bytes, NameEntry], changes: Changes, added: list[bytes], now: int
    ) -> None:
        pending = one.pending
        entry = names.get(one.key)
        if one.kind == Kind.MESSAGE and entry is not None:
            if pending.repeat is not None and not entry.ending:
                after = following(pending.repeat, Time(pending.due, pending.occurrence))
                if after is not None:
                    added.append(self._next(one.key, pending, after, entry, changes))
                    return
            changes.delete(keys.name_key(pending.cluster, pending.name))
            changes.put(keys.gone_key(now // keys.HOUR_MS, pending.cluster, pending.name), b"")
        changes.remove(one.key)

    def _next(self, key: bytes, pending: Pending, time: Time, entry: NameEntry, changes: Changes) -> bytes:
        lane, _, source, offset, kind = keys.read_pending_key(key)
        after = replace(pending, due=time.due, occurrence=time.occurrence)
        if pending.ddmq:
            after.ddmq = ddmq.at_time(pending.ddmq, time.due, time.occurrence)
        moved = keys.pending_key(lane, time.due, source, offset, kind)
        changes.remove(key)
        changes.add(moved, encode(after))
        changes.put(
            keys.name_key(pending.cluster, pending.name), encode(NameEntry(moved, False, entry.owner))
        )
        return moved

    def _refused(
        self,
        one: Outgoing,
        lane: Lane,
        reason: str,
        names: dict[bytes, NameEntry],
        changes: Changes,
        added: list[bytes],
        now: int,
    ) -> None:
        """A message becomes a dead letter; a repetition continues. A reply that is not taken is lost."""
        if one.kind != Kind.MESSAGE:
            changes.remove(one.key)
            return
        pending = one.pending
        _, _, source, offset, _ = keys.read_pending_key(one.key)
        cluster = self._store.text(pending.cluster).removeprefix("cluster ")
        dead = self._lanes.of(self._known.dead_letters(cluster), changes)
        key = keys.pending_key(dead.number, now, source, offset, Kind.DEAD)
        content = with_properties(pending.content, {"delay.topic": str(lane.target)})
        letter = Pending(
            pending.name, pending.cluster, pending.due, content, pending.occurrence, reason=reason[:400]
        )
        self._sent(one, names, changes, added, now)
        changes.add(key, encode(letter))
        added.append(key)

    def _pace(self, lane: Lane, results: Sequence[Sent], now: int) -> None:
        """A lane whose messages fail pauses, longer and longer."""
        failed = next((one for one in results if one.result in AGAIN), None)
        if failed is None and lane.target.topic == self._known.dead_topic:
            failed = next((one for one in results if one.result is Result.NO_TARGET), None)
        if failed is None:
            lane.succeeded()
        else:
            self.counts.failed[str(lane.target)] += 1
            lane.failed(failed.reason, now)


def delivered_properties(one: Outgoing) -> dict[str, str]:
    """Properties that a message has when it leaves, beside its own."""
    pending = one.pending
    if one.kind == Kind.REPLY:
        given = {"delay.id": pending.name, "delay.outcome": pending.outcome}
        if pending.reason:
            given["delay.reason"] = pending.reason
        if pending.due_known:
            given["delay.due"] = str(pending.due)
        return given
    if one.kind == Kind.DEAD:
        given = {"delay.id": pending.name, "delay.reason": pending.reason}
        if pending.due_known:
            given.update({"delay.due": str(pending.due), "delay.occurrence": str(pending.occurrence)})
        return given
    return {
        "delay.id": pending.name,
        "delay.due": str(pending.due),
        "delay.occurrence": str(pending.occurrence),
    }


def outgoing_content(one: Outgoing) -> Content:
    """The message as it leaves, in the terms of its source."""
    if one.kind == Kind.REPLY:
        return Content(one.pending.outcome.encode(), delivered_properties(one), 0)
    content = one.pending.content
    more = delivered_properties(one)
    if one.pending.ddmq and one.kind == Kind.MESSAGE:
        content = ddmq.delivered(content, one.pending.ddmq)
    if content.headers is not None:
        # A name that its sender gave as a header is replaced, not added.
        kept = [header for header in content.headers if header[0] not in more]
        content = Content(content.body, None, 0, kept, content.key)
    return with_properties(content, more)

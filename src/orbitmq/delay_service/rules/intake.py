"""Intake: orders in the order of their queue become changes of the store, with the queue's position.

Replies and dead letters are pending messages themselves. So an outcome leaves if and only if the order was
carried out, whatever is killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from orbitmq import failpoints
from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules import forms
from orbitmq.delay_service.rules.lanes import Lane, Lanes
from orbitmq.delay_service.rules.orders import Cancel, Move, Order, Schedule, read_order
from orbitmq.delay_service.rules.sharing import QUEUE_PREFIX, RECORD, Record, Sharing
from orbitmq.delay_service.rules.targets import Known, Target
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import Content, Kind, NameEntry, Pending, encode
from orbitmq.delay_service.store.store import Changes, DelayStore

MAX_REASON = 400
CLUSTER_PREFIX = "cluster "


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of a source, or a partition."""

    cluster: str
    topic: str
    name: str
    """`BROKER:QUEUE`, or the number of a partition."""

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}/{self.name}"

    @property
    def target(self) -> Target:
        return Target(self.cluster, self.topic)


def parse_queue(text: str) -> Queue:
    """The queue of a text of the store."""
    cluster, topic, name = text.removeprefix(QUEUE_PREFIX).split("/", 2)
    return Queue(cluster, topic, name)


def queue_of(store: DelayStore, cluster: str, name: str) -> Queue | None:
    """The queue through which the message of a name came: actions on it have to go there, too."""
    number = store.number(CLUSTER_PREFIX + cluster)
    entry = None if number is None else store.entry(number, name)
    return None if entry is None else parse_queue(store.text(keys.source_of(entry.key)))


def way_of(
    known: Known, cluster: str, owner: str, queue: Queue | None, usual: str
) -> tuple[str, Queue | None]:
    """Topic and queue for an order of the service's own for `owner`; `queue` is where the name came from.

    The topic of an owner takes all that is in it for the owner's, so nothing of others may be written there.
    """
    own = known.topic_of(cluster, owner)
    if queue is not None and not known.is_others(queue.target, owner) and own in ("", queue.topic):
        return queue.topic, queue
    return own or usual, None


@dataclass(slots=True)
class SourceMessage:
    """A message of a source."""

    offset: int
    stored: int | None
    """Time of the source's own clock (ms); None if there is only the sender's."""
    control: dict[str, str]
    content: Content
    problem: str = ""
    """Flaw of the control properties, found as they were read."""
    sent: int = 0
    """Time of the sender's clock (ms); 0: unknown."""
    order: Order | None = None
    """The order, if it is not in `control`."""
    ddmq: str = ""
    """The id of DDMQ's form."""
    record: Record | None = None
    """A record of the holder, which is no order."""


@dataclass(slots=True)
class Outcome:
    """The outcome of an order."""

    name: str
    word: str
    reason: str = ""
    due: int | None = None
    """The time (ms) that was asked for."""


@dataclass(slots=True)
class IntakeCounts:
    """Counts since the start."""

    orders: Counter[str] = field(default_factory=Counter)
    """By outcome."""
    skew_ms: dict[str, int] = field(default_factory=dict)
    """The last difference between a sender's clock and its source's, by source."""


class Intake:
    """Carries orders out."""

    def __init__(self, store: DelayStore, lanes: Lanes, known: Known) -> None:
        self._store = store
        self._lanes = lanes
        self._known = known
        self._digests: dict[Queue, str] = {}
        self.sharing: Sharing | None = None
        """With several instances; all of them carry orders out in the same way."""
        self.counts = IntakeCounts()
        self.on_outcome: Callable[[Queue, int, Outcome], None] | None = None
        """Is told the outcome of each order, after the write."""

    def position(self, queue: Queue) -> int | None:
        """The offset to be read next, None for a queue of which nothing was read yet."""
        number = self._store.number(QUEUE_PREFIX + str(queue))
        return None if number is None else self._store.position(number)

    def go_back(self, queue: Queue, offset: int) -> None:
        """Has a queue read from an earlier offset on: what it holds now is new. Raises StoreError."""
        changes = self._store.changes()
        source = self._store.number_of(QUEUE_PREFIX + str(queue), changes)
        changes.put(keys.position_key(source), offset.to_bytes(8, "big"))
        self._store.write(changes)

    def take(self, queue: Queue, messages: Sequence[SourceMessage], next_offset: int, now: int) -> None:
        """Carries out the orders of a queue in one write, which holds the position as well.

        Messages before the position are passed over: they were carried out. Raises StoreError.
        """
        position = self.position(queue)
        if position is not None:
            messages = [one for one in messages if one.offset >= position]
            if next_offset <= position and not messages:
                return
        begin = 0
        if any(RECORD in one.control for one in messages):
            messages = self._with_records(queue, messages)
            for place, one in enumerate(messages):
                if one.record is not None:
                    if place > begin:
                        self._carry_out(queue, messages[begin:place], one.offset, now)
                    self._apply(queue, one.record, one.offset + 1)
                    begin = place + 1
        self._carry_out(queue, messages[begin:], next_offset, now)

    def _with_records(self, queue: Queue, messages: Sequence[SourceMessage]) -> list[SourceMessage]:
        """The messages, those that instances wrote as records. An instance that stands alone passes over
        those of earlier ones.
        """
        found = []
        for one in messages:
            if RECORD not in one.control:
                found.append(one)
            elif self.sharing is None:
                self.counts.orders["passed over"] += 1
            else:
                try:
                    record = self.sharing.read(str(queue), one.content.body or b"")
                except NotSchedulable as error:
                    found.append(replace(one, problem=str(error)))
                else:
                    found.append(replace(one, record=record))
        return found

    def _apply(self, queue: Queue, record: Record, next_offset: int) -> None:
        assert self.sharing is not None
        changes = self._store.changes()
        source = self._store.number_of(QUEUE_PREFIX + str(queue), changes)
        after = self.sharing.apply(str(queue), source, record, changes)
        changes.put(keys.position_key(source), next_offset.to_bytes(8, "big"))
        if failpoints.armed:
            failpoints.hit("delay.record")
        self._store.write(changes)
        after()

    def _carry_out(self, queue: Queue, messages: Sequence[SourceMessage], next_offset: int, now: int) -> None:
        """Carries out orders in one write."""
        changes = self._store.changes()
        step = _Step(self._store, self._lanes, self._known, changes, queue, now, self.name_of)
        step.shared = self.sharing is not None
        step.prefetch(messages)
        if failpoints.armed:
            failpoints.hit("delay.intake")
        outcomes: list[tuple[int, Outcome]] = []
        for one in messages:
            outcome = step.carry_out(one)
            self.counts.orders[outcome.word] += 1
            if self.on_outcome is not None:
                outcomes.append((one.offset, outcome))
        changes.put(keys.position_key(step.source), next_offset.to_bytes(8, "big"))
        self._store.write(changes)
        if failpoints.armed:
            failpoints.hit("delay.taken")
        for key in step.added:
            self._lanes.added(key)
        if self.on_outcome is not None:
            for offset, found in outcomes:
                self.on_outcome(queue, offset, found)
        if messages and messages[-1].sent and messages[-1].stored is not None:
            self.counts.skew_ms[str(queue.target)] = messages[-1].stored - messages[-1].sent

    def name_of(self, queue: Queue, offset: int) -> str:
        """The name of a message whose sender gave it none: the same in every instance."""
        digest = self._digests.get(queue)
        if digest is None:
            digest = self._digests[queue] = blake2b(str(queue).encode(), digest_size=6).hexdigest()
        return f"{digest}-{offset}"


@dataclass(eq=False, repr=False)
class _Step:
    """The orders of one write."""

    _store: DelayStore
    _lanes: Lanes
    _known: Known
    _changes: Changes
    _queue: Queue
    _now: int
    _name_of: Callable[[Queue, int], str]

    def __post_init__(self) -> None:
        self._topic = self._queue.target
        self._read_at = self._now
        self.shared = False
        """With several instances the time of an order is its source's: it is the same for all of them."""
        self.source = self._store.number_of(QUEUE_PREFIX + str(self._queue), self._changes)
        self._cluster = self._store.number_of(CLUSTER_PREFIX + self._queue.cluster, self._changes)
        self._entries: dict[str, NameEntry | None] = {}
        self._values: dict[bytes, bytes] = {}
        """Messages that were added by this step."""
        self._lane_cache: dict[str, Lane] = {}
        self.added: list[bytes] = []

    def prefetch(self, messages: Sequence[SourceMessage]) -> None:
        """Looks up all names at once."""
        names = {name for one in messages if (name := _wanted_name(one))}
        ordered = list(names)
        found = self._store.get_many([keys.name_key(self._cluster, name) for name in ordered])
        for name, value in zip(ordered, found, strict=True):
            self._entries[name] = None if value is None else self._store.read_entry(value)

    def carry_out(self, one: SourceMessage) -> Outcome:
        """Carries one order out, and gives the outcome."""
        if self.shared:
            self._now = one.stored if one.stored is not None else one.sent
        reason = ""
        due: int | None = None
        name = one.control.get("delay.id") or self._name_of(self._queue, one.offset)
        try:
            if one.problem:
                raise NotSchedulable(one.problem)
            order = one.order or read_order(one.control, one.stored, self._now)
            name = order.name or name
            if isinstance(order, Schedule):
                left = self._left_before(order, one)
                outcome, due = left or self._schedule(order, name, one), order.due
            elif isinstance(order, Cancel):
                outcome, reason = self._cancel(order)
            else:
                outcome, reason, due = *self._move(order, one), order.due
        except NotSchedulable as error:
            outcome, reason = "refused", str(error)[:MAX_REASON]
            self._refuse(one, name, reason)
        if "delay.reply" in one.control:
            self._reply(one, name, outcome, reason, due)
        return Outcome(name, outcome, reason, due)

    def _entry(self, name: str) -> NameEntry | None:
        if name not in self._entries:
            self._entries[name] = self._store.entry(self._cluster, name)
        return self._entries[name]

    def _set_entry(self, name: str, entry: NameEntry | None) -> None:
        self._entries[name] = entry
        key = keys.name_key(self._cluster, name)
        if entry is None:
            self._changes.delete(key)
        else:
            self._changes.put(key, encode(entry))

    def _lane(self, property_name: str, text: str) -> Lane:
        lane = self._lane_cache.get(text)
        if lane is None:
            target = self._known.target(property_name, self._queue.cluster, text)
            if len(self._lanes) >= self._known.max_targets and (self._store.number(f"lane {target}") is None):
                raise NotSchedulable(
                    f"{property_name}: {self._known.max_targets} targets have pending messages"
                )
            lane = self._lane_cache[text] = self._lanes.of(target, self._changes)
        return lane

    def _add(self, key: bytes, pending: Pending) -> None:
        value = self._values[key] = encode(pending)
        self._changes.add(key, value)
        self.added.append(key)

    def _remove(self, key: bytes) -> None:
        self._changes.remove(key)
        self._values.pop(key, None)

    def _schedule(self, order: Schedule, name: str, one: SourceMessage) -> str:
        lane = self._lane("delay.topic", order.target)
        kafka = self._known.kafka.get(lane.target.cluster, False)
        if kafka != one.content.is_kafka:
            forms.check_form(one.content, kafka)
        owner = self._known.owner(self._topic, order.owner)
        outcome = "scheduled"
        entry = self._entry(name) if order.name else None
        if entry is not None:
            self._check_owner(entry, owner)
            if not self._has_left(entry):
                self._remove(entry.key)
                outcome = "replaced"
        key = keys.pending_key(lane.number, order.due, self.source, one.offset)
        pending = Pending(
            name, self._cluster, order.due, one.content, order.occurrence, order.expires, order.repeat,
            ddmq=one.ddmq, owner=owner,
        )  # fmt: skip
        self._add(key, pending)
        self._set_entry(name, NameEntry(key, owner=owner))
        return outcome

    def _left_before(self, order: Schedule, one: SourceMessage) -> str:
        """`too-late` for a message that has left before the store was restored from a backup."""
        restored = self._store.restored
        if restored is None or one.stored is None or order.repeat is not None:
            return ""
        return "too-late" if one.stored < restored.at and order.due < restored.begin else ""

    def _has_left(self, entry: NameEntry) -> bool:
        """True if a message may be on its way."""
        return self._lanes.get(keys.lane_of(entry.key)).is_on_its_way(entry.key)

    def _check_owner(self, entry: NameEntry, owner: str) -> None:
        if entry.owner and entry.owner != owner:
            raise NotSchedulable("delay.id: the name belongs to another sender")

    def _cancel(self, order: Cancel) -> tuple[str, str]:
        owner = self._known.owner(self._topic, order.owner)
        entry = self._entry(order.name)
        if entry is None or entry.ending:
            return self._gone(order.name)
        self._check_owner(entry, owner)
        if self._has_left(entry):
            pending = self._pending(entry.key)
            if pending is None or pending.repeat is None:
                return "too-late", "it is on its way"
            # The occurrence that is on its way was the last one.
            self._set_entry(order.name, NameEntry(entry.key, True, entry.owner))
            return "cancelled", ""
        self._remove(entry.key)
        self._set_entry(order.name, None)
        return "cancelled", ""

    def _gone(self, name: str) -> tuple[str, str]:
        if self._store.has_left(self._cluster, name, self._read_at):
            return "too-late", "it has been delivered"
        return "unknown", "no message of this name is pending"

    def _pending(self, key: bytes) -> Pending | None:
        value = self._values.get(key)
        return self._store.read_pending(value) if value is not None else self._store.pending(key)

    def _move(self, order: Move, one: SourceMessage) -> tuple[str, str]:
        owner = self._known.owner(self._topic, order.owner)
        entry = self._entry(order.name)
        if entry is None or entry.ending:
            return self._gone(order.name)
        self._check_owner(entry, owner)
        if self._has_left(entry):
            return "too-late", "it is on its way"
        pending = self._pending(entry.key)
        if pending is None:
            return self._gone(order.name)
        key = keys.pending_key(keys.lane_of(entry.key), order.due, self.source, one.offset)
        pending.due = order.due
        self._remove(entry.key)
        self._add(key, pending)
        self._set_entry(order.name, NameEntry(key, owner=entry.owner))
        return "moved", ""

    def _refuse(self, one: SourceMessage, name: str, reason: str) -> None:
        """The message goes to the dead letters, whole: with its control properties it can be sent again."""
        lane = self._lanes.of(self._known.dead_letters(self._queue.cluster), self._changes)
        key = keys.pending_key(lane.number, self._now, self.source, one.offset, Kind.DEAD)
        content = forms.with_properties(one.content, one.control)
        pending = Pending(name, self._cluster, self._now, content, reason=reason, due_known=False)
        self._add(key, pending)

    def _reply(self, one: SourceMessage, name: str, outcome: str, reason: str, due: int | None) -> None:
        try:
            lane = self._lane("delay.reply", one.control["delay.reply"])
        except NotSchedulable:
            return  # The order itself is not touched by a reply that cannot be sent.
        key = keys.pending_key(lane.number, self._now, self.source, one.offset, Kind.REPLY)
        pending = Pending(
            name, self._cluster, due if due is not None else 0, Content(b""), outcome=outcome, reason=reason,
            due_known=due is not None,
        )  # fmt: skip
        self._add(key, pending)


def _wanted_name(one: SourceMessage) -> str:
    name = one.order.name if one.order is not None else one.control.get("delay.id", "")
    return name if len(name) <= 1024 else ""

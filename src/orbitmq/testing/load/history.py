"""Promises to clients and the messages they saw, checked in one pass, linear in their number.

A send is never repeated, so a message that is there twice was doubled by the broker. `life_ended` says what
a power cut may take: everything behind `durable` may be gone, and what was only acknowledged there is
promised no longer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

CLOCKS_MS = 1
"""By so much the clocks of two processes differ that take whole ms at moments of their own."""

RULES = {
    "lost": "every acknowledged message is in its topic",
    "doubled": "no message is there twice",
    "invented": "nothing is there that nobody sent, and every body is as it was sent",
    "changed": "what a queue showed stays as it was",
    "gaps": "queue offsets are dense",
    "order": "messages of one sender to one queue stand in the order in which they were sent",
    "early": "nothing is delivered before its time",
    "undone": "nothing is delivered that was rolled back or recalled",
    "acked again": "what a pop acknowledged in time is not popped again by the same life of the broker",
    "starved": "everything that was popped and not acknowledged can be popped again",
    "offsets": "a group's offset never goes beyond what it committed, and back in crashes only",
    "stuck": "the broker comes back, and answers",
    "failed": "nothing fails inside that nobody expected",
}
"""Promises, by the name under which a breach is reported."""

MOST_BROKEN = 10_000
"""So many breaches are noted."""


@dataclass(slots=True, frozen=True)
class Broken:
    """A promise that was not kept."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


@dataclass(slots=True)
class Promise:
    """The promise for one message."""

    name: str
    topic: str
    queue_id: int
    kind: str
    not_before_ms: float = 0
    visible: bool | None = True
    """True: it must be seen; False: it must not; None: it may."""
    acknowledged: bool = False
    acknowledged_ms: float = 0
    place: int = -1
    """Physical offset of what was acknowledged; -1 where none is known."""
    is_excused: bool = False
    """True if a power cut may have taken it: acknowledged, and not yet on the disk."""
    life: int = 0


@dataclass(slots=True)
class Loss:
    """Messages lost to the power cuts of a run."""

    cuts: int = 0
    messages: int = 0
    """Acknowledged messages that a cut took."""
    most_messages: int = 0
    most_ms: float = 0
    """Longest time in ms from the acknowledgement of a lost message to the cut."""
    by_kind: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass(slots=True)
class _Cut:
    """A power cut that may have taken something: whatever was stored behind `durable`."""

    life: int
    """The life that it ended."""
    now_ms: float
    durable: int
    at_risk: list[Promise]


class History:
    """Kept by the clients while they run; `check` is for the end, when all queues were read once more."""

    def __init__(self) -> None:
        self.promises: dict[str, Promise] = {}
        self.seen: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        """Messages that the reader of a queue saw, in order: (message, physical offset)."""
        self.first_seen_ms: dict[str, float] = {}
        self.popped_away: set[str] = set()
        """Popped messages that were acknowledged at any time."""
        self._acked_in_time: dict[str, int] = {}
        self.committed: dict[tuple[str, int], int] = defaultdict(int)
        """The largest offset ever committed, by queue."""
        self._confirmed: dict[tuple[str, int], int] = {}
        """Offsets that this life of the broker has said it noted."""
        self._unsure: set[tuple[str, int]] = set()
        """Queues of which a commit of this life got no answer: it may arrive behind a later one."""
        self._saved: dict[tuple[str, int], int] = {}
        """Offsets that were confirmed when the broker ended in order."""
        self.life = 0
        self.kills = self.cuts = self.stops = 0
        self.loss = Loss()
        self.broken: list[Broken] = []
        self._cuts: list[_Cut] = []
        self._since_cut: list[Promise] = []
        """Promises since the last cut; the next cut can take no older ones."""

    def break_(self, rule: str, detail: str) -> None:
        if len(self.broken) < MOST_BROKEN:
            self.broken.append(Broken(rule, detail))

    def promise(self, name: str, topic: str, queue_id: int, kind: str, **more: object) -> Promise:
        """A message is about to be sent."""
        made = Promise(name, topic, queue_id, kind, life=self.life, **more)  # type: ignore[arg-type]
        self.promises[name] = made
        return made

    def acknowledge(self, promise: Promise, now_ms: float, place: int = -1) -> None:
        """The broker has said that it has it.

        An answer may arrive after the end of the life that gave it, over a slow connection: what was under
        way at a power cut is at risk as if the answer had come before it.
        """
        promise.acknowledged = True
        promise.acknowledged_ms = now_ms
        promise.place = place
        self._since_cut.append(promise)
        for cut in self._cuts[bisect_left(self._cuts, promise.life, key=lambda cut: cut.life) :]:
            self._excuse(promise, cut)

    def recalled(self, promise: Promise) -> None:
        """The broker has said that the message will not be delivered.

        The next cut may take that answer's record, even if the message itself was stored without the copies
        that its acknowledgement waits for, so that it never was acknowledged.
        """
        promise.visible = False
        # The recall is a record of its own: its place on the disk is not reported.
        promise.place = -1
        self._since_cut.append(promise)

    def _excuse(self, promise: Promise, cut: _Cut) -> None:
        """Promises no longer what a cut may have taken."""
        if promise.is_excused or 0 <= promise.place < cut.durable:
            return
        # Also what it must not become is not sure any more: a recall may be lost as well.
        promise.is_excused = True
        cut.at_risk.append(promise)

    def saw(self, topic: str, queue_id: int, offset: int, name: str, place: int, now_ms: float) -> bool:
        """A reader got a message; False if it had another one at this place before."""
        queue = self.seen[topic, queue_id]
        if offset != len(queue):
            self.break_("gaps", f"{topic}:{queue_id} gave offset {offset} where {len(queue)} was next")
            return False
        queue.append((name, place))
        if name not in self.first_seen_ms:
            self.first_seen_ms[name] = now_ms
            self._check_time(name, now_ms)
        return True

    def _check_time(self, name: str, now_ms: float) -> None:
        promise = self.promises.get(name)
        if promise is None:
            self.break_("invented", f"nobody sent {name!r}")
        elif now_ms < promise.not_before_ms - self._clocks_ms():
            early = promise.not_before_ms - now_ms
            self.break_("early", f"{name} came {early:.0f} ms before its time")

    def _clocks_ms(self) -> float:
        """By so much the clocks that count differ."""
        return CLOCKS_MS

    def pop(self, name: str) -> None:
        promise = self.promises.get(name)
        if promise is None:
            self.break_("invented", f"nobody sent {name!r}")
        # An answer may be lost with the broker: what was popped in an earlier life may come once more.
        elif promise.life == self.life and self._acked_in_time.get(name) == self.life:
            self.break_("acked again", f"{name} was acknowledged, and popped again")

    def pop_acknowledged(self, name: str, *, in_time: bool, life: int) -> None:
        """A pop's message was acknowledged; `in_time`: before it could become visible again."""
        self.popped_away.add(name)
        if in_time and life == self.life:
            self._acked_in_time[name] = life

    def life_ended(self, kind: str, now_ms: float, durable: int | None = None) -> None:
        """The broker ended by a `kill`, a `cut` of power, or a `stop`.

        `durable`: the physical offset up to which everything is on the disk, where what lies behind may be
        lost.
        """
        self.kills += kind == "kill"
        self.cuts += kind == "cut"
        self.stops += kind == "stop"
        ended, self.life = self.life, self.life + 1
        if kind == "stop":
            self._saved |= self._confirmed
        self._confirmed.clear()
        self._unsure.clear()
        if durable is None:
            return
        self.loss.cuts += 1
        cut = _Cut(ended, now_ms, durable, [])
        self._cuts.append(cut)
        for promise in self._since_cut:
            self._excuse(promise, cut)
        self._since_cut.clear()
        for names in self.seen.values():
            while names and names[-1][1] >= durable:
                names.pop()

    def offset_committed(self, topic: str, queue_id: int, offset: int, *, is_sure: bool) -> None:
        """The broker has said that it noted a group's offset; without `is_sure` it said nothing."""
        queue = topic, queue_id
        if not is_sure:
            self._unsure.add(queue)
            self._confirmed.pop(queue, None)
        elif queue not in self._unsure:
            self._confirmed[queue] = offset

    def offset_found(self, topic: str, queue_id: int, offset: int, end: int | None = None) -> None:
        """A group's offset was asked for, of a queue that ends at `end`, if that is known."""
        queue = topic, queue_id
        least = max(self._confirmed.get(queue, 0), self._saved.get(queue, 0))
        most = self.committed[queue]
        if offset < least:
            self.break_("offsets", f"{topic}:{queue_id} is at {offset}, {least} was noted")
        if offset > most:
            self.break_("offsets", f"{topic}:{queue_id} is at {offset}, {most} was committed")
        if end is not None and offset > end:
            self.break_("offsets", f"{topic}:{queue_id} is at {offset}, its queue ends at {end}")

    def outstanding(self) -> list[str]:
        """Messages that have to be seen or popped, and were not yet."""
        return [
            name
            for name, promise in self.promises.items()
            if promise.acknowledged
            and promise.visible
            and not promise.is_excused
            and (
                name not in self.first_seen_ms or (promise.kind == "popped" and name not in self.popped_away)
            )
        ]

    def check(self, everything: dict[tuple[str, int], list[str]]) -> list[Broken]:
        """Compares with what all queues hold in the end; gives every breach there was."""
        for queue, seen in self.seen.items():
            held = everything.get(queue, [])
            if held[: len(seen)] != [name for name, _ in seen]:
                at = next(
                    (i for i, (name, _) in enumerate(seen) if i >= len(held) or held[i] != name), len(seen)
                )
                now = held[at] if at < len(held) else "nothing"
                self.break_("changed", f"{queue[0]}:{queue[1]} showed {seen[at][0]} at {at}, now {now}")
        places: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for (topic, queue_id), names in everything.items():
            last: dict[str, int] = {}
            for offset, name in enumerate(names):
                places[topic, name].append((queue_id, offset))
                self._check_order(topic, queue_id, name, last)
        for (topic, name), where in places.items():
            if len(where) > 1:
                self.break_("doubled", f"{name} is in {topic} {len(where)} times: {where}")
            if name not in self.promises:
                self.break_("invented", f"nobody sent {name!r}, which is in {topic}")
        for promise in self.promises.values():
            self._check_fate(promise, bool(places.get((promise.topic, promise.name))))
        self._count_losses(places)
        if self.promises and not any(one.acknowledged for one in self.promises.values()):
            self.break_("stuck", f"none of {len(self.promises)} messages was ever acknowledged")
        for name in self.outstanding():
            if self.promises[name].kind == "popped" and name in self.first_seen_ms:
                self.break_("starved", f"{name} could not be popped and acknowledged")
        return self.broken

    def _check_order(self, topic: str, queue_id: int, name: str, last: dict[str, int]) -> None:
        """Each sender waits for its answer before it sends on: its messages stand in that order."""
        promise = self.promises.get(name)
        if promise is None or promise.kind not in ("plain", "batch") or not promise.acknowledged:
            return  # what was not answered may have been on its way for long, while others overtook it
        sender, _, number = name.rpartition("-")
        if last.get(sender, -1) >= int(number):
            self.break_("order", f"{name} is behind {sender}-{last[sender]} in {topic}:{queue_id}")
        last[sender] = int(number)

    def _check_fate(self, promise: Promise, is_there: bool) -> None:
        if promise.is_excused:
            return
        if promise.visible is False and is_there:
            self.break_("undone", f"{promise.name} must not be in {promise.topic}")
        elif promise.acknowledged and promise.visible and not is_there:
            self.break_("lost", f"{promise.name} was acknowledged and is not in {promise.topic}")

    def _count_losses(self, places: dict[tuple[str, str], list[tuple[int, int]]]) -> None:
        loss = self.loss
        for cut in self._cuts:
            gone = [one for one in cut.at_risk if one.visible and not places.get((one.topic, one.name))]
            loss.messages += len(gone)
            loss.most_messages = max(loss.most_messages, len(gone))
            for one in gone:
                loss.by_kind[one.kind] += 1
                loss.most_ms = max(loss.most_ms, cut.now_ms - one.acknowledged_ms)

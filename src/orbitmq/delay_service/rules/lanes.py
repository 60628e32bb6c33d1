"""Lanes: one for each target, so that none waits for another.

A lane knows a lower bound of its next key and the keys that are on their way. Every other pending key of the
lane is at or after that bound: what is pending is known from the store alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from orbitmq.delay_service.rules.targets import Target
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.store import Changes, DelayStore

PREFIX = "lane "
FIRST_PAUSE_MS = 100
LONGEST_PAUSE_MS = 30_000


@dataclass(slots=True, eq=False)
class Lane:
    """The pending messages of one target."""

    number: int
    target: Target
    head: bytes | None = None
    """No key that is pending and not on its way is before this one; None: there is none."""
    on_the_way: set[bytes] = field(default_factory=set)
    """Keys that are being sent, or may have been."""
    unsent: set[bytes] = field(default_factory=set)
    """Keys on the way that are not being sent: a new holder sends them again."""
    may_be_sent: bytes = b""
    """Keys up to this one may have been sent before the start."""
    busy: bool = False
    """A batch is under way."""
    is_behind: bool = False
    """More was due than its last batch could hold."""
    paused_until: int = 0
    failures: int = 0
    """Failures in a row."""
    problem: str = ""
    """The last failure, empty if all is well."""
    rate: float = 0.0
    """Limit of messages in a second; 0: none."""
    tokens: float = 0.0
    tokens_at: int = 0

    def is_on_its_way(self, key: bytes) -> bool:
        """True if a message may have left already: it can be neither moved nor cancelled."""
        return key in self.on_the_way or key <= self.may_be_sent

    @property
    def wakes_at(self) -> int | None:
        """The time (ms) at which there may be something to do; None: not before something comes."""
        if self.busy or (self.head is None and not self.unsent):
            return None
        due = 0 if self.head is None or self.unsent else keys.due_of(self.head)
        return max(due, self.paused_until)

    def allowed(self, most: int, now: int) -> int:
        """Number of messages that may leave now."""
        if not self.rate:
            return most
        burst = max(1.0, self.rate)
        passed = max(0, now - self.tokens_at)
        self.tokens = min(burst, self.tokens + passed * self.rate / 1000)
        self.tokens_at = now
        if self.tokens < 1:
            self.paused_until = now + max(1, round((1 - self.tokens) * 1000 / self.rate))
        return min(most, int(self.tokens))

    def failed(self, why: str, now: int) -> None:
        """Pauses after a failure, longer with each one in a row."""
        self.failures += 1
        self.problem = why
        self.paused_until = now + min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << min(self.failures - 1, 12))

    def succeeded(self) -> None:
        """The target takes messages."""
        self.failures = 0
        self.problem = ""


class Lanes:
    """All lanes of a store, and which of them is next."""

    def __init__(self, store: DelayStore, rates: dict[str, float] | None = None) -> None:
        self._store = store
        self._rates = rates or {}
        self._by_number: dict[int, Lane] = {}
        self._due: list[tuple[int, int]] = []
        """Times and numbers of lanes; may hold times that have been replaced."""
        for number, text in store.numbered(PREFIX).items():
            lane = self._make(number, text)
            claim = store.get(keys.claim_key(number))
            lane.may_be_sent = claim or b""
            lane.on_the_way = keys.held_keys(store.get(keys.held_key(number)))
            self.find_head(lane)

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._by_number.values())

    def __len__(self) -> int:
        return len(self._by_number)

    def _make(self, number: int, text: str) -> Lane:
        cluster, _, topic = text.partition("/")
        target = Target(cluster, topic)
        lane = self._by_number[number] = Lane(number, target, rate=self._rates.get(text, 0.0))
        lane.tokens = max(1.0, lane.rate)
        return lane

    def get(self, number: int) -> Lane:
        return self._by_number[number]

    def of(self, target: Target, changes: Changes) -> Lane:
        """The lane of a target, which is made if there is none."""
        text = str(target)
        number = self._store.number_of(PREFIX + text, changes)
        return self._by_number.get(number) or self._make(number, text)

    def find_head(self, lane: Lane) -> None:
        """Looks for the next key of a lane that is not on its way."""
        start = lane.head or keys.lane_start(lane.number)
        lane.head = None
        for key, _ in self._store.items(start, keys.lane_end(lane.number)):
            if key not in lane.on_the_way:
                lane.head = key
                break
        self.changed(lane)

    def added(self, key: bytes) -> None:
        """A pending message has come."""
        lane = self._by_number[keys.lane_of(key)]
        if lane.head is None or key < lane.head:
            lane.head = key
            self.changed(lane)

    def changed(self, lane: Lane) -> None:
        """A lane may be due at another time than before."""
        wakes_at = lane.wakes_at
        if wakes_at is not None:
            heapq.heappush(self._due, (wakes_at, lane.number))

    def due(self, now: int) -> Lane | None:
        """A lane that has something to do now; it is taken from the list until `changed`."""
        while self._due and self._due[0][0] <= now:
            _, number = heapq.heappop(self._due)
            lane = self._by_number[number]
            wakes_at = lane.wakes_at
            if wakes_at is not None and wakes_at <= now:
                return lane
            self.changed(lane)
        return None

    @property
    def next_at(self) -> int | None:
        """The time (ms) before which there is nothing to do; None: nothing is pending."""
        return self._due[0][0] if self._due else None

    def end_pauses(self, now: int) -> None:
        """Ends all pauses: the clock has jumped, and they might last for as long as it was set back."""
        for lane in self:
            if lane.paused_until > now:
                lane.paused_until = now
                self.changed(lane)

"""The service of a cluster as its clients had it: times without it, messages lost, messages given twice.

All times are of one monotonic clock, in seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

CONTROL = "none"
"""The kind of a time in which nothing was done to the cluster: its figures are those of the machine."""

RULES = {
    "lost": "every acknowledged message is in its topic",
    "taken back": "what a consumer was given stays in its topic",
    "not delivered": "every acknowledged message was given to the consumer",
    "invented": "nothing is there that nobody sent",
    "order": "acknowledged messages of one sender stand in each queue in the order in which they were sent",
    "refused": "a master whose disk is full refuses messages with SERVICE_NOT_AVAILABLE",
    "stuck": "when a fault is over, the cluster serves again",
}
"""Promises, by the name under which a breach is reported."""
MOST_EXAMPLES = 5

Queue = tuple[str, int]
"""A broker group, and the number of a queue there."""


@dataclass(slots=True)
class Window:
    """The time of one fault, until both clients were served again."""

    kind: str
    began: float
    held_seconds: float = 0.0
    """Time from the fault to its end: a restart, a mended link."""
    ended: float = math.inf
    may_lose_from: float | None = None
    """Messages stored from this moment on may be lost with their master. Just before the fault, the masters
    said that all earlier ones had a replica. None if no message may be lost.
    """


@dataclass(slots=True)
class FaultRow:
    """The results of all faults of a kind."""

    kind: str
    times: int = 0
    held: list[float] = field(default_factory=list)
    producer: list[float] = field(default_factory=list)
    """For each fault the longest time in seconds in which no message was acknowledged."""
    consumer: list[float] = field(default_factory=list)
    """For each fault the longest time in seconds in which an acknowledged message waited, and none came."""
    slowest: float = 0.0
    """Longest time in seconds from an acknowledgement to the delivery of that message."""
    lost: int = 0
    twice: int = 0

    def to_value(self) -> dict[str, Any]:
        return {
            "fault": self.kind,
            "times": self.times,
            "heldSeconds": _spread(self.held),
            "producerWithoutServiceSeconds": _spread(self.producer),
            "consumerWithoutServiceSeconds": _spread(self.consumer),
            "slowestDeliverySeconds": round(self.slowest, 3),
            "lost": self.lost,
            "duplicated": self.twice,
        }


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {
        "median": round(median(values), 3),
        "mean": round(sum(values) / len(values), 3),
        "longest": round(max(values), 3),
    }


class Service:
    """Noted by the clients while they run; `rows` and `check` are for the end."""

    def __init__(self) -> None:
        self.sent: dict[str, float] = {}
        """Messages by their unique ids, with the time at which their send began."""
        self.acknowledged: dict[str, float] = {}
        self.acks: list[float] = []
        """Times of all acknowledgements, in their order."""
        self.given: dict[str, float] = {}
        """The first delivery of each message, in the order of deliveries."""
        self.deliveries: Counter[str] = Counter()
        self.failed_sends = 0
        self.windows: list[Window] = []
        self.broken: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = defaultdict(list)
        self._missing: set[str] = set()
        """Acknowledged messages that no queue holds; known behind `check`."""
        self.lost_as_reported = 0
        """Number of acknowledged messages that were lost, and had no replica by their masters' words; known
        behind `check`."""

    def break_(self, rule: str, detail: str) -> None:
        self.broken[rule] += 1
        if len(self.examples[rule]) < MOST_EXAMPLES:
            self.examples[rule].append(detail)

    def acknowledge(self, name: str, now: float) -> None:
        self.acknowledged[name] = now
        self.acks.append(now)

    def give(self, name: str, now: float) -> None:
        """The consumer got a message."""
        self.given.setdefault(name, now)
        self.deliveries[name] += 1

    def outstanding(self) -> int:
        """Number of acknowledged messages that did not come yet."""
        return len(self.acknowledged.keys() - self.given.keys())

    # The end.

    def check(self, held: Mapping[Queue, Sequence[str]]) -> None:
        """Compares with what all queues hold in the end, in the order in which they hold it."""
        there: set[str] = set()
        for queue, names in held.items():
            last: dict[str, int] = {}
            for name in names:
                if name not in self.sent:
                    self.break_("invented", f"{name!r} in {queue}")
                elif name in self.acknowledged and name not in there:
                    sender, _, number = name.rpartition("-")
                    if last.get(sender, -1) > int(number):
                        self.break_("order", f"{name} behind {sender}-{last[sender]} in {queue}")
                    last[sender] = int(number)
                there.add(name)
        self._missing = self.acknowledged.keys() - there
        for name in self._missing:
            if self._may_be_lost(name):
                self.lost_as_reported += 1
            else:
                self.break_("lost", f"{name}, {self._place(name)}")
        for name in self.given.keys() - there:
            if name in self.sent:
                if self._may_be_lost(name):
                    continue
                self.break_("taken back", f"{name}, {self._place(name)}")
            else:
                self.break_("invented", f"{name!r} was delivered")
        for name in (self.acknowledged.keys() & there) - self.given.keys():
            # A consumer's offset may be that of a message that was lost, and of others since then.
            if not self._may_be_lost(name):
                self.break_("not delivered", f"{name}, {self._place(name)}")

    def _may_be_lost(self, name: str) -> bool:
        """True if masters had said that a message was without a replica when the fault came, or it was stored
        while a fault went on: then it is unknown by which master.
        """
        moment = self.acknowledged.get(name, self.sent[name])
        window = self._window(moment)
        if window.may_lose_from is not None and window.began <= moment < window.ended:
            return True
        following = bisect_left(self.windows, moment, key=lambda window: window.began)
        if following == len(self.windows):
            return False
        may_lose_from = self.windows[following].may_lose_from
        return may_lose_from is not None and moment >= may_lose_from

    def _place(self, name: str) -> str:
        window = self._window(self.acknowledged.get(name, self.sent.get(name, 0.0)))
        after = self.acknowledged.get(name, self.sent[name]) - window.began
        return f"sent {after:.2f} s after the fault {window.kind!r}"

    def _window(self, moment: float) -> Window:
        """The window of a moment; what lies between two belongs to the one before."""
        at = bisect_left(self.windows, moment, key=lambda window: window.began)
        return self.windows[max(0, at - 1)]

    def rows(self) -> list[FaultRow]:
        """The results by kind of fault, in the order of names. Losses are known behind `check`."""
        rows: dict[str, FaultRow] = {}
        delivered = self._delivered()
        if not self.windows:
            return []
        for window in self.windows:
            row = rows.setdefault(window.kind, FaultRow(window.kind))
            row.times += 1
            row.held.append(window.held_seconds)
            row.producer.append(_longest_gap(self.acks, window))
            row.consumer.append(_longest_wait(delivered, window))
        for name, moment in self.acknowledged.items():
            row = rows[self._window(moment).kind]
            row.lost += name in self._missing
            if name in self.given:
                row.slowest = max(row.slowest, self.given[name] - moment)
        for name, count in self.deliveries.items():
            if count > 1 and name in self.sent:
                rows[self._window(self.sent[name]).kind].twice += 1
        return sorted(rows.values(), key=lambda row: (row.kind != CONTROL, row.kind))

    def each_window(self) -> list[dict[str, Any]]:
        """Every fault by itself, for JSON; times in seconds, `at` from the first one."""
        delivered = self._delivered()
        return [
            {
                "fault": window.kind,
                "at": round(window.began - self.windows[0].began, 3),
                "held": round(window.held_seconds, 3),
                "producer": round(_longest_gap(self.acks, window), 3),
                "consumer": round(_longest_wait(delivered, window), 3),
            }
            for window in self.windows
        ]

    def _delivered(self) -> list[tuple[float, float]]:
        """Every first delivery with the time since which any message had waited for one."""
        given = list(self.given.items())
        waited_since = math.inf
        found = []
        for index in range(len(given) - 1, -1, -1):
            name, moment = given[index]
            waited_since = min(waited_since, self.acknowledged.get(name, moment))
            before = given[index - 1][1] if index else -math.inf
            found.append((moment, max(before, waited_since)))
        return found[::-1]


def _longest_gap(acks: Sequence[float], window: Window) -> float:
    begin = bisect_left(acks, window.began)
    end = bisect_left(acks, window.ended)
    moments = [window.began, *acks[begin:end]]
    return _longest(after - before for before, after in pairwise(moments))


def _longest_wait(delivered: Sequence[tuple[float, float]], window: Window) -> float:
    begin = bisect_left(delivered, window.began, key=lambda one: one[0])
    end = bisect_left(delivered, window.ended, key=lambda one: one[0])
    return _longest(moment - max(since, window.began) for moment, since in delivered[begin:end])


def _longest(gaps: Iterable[float]) -> float:
    return max((gap for gap in gaps if gap > 0), default=0.0)

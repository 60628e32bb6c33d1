"""All that a diagnosis of one group stands on: plain values, so that rules need no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orbitmq.admin.results import INTERNAL
from orbitmq.protocol.bodies.heartbeat import FilterOfMembers
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import RETRY_PREFIX


@dataclass(frozen=True, slots=True)
class QueueEvidence:
    """One queue that the group reads, looked at twice."""

    queue: MessageQueue
    lag: int
    """Messages not consumed at the second look."""
    consumed: int = 0
    """Messages consumed between the looks."""
    arrived: int = 0
    """Messages stored between the looks."""
    consumer_offset: int = 0
    min_offset: int | None = None
    """The oldest message that is still stored; None where it is not known."""
    oldest_ms: int = 0
    """Store time of the message consumed last, ms since 1970; 0 without one."""


@dataclass(frozen=True, slots=True)
class HeldQueue:
    """A queue as the member that reads it sees it."""

    cached: int = 0
    """Messages pulled and not finished."""
    cached_mib: int = 0
    first_cached: int = 0
    """Queue offset of the first of them."""
    locked: bool = True
    """For ordered consumers: the broker lets it read."""
    last_pull_ms: int = 0
    last_consume_ms: int = 0


@dataclass(frozen=True, slots=True)
class Handling:
    """A member's figures on one topic over the last minute."""

    handler_ms: float = 0.0
    ok_tps: float = 0.0
    failed_tps: float = 0.0
    pull_tps: float = 0.0


@dataclass(frozen=True, slots=True)
class LoopBlocks:
    """Times at which code of a member's program has blocked its event loop."""

    times: int
    longest_ms: int
    last_ms: int
    at: str
    """Files, lines and functions."""


@dataclass(frozen=True, slots=True)
class Member:
    """One client of the group. Without `answered` it reported nothing."""

    client_id: str
    address: str = ""
    language: str = ""
    version: str = ""
    answered: bool = True
    ordered: bool = False
    threads: int = 0
    subscriptions: dict[str, str] = field(default_factory=dict)
    """Filter expressions by topic."""
    held: dict[MessageQueue, HeldQueue] = field(default_factory=dict, metadata=INTERNAL)
    handling: dict[str, Handling] = field(default_factory=dict, metadata=INTERNAL)
    blocks: LoopBlocks | None = field(default=None, metadata=INTERNAL)

    @property
    def queues(self) -> int:
        return len(self.held)

    @property
    def cached(self) -> int:
        """Messages pulled and not finished."""
        return sum(one.cached for one in self.held.values())

    @property
    def handler_ms(self) -> float:
        """Mean time for a message of the topic with the slowest handler, over the last minute."""
        times = [one.handler_ms for one in self.handling.values() if one.ok_tps or one.failed_tps]
        return max(times, default=0.0)

    @property
    def ok_tps(self) -> float:
        """Messages that its handlers finish per second."""
        return sum(one.ok_tps for one in self.handling.values())

    @property
    def failed_tps(self) -> float:
        """Messages at which its handlers fail per second."""
        return sum(one.failed_tps for one in self.handling.values())


def filters_of(members: Sequence[Member]) -> list[FilterOfMembers]:
    """The filters by which members read a topic, by their own reports, where these differ."""
    answered = [one for one in members if one.answered and one.subscriptions]
    found: list[FilterOfMembers] = []
    for topic in sorted({topic for one in answered for topic in one.subscriptions}):
        rows: dict[str, FilterOfMembers] = {}
        for one in answered:
            text = one.subscriptions.get(topic)
            kind = "" if text is None else "TAG"
            row = rows.setdefault(f"{kind} {text}", FilterOfMembers(topic, kind, text or ""))
            row.client_ids.append(one.client_id)
        if len(rows) > 1 and not topic.startswith(RETRY_PREFIX):
            found += rows.values()
    return found


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything about one group at one moment."""

    group: str
    now_ms: int
    seconds: float
    """Time between the two looks at the queues."""
    queues: list[QueueEvidence] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    known: bool = True
    """Brokers have settings for the group."""
    near: tuple[str, ...] = ()
    """Names of groups that are like that of a group which no broker knows."""
    enabled: bool = True
    broadcasting: bool = False
    brokers_gone: dict[str, str] = field(default_factory=dict)
    """Masters that do not answer, with the reason."""
    brokers_blind: dict[str, int] = field(default_factory=dict)
    """Masters that no controller answers, with the time since when, in ms."""
    brokers_refusing: dict[str, str] = field(default_factory=dict)
    """Masters that answer with an error, with that."""
    forbidden: dict[str, str] = field(default_factory=dict)
    """Masters that do not permit to look at them or at the group, with their errors."""
    unreadable: frozenset[str] = frozenset()
    """Topics that may not be read on at least one broker."""
    retry_lag: int = 0
    """Messages that failed and wait for their next try."""
    dead_letters: int = 0
    filters: list[FilterOfMembers] = field(default_factory=list)
    """The filters by which members read a topic, where brokers say that these differ."""
    new_dead_letters: int = 0
    """Dead letters stored between the looks."""

    @property
    def lag(self) -> int:
        return sum(one.lag for one in self.queues)

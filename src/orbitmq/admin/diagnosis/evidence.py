"""All that a diagnosis of one group stands on: plain values, so that rules need no cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.protocol.bodies.queue import MessageQueue


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
class Member:
    """One client of the group. Without `answered` it reported nothing."""

    client_id: str
    answered: bool = True
    ordered: bool = False
    threads: int = 0
    subscriptions: dict[str, str] = field(default_factory=dict)
    """Filter expressions by topic."""
    held: dict[MessageQueue, HeldQueue] = field(default_factory=dict)
    handling: dict[str, Handling] = field(default_factory=dict)


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
    enabled: bool = True
    broadcasting: bool = False
    brokers_gone: dict[str, str] = field(default_factory=dict)
    """Masters that do not answer, with the reason."""
    unreadable: frozenset[str] = frozenset()
    """Topics that may not be read on at least one broker."""
    retry_lag: int = 0
    """Messages that failed and wait for their next try."""
    dead_letters: int = 0
    refused: str = ""
    """The error of a broker that did not allow the group to be looked at."""

    @property
    def lag(self) -> int:
        """Messages not consumed."""
        return sum(one.lag for one in self.queues)

"""What the parts of a running consumer share: options, instance, subscriptions, offsets, and how it fares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orbitmq.client.handlers import Handler
from orbitmq.client.instance import ClientInstance
from orbitmq.client.offsets import OffsetTable
from orbitmq.client.options import ConsumerOptions
from orbitmq.client.stats import TopicStats
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.names import retry_topic

if TYPE_CHECKING:
    from orbitmq.client.tracing import Tracer

DEFAULT_MAX_RECONSUME_TIMES = 16
WITHOUT_END = 2**31 - 1


@dataclass(slots=True)
class Subscription:
    """A topic, what is wanted of it, and who handles it; without a handler it is for `async for`."""

    data: SubscriptionData
    handler: Handler | None
    is_async: bool = False
    """Whether the handler gives a coroutine; else it may block, and runs in a thread."""


@dataclass(slots=True)
class Session:
    """A consumer between its start and its end."""

    options: ConsumerOptions
    instance: ClientInstance
    subscriptions: dict[str, Subscription]
    """By topic, the group's retry topic included."""
    offsets: OffsetTable
    stats: dict[str, TopicStats] = field(default_factory=dict)
    tracer: Tracer | None = None
    paused: bool = False
    """Whether nothing more is pulled for now."""
    trouble: dict[str, Exception] = field(default_factory=dict)
    """What fails at present, by subject."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.options.group

    @property
    def max_reconsume_times(self) -> int:
        """How often a message may come again before it is given up."""
        chosen = self.options.max_reconsume_times
        if chosen >= 0:
            return chosen
        return WITHOUT_END if self.options.ordered else DEFAULT_MAX_RECONSUME_TIMES

    def subscription_of(self, topic: str) -> Subscription | None:
        """The subscription that messages of a topic fall under; None where none is left.

        What still comes of a topic that was given up goes where the rest goes.
        """
        known = self.subscriptions.get(topic)
        if known is None:
            own = retry_topic(self.group)
            known = next((row for name, row in self.subscriptions.items() if name != own), None)
        return known

    def stats_of(self, topic: str) -> TopicStats:
        """The sums of one topic."""
        stats = self.stats.get(topic)
        if stats is None:
            stats = self.stats[topic] = TopicStats()
        return stats

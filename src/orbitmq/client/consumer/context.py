"""State that the parts of a running consumer share: options, instance, subscriptions, offsets, failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orbitmq.client.consumer.offsets import OffsetTable
from orbitmq.client.consumer.stats import TopicStats
from orbitmq.client.core.errors import PermanentFailure
from orbitmq.client.core.handlers import BatchHandler, Handler, Retry
from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.loop_watch import LoopWatch
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import ConsumerOptions
from orbitmq.client.core.serializer import Serializer
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.delay_levels import DEFAULT_DELAY_LEVELS, FIRST_RETRY_LEVEL, delays_ms
from orbitmq.protocol.names import retry_topic

if TYPE_CHECKING:
    from orbitmq.client.trace.tracing import Tracer

DEFAULT_MAX_RECONSUME_TIMES = 16
WITHOUT_END = 2**31 - 1
LEVELS_MS = delays_ms(DEFAULT_DELAY_LEVELS)


@dataclass(slots=True)
class Subscription:
    """A topic, what is wanted of it, and who handles it; without a handler it is for `async for`."""

    data: SubscriptionData
    handler: Handler | BatchHandler | None
    is_async: bool = False
    """True if the handler gives a coroutine; else it may block, and runs in a thread."""
    timeout_ms: float | None = None
    """Time that the handler may take for one call; None: as long as the consumer lets it."""
    max_messages: int | None = None
    """The most messages that the handler gets in a list; None: it gets single ones."""
    max_wait_ms: float = 0
    """Time that a list that is not full waits for more."""
    serializer: Serializer[Any] | None = None
    """Serializer that reads `message.value`."""
    manual_ack: bool = False
    """True if a message is done when it is acknowledged, not when its handler has ended."""


@dataclass(slots=True)
class ConsumerContext:
    """A consumer between its start and its end."""

    options: ConsumerOptions
    instance: ClientInstance
    subscriptions: dict[str, Subscription]
    """By topic, the group's retry topic included."""
    offsets: OffsetTable
    stats: dict[str, TopicStats] = field(default_factory=dict)
    tracer: Tracer | None = None
    watch: LoopWatch = field(default_factory=LoopWatch)
    paused: bool = False
    """True if nothing more is pulled for now."""
    paused_queues: set[MessageQueue] = field(default_factory=set)
    """Queues of which nothing more is pulled for now."""
    errors: dict[str, Exception] = field(default_factory=dict)
    """Failures at present, by subject."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.options.group

    @property
    def max_reconsume_times(self) -> int:
        """Number of times that a message may come again before it is given up."""
        if self.options.dead_letter_policy is not None:
            return self.options.dead_letter_policy.max_attempts - 1
        chosen = self.options.max_reconsume_times
        if chosen >= 0:
            return chosen
        return WITHOUT_END if self.options.ordered else DEFAULT_MAX_RECONSUME_TIMES

    def under_policy(self, message: ReceivedMessage, retry: Retry) -> Retry:
        """A retry as the consumer's dead-letter policy changes it: the wait of this attempt, or the end.

        A level that the handler chose is kept. After a PermanentFailure the message is given up.
        """
        policy = self.options.dead_letter_policy
        if isinstance(retry.__cause__, PermanentFailure):
            decided = Retry(-1)
            decided.__cause__ = retry.__cause__
            return decided
        if policy is None:
            return retry
        level = retry.delay_level or policy.delay_level(message.reconsume_times + 1)
        decided = Retry(-1 if policy.gives_up_on(retry.__cause__) else level)
        decided.__cause__ = retry.__cause__
        return decided

    def gives_up(self, message: ReceivedMessage, retry: Retry) -> bool:
        """True if a message becomes a dead letter instead of being delivered again."""
        if retry.delay_level < 0:
            return True
        policy = self.options.dead_letter_policy
        if policy is not None and policy.when_exhausted == "stay":
            return False
        return message.reconsume_times >= self.max_reconsume_times

    def stays(self, message: ReceivedMessage) -> bool:
        """True if a message has just used up its attempts, and yet is not given up."""
        return message.reconsume_times == self.max_reconsume_times + 1

    def pause_in_place_ms(self, message: ReceivedMessage, retry: Retry) -> int:
        """The pause of an ordered consumer before it handles a message again.

        That is the wait of the delay level that handler or policy chose. Without one, a queue waits for
        `suspend_current_queue_time_ms`, and a key as long as a retry of a broker: longer each time.
        """
        level = retry.delay_level
        if not level and self.options.ordered:
            return self.options.suspend_current_queue_time_ms
        level = level or FIRST_RETRY_LEVEL + message.reconsume_times
        return LEVELS_MS[min(level, len(LEVELS_MS)) - 1]

    def subscription_of(self, topic: str) -> Subscription | None:
        """The subscription that messages of a topic fall under; None where none is left.

        Messages that still come of a topic that was given up go where the rest goes.
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

"""Choice of the queue of a message: in turn, by a key, or as the caller's own function says."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from orbitmq.client.core.message import Message
from orbitmq.client.sending.latency import LatencyTable
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.hashing import consistent_place, java_hash

QueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""The topic's queues and the message -> one of the queues. The same key has to give the same queue."""


def queue_of_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """The queue of a key, the same that Java's SelectMessageQueueByHash takes for a string.

    It holds for as long as the number of queues does.
    """
    return queues[abs(java_hash(key)) % len(queues)]


def queue_of_lite_topic(queues: Sequence[MessageQueue], lite_topic: str) -> MessageQueue:
    """The queue that all messages of a lite topic go to, the same that proxies take."""
    return sorted(queues)[consistent_place(lite_topic, len(queues))]


class RoundRobin:
    """Queues in turn from a random start; a retry goes to another broker where there is one."""

    def __init__(self, latencies: LatencyTable | None = None) -> None:
        self._counter = itertools.count(random.randrange(1 << 16))
        self._latencies = latencies

    def next(
        self, queues: Sequence[MessageQueue], now_ms: float, last_broker: str | None = None
    ) -> MessageQueue:
        """One of the queues, which may not be empty; not of `last_broker` if that can be."""
        count = len(queues)
        if self._latencies is None and last_broker is None:
            return queues[next(self._counter) % count]
        tests: list[Callable[[MessageQueue], bool]] = [lambda queue: queue.broker_name != last_broker]
        if (table := self._latencies) is not None:
            tests = [
                lambda queue: (
                    table.is_available(queue.broker_name, now_ms) and queue.broker_name != last_broker
                ),
                lambda queue: table.is_reachable(queue.broker_name) and queue.broker_name != last_broker,
                *tests,
            ]
        for test in tests:
            for _ in range(count):
                queue = queues[next(self._counter) % count]
                if test(queue):
                    return queue
        return queues[next(self._counter) % count]

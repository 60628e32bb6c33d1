"""Queues to which a redrive sends."""

from __future__ import annotations

import itertools
import random
import time

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.client.core.routes import TopicRoute
from orbitmq.client.sending.queue_choice import queue_of_key
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import MASTER_ID
from orbitmq.protocol.errors import TopicNotExist

ROUTE_SECONDS = 10.0


class Targets:
    """Queues that take messages, by topic; asked again after a while and after an error."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._known: dict[str, tuple[float, list[tuple[str, MessageQueue]]]] = {}
        self._turn = itertools.count(random.randrange(1 << 16))

    async def queue(self, topic: str, sharding_key: str | None) -> tuple[str, MessageQueue]:
        """The address and the queue for the next message.

        Raises NoBroker, also if no name server knows the topic: its brokers may be away.
        """
        queues = await self._queues(topic)
        if sharding_key:
            chosen = queue_of_key([queue for _, queue in queues], sharding_key)
            return next(one for one in queues if one[1] == chosen)
        return queues[next(self._turn) % len(queues)]

    def forget(self) -> None:
        """Asks for all routes again at their next use."""
        self._known.clear()

    async def _queues(self, topic: str) -> list[tuple[str, MessageQueue]]:
        now = time.monotonic()
        known = self._known.get(topic)
        if known is not None and now - known[0] < ROUTE_SECONDS:
            return known[1]
        try:
            route = TopicRoute(topic, await self._admin.route(topic))
        except TopicNotExist:
            raise NoBroker(f"no name server knows a broker of topic {topic}") from None
        queues = [
            (master, queue)
            for queue in route.publish_queues
            if (master := route.brokers.get(route.broker_of(queue), {}).get(MASTER_ID)) is not None
        ]
        if not queues:
            raise NoBroker(f"no master takes messages of topic {topic}")
        self._known[topic] = (now, queues)
        return queues

"""Queues of a topic on other brokers, from a name server.

The rules ask, the server finds out: a topic is looked up when it is first asked about, those that somebody
asks about are looked up again every half minute.
"""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.handling.call import Signal
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.codes import PERM_READ

FORGET_AFTER_MS = 10 * 60_000
"""A topic that was not asked about for so long is no longer looked up."""


class RouteTable:
    """The queues of topics on other brokers. Without name servers there are no other brokers."""

    def __init__(self, own_broker: str, *, has_name_servers: bool) -> None:
        self._own_broker = own_broker
        self._has_name_servers = has_name_servers
        self._queues: dict[str, list[MessageQueue]] = {}
        self._asked_ms: dict[str, int] = {}
        self._waiting: dict[str, list[Signal]] = {}
        self.wanted: set[str] = set()
        """The topics to look up now."""
        self.woken: list[Signal] = []
        """The signals of those who need not wait any more."""

    def elsewhere(self, topic: str, now: int) -> Sequence[MessageQueue] | None:
        """The readable queues of a topic on other brokers; None as long as that is not known."""
        if not self._has_name_servers:
            return ()
        self._asked_ms[topic] = now
        return self._queues.get(topic)

    def ask(self, topic: str) -> Signal:
        """Has a topic looked up now; the signal says when that is done, whether it is known then or not."""
        signal = Signal()
        self._waiting.setdefault(topic, []).append(signal)
        self.wanted.add(topic)
        return signal

    def drain_wanted(self) -> set[str]:
        """The topics to look up now."""
        wanted, self.wanted = self.wanted, set()
        return wanted

    def to_refresh(self, now: int) -> set[str]:
        """The topics to look up once more, because somebody asked about them of late."""
        for topic, asked_ms in list(self._asked_ms.items()):
            if now - asked_ms > FORGET_AFTER_MS:
                del self._asked_ms[topic]
                self._queues.pop(topic, None)
        return set(self._asked_ms)

    def learn(self, topic: str, route: TopicRouteData | None) -> None:
        """Takes over what a name server said; None: no such topic there. Raises MalformedReply."""
        if route is not None:
            route.check_size()
        queues = [] if route is None else route.queue_datas
        self._queues[topic] = [
            MessageQueue(topic, data.broker_name, queue_id)
            for data in queues
            if data.perm & PERM_READ and data.broker_name != self._own_broker
            for queue_id in range(data.read_queue_nums)
        ]
        self.failed(topic)

    def failed(self, topic: str) -> None:
        """Lets those go who wait for a topic: nothing more is known of it for now."""
        self.woken += self._waiting.pop(topic, ())

    def drain_notified(self) -> list[Signal]:
        """The signals of those who need not wait any more."""
        woken, self.woken = self.woken, []
        return woken

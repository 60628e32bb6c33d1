"""The difference between a topic that does not exist and a cluster that is about to come back."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.delay_service.rules.delivery import Result, Sent

MISSING_SECONDS = 10.0
"""A topic is missing for good if a cluster that answers has not known it for so long."""
MAX_TOPICS = 10_000


class Missing:
    """Topics that a cluster does not know, or does not let the service send to, since when."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def unreachable(self) -> None:
        """The cluster does not answer: whatever it did not know, it may know when it is back."""
        self._since.clear()

    def found(self, topic: str) -> None:
        self._since.pop(topic, None)

    def verdict(self, topic: str, reason: str) -> Sent:
        """The fate of messages to a topic that is missing at this moment."""
        now = self._clock()
        if len(self._since) >= MAX_TOPICS:
            self._since.clear()
        since = self._since.setdefault(topic, now)
        return Sent(Result.NO_TARGET if now - since >= MISSING_SECONDS else Result.NOT_SENT, reason)

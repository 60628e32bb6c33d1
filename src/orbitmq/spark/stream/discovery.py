"""Discovery of a stream's queues, and the limits of its retries with brokers and name servers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.spark.errors import BadOption, SparkSourceError
from orbitmq.spark.read.cluster import PASSING, Cluster
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import Queue, assigned

log = logging.getLogger(__name__)

PATTERN_MS = 5_000.0
"""Interval in ms at which all topic names are matched."""
ABSENCE_LIMIT_MS = 120_000.0
"""Time in ms that a stream waits while no broker or name server answers."""
PAUSE_S = 0.5

Name = tuple[str, str]
"""Topic, and `broker|queueId`."""


@dataclass(slots=True)
class View:
    """The queues as seen at one moment."""

    bounds: dict[Name, tuple[Queue, int, int]] = field(default_factory=dict)
    """Queues of brokers that answered: where they are, their first offset and the one after the last."""
    silent: set[str] = field(default_factory=set)
    """Brokers that are in the route and did not answer."""


@dataclass(eq=False, repr=False)
class Watch:
    """Looks at the queues that the options select. Warnings are logged once, until all is well again."""

    _options: ReadOptions
    _cluster: Cluster
    clock_ms: Callable[[], float] = lambda: time.monotonic() * 1000
    """Milliseconds of a clock that does not go back."""
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._topics = list(self._options.topics)
        self._matched_ms: float | None = None
        self._logged: set[str] = set()

    def log_once(self, what: str) -> None:
        """Logs a warning that was not logged lately."""
        if what not in self._logged:
            self._logged.add(what)
            log.warning("%s", what)

    def look(self, *, complete: bool = False) -> View:
        """The selected queues and their bounds. Without an answer, waits for about two minutes.

        `complete`: a broker of the route that does not answer is waited for as well. Raises BadOption,
        SparkSourceError, NetError, BrokerRefused.
        """
        began = self.clock_ms()
        while True:
            try:
                view = self._discover()
                if not complete or not view.silent:
                    return view
                error: Exception = SparkSourceError(
                    f"brokers do not answer: {', '.join(sorted(view.silent))}"
                )
            except (SparkSourceError, NetError, BrokerRefused) as failure:
                lasting = isinstance(failure, BrokerRefused) and failure.code not in PASSING
                if lasting or isinstance(failure, BadOption):
                    raise
                error = failure
            if self.clock_ms() - began > ABSENCE_LIMIT_MS:
                raise error
            self.log_once(f"waiting for the cluster: {error}")
            self.sleep(PAUSE_S)

    def _discover(self) -> View:
        queues = []
        for topic in self._selected_topics():
            queues += self._cluster.queues_of(topic) or []
        wanted = self._options.assigned
        if wanted is not None:
            queues = assigned(queues, wanted, strict=False)
        found = self._cluster.bounds_within_reach(queues)
        for error in found.away.values():
            self.log_once(f"{error}: its queues wait for it")
        if queues and not found.away:
            self._logged.clear()
        return View(
            {(queue.topic, queue.key): (queue, low, high) for queue, (low, high) in found.bounds.items()},
            set(found.away),
        )

    def _selected_topics(self) -> list[str]:
        pattern = self._options.pattern
        if pattern is not None:
            now = self.clock_ms()
            if self._matched_ms is None or now - self._matched_ms >= PATTERN_MS:
                self._topics = self._cluster.topics_that_match(pattern)
                self._matched_ms = now
        return self._topics

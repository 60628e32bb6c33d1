"""Dead letters by cause: counted as they are read, in bounded memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from orbitmq.admin.dead_letters.dead_letter import Cause, DeadLetter, Place

MAX_CLUSTERS = 500
"""Causes that are told apart; dead letters of further ones are only counted."""
SAMPLED = 20
"""Places of the newest dead letters that a cluster keeps."""


@dataclass(slots=True)
class DeadLetterCluster:
    """Dead letters of one cause."""

    cause: Cause
    count: int = 0
    oldest_ms: int = 0
    newest_ms: int = 0
    reason: str = ""
    """The text of the newest exception."""
    resent: int = 0
    """Dead letters that were sent again before."""
    most_replays: int = 0
    """The most times that one of them was sent again."""
    places: deque[Place] = field(default_factory=lambda: deque(maxlen=SAMPLED))
    """Places of the last ones that were read, the last one at the end."""


class Clusters:
    """Counts of dead letters."""

    def __init__(self) -> None:
        self._clusters: dict[Cause, DeadLetterCluster] = {}
        self.beyond = 0
        """Dead letters of causes for which there was no room."""

    def add(self, letter: DeadLetter) -> None:
        cluster = self._clusters.get(letter.cause)
        if cluster is None:
            if len(self._clusters) >= MAX_CLUSTERS:
                self.beyond += 1
                return
            cluster = self._clusters[letter.cause] = DeadLetterCluster(letter.cause)
        stored = letter.message.store_timestamp
        cluster.count += 1
        cluster.oldest_ms = min(cluster.oldest_ms or stored, stored)
        if stored >= cluster.newest_ms:
            cluster.newest_ms, cluster.reason = stored, letter.reason
        cluster.resent += letter.replays > 0
        cluster.most_replays = max(cluster.most_replays, letter.replays)
        cluster.places.append(letter.place)

    def listed(self) -> list[DeadLetterCluster]:
        return sorted(self._clusters.values(), key=lambda one: (-one.count, str(one.cause)))

"""Items that a queue of the broker's own work had to pass over, and where they are kept.

Revival, check-back, timers and delay levels work through queues. An item that can never be done must not stop
those behind it; and as somebody was told that it is stored, it is kept: as a dead letter, or where it is
tried again.
"""

from __future__ import annotations

import logging
from collections import Counter

from orbitmq.protocol.names import dlq_topic

log = logging.getLogger(__name__)

UNDELIVERED_GROUP = "CID_RMQ_SYS_UNDELIVERED"
UNDELIVERED_TOPIC = dlq_topic(UNDELIVERED_GROUP)
"""Dead letters of no consumer's: messages whose time came, and that cannot be stored where they are to go."""

DEAD_LETTER = "dead letter"
AGAIN = "tried again"
NOWHERE = "nowhere"
"""Places where an item is kept; `NOWHERE` if there is nothing left of it that could be kept."""


class PassedOver:
    """Counts them by the queue's kind and the place, and says once for each reason what it was."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """Kind of queue, place -> items."""
        self._said: set[tuple[str, str, str]] = set()

    def note(self, kind: str, place: str, what: str, why: str) -> None:
        """Counts an item of a queue of a kind. The first one with a reason is logged as a warning."""
        self.counts[kind, place] += 1
        said = (kind, place, why)
        if said in self._said:
            log.debug("%s passes over %s: %s (%s)", kind, what, why, place)
            return
        self._said.add(said)
        log.warning(
            "%s passes over %s: %s. Kept as: %s. More of this are counted and not logged",
            kind,
            what,
            why,
            place,
        )

"""The lease of a service with several instances: its terms, and the secret of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq.controller.journal import Journal
from orbitmq.controller.leadership import Leadership

TERM_KEY = "term"
SECRET_KEY = "secret"


class Holding:
    """The hold of one instance on the lease. Each term is written to the consensus store before it counts."""

    def __init__(self, leadership: Leadership, new_secret: Callable[[], str]) -> None:
        self.journal = Journal()
        self._leadership = leadership
        self._new_secret = new_secret
        self._term = 0

    def lead(self, texts: Mapping[str, str], now: int) -> None:
        """The lease is this instance's; `texts` is what the consensus store has. A term begins."""
        self._term = int(texts.get(TERM_KEY, "0")) + 1
        self.journal.put(TERM_KEY, str(self._term))
        if SECRET_KEY not in texts:
            self.journal.put(SECRET_KEY, self._new_secret())
        self._leadership.leads = True

    def step_down(self) -> None:
        """The lease is not this instance's any more."""
        self._leadership.leads = False
        self._term = 0
        self.journal.drop()

    def term(self, now: int) -> int:
        """The term that this instance is in; 0 outside of one. `now` is of the clock of the lease (ms)."""
        holds = self._leadership.leads and now < self._leadership.lease_until_ms
        return self._term if holds and self.journal.committed >= self.journal.version else 0

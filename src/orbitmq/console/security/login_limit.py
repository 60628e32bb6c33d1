"""Limit of failed logins: a few times at once, then ever more slowly."""

from __future__ import annotations

from collections import OrderedDict

FREE_FAILURES = 5
LONGEST_SECONDS = 300.0
MAX_REMEMBERED = 10_000


class LoginLimit:
    """Failures by user name and by address. Times are seconds of any clock that only goes forward."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_seconds(self, subject: str, now: float) -> float:
        """Time that `subject` has to wait before the next try; 0 if not at all."""
        count, last = self._failures.get(subject, (0, 0.0))
        if count < FREE_FAILURES:
            return 0.0
        pause = min(LONGEST_SECONDS, float(2 ** min(count - FREE_FAILURES, 20)))
        return max(0.0, last + pause - now)

    def failed(self, subject: str, now: float) -> None:
        """Counts a failure; one long after the last starts over."""
        count, last = self._failures.pop(subject, (0, now))
        self._failures[subject] = (1 if now - last > 2 * LONGEST_SECONDS else count + 1, now)
        while len(self._failures) > MAX_REMEMBERED:
            self._failures.popitem(last=False)

    def succeeded(self, subject: str) -> None:
        """Forgets the failures of `subject`."""
        self._failures.pop(subject, None)

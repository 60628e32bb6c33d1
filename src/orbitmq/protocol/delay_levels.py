"""Delay levels as the option messageDelayLevel writes them, and the level of a first retry."""

from __future__ import annotations

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
FIRST_RETRY_LEVEL = 3
"""Delay level of a message's first retry, 10 s; each further retry waits a level longer."""
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def delays_ms(levels: str) -> tuple[int, ...]:
    """The delays of levels 1, 2, ... as messageDelayLevel writes them. Raises ValueError for other texts."""
    delays = []
    for level, word in enumerate(levels.split(), start=1):
        number = word[:-1]
        if word[-1:] not in _UNITS_MS or not (number.isascii() and number.isdigit() and len(number) < 10):
            raise ValueError(
                f"messageDelayLevel: {word!r}, delay level {level}, is no number of s, m, h or d"
            )
        delays.append(int(number) * _UNITS_MS[word[-1]])
    if not delays:
        raise ValueError("messageDelayLevel: no delay level at all")
    return tuple(delays)

"""Due times of timer messages, and their places in the wheel until then: sums, and nothing else.

A sender says it by one of three properties. The broker rounds the time down to its precision (a second), so
that slot `t` holds what is due in (t, t + precision], and keeps the rounded time as TIMER_OUT_MS. A message
due beyond the wheel's window waits in it for a while and is then stored again, which also keeps the message
from growing older than the commit log is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.protocol.names import TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS

TIMER_PROPERTIES = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""In the order in which they count."""

WHEEL_SLOTS = 604_800
"""Half of the wheel: nothing waits further ahead."""
BLANK_SLOTS = 60
_LONG = 1 << 63


class NotATime(ValueError):
    """A property that is no whole number of 64 bits."""


def deliver_time(properties: Mapping[str, str], now: int) -> int | None:
    """The time (ms) that a sender asks for; None if for none. Raises NotATime."""
    for name in TIMER_PROPERTIES:
        text = properties.get(name)
        if text is None:
            continue
        number = _whole(name, text)
        if name == TIMER_DELAY_SEC:
            return now + number * 1000
        return now + number if name == TIMER_DELAY_MS else number
    return None


def _whole(name: str, text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and -_LONG <= int(text) < _LONG):
        raise NotATime(f"{name} {text!r} is no whole number")
    return int(text)


def rounded(deliver_ms: int, precision_ms: int) -> int:
    """TIMER_OUT_MS: the slot in which a time falls."""
    return (deliver_ms - 1) // precision_ms * precision_ms


def due_time(properties: Mapping[str, str], out_ms: int, stored_ms: int, precision_ms: int) -> int:
    """Due time of a stored message, to the millisecond if its properties say it.

    Never earlier than it was asked for: the end of its second where they do not.
    """
    try:
        asked = deliver_time(properties, stored_ms)
    except NotATime:
        asked = None
    # Rounded by another precision, it may lie up to that much behind TIMER_OUT_MS.
    if asked is not None and out_ms < asked <= out_ms + max(precision_ms, 1000):
        return asked
    return out_ms + precision_ms


class Place(NamedTuple):
    """The place in the wheel where a message waits."""

    slot_ms: int
    is_rolled: bool
    """It is stored again when the slot's time has come, for it is due later than the window reaches."""


def window_slots(configured_slots: int, precision_ms: int, kept_hours: int) -> int:
    """Number of slots ahead for which messages are put into the wheel.

    Not further than half of what the commit log is kept for (an hour, where it is kept for none): a message
    is stored again before its segment may go.
    """
    longest = WHEEL_SLOTS - BLANK_SLOTS
    slots = configured_slots if 2 <= configured_slots <= longest else longest
    kept_ms = max(2, kept_hours) * 3_600_000 // 2
    return max(2, min(slots, kept_ms // precision_ms))


def place(due_ms: int, written_ms: int, slots: int, precision_ms: int) -> Place:
    """The place of a message stored at `written_ms`, with a window of so many slots."""
    slot_ms = rounded(due_ms, precision_ms)
    window_ms = slots * precision_ms
    written_ms = written_ms // precision_ms * precision_ms
    left_ms = slot_ms - written_ms
    if left_ms < window_ms:
        return Place(slot_ms, False)
    if left_ms - window_ms < slots // 3 * precision_ms:
        # Two turns of about the same length, not a long one and a short one.
        return Place(written_ms + slots // 2 * precision_ms, True)
    return Place(written_ms + window_ms, True)

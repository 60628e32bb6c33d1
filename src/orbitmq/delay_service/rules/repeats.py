"""Repetitions: the time after one, and the treatment of times that were missed."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from orbitmq.delay_service.rules.cron import last_time, next_time
from orbitmq.delay_service.rules.times import LAST_MS
from orbitmq.delay_service.store.records import Repeat

MISSED_AFTER_MS = 10_000
"""With the catch-up `none`, a time is missed if the service comes to it later than this."""
LONGEST_POWER_S = 86_400


@dataclass(frozen=True, slots=True)
class Time:
    """A time of a repetition."""

    due: int
    occurrence: int


def following(repeat: Repeat, time: Time) -> Time | None:
    """The time after one; None after the last one."""
    if repeat.times and time.occurrence >= repeat.times:
        return None
    due: int | None
    if repeat.cron:
        due = next_time(repeat.cron, repeat.zone, time.due)
    else:
        due = time.due + _interval(repeat, time.occurrence)
    if due is None or due > LAST_MS or (repeat.until >= 0 and due > repeat.until):
        return None
    return Time(due, time.occurrence + 1)


def _interval(repeat: Repeat, occurrence: int) -> int:
    """The interval (ms) after an occurrence."""
    if repeat.base_s:
        # No more digits than a day needs: 2 to the power of 17 is more.
        power: int = repeat.base_s ** min(occurrence, 17)
        return min(power, LONGEST_POWER_S) * 1000
    if repeat.factor == 1.0:
        return repeat.every_ms
    # In logarithms first: a float has no number for a factor of 1000 to the power of 1000.
    if log(repeat.every_ms) + (occurrence - 1) * log(repeat.factor) > log(LAST_MS):
        return LAST_MS
    return max(1, round(repeat.every_ms * repeat.factor ** (occurrence - 1)))


def caught_up(repeat: Repeat, time: Time, now: int) -> Time | None:
    """The time to be delivered now or next in the place of `time`, which has come; None if there is none.

    `all` leaves every time as it is; `last` passes over those that a later one, due as well, makes obsolete;
    `none` passes over all that were missed.
    """
    if repeat.catch_up == "all":
        return time
    latest = _latest(repeat, time, now)
    if repeat.catch_up == "none" and now - latest.due > MISSED_AFTER_MS:
        return following(repeat, latest)
    return latest


def _latest(repeat: Repeat, time: Time, now: int) -> Time:
    """The last time of a repetition that has come."""
    if repeat.cron:
        return _latest_of_cron(repeat, time, now)
    if repeat.factor == 1.0 and not repeat.base_s:
        end = now if repeat.until < 0 else min(now, repeat.until)
        steps = max(0, (end - time.due) // repeat.every_ms)
        if repeat.times:
            steps = min(steps, repeat.times - time.occurrence)
        return Time(time.due + steps * repeat.every_ms, time.occurrence + steps)
    after = following(repeat, time)
    while after is not None and after.due <= now:
        time, after = after, following(repeat, after)
    return time


def _latest_of_cron(repeat: Repeat, time: Time, now: int) -> Time:
    end = now if repeat.until < 0 else min(now, repeat.until)
    due = last_time(repeat.cron, repeat.zone, time.due, end)
    return time if due is None else Time(due, time.occurrence)

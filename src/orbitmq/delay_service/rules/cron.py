"""Cron expressions in a time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from orbitmq.delay_service.errors import ExtraMissing, NotSchedulable
from orbitmq.delay_service.rules.times import LAST_MS, shown

MAX_LENGTH = 255
_WINDOWS_MS = (60_000, 3_600_000, 86_400_000, 31 * 86_400_000, 366 * 86_400_000)
_RANDOM = re.compile(r"(?<![A-Za-z])[RrHh](?![A-Za-z])")
"""Fields that a random number or a hash fills: instances would not agree on them."""


def _library() -> Any:
    try:
        import croniter
    except ModuleNotFoundError:
        raise ExtraMissing("croniter", "delay") from None
    return croniter


@lru_cache(256)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):  # names are keys, may look like paths, and may name folders
        raise NotSchedulable(f"delay.zone: {shown(name)} is no time zone such as Europe/Berlin") from None


def check_cron(expression: str, zone: str, start: int) -> int:
    """The first time (ms) at `start` or later. Raises NotSchedulable for what is no cron or never comes."""
    fields = expression.split()
    named = len(fields) == 1 and fields[0].startswith("@")
    if len(expression) > MAX_LENGTH or (len(fields) not in (5, 6) and not named):
        raise NotSchedulable(
            f"delay.cron: {shown(expression)} has neither five fields nor six with seconds first"
        )
    if _RANDOM.search(expression):
        raise NotSchedulable(f"delay.cron: {shown(expression)}: fields with R or H are not supported")
    first = next_time(expression, zone, start - 1)
    if first is None:
        raise NotSchedulable(f"delay.cron: {shown(expression)} never comes")
    return first


def next_time(expression: str, zone: str, after: int) -> int | None:
    """The first time (ms) later than `after`, None if none comes within fifty years.

    Where the clocks go back, an expression with fixed hours counts the hour that comes twice once.
    """
    cron = _iterator(expression, zone, after)
    try:
        found: datetime = cron.get_next(datetime)
        while found.fold and _has_fixed_hours(expression):
            found = cron.get_next(datetime)
    except (ValueError, OverflowError):
        return None
    time = int(found.timestamp()) * 1000
    return time if time <= LAST_MS else None


def last_time(expression: str, zone: str, after: int, until: int) -> int | None:
    """The last time (ms) later than `after`, at `until` or before.

    The library's own look backwards tries second by second; forwards from a little earlier it is quick.
    """
    for window in (*_WINDOWS_MS, until - after):
        found = next_time(expression, zone, max(after, until - window))
        if found is not None and found <= until:
            while (later := next_time(expression, zone, found)) is not None and later <= until:
                found = later
            return found
    return None


def _has_fixed_hours(expression: str) -> bool:
    fields = expression.split()
    if len(fields) == 1:
        return fields[0].lower() != "@hourly"
    hours = fields[-4]
    return not any(mark in hours for mark in "*/?")


def _iterator(expression: str, zone: str, moment: int) -> Any:
    library = _library()
    start = datetime.fromtimestamp(moment // 1000, UTC).astimezone(_zone(zone))
    try:
        return library.croniter(expression, start, second_at_beginning=True)
    except (library.CroniterError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise NotSchedulable(f"delay.cron: {shown(expression)} is no cron expression: {error}") from None

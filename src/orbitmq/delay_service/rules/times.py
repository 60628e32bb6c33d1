"""Times and spans as senders write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.store.times import rfc_3339

LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
FIRST_MS = -62_135_596_800_000
"""The first millisecond of the year 1."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS = re.compile(r"-?[0-9]{1,20}")
_SPAN = re.compile(r"([0-9]{1,20})(ms|s|m|h|d)?")
_UNITS = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))"
)
SHOWN = 80
__all__ = ["after", "parse_span", "parse_time", "rfc_3339", "shown"]


def shown(text: str) -> str:
    """A text of a sender in a reason: short, and on one line."""
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def parse_time(name: str, text: str) -> int:
    """A time in ms since 1970: such a number, or RFC 3339 with its offset. Raises NotSchedulable."""
    text = text.strip()
    if _MILLIS.fullmatch(text):
        time = int(text)
        if not FIRST_MS <= time <= LAST_MS:
            raise NotSchedulable(f"{name}: {shown(text)} is not within the years 1 to 9999")
        return time
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise NotSchedulable(
            f"{name}: {shown(text)} is neither ms since 1970 nor a time with its offset, such as "
            "2030-01-31T12:00:00Z"
        )
    year, month, day, hour, minute, second = (int(match[n]) for n in range(1, 7))
    offset = timedelta()
    if match[9]:
        if int(match[10]) > 23 or int(match[11]) > 59:
            raise NotSchedulable(f"{name}: {shown(text)} has no such offset")
        offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
        if match[9] == "-":
            offset = -offset
    leap = 1 if second == 60 else 0
    try:
        moment = datetime(year, month, day, hour, minute, second - leap, tzinfo=timezone(offset))
    except ValueError as error:
        raise NotSchedulable(f"{name}: {shown(text)} is no time: {error}") from None
    millis = int((match[7] or "0").ljust(3, "0")[:3])
    time = (moment - _EPOCH) // timedelta(milliseconds=1) + leap * 1000 + millis
    if not FIRST_MS <= time <= LAST_MS:
        raise NotSchedulable(f"{name}: {shown(text)} is not within the years 1 to 9999")
    return time


def parse_span(name: str, text: str) -> int:
    """A span in ms: 90000, 90s, 15m, 2h, 30d. Raises NotSchedulable."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise NotSchedulable(f"{name}: {shown(text)} is no span such as 90000 (ms), 90s, 15m, 2h or 30d")
    span = int(match[1]) * _UNITS[match[2]]
    if span > LAST_MS:
        raise NotSchedulable(f"{name}: {shown(text)} ends after the year 9999")
    return span


def after(name: str, start: int, span: int) -> int:
    """The end of a span. Raises NotSchedulable if it is after the year 9999."""
    time = start + span
    if time > LAST_MS:
        raise NotSchedulable(f"{name}: the time is after the year 9999")
    return time

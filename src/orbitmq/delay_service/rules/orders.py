"""Orders: control properties of a message, read and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules import cron
from orbitmq.delay_service.rules.repeats import MISSED_AFTER_MS, Time, caught_up
from orbitmq.delay_service.rules.times import after, parse_span, parse_time, shown
from orbitmq.delay_service.store.records import Repeat

PREFIX = "delay."
NAMES = ("topic", "at", "after", "id", "action", "every", "factor", "times", "until", "cron", "zone",
         "catch-up", "expires", "reply", "owner", "record", "ddmq")  # fmt: skip
CONTROL = frozenset(PREFIX + name for name in NAMES)
"""Properties that tell the service something. They are not on delivered messages, but for `delay.id`."""
GIVEN = frozenset({"delay.due", "delay.occurrence", "delay.outcome", "delay.reason"})
"""Properties that the service gives; a sender's of the same names are not passed on."""
MAX_NAME_BYTES = 1024
MAX_TIMES = 10**12
MIN_FACTOR, MAX_FACTOR = 1.001, 1000.0
MOST_MISSED = 10_000
"""A repetition that catches up on all times may have missed so many at its start."""
CATCH_UP = ("none", "last", "all")


@dataclass(slots=True)
class Schedule:
    """A message is to be delivered."""

    name: str
    """Empty: the service makes one."""
    target: str
    due: int
    occurrence: int = 1
    expires: int = -1
    repeat: Repeat | None = None
    owner: str = ""


@dataclass(slots=True)
class Cancel:
    """A message is not to be delivered."""

    name: str
    owner: str = ""


@dataclass(slots=True)
class Move:
    """A message is to be delivered at another time."""

    name: str
    due: int
    owner: str = ""


Order = Schedule | Cancel | Move


def read_order(given: Mapping[str, str], stored: int | None, now: int) -> Order:
    """The order in control properties. Raises NotSchedulable with the reason.

    `stored` is the time (ms) at which the source stored the message, from which spans count; None if the
    source has the sender's clock only. `now` decides about missed times alone.
    """
    if "delay.ddmq" in given:
        raise NotSchedulable("delay.ddmq: such orders are read from topics of RocketMQ")
    action = given.get("delay.action", "schedule")
    name = read_name(given)
    owner = given.get("delay.owner", "")
    if action == "cancel":
        return Cancel(_needed(name, action), owner)
    if action == "move":
        due = _due(given, stored)
        if due is None:
            raise NotSchedulable("delay.action: a move needs delay.at or delay.after")
        return Move(_needed(name, action), due, owner)
    if action != "schedule":
        raise NotSchedulable(f"delay.action: {shown(action)} is none of schedule, cancel and move")
    return _schedule(given, name, stored, now, owner)


def read_name(given: Mapping[str, str]) -> str:
    """The name, empty without one. Raises NotSchedulable."""
    name = given.get("delay.id")
    if name is None:
        return ""
    if not name.strip():
        raise NotSchedulable("delay.id: a name has to be more than blanks")
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise NotSchedulable(f"delay.id: a name has {MAX_NAME_BYTES} bytes at most: {shown(name)}")
    return name


def _needed(name: str, action: str) -> str:
    if not name:
        raise NotSchedulable(f"delay.action: a {action} needs delay.id")
    return name


def _due(given: Mapping[str, str], stored: int | None) -> int | None:
    at, span = given.get("delay.at"), given.get("delay.after")
    if at is not None and span is not None:
        raise NotSchedulable("delay.at and delay.after exclude each other")
    if at is not None:
        return parse_time("delay.at", at)
    if span is None:
        return None
    length = parse_span("delay.after", span)
    if stored is None:
        raise NotSchedulable(
            "delay.after: the source topic has its senders' times (message.timestamp.type is CreateTime): "
            "set it to LogAppendTime, or start the service with --allow-create-time"
        )
    return after("delay.after", stored, length)


def _schedule(given: Mapping[str, str], name: str, stored: int | None, now: int, owner: str) -> Schedule:
    target = given.get("delay.topic", "")
    if not target.strip():
        raise NotSchedulable("delay.topic: a target is needed")
    due = _due(given, stored)
    repeat = _repeat(given)
    start = due if due is not None else (stored if stored is not None else now)
    if repeat is not None and not repeat.every_ms:
        due = cron.check_cron(repeat.cron, repeat.zone, start)
    if due is None:
        raise NotSchedulable("delay.at or delay.after: a time is needed")
    expires = max(0, parse_time("delay.expires", given["delay.expires"])) if "delay.expires" in given else -1
    time = Time(due, 1)
    if repeat is not None:
        time = _checked_start(repeat, time, now)
    return Schedule(name, target, time.due, time.occurrence, expires, repeat, owner)


def _checked_start(repeat: Repeat, time: Time, now: int) -> Time:
    """The first time of a repetition, which may lie in the past."""
    if repeat.until >= 0 and time.due > repeat.until:
        raise NotSchedulable("delay.until: it is before the first time")
    if repeat.catch_up == "all" and not repeat.cron and repeat.every_ms:
        missed = (min(now, repeat.until) if repeat.until >= 0 else now) - time.due
        if repeat.times:
            missed = min(missed, repeat.times * repeat.every_ms)
        if missed // repeat.every_ms > MOST_MISSED:
            raise NotSchedulable(
                f"delay.catch-up: more than {MOST_MISSED} times are due at once: begin later, or choose last"
            )
    if repeat.catch_up != "all" and time.due <= now - MISSED_AFTER_MS:
        found = caught_up(repeat, time, now)
        if found is None:
            raise NotSchedulable("all times are over, and delay.catch-up is none")
        return found
    return time


def _repeat(given: Mapping[str, str]) -> Repeat | None:
    every, expression = given.get("delay.every"), given.get("delay.cron")
    if every is None and expression is None:
        for name in ("delay.factor", "delay.times", "delay.until", "delay.zone", "delay.catch-up"):
            if name in given:
                raise NotSchedulable(f"{name} needs delay.every or delay.cron")
        return None
    if every is not None and expression is not None:
        raise NotSchedulable("delay.every and delay.cron exclude each other")
    times = _times(given.get("delay.times"))
    until = max(0, parse_time("delay.until", given["delay.until"])) if "delay.until" in given else -1
    catch_up = given.get("delay.catch-up", "last")
    if catch_up not in CATCH_UP:
        raise NotSchedulable(f"delay.catch-up: {shown(catch_up)} is none of {', '.join(CATCH_UP)}")
    if expression is not None:
        if "delay.factor" in given:
            raise NotSchedulable("delay.factor needs delay.every")
        zone = given.get("delay.zone", "UTC")
        return Repeat(times=times, until=until, cron=expression, zone=zone, catch_up=catch_up)
    assert every is not None
    if "delay.zone" in given:
        raise NotSchedulable("delay.zone needs delay.cron")
    interval = parse_span("delay.every", every)
    if interval == 0:
        raise NotSchedulable("delay.every: an interval has to be more than 0")
    return Repeat(interval, _factor(given.get("delay.factor")), times, until, catch_up=catch_up)


def _times(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 13 and 1 <= int(text) <= MAX_TIMES):
        raise NotSchedulable(f"delay.times: {shown(text)} is no number from 1 to {MAX_TIMES}")
    return int(text)


def _factor(text: str | None) -> float:
    if text is None:
        return 1.0
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if factor != 1.0 and not MIN_FACTOR <= factor <= MAX_FACTOR:
        raise NotSchedulable(
            f"delay.factor: {shown(text)} is neither 1 nor a number from {MIN_FACTOR} to {MAX_FACTOR:.0f}"
        )
    return factor

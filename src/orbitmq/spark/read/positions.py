"""Start and end of a read in options: a word, a time, or JSON per queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.values import time_ms

EARLIEST = -2
"""Stands for a queue's first offset, in JSON as well."""
LATEST = -1
"""Stands for the offset after a queue's last message, in JSON as well."""

QueueOffsets = dict[str, dict[str, int]]
"""Topic -> `broker|queueId` -> queue offset, or time in ms: the JSON of the options and of checkpoints."""


@dataclass(slots=True, frozen=True)
class Position:
    """A place in every queue; exactly one of these is set."""

    everywhere: int | None = None
    """EARLIEST or LATEST."""
    offsets: QueueOffsets | None = None
    time_ms: int | None = None
    times_ms: QueueOffsets | None = None


FIRST = Position(everywhere=EARLIEST)
LAST = Position(everywhere=LATEST)


def starting(values: Mapping[str, str], *, streaming: bool) -> Position:
    """Of startingTimestamp, startingOffsetsByTimestamp, startingOffsets the first that is set.

    Raises BadOption.
    """
    timed = _by_time(values, "starting")
    if timed is not None:
        return timed
    words = {"earliest": FIRST, "latest": LAST} if streaming else {"earliest": FIRST}
    default = LAST if streaming else FIRST
    return _by_offset(values, "startingOffsets", words, default, (EARLIEST, LATEST))


def ending(values: Mapping[str, str]) -> Position:
    """Of endingTimestamp, endingOffsetsByTimestamp, endingOffsets the first that is set. Raises BadOption."""
    timed = _by_time(values, "ending")
    return timed or _by_offset(values, "endingOffsets", {"latest": LAST}, LAST, (LATEST,))


def _by_time(values: Mapping[str, str], edge: str) -> Position | None:
    everywhere = time_ms(values, f"{edge}Timestamp")
    if everywhere is not None:
        return Position(time_ms=everywhere)
    name = f"{edge}OffsetsByTimestamp"
    if name not in values:
        return None
    shape = f'{name} is not JSON of the form {{"topic":{{"broker|0":1700000000000}}}}, times in ms'
    return Position(times_ms=queue_offsets(values[name], shape, ()))


def _by_offset(
    values: Mapping[str, str],
    name: str,
    words: Mapping[str, Position],
    default: Position,
    special: tuple[int, ...],
) -> Position:
    text = values.get(name)
    if text is None:
        return default
    if text.lower() in words:
        return words[text.lower()]
    if text.lower() in ("earliest", "latest"):
        raise BadOption(f"{name} may not be {text} here: {' or '.join(words)}, or JSON")
    shape = f'{name} is neither {" nor ".join(words)} nor JSON of the form {{"topic":{{"broker|0":123}}}}'
    return Position(offsets=queue_offsets(text, shape, special))


def queue_offsets(text: str, shape: str, special: tuple[int, ...]) -> QueueOffsets:
    """JSON per queue. A number is no less than 0, or one of `special`. Raises BadOption(`shape`)."""
    parsed = parsed_json(text, shape)
    if not isinstance(parsed, dict):
        raise BadOption(shape)
    for queues in parsed.values():
        if not isinstance(queues, dict):
            raise BadOption(shape)
        for queue, number in queues.items():
            if not is_queue(queue) or not isinstance(number, int) or isinstance(number, bool):
                raise BadOption(shape)
            if number < 0 and number not in special:
                raise BadOption(f"{shape.split(' ', 1)[0]}: {number} of {queue} is no offset and no time")
    return parsed


def is_queue(key: str) -> bool:
    """True if a text can name a queue: `broker|queueId`, or `queueId` where one broker has the topic."""
    broker, bar, number = key.rpartition("|")
    return number.isascii() and number.isdigit() and bool(broker) == bool(bar)


def parsed_json(text: str, shape: str) -> Any:
    """The value of a JSON text. Raises BadOption(`shape`)."""
    try:
        return json.loads(text)
    except ValueError:
        raise BadOption(shape) from None


def flat(offsets: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, str], int]:
    """(topic, key) -> offset."""
    return {(topic, key): offset for topic, queues in offsets.items() for key, offset in queues.items()}


def nested(offsets: Mapping[tuple[str, str], int]) -> QueueOffsets:
    """The form of options and checkpoints, always in the same order: Spark compares offsets as text."""
    given: QueueOffsets = {}
    for topic, key in sorted(offsets, key=_order):
        given.setdefault(topic, {})[key] = offsets[topic, key]
    return given


def _order(name: tuple[str, str]) -> tuple[str, str, int]:
    topic, key = name
    broker, _, number = key.rpartition("|")
    return topic, broker, int(number)

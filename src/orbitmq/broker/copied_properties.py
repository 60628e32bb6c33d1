"""Properties of the copies that a broker makes of messages which it has accepted.

A copy says more than its message: where it is to go, when, how often it was delivered. A record has 32,767
bytes of properties, so the broker keeps some of them for itself: senders get `MAX_SENT_PROPERTIES_BYTES`. A
message that was accepted by another rule, of another broker for instance, may leave no room; then the copy
goes without what the broker can make again, and without what is good to know but nothing depends on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbitmq.protocol.names import (
    CLUSTER,
    CRC32,
    FIRST_POP_TIME,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    MSG_REGION,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_ROLL_TIMES,
    TRACE_ON,
    WAIT,
)
from orbitmq.protocol.records.message import MAX_PROPERTIES_BYTES, PROPERTY_CRC_BYTES
from orbitmq.protocol.records.properties import BadProperty, change_properties

MAX_COPIED_PROPERTIES_BYTES = MAX_PROPERTIES_BYTES - PROPERTY_CRC_BYTES - 1
"""Limit of a copy: a checksum of the record fits behind it (enabledAppendPropCRC)."""

_DISPENSABLE = (
    CLUSTER,
    MSG_REGION,
    TRACE_ON,
    TIMER_DEQUEUE_MS,
    TIMER_ROLL_TIMES,
    TIMER_ENQUEUE_MS,
    FIRST_POP_TIME,
    WAIT,
)
"""In the order in which a copy without room goes without them."""


_LMQ = b"INNER_MULTI_"
_OF_THE_ORIGINAL = dict.fromkeys((INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET))
"""Light message queues have the message, not its copies."""


class NoRoom(ValueError):
    """A copy whose properties no record can hold."""


def copied_properties(
    properties: bytes, changes: Mapping[str, str | None], optional: Sequence[str] = (), room: int = 0
) -> bytes:
    """The properties with `changes`, of which those named in `optional` are left out where they do not fit.

    `room` is the number of bytes that have to stay free. Raises NoRoom, and BadProperty where a change cannot
    stand in a property string.
    """
    limit = MAX_COPIED_PROPERTIES_BYTES - room
    made = _shortened(properties, changes, optional, limit)
    if len(made) > limit:
        raise NoRoom(f"{len(made)} bytes of properties, and {limit} is what a copy may have")
    return made


def last_properties(
    properties: bytes, changes: Mapping[str, str | None], optional: Sequence[str] = ()
) -> bytes:
    """The properties of a copy that is made to keep a message: with `changes` if they fit at all, be it into
    the room for a checksum, else without the names that these would have set: values of others are no
    substitute.
    """
    try:
        made = _shortened(properties, changes, optional, MAX_COPIED_PROPERTIES_BYTES)
        if len(made) <= MAX_PROPERTIES_BYTES:
            return made
    except BadProperty:
        pass
    made = change_properties(properties, dict.fromkeys(changes))
    return made if len(made) <= MAX_PROPERTIES_BYTES else made[:-1]  # the last separator may be missing


def _shortened(
    properties: bytes, changes: Mapping[str, str | None], optional: Sequence[str], limit: int
) -> bytes:
    """The changed properties, without as many of those that are not needed as it takes."""
    made = change_properties(
        properties, {CRC32: None, **(_OF_THE_ORIGINAL if _LMQ in properties else {}), **changes}
    )
    for name in (*optional, *_DISPENSABLE):
        if len(made) <= limit:
            break
        made = change_properties(made, {name: None})
    return made

"""The properties of a sent message by which the broker acts: one table for the rules and for all fast paths.

A fast path leaves a message to the rules (`send/rules.py`) if one of its properties begins like a name in
the table. So a new property needs a row here, and a rule there.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto

from orbitmq.protocol.names import (
    CLUSTER,
    DELAY,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    LITE_TOPIC,
    MSG_REGION,
    POP_CK,
    PRIORITY,
    TRACE_ON,
    TRANSACTION_PREPARED,
)


class FastPath(Flag):
    """The fast paths of sends."""

    PLAIN = auto()
    """Messages that are stored as they came."""
    REROUTED = auto()
    """Delayed messages and half messages: this path itself reads their `DELAY` and `TRAN_MSG`."""
    BATCH = auto()
    """The properties of a batch as a whole."""
    IN_BATCH = auto()
    """The properties of a message in a batch."""


_ONE = FastPath.PLAIN | FastPath.REROUTED
_EACH = _ONE | FastPath.IN_BATCH

LEFT_TO_RULES: Mapping[str, FastPath] = {
    DELAY: _ONE | FastPath.BATCH,
    TRANSACTION_PREPARED: _ONE | FastPath.BATCH,
    "TRAN": FastPath.REROUTED,
    "TIMER_": _ONE,
    TRACE_ON: _ONE,
    MSG_REGION: _ONE,
    PRIORITY: _ONE,
    LITE_TOPIC: _ONE,
    POP_CK: _EACH,
    CLUSTER: _EACH,
    "INNER_MULTI_": _EACH,
    # Names that the broker itself gives to a message which it stores elsewhere first.
    "REAL_": FastPath.REROUTED,
    "__transactionId__": FastPath.REROUTED,
    "CHECK_IMMUNITY_": FastPath.REROUTED,
}
"""Beginning of a name -> the fast paths that leave a message with such a property to the rules."""

DROPPED = (POP_CK, MSG_REGION, TRACE_ON, CLUSTER)
"""Names that only the broker sets: a sender's values are dropped."""

DROPPED_IN_BATCH = (POP_CK, CLUSTER, INNER_MULTI_QUEUE_OFFSET)
"""The same for a message in a batch, whose other properties are stored as they came."""

DROPPED_OF_REPLY = (POP_CK, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET)
"""The same for a reply, which is in no light queue."""


def packed_beginnings(path: FastPath) -> bytes:
    """The beginnings that a fast path leaves to the rules, for `meaningful_properties.pxd`.

    256 bytes say where the beginnings stand whose first two bytes, combined by exclusive or, give a number; 0
    if there are none. Behind them each beginning has its length before it, and 0 ends those of one number.
    """
    by_number: dict[int, bytes] = {}
    for name in (text.encode() for text, paths in LEFT_TO_RULES.items() if path in paths):
        number = name[0] ^ name[1]
        by_number[number] = by_number.get(number, b"") + bytes([len(name)]) + name
    places = bytearray(256)
    packed = b"\0"  # place 0 has none
    for number, names in by_number.items():
        places[number] = len(packed)
        packed += names + b"\0"
    return bytes(places) + packed

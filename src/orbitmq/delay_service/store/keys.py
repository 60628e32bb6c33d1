"""Keys of the store: one ordered space, a first byte for each kind of entry.

    P lane(4) due(8) source(4) offset(8) kind(1)   a pending message: by target, then by time
    N cluster(4) name                              a name, and the key of its pending message
    G hour(4) cluster(4) name                      a name whose message has left, for a day
    S source(4)                                    the position of a queue of a source
    L lane(4)                                      the last key of a lane that may have been sent
    H lane(4)                                      keys of a lane that are claimed, with several instances
    T source(4)                                    the term that a queue is in, with several instances
    C lane(4) hour(4)                              number of pending messages due in an hour
    I number(4)                                    a text that has a number
    B                                              the restore from a backup, if there was one
    V                                              the version of this layout

Numbers are big-endian, so the order of bytes is the order of numbers.
"""

from __future__ import annotations

from struct import Struct

from orbitmq.delay_service.store.records import Kind

VERSION_KEY = b"V"
RESTORED_KEY = b"B"
HOUR_MS = 3_600_000
LAST_DUE = (1 << 63) - 1

_PENDING = Struct(">cIQIQB")
_pack = _PENDING.pack
KEY_BYTES = _PENDING.size


def pending_key(lane: int, due: int, source: int, offset: int, kind: int = Kind.MESSAGE) -> bytes:
    """The key of a pending message. A time before 1970 counts as 1970."""
    return _pack(b"P", lane, due if due > 0 else 0, source, offset, kind)


def read_pending_key(key: bytes) -> tuple[int, int, int, int, int]:
    """Lane, due time (ms), source, offset and kind."""
    _, lane, due, source, offset, kind = _PENDING.unpack(key)
    return lane, due, source, offset, kind


def due_of(key: bytes) -> int:
    """The due time (ms) of a pending message's key."""
    return int.from_bytes(key[5:13], "big")


def source_of(key: bytes) -> int:
    """The number of the queue of a pending message's key."""
    return int.from_bytes(key[13:17], "big")


def lane_of(key: bytes) -> int:
    """The lane of a pending message's key."""
    return int.from_bytes(key[1:5], "big")


def lane_start(lane: int) -> bytes:
    """A key before all of a lane."""
    return b"P" + lane.to_bytes(4, "big")


def lane_end(lane: int) -> bytes:
    """A key after all of a lane."""
    return b"P" + (lane + 1).to_bytes(4, "big")


def name_key(cluster: int, name: str) -> bytes:
    """The key of a name."""
    return b"N" + cluster.to_bytes(4, "big") + name.encode()


def gone_key(hour: int, cluster: int, name: str) -> bytes:
    """The key of a name whose message has left in an hour since 1970."""
    return b"G" + hour.to_bytes(4, "big") + cluster.to_bytes(4, "big") + name.encode()


def gone_hour(hour: int) -> bytes:
    """A key before all names that have left in an hour or later."""
    return b"G" + hour.to_bytes(4, "big")


def position_key(source: int) -> bytes:
    """The key of a queue's position."""
    return b"S" + source.to_bytes(4, "big")


def claim_key(lane: int) -> bytes:
    """The key of a lane's claim."""
    return b"L" + lane.to_bytes(4, "big")


def held_key(lane: int) -> bytes:
    """The key of a lane's claims of single messages."""
    return b"H" + lane.to_bytes(4, "big")


def held_keys(value: bytes | None) -> set[bytes]:
    """The claimed keys of a value."""
    return {value[n : n + KEY_BYTES] for n in range(0, len(value), KEY_BYTES)} if value else set()


def term_key(source: int) -> bytes:
    """The key of a queue's term."""
    return b"T" + source.to_bytes(4, "big")


def number_key(number: int) -> bytes:
    """The key of a text that has a number."""
    return b"I" + number.to_bytes(4, "big")


def hour_of(key: bytes) -> int:
    """The hour since 1970 in which a pending message is due; the last one for all later ones."""
    return min(due_of(key) // HOUR_MS, 0xFFFFFFFF)

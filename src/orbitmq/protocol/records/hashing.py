"""Java's `String.hashCode` and what RocketMQ derives from it: tags codes and index hashes.

A tag's hash stands in every consume-queue unit, a key's hash in every index entry, so these numbers are
part of the file format.
"""

from __future__ import annotations

from functools import lru_cache

INT32_MIN = -(1 << 31)
_MULTIPLIER = 2_862_933_555_777_941_757
_MASK = (1 << 64) - 1


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, as a signed 32-bit number. 0 for an empty text.

    The last few thousand answers are remembered: tags come again and again.
    """
    code = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            code = (31 * code + unit) & 0xFFFFFFFF
    else:
        units = memoryview(text.encode("utf-16-be", "surrogatepass"))
        for i in range(0, len(units), 2):
            code = (31 * code + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


def index_hash(text: str) -> int:
    """The hash of `topic#key` in an index entry: its absolute value, 0 if that has no 32-bit form."""
    code = java_hash(text)
    return 0 if code == INT32_MIN else abs(code)


def consistent_place(name: str, places: int) -> int:
    """The number of a message group's or lite topic's queue among `places` writable ones.

    The jump consistent hash of Lamping and Veach over Java's hash of the name, as every proxy and client
    has to choose it: where a queue is added, few names move.
    """
    state = java_hash(name) & _MASK
    place, following = 0, 0
    while following < places:
        place = following
        state = (state * _MULTIPLIER + 1) & _MASK
        following = int((place + 1) / (((state >> 33) + 1) / (1 << 31)))
    return place

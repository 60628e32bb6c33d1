"""Bits that stand for the filters of groups, as the extension of a consume queue keeps them per message.

Each group has a few positions in a small array of bits. If a group's filter is true for a message, its bits
are set; a message without all of them is not wanted by the group, one with all of them probably is.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, e, log, log2

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


class BitLayout:
    """Number of bits, and the bits of each group.

    `expected` groups are thought of, and `error_percent` of messages that look wanted without being so.
    """

    def __init__(self, error_percent: int, expected: int) -> None:
        rate = error_percent / 100
        self.positions_per_group = ceil(log(rate) / log(0.5))
        bits = ceil(expected * log2(1 / rate) * log2(e))
        self.bit_count = -(-bits // 8) * 8

    def positions(self, group: str, topic: str) -> list[int]:
        hashed = murmur3_64(f"{group}#{topic}".encode())
        first, step = hashed & 0xFFFFFFFF, hashed >> 32
        found = []
        for number in range(1, self.positions_per_group + 1):
            place = (first + number * step) & 0xFFFFFFFF
            if place & 0x80000000:
                place ^= 0xFFFFFFFF
            found.append(place % self.bit_count)
        return found

    def bit_map(self, groups: Iterable[Iterable[int]]) -> bytes:
        """The array with the positions of these groups set; the lowest bit of a byte comes first."""
        bits = 0
        for positions in groups:
            for position in positions:
                bits |= 1 << position
        return bits.to_bytes(self.bit_count // 8, "little")


def has_all(bit_map: bytes, positions: Iterable[int]) -> bool:
    """True if all of a group's bits are set."""
    return all(bit_map[position >> 3] >> (position & 7) & 1 for position in positions)


def murmur3_64(data: bytes) -> int:
    """The first 64 bits of MurmurHash3's 128-bit variant for x64, with seed 0."""
    first = second = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        first ^= _mixed_first(int.from_bytes(data[at : at + 8], "little"))
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _MASK
        second ^= _mixed_second(int.from_bytes(data[at + 8 : at + 16], "little"))
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _MASK
    rest = data[whole:]
    if len(rest) > 8:
        second ^= _mixed_second(int.from_bytes(rest[8:], "little"))
    if rest:
        first ^= _mixed_first(int.from_bytes(rest[:8], "little"))
    first ^= len(data)
    second ^= len(data)
    first = first + second & _MASK
    second = second + first & _MASK
    return _final(first) + _final(second) & _MASK


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 64 - bits) & _MASK


def _mixed_first(word: int) -> int:
    return _rotated(word * _C1, 31) * _C2 & _MASK


def _mixed_second(word: int) -> int:
    return _rotated(word * _C2, 33) * _C1 & _MASK


def _final(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33

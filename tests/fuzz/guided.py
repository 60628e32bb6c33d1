"""Episodes whose chance is the fuzzer's input, so that coverage guides what they do.

An episode asks its `Random` for everything in it. Here the answers are bytes of the input, as long as there
are any: a change of the input is a change of the episode, and one that reaches new branches is kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from random import Random

from tests.fuzz.episodes import EPISODES
from tests.fuzz.targets import Target

PREFIX = "episode-"
SEEDS = 4
SEED_BYTES = 2048


class Chance(Random):
    """Numbers from bytes; behind their end from a generator that they seed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._more = Random(zlib.crc32(data))
        super().__init__(0)

    def getrandbits(self, bits: int, /) -> int:
        """Whole bytes of the input: of one that is cut off, a number of the generator."""
        length = (bits + 7) // 8
        if self._at + length > len(self._data):
            self._at = len(self._data)
            return self._more.getrandbits(bits)
        piece = self._data[self._at : self._at + length]
        self._at += length
        return int.from_bytes(piece, "little") >> (8 * length - bits)

    def random(self) -> float:
        """A number below 1, of two bytes."""
        return self.getrandbits(16) / 65536

    def randbytes(self, n: int) -> bytes:
        """Bytes of the generator: what is in a text hardly matters, and would use up the input."""
        return self._more.randbytes(n)


def _target(name: str) -> Target:
    run = EPISODES[name]

    def seeds() -> Iterator[bytes]:
        for number in range(SEEDS):
            yield Random(f"{name} {number}").randbytes(SEED_BYTES)

    return Target(lambda data: run(Chance(data)), seeds)


GUIDED = {PREFIX + name: _target(name) for name in EPISODES}
"""The episodes as targets of the fuzzer."""

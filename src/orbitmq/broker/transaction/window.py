"""Half messages and op records that may still matter: a byte and eight bytes of each.

The window of half messages begins at the first one that is open; what lies before it is decided, or lives on
as a copy further on. That of op records begins at the first one that names a half message in the window.
Both beginnings are the offsets that group CID_RMQ_SYS_TRANS has in the two topics.
"""

from __future__ import annotations

from array import array
from enum import IntEnum


class HalfState(IntEnum):
    """State of a half message."""

    OPEN = 0
    COMMITTED = 1
    ROLLED_BACK = 2
    COPIED = 3
    """A newer copy stands for it."""
    GIVEN_UP = 4
    """Its producers were asked too often, or it is too old."""
    ENDED = 5
    """One of these, but it is not known any more which."""


_STATES = tuple(HalfState)
"""By number: looking one up costs a third of what asking the class does."""


class HalfWindow:
    """The states of half messages by queue offset, from `start` on; whatever lies before has ended."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self._states = bytearray()

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, offset: int) -> HalfState:
        at = offset - self.start
        if at < 0:
            return HalfState.ENDED
        return _STATES[self._states[at]] if at < len(self._states) else HalfState.OPEN

    def __setitem__(self, offset: int, state: HalfState) -> None:
        at = offset - self.start
        if at < 0:
            return
        if at >= len(self._states):
            self._states.extend(bytes(at + 1 - len(self._states)))
        self._states[at] = state

    def next_open(self, offset: int, end: int) -> int | None:
        """The first open half message from `offset` on and before `end`."""
        at = max(0, offset - self.start)
        found = self._states.find(0, at)
        first = self.start + (found if found >= 0 else max(at, len(self._states)))
        return first if first < end else None

    def advance(self, end: int) -> int:
        """Moves the start to the first open half message, `end` at most, and gives it."""
        first = self.next_open(self.start, end)
        new_start = max(self.start, end if first is None else first)
        del self._states[: new_start - self.start]
        self.start = new_start
        return new_start


class OpWindow:
    """For each op record from `start` on the last half message that it names."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self._highest = array("q")

    @property
    def end(self) -> int:
        """The queue offset behind the last one."""
        return self.start + len(self._highest)

    def add(self, op_offset: int, highest: int) -> None:
        """Notes an op record; those between it and the last one name nothing that matters."""
        if op_offset >= self.end:
            self._highest.extend([-1] * (op_offset - self.end))
            self._highest.append(highest)

    def advance(self, first_half: int) -> int:
        """Moves the start to the first op record that names `first_half` or a later one, and gives it."""
        count = 0
        for highest in self._highest:
            if highest >= first_half:
                break
            count += 1
        if count:
            del self._highest[:count]
            self.start += count
        return self.start

"""The slot of the wheel whose time it is: its units by the millisecond at which they are due.

`load` reads the chain of units from the timer log and may run in a thread; while it does, the owner adds what
comes meanwhile. Eight bytes per unit are kept: a second with a million messages is no more than that.
"""

from __future__ import annotations

import heapq
import logging
from array import array
from collections.abc import Callable

from orbitmq.store.timer.log import DELETE, NO_UNIT, ROLL, TimerLog, TimerUnit

log = logging.getLogger(__name__)

WIDEST_MS = 60_000
"""The widest slots that can be configured."""
APACHES_WIDTH_MS = 1_000
"""The width of slots in which Apache has put messages without their exact times."""


class OpenSlot:
    """Units of one slot that are still to be delivered, in order of due time and then of arrival."""

    def __init__(self, time_ms: int, precision_ms: int) -> None:
        self.time_ms = time_ms
        self.end_ms = time_ms + precision_ms
        self.is_loaded = True
        self.was_read = False
        """`load` has come to its end."""
        self.taken_back: set[str] = set()
        """Keys of messages that were recalled."""
        self.broken = 0
        """Chains that could not be followed to their end."""
        self._heap: list[int] = []
        self._old: dict[int, array[int]] = {}
        """By due time, newest first, as the chain leads."""
        self._new: dict[int, array[int]] = {}
        """By due time, oldest first."""

    def due_of(self, unit: TimerUnit) -> int:
        """Due time of a unit of this slot: the slot's end if the unit does not say it.

        Behind the end of the slot where the unit was written while slots were wider: the slot then stays open
        for so long.
        """
        if self.time_ms < unit.due_ms <= self.time_ms + WIDEST_MS:
            return unit.due_ms
        return self.end_ms if unit.due_ms else max(self.end_ms, unit.slot_ms + APACHES_WIDTH_MS)

    def load(
        self,
        timer_log: TimerLog,
        last: int,
        after: tuple[int, int],
        key_of: Callable[[int, int], str | None],
    ) -> None:
        """Reads the chain that ends with the unit at `last`, without what is not behind `after`.

        `after` is (due time, position) of what was delivered last; `key_of(physical offset, size)` gives the
        key of the message that a recall takes back.
        """
        window = timer_log.walk(last)
        precision = self.end_ms - self.time_ms
        old: dict[int, array[int]] = {}
        position = last
        while position != NO_UNIT:
            unit = window.unit(position, backwards=True)
            if unit is None or unit.slot_ms // precision * precision != self.time_ms:
                self._broke(position)
                break
            due = self.due_of(unit)
            if unit.magic & DELETE and not unit.magic & ROLL:
                key = key_of(unit.physical_offset, unit.size_bytes)
                if key is not None:
                    self.taken_back.add(key)
            elif (due, position) > after:
                if due not in old:
                    old[due] = array("q")
                old[due].append(position)
            if unit.previous >= position:
                self._broke(unit.previous)
                break
            position = unit.previous
        self._old = old
        self.was_read = True

    def _broke(self, position: int) -> None:
        self.broken += 1
        log.error("timers of %d: there is no such unit at %d of the timer log", self.time_ms, position)

    def loaded(self) -> None:
        """Takes what `load` has read; for the owner."""
        self._heap = sorted(self._old.keys() | self._new.keys())
        self.is_loaded = True

    def add(self, due_ms: int, position: int) -> None:
        """Takes a unit that came after the slot was opened: as a whole, or not at all."""
        known = self._new.get(due_ms)
        if known is not None:
            known.append(position)
            return
        if self.is_loaded and due_ms not in self._old:
            heapq.heappush(self._heap, due_ms)  # a time that is there twice is passed over
        self._new[due_ms] = array("q", (position,))

    def take(self, now: int, limit: int) -> list[tuple[int, int]]:
        """The next (due time, position), at most `limit`, of what is due by `now`."""
        taken: list[tuple[int, int]] = []
        heap = self._heap
        while heap and heap[0] <= now and len(taken) < limit:
            due = heap[0]
            positions = self._old.get(due)
            if not positions:
                positions = self._new.pop(due, None)
                if not positions:
                    heapq.heappop(heap)
                    self._old.pop(due, None)
                    continue
                positions.reverse()
                self._old[due] = positions
            while positions and len(taken) < limit:
                taken.append((due, positions.pop()))
        return taken

    @property
    def first_due_ms(self) -> int | None:
        """Due time of the first unit that was not taken; None without one."""
        waiting = [due for units in (self._old, self._new) for due, positions in units.items() if positions]
        return min(waiting, default=None)

    @property
    def is_empty(self) -> bool:
        return self.is_loaded and not any(self._old.values()) and not any(self._new.values())

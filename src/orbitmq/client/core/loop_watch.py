"""A watch for code that blocks the event loop: nothing else of the client runs meanwhile.

A thread looks every quarter of a second for a sign of life of the loop. It costs the loop a timer, and no
handler anything.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from dataclasses import dataclass

from orbitmq.client.core.user_frames import frames_of_stack

log = logging.getLogger("orbitmq.client.handlers")

TICK_SECONDS = 0.25
MISSED_TICKS = 4
"""Looks without a sign of life after which the loop counts as blocked: a second."""
QUIET_SECONDS = 60.0
"""Time for which the same place is not logged again."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Blocks of one event loop since the watch began."""

    times: int = 0
    longest_ms: int = 0
    last_ms: int = 0
    """The end of the last one, ms since 1970."""
    place: str = ""
    """The frames of the program during the last one."""


class LoopWatch:
    """Watches the running event loop from `start` to `stop`. Both belong to its thread."""

    def __init__(self) -> None:
        self.blocked = Blocked()
        self._ticks = 0
        self._ticked = time.monotonic()
        self._place: str | None = None
        """The place at which the loop is blocked now."""
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()
        self._logged: dict[str, float] = {}

    def start(self) -> None:
        """Begins to watch."""
        loop = asyncio.get_running_loop()
        self._tick(loop)
        threading.Thread(
            target=self._watch, args=[loop, threading.get_ident()], name="orbitmq loop watch", daemon=True
        ).start()

    def stop(self) -> None:
        """Ends the watch."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        if (place := self._place) is not None:
            self._place = None
            took_ms = int((now - self._ticked) * 1000)
            before = self.blocked
            self.blocked = Blocked(
                before.times + 1, max(before.longest_ms, took_ms), time.time_ns() // 1_000_000, place
            )
        self._ticks += 1
        self._ticked = now
        self._timer = loop.call_later(TICK_SECONDS, self._tick, loop)

    def _watch(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        seen, missed = self._ticks, 0
        while not (self._stopped.wait(TICK_SECONDS) or loop.is_closed()):
            if self._ticks != seen or not loop.is_running():
                seen, missed = self._ticks, 0
                continue
            missed += 1
            if missed >= MISSED_TICKS and self._place is None:
                place = frames_of_stack(sys._current_frames().get(thread_id))
                if place and self._ticks == seen:  # a loop that waits for sockets has no frames of a program
                    self._place = place
                    self._log(place)

    def _log(self, place: str) -> None:
        now = time.monotonic()
        if now - self._logged.get(place, -QUIET_SECONDS) < QUIET_SECONDS:
            return
        if len(self._logged) > 100:
            self._logged.clear()
        self._logged[place] = now
        log.warning(
            "the event loop has been blocked for a second, at %s: nothing else runs meanwhile, heartbeats "
            "neither. Make the handler a plain function, which runs in a thread, or await what it waits for",
            place,
        )

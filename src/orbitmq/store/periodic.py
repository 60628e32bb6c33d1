"""Periodic tasks. The store owns no thread and no timer: the process around it runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

TaskThread: TypeAlias = Literal["flush", "reserve", "periodic"]


@dataclass(slots=True, frozen=True)
class PeriodicTask:
    """Calls `run(now_ms)` every `interval_ms`; `in_thread` if it may block, beside the owner's thread.

    A task never runs twice at a time; different tasks may run together.
    """

    name: str
    interval_ms: int
    run: Callable[[int], object]
    in_thread: bool = False
    first_ms: int | None = None
    """Time of the first run, in ms from the start; None: after an interval."""
    thread: TaskThread = "periodic"
    """The thread: one that sends wait for, or the one for all other tasks."""
    is_wanted: Callable[[], bool] = lambda: True
    """True if there is anything to do now; called before a thread is woken."""

"""Work that comes round. The store owns no thread and no timer: the process around it runs these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Chore:
    """`run(now_ms)` is wanted every `interval_ms`; `in_thread` where it may block, beside the owner's thread.

    Chores never run twice at once; different ones may.
    """

    name: str
    interval_ms: int
    run: Callable[[int], object]
    in_thread: bool = False
    first_ms: int | None = None
    """When the first run is wanted, in ms from the start; None: after an interval."""
    is_wanted: Callable[[], bool] = lambda: True
    """Whether there is anything to do now: asked before a thread is woken for it."""

"""Work of the store that comes round. The store owns no thread and no timer: the process around it runs
these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Chore:
    """`run(now_ms)` is wanted every `interval_ms`, in a thread beside the owner's where `in_thread`.

    Chores never run twice at once; different ones may.
    """

    name: str
    interval_ms: int
    run: Callable[[int], object]
    in_thread: bool = True

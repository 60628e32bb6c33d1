"""Named points at which a test can make a store fail, stop or die.

A point is a call of `hit(name)` behind `if failpoints.armed`: one look at a module attribute per bulk of work
while nothing is armed. The names stand where they are used; `tests/fault` uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

armed: dict[str, Callable[[], None]] = {}


def hit(name: str) -> None:
    """Does what a test wants to happen here."""
    action = armed.get(name)
    if action is not None:
        action()


@contextmanager
def armed_point(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Arms one point for the length of a `with` block. `action` may raise, or end the process."""
    armed[name] = action
    try:
        yield
    finally:
        armed.pop(name, None)

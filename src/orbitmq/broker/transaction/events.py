"""Half messages and decisions that the fast path has stored, as `Transactions` is notified of them."""

from __future__ import annotations

from typing import NamedTuple


class StoredHalf(NamedTuple):
    """A half message that was stored."""

    topic: str
    group: str
    physical_offset: int
    offset: int


class EndedHalf(NamedTuple):
    """A half message that was committed or rolled back."""

    topic: str
    group: str
    physical_offset: int
    offset: int
    is_commit: bool
    age_ms: int

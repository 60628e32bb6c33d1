"""Rules for messages that the fast path stores elsewhere first, and for decisions about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False, repr=False)
class ReroutingRules:
    """Decisions of the rules about delayed messages, half messages and the ends of transactions."""

    op_properties: bytes
    op_tags_code: int
    refresh: Callable[[ReroutingRules], None]
    """Brings what follows up to date: called once for a read that has such a message or decision."""
    max_op_bytes: int = 0
    """Limit of the body of an op record, which names the half messages that were decided."""
    delays_ms: dict[int, int] = field(default_factory=dict)
    """The delay levels; none while no delayed messages are accepted."""
    accepts_halves: bool = False
    open_halves: dict[int, int] | None = None
    """Physical offset -> queue offset of recent half messages that are open, and have no copy; None while
    every decision goes the general path."""

"""Rules for messages that the fast path stores elsewhere first, and for decisions about them."""

from __future__ import annotations

from collections.abc import Callable


class ReroutingRules:
    """Decisions of the rules about delayed messages, half messages and the ends of transactions."""

    __slots__ = (
        "accepts_halves",
        "delays_ms",
        "max_op_bytes",
        "op_properties",
        "op_tags_code",
        "open_halves",
        "refresh",
    )

    def __init__(
        self, op_properties: bytes, op_tags_code: int, refresh: Callable[[ReroutingRules], None]
    ) -> None:
        self.refresh = refresh
        """Brings what follows up to date: called once for a read that has such a message or decision."""
        self.op_properties = op_properties
        self.op_tags_code = op_tags_code
        self.max_op_bytes = 0
        """Limit of the body of an op record, which names the half messages that were decided."""
        self.delays_ms: dict[int, int] = {}
        """The delay levels; none while no delayed messages are accepted."""
        self.accepts_halves = False
        self.open_halves: dict[int, int] | None = None
        """Physical offset -> queue offset of recent half messages that are open, and have no copy; None while
        every decision goes the general path."""

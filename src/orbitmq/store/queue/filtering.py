"""Filters of a queue's readers, beyond sets of tags codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class ExtensionUnit(NamedTuple):
    """Data of a message that a queue may keep beside its unit."""

    tags_code: int
    store_time_ms: int
    bit_map: bytes
    """One bit per possible filter; empty where none was made."""


class MessageFilter:
    """Looks at each message in three steps, the cheapest first; what one refuses the next does not see."""

    __slots__ = ()

    def __call__(self, tags_code: int) -> bool:
        """True if a message may be wanted, by the code in its unit."""
        return True

    def by_extension(self, extension: ExtensionUnit) -> bool:
        """The same, as far as the extension of the unit shows."""
        return self(extension.tags_code)

    def matches(self, properties: bytes) -> bool:
        return True


Accept: TypeAlias = frozenset[int] | MessageFilter | Callable[[int], bool] | None
"""Selection of messages: by their tags codes, by a function of these, by a filter, or all."""

"""What a reader of a queue wants, beyond sets of tags codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class ExtensionUnit(NamedTuple):
    """What a queue may keep of a message beside its unit."""

    tags_code: int
    store_time_ms: int
    bit_map: bytes
    """One bit per possible filter; empty where none was made."""


class MessageFilter:
    """Looks at each message in three steps, the cheapest first; what one refuses the next does not see."""

    __slots__ = ()

    def __call__(self, tags_code: int) -> bool:
        """Whether a message is wanted, as far as the code in its unit tells."""
        return True

    def by_extension(self, extension: ExtensionUnit) -> bool:
        """The same, as far as the extension of the unit tells."""
        return self(extension.tags_code)

    def matches(self, properties: bytes) -> bool:
        """Whether a message with these properties is wanted."""
        return True


Accept: TypeAlias = frozenset[int] | MessageFilter | Callable[[int], bool] | None
"""Which messages are wanted: by their tags codes, by what a function says of them, by a filter, or all."""

"""Errors of options; each is one line for the person who set the option."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class OptionError(ValueError):
    """An option, or a source of options, is of no use."""


class UnknownOption(OptionError):
    """A name that no option has; says which one is nearest."""

    def __init__(self, name: str, source: str, known: Iterable[str]) -> None:
        by_folded = {_folded(candidate): candidate for candidate in known}
        near = get_close_matches(_folded(name), by_folded, n=1, cutoff=0.6)
        self.name = name
        self.source = source
        self.nearest = by_folded[near[0]] if near else None
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        super().__init__(f"{source}: unknown option {name}{hint}")


class InvalidValue(OptionError):
    """A value that is not of the option's type, or outside its range."""

    def __init__(self, name: str, value: object, expected: str, source: str) -> None:
        super().__init__(f"{source}: {name}={value} is not valid; expected {expected}")
        self.name = name
        self.value = value
        self.expected = expected


class RefusedValue(OptionError):
    """A value that OrbitMQ understands and will not run with, because it would change what is meant."""

    def __init__(self, name: str, value: object, reason: str, source: str) -> None:
        super().__init__(f"{source}: {name}={value} is refused: {reason}")
        self.name = name
        self.value = value
        self.reason = reason


class UnreadableSource(OptionError):
    """A file of options that is missing, is not readable, or is not what it claims to be."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")


class NotAtRunTime(OptionError):
    """An update names options that only a start can change, or that may not be changed over the network."""

    def __init__(self, names: list[str], reason: str) -> None:
        super().__init__(f"{', '.join(names)}: {reason}")
        self.names = names


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()

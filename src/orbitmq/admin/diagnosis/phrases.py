"""Sentences as a text with named values, so that the console can say them in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Phrase:
    """`text` in English, in which `{name}` stands for a value; a value may be a phrase itself."""

    text: str
    values: Mapping[str, str | Phrase] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text.format(**{name: str(value) for name, value in self.values.items()})


def phrase(text: str, /, **values: str | int | Phrase) -> Phrase:
    """A phrase; numbers get separators of thousands."""
    return Phrase(
        text, {name: f"{value:,}" if isinstance(value, int) else value for name, value in values.items()}
    )


def members(count: int) -> Phrase:
    """`1 member`, `2 members`."""
    return phrase("{count} member", count=count) if count == 1 else phrase("{count} members", count=count)


def queues(count: int) -> Phrase:
    """`1 queue`, `2 queues`."""
    return phrase("{count} queue", count=count) if count == 1 else phrase("{count} queues", count=count)

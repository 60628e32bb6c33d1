"""Numbers with their nouns, in results and errors."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun, `1 message` or `1,200 messages`; the plural adds an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

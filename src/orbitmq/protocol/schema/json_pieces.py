"""Long JSON texts, read a piece at a time.

The standard library reads a text in one go and holds the GIL for as long: 16 MiB stop all other threads for
a tenth of a second and more. Here its reader gets values of a few KB; containers that are longer are walked
member by member, so that other threads have their turn in between.
"""

from __future__ import annotations

import re
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]
from typing import Any

PIECES = (2 << 10, 32 << 10)
"""Characters that the standard reader is given at a time: few, and more where these do not hold a value."""

_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER_KEY = re.compile(r"-?\d+(?=\s*:)")


class Reader:
    """A reader of one text. Raises ValueError for what is not JSON, but for keys that are bare numbers."""

    def __init__(self, text: str, max_depth: int, decoder: JSONDecoder) -> None:
        self._text = text
        self._max_depth = max_depth
        self._read_piece = decoder.raw_decode

    def document(self) -> Any:
        """The value of the whole text."""
        try:
            value, at = self._value(self._skip(0), 0)
        except IndexError:
            raise ValueError("the text ends within a value") from None
        if self._skip(at) != len(self._text):
            raise ValueError(f"more text behind the value at character {at}")
        return value

    def _skip(self, at: int) -> int:
        match = _BLANK.match(self._text, at)
        return at if match is None else match.end()

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        """The value that begins at a character, and where it ends."""
        text = self._text
        for size in PIECES:
            piece = text[at : at + size]
            try:
                value, end = self._read_piece(piece)
            except (ValueError, RecursionError):
                if len(piece) < size:
                    break  # the whole rest of the text: a longer piece is the same
                continue
            # A number at the end of a piece may continue in the next one.
            if end < len(piece) or at + end == len(text):
                return value, at + end
        begin = text[at]
        if begin == '"':
            found: tuple[str, int] = scanstring(text, at + 1, True)
            return found
        if depth == self._max_depth:
            raise ValueError(f"nested more than {depth} deep")
        if begin == "{":
            return self._object(at + 1, depth + 1)
        if begin == "[":
            return self._list(at + 1, depth + 1)
        raise ValueError(f"no value at character {at}")

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        text, skip = self._text, self._skip
        made: dict[str, Any] = {}
        at = skip(at)
        if text[at] == "}":
            return made, at + 1
        while True:
            key, at = self._key(at)
            at = skip(at)
            if text[at] != ":":
                raise ValueError(f"no value behind the key at character {at}")
            made[key], at = self._value(skip(at + 1), depth)
            at = skip(at)
            if text[at] == "}":
                return made, at + 1
            if text[at] != ",":
                raise ValueError(f"neither a comma nor the object's end at character {at}")
            at = skip(at + 1)

    def _key(self, at: int) -> tuple[str, int]:
        if self._text[at] == '"':
            found: tuple[str, int] = scanstring(self._text, at + 1, True)
            return found
        number = _NUMBER_KEY.match(self._text, at)
        if number is None:
            raise ValueError(f"no key at character {at}")
        return number.group(), number.end()

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        text, skip = self._text, self._skip
        made: list[Any] = []
        at = skip(at)
        if text[at] == "]":
            return made, at + 1
        while True:
            value, at = self._value(at, depth)
            made.append(value)
            at = skip(at)
            if text[at] == "]":
                return made, at + 1
            if text[at] != ",":
                raise ValueError(f"neither a comma nor the list's end at character {at}")
            at = skip(at + 1)


def count(data: bytes, characters: bytes, piece_bytes: int = 256 << 10) -> int:
    """Number of bytes of a text that are one of `characters`, counted a piece at a time."""
    found = 0
    for at in range(0, len(data), piece_bytes):
        piece = data[at : at + piece_bytes]
        found += sum(piece.count(character) for character in characters)
    return found

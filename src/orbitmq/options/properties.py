"""Java properties text, read as `java.util.Properties.load` reads it, and written so that it reads back.

Bytes are Latin-1; a line ends at LF, CR or CRLF; a backslash at its end joins the next line, whose leading
blanks fall away; `#` and `!` begin comments; the first `=`, `:` or blank that is not escaped ends the key.
Source: the documentation of `Properties.load`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from orbitmq.options.errors import UnreadableSource

_BLANKS = " \t\f"
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\r|\n")


def parse_properties(data: bytes, source: str) -> dict[str, str]:
    r"""The pairs in a properties file; of a key that comes twice the later one counts.

    Raises UnreadableSource for a malformed `\uXXXX`, as Java does.
    """
    return {key: value for key, (value, _) in parse_numbered(data, source).items()}


def parse_numbered(data: bytes, source: str) -> dict[str, tuple[str, int]]:
    """The same pairs, each value with the number of the line on which its key stands."""
    pairs = {}
    for number, line in _logical_lines(data.decode("latin-1")):
        key, value = _split(line)
        try:
            pairs[_unescape(key)] = _unescape(value), number
        except ValueError:
            raise UnreadableSource(f"{source} line {number}", "malformed \\uXXXX encoding") from None
    return pairs


def format_properties(pairs: Mapping[str, str]) -> str:
    """Properties text, sorted by key, in ASCII."""
    return "".join(f"{_escape(key, True)}={_escape(pairs[key], False)}\n" for key in sorted(pairs))


def update_properties(data: bytes, changes: Mapping[str, str]) -> str:
    """The text of a properties file with some values changed; comments and all other lines stay.

    Keys that the file does not hold are added at its end, sorted. ASCII, whatever the file had.
    """
    left = dict(changes)
    kept: list[str] = []
    pending: list[str] = []
    naturals = _LINE_END.split(data.decode("latin-1").rstrip("\r\n"))
    for number, natural in enumerate(naturals, 1):
        pending.append(natural)
        is_comment = len(pending) == 1 and natural.lstrip(_BLANKS)[:1] in ("", "#", "!")
        if not is_comment and _goes_on(natural):
            if number < len(naturals):
                continue
            pending[-1] = natural[:-1]  # nothing follows: what is added must not become its continuation
        key = None if is_comment else _unescape(_split("".join(_joined(pending)))[0])
        if key in changes:
            if key in left:
                kept.append(f"{_escape(key, True)}={_escape(left.pop(key), False)}")
        else:
            kept += pending
        pending = []
    text = "".join(line + "\n" for line in kept if kept != [""])
    # A backslash before a character that needs none is dropped: it would escape the escape.
    text = re.sub(
        r"(\\*)([^\x00-~])", lambda found: found[1][: len(found[1]) & ~1] + f"\\u{ord(found[2]):04X}", text
    )
    return text + format_properties(left)


def _goes_on(natural: str) -> bool:
    """True if a line ends with a backslash that joins the next line to it."""
    return (len(natural) - len(natural.rstrip("\\"))) % 2 == 1


def _joined(natural_lines: list[str]) -> Iterator[str]:
    for natural in natural_lines[:-1]:
        yield natural.lstrip(_BLANKS)[:-1]
    yield natural_lines[-1].lstrip(_BLANKS)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    joined: str | None = None
    first = 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if joined is None:
            if not line or line[0] in "#!":
                continue
            joined, first = "", number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        yield first, joined + line
        joined = None
    if joined is not None:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    i, n = 0, len(line)
    while i < n and line[i] not in "=:" + _BLANKS:
        i += 2 if line[i] == "\\" else 1
    key = line[:i]
    rest = line[i:].lstrip(_BLANKS)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts = []
    i, n = 0, len(text)
    while i < n:
        character = text[i]
        i += 1
        if character == "\\" and i < n:
            character = text[i]
            i += 1
            if character == "u":
                digits = text[i : i + 4]
                if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                    raise ValueError(digits)
                character = chr(int(digits, 16))
                i += 4
            else:
                character = _NAMED.get(character, character)
        elif character == "\\":
            break
        parts.append(character)
    # Characters beyond the basic plane are written as two \\uXXXX, a surrogate pair.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, is_key: bool) -> str:
    parts = []
    for position, character in enumerate(text):
        if character in "\t\n\r\f":
            parts.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[character])
        elif character in "\\=:#!" or (character == " " and (is_key or position == 0)):
            parts.append("\\" + character)
        elif " " <= character <= "~":
            parts.append(character)
        else:
            units = character.encode("utf-16-be")
            parts.extend(f"\\u{units[k]:02X}{units[k + 1]:02X}" for k in range(0, len(units), 2))
    return "".join(parts)

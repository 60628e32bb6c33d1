"""Text in a terminal that may have come from elsewhere, such as names and properties."""

from __future__ import annotations

import re

_CONTROLS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")
"""Characters that end a line, move a terminal's cursor, or turn the direction of what follows."""


def escaped(text: str) -> str:
    r"""Text of one line: control characters are escaped, as in \n."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escaped_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(map(escaped, text.split("\n")))


def escaped_json(text: str) -> str:
    r"""A line of JSON with control characters as \uXXXX; Python's writer leaves those beyond ASCII bare."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

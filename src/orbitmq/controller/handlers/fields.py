"""Fields of requests that have to be there, and how long and large they may be."""

from __future__ import annotations

import re

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused

MAX_CHARACTERS = 512
"""Longest name, address or check code; a longer one is refused."""
MAX_NUMBER = (1 << 31) - 1
"""Largest id or epoch; a larger one is refused."""
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def text_of(value: str | None, name: str) -> str:
    """A text of bounded length, on one line. Raises Refused."""
    if not value:
        raise _refused(f"the field {name} is missing")
    if len(value) > MAX_CHARACTERS or not value.isprintable():
        raise _refused(
            f"the field {name} has more than {MAX_CHARACTERS} characters, or some that are no text"
        )
    return value


def number_of(value: int | None, name: str) -> int:
    """An id or epoch. Raises Refused."""
    if value is None:
        raise _refused(f"the field {name} is missing")
    if not 0 <= value <= MAX_NUMBER:
        raise _refused(f"the field {name} is {value}: expected a number from 0 to {MAX_NUMBER}")
    return value


def address_of(value: str | None, name: str) -> str:
    """An address, `host:port`. Raises Refused."""
    text = text_of(value, name)
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 65536:
        raise _refused(f"the field {name} is no address of the form host:port")
    return text


def _refused(remark: str) -> Refused:
    return Refused(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)

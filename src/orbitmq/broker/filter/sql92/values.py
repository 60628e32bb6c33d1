"""Values of properties, turned into numbers as Java does: what Java refuses is no number here either."""

from __future__ import annotations

import re
from math import copysign
from typing import TypeAlias

Value: TypeAlias = bool | int | float | bytes | None
"""Values of expressions: texts are UTF-8, None is SQL's unknown."""

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

MAX_NESTING = 100
"""Operators within operators; long chains of AND and of OR count as one."""

_SIGNED = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(
    rb"[\x00-\x20]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?[\x00-\x20]*"
)
_HEX = re.compile(
    rb"[\x00-\x20]*([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?[\x00-\x20]*"
)
_NAMED = re.compile(rb"[\x00-\x20]*([+-]?)(NaN|Infinity)[\x00-\x20]*")


class BadExpression(ValueError):
    """A text that is no filter. The message says what is wrong with it, and where."""


class EvaluationError(Exception):
    """An expression that cannot be evaluated for one message: it does not match."""


def to_int(text: bytes) -> int:
    """A 32-bit integer. Raises EvaluationError."""
    number = int(text) if text.isdigit() and len(text) < 20 else _signed(text)
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvaluationError("no int")


def to_long(text: bytes) -> int:
    """A 64-bit integer. Raises EvaluationError."""
    number = int(text) if text.isdigit() and len(text) < 20 else _signed(text)
    if LONG_MIN <= number <= LONG_MAX:
        return number
    raise EvaluationError("no long")


def _signed(text: bytes) -> int:
    # A sign, and digits of any script; neither blanks nor underscores. A limit keeps long ones cheap.
    digits = text.decode("utf-8", "replace")
    if len(digits) > 100 or not _SIGNED.fullmatch(digits):
        raise EvaluationError("no integer")
    return int(digits)


def to_double(text: bytes) -> float:
    """A double, with Java's suffixes, blanks around it, hexadecimal form, names. Raises EvaluationError."""
    if text.isdigit() and len(text) < 300:
        return float(text)
    found = _DECIMAL.fullmatch(text)
    if found:
        return float(found[1])
    found = _NAMED.fullmatch(text)
    if found:
        return copysign(float("inf" if found[2] == b"Infinity" else "nan"), -1 if found[1] == b"-" else 1)
    found = _HEX.fullmatch(text)
    if found is None:
        raise EvaluationError("no double")
    try:
        return float.fromhex(found[1].decode())
    except OverflowError:
        return copysign(float("inf"), -1 if found[1].startswith(b"-") else 1)


def to_comparable_double(text: bytes) -> float:
    """A double to compare with a finite one: NaN is above all numbers in Java, as infinity is."""
    number = to_double(text)
    return number if number == number else float("inf")


def double_order(left: float, right: float) -> int:
    """Java's order of doubles: -1, 0 or 1. -0.0 is below 0.0, NaN above everything and equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1
    return (_rank(left) > _rank(right)) - (_rank(left) < _rank(right))


def _rank(number: float) -> int:
    """Tells apart what `<` and `>` do not."""
    if number != number:
        return 2
    return 1 if copysign(1, number) > 0 else 0

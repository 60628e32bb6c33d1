"""Expressions as closures over a property string, with the checks that are made when they are put together.

The kind of every value is known from the text (a property is text or absent, a literal what it is), so that
each comparison is made for its two kinds once and nothing is asked again for each message.

Logic has three values: None is unknown, what absent properties compare to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeAlias

from orbitmq.broker.filter.sql92.values import (
    INT_MAX,
    LONG_MAX,
    MAX_NESTING,
    BadExpression,
    Value,
    double_order,
    to_comparable_double,
    to_double,
    to_int,
    to_long,
)
from orbitmq.protocol.records.properties_cy import find_property

TOO_DEEP = f"the expression is nested deeper than {MAX_NESTING} levels"

Read: TypeAlias = Callable[[bytes], Any]
Holds: TypeAlias = Callable[[Any, Any], bool]


class Kind(Enum):
    """The type of an expression's values other than None."""

    BOOLEAN = "boolean"
    TEXT = "text"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    NOTHING = "nothing"
    """It always gives None."""


NUMBERS = {Kind.INT: to_int, Kind.LONG: to_long, Kind.DOUBLE: to_comparable_double}
ORDERS: dict[str, Holds] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


class Node:
    """A part of an expression."""

    __slots__ = ("depth", "is_boolean", "is_literal", "kind", "parts", "property_name", "read", "value")

    def __init__(
        self,
        kind: Kind,
        read: Read,
        below: Sequence[Node] = (),
        *,
        is_boolean: bool = False,
        is_literal: bool = False,
        value: Value = None,
        property_name: bytes | None = None,
    ) -> None:
        self.kind = kind
        self.read = read
        self.is_boolean = is_boolean
        """True if it may be used as a condition."""
        self.is_literal = is_literal
        self.value = value
        """The value of a literal."""
        self.property_name = property_name
        self.parts: tuple[str, list[Node]] | None = None
        """AND or OR with its operands, so that a chain of them is one level."""
        self.depth: int = 1 + max((node.depth for node in below), default=0)
        if self.depth > MAX_NESTING:
            raise BadExpression(TOO_DEEP)

    def as_boolean(self) -> Node:
        """The node as a condition. A bare property is one: unknown if absent, else false."""
        if self.is_boolean:
            return self
        if self.property_name is None:
            raise BadExpression("a condition is expected where there is a value")
        read = self.read
        return _condition(lambda properties: None if read(properties) is None else False, self)


def _condition(read: Read, *below: Node) -> Node:
    return Node(Kind.BOOLEAN, read, below, is_boolean=True)


# Values.


def literal(kind: Kind, value: Value) -> Node:
    """A constant."""
    return Node(kind, lambda properties: value, is_boolean=kind is Kind.BOOLEAN, is_literal=True, value=value)


def null() -> Node:
    """NULL, which counts as a condition too."""
    return Node(Kind.NOTHING, lambda properties: None, is_boolean=True, is_literal=True)


LONG_DIGITS = 20
"""A number with more digits is above every 64-bit one."""


def integer(digits: str) -> Node:
    """An integer: 32 bits if it fits, else 64."""
    written = digits.rstrip("lL")
    # Python itself converts no more than some thousand digits.
    if len(written) > LONG_DIGITS:
        raise BadExpression(f"{written[:LONG_DIGITS]}… is too large")
    value = int(written)
    if value > LONG_MAX:
        raise BadExpression(f"{value} is too large")
    return literal(Kind.INT if value <= INT_MAX else Kind.LONG, value)


def double(digits: str) -> Node:
    """A floating-point number, which has to be more than 0 and finite."""
    value = float(digits)
    if not 0 < value < float("inf"):
        raise BadExpression(f"{digits} is {'too large' if value else 'not more than 0'}")
    return literal(Kind.DOUBLE, value)


def property_value(name: str) -> Node:
    """A property of the message, None without it."""
    wanted = name.encode()

    def read(properties: bytes) -> bytes | None:
        value = find_property(properties, wanted)
        if value is None or value.isascii():
            return value
        return value.decode("utf-8", "replace").encode()

    return Node(Kind.TEXT, read, property_name=wanted)


def negated(node: Node) -> Node:
    """A number with the other sign; of anything else unknown."""
    read = node.read
    if node.kind in NUMBERS:
        value = -read(b"")
        return Node(node.kind, lambda properties: value, (node,))

    def nothing(properties: bytes) -> None:
        read(properties)  # it may not be possible to evaluate it

    return Node(Kind.NOTHING, nothing, (node,))


# Logic.


def both(left: Node, right: Node) -> Node:
    """AND."""
    return _chain("AND", left, right, _all)


def either(left: Node, right: Node) -> Node:
    """OR."""
    return _chain("OR", left, right, _any)


def _chain(word: str, left: Node, right: Node, combine: Callable[[list[Read]], Read]) -> Node:
    parts = [left.as_boolean(), right.as_boolean()]
    if left.parts is not None and left.parts[0] == word:
        parts = [*left.parts[1], parts[1]]
    node = _condition(combine([part.read for part in parts]), *parts)
    node.parts = word, parts
    return node


def _all(reads: list[Read]) -> Read:
    def every(properties: bytes) -> bool | None:
        result: bool | None = True
        for read in reads:
            value = read(properties)
            if value is None:
                result = None
            elif not value:
                return False
        return result

    return every


def _any(reads: list[Read]) -> Read:
    def some(properties: bytes) -> bool | None:
        result: bool | None = False
        for read in reads:
            value = read(properties)
            if value:
                return True
            if value is None:
                result = None
        return result

    return some


def opposite(node: Node) -> Node:
    """NOT."""
    node = node.as_boolean()
    read = node.read

    def inverted(properties: bytes) -> bool | None:
        value = read(properties)
        return None if value is None else not value

    return _condition(inverted, node)


# Equality.


def equal(left: Node, right: Node) -> Node:
    """`=`: two absent properties are equal; a text is compared as what the other side is."""
    for node in (left, right):
        if node.is_literal and node.kind is Kind.NOTHING:
            raise BadExpression("nothing can be compared with NULL: say IS NULL")
    if left.is_literal and right.is_literal and left.is_boolean and not right.is_boolean:
        raise BadExpression("a truth value cannot be compared with a number or a text")
    return _equal(left, right)


def _equal(left: Node, right: Node) -> Node:
    read_left, read_right = left.read, right.read
    same = _sameness(left.kind, right.kind)
    if right.is_literal and left.kind is Kind.TEXT and right.kind is Kind.TEXT:
        wanted = right.value

        def is_text(properties: bytes) -> bool | None:
            value = read_left(properties)
            return None if value is None else value == wanted

        return _condition(is_text, left, right)

    def is_equal(properties: bytes) -> bool | None:
        one, other = read_left(properties), read_right(properties)
        if one is None:
            return True if other is None else None
        return False if other is None else same(one, other)

    return _condition(is_equal, left, right)


def _sameness(left: Kind, right: Kind) -> Holds:
    if Kind.NOTHING in (left, right):
        return _never
    if left is Kind.TEXT and right is Kind.BOOLEAN:
        return lambda one, other: (one.lower() == b"true") is other
    if left is Kind.BOOLEAN and right is Kind.TEXT:
        return lambda one, other: (other.lower() == b"true") is one
    if left is right:
        return operator.eq
    if left is Kind.TEXT:
        convert = NUMBERS[right]
        return lambda one, other: bool(convert(one) == other)
    if Kind.BOOLEAN in (left, right):
        return _never
    if right is Kind.TEXT:
        convert = NUMBERS[left]
        return lambda one, other: bool(one == convert(other))
    return _widened(operator.eq, left, right)


def _widened(holds: Holds, left: Kind, right: Kind) -> Holds:
    """A comparison of numbers of two kinds: beside a double an integer counts as one."""
    if Kind.DOUBLE in (left, right):
        return lambda one, other: holds(float(one), float(other))
    return holds


def _never(one: Any, other: Any) -> bool:
    return False


def not_equal(left: Node, right: Node) -> Node:
    """`<>`."""
    return opposite(equal(left, right))


def is_null(node: Node) -> Node:
    """`IS NULL`: true or false, never unknown."""
    read = node.read
    return _condition(lambda properties: read(properties) is None, node)


def is_not_null(node: Node) -> Node:
    """`IS NOT NULL`."""
    read = node.read
    return _condition(lambda properties: read(properties) is not None, node)


# Order.


def ordered(left: Node, word: str, right: Node) -> Node:
    """`>`, `>=`, `<` or `<=`: of numbers, and of texts that are numbers."""
    for node in (left, right):
        if node.is_literal and node.kind not in NUMBERS:
            raise BadExpression(f"{word} compares numbers only")
        if node.is_boolean:
            raise BadExpression(f"{word} cannot compare a truth value")
    if right.kind in NUMBERS and left.kind is Kind.TEXT:
        return _text_with_number(left, word, right)
    if left.kind in NUMBERS and right.kind is Kind.TEXT:
        return _text_with_number(right, MIRRORED[word], left)
    return _general_order(left, word, right)


def _text_with_number(text: Node, word: str, number: Node) -> Node:
    """The usual one: a property beside a number, which no message changes."""
    read, holds, convert = text.read, ORDERS[word], NUMBERS[number.kind]
    limit = number.read(b"")

    def compare(properties: bytes) -> bool | None:
        value = read(properties)
        return None if value is None else holds(convert(value), limit)

    return _condition(compare, text, number)


def _general_order(left: Node, word: str, right: Node) -> Node:
    read_left, read_right = left.read, right.read
    holds = ORDERS[word]
    if left.kind is Kind.TEXT and right.kind is Kind.TEXT:
        compare: Holds = lambda one, other: holds(double_order(to_double(one), to_double(other)), 0)  # noqa: E731
    else:
        compare = _widened(holds, left.kind, right.kind)

    def in_order(properties: bytes) -> bool | None:
        one = read_left(properties)
        if one is None:
            return None
        other = read_right(properties)
        return None if other is None else compare(one, other)

    return _condition(in_order, left, right)


def between(value: Node, low: Node, high: Node) -> Node:
    """`BETWEEN`, bounds included."""
    if low.is_literal and high.is_literal:
        if Kind.NOTHING in (low.kind, high.kind):
            raise BadExpression("a bound of BETWEEN cannot be NULL")
        if low.kind in NUMBERS and high.kind in NUMBERS and high.read(b"") < low.read(b""):
            raise BadExpression("the first bound of BETWEEN is more than the second")
    return both(ordered(value, ">=", low), ordered(value, "<=", high))


def not_between(value: Node, low: Node, high: Node) -> Node:
    """`NOT BETWEEN`."""
    return either(ordered(value, "<", low), ordered(value, ">", high))


# Texts.


def one_of(node: Node, texts: list[bytes], negative: bool) -> Node:
    """`IN`, and `NOT IN`: whether a property is one of some texts."""
    if node.property_name is None:
        raise BadExpression("IN needs a property on its left")
    wanted, read = frozenset(texts), node.read

    def is_in(properties: bytes) -> bool | None:
        value = read(properties)
        return None if value is None else (value in wanted) is not negative

    return _condition(is_in, node)


TESTS: dict[str, Callable[[bytes, bytes], bool]] = {
    "CONTAINS": lambda value, text: text in value,
    "STARTSWITH": bytes.startswith,
    "ENDSWITH": bytes.endswith,
}


def text_test(node: Node, word: str, text: bytes, negative: bool) -> Node:
    """`CONTAINS`, `STARTSWITH`, `ENDSWITH`, and their opposites.

    False for what is absent, no text, or looked for without a text: the opposite too.
    """
    read, test = node.read, TESTS[word]
    if not text:
        return _condition(lambda properties: False, node)
    if node.kind is not Kind.TEXT:

        def never(properties: bytes) -> bool:
            read(properties)  # it may not be possible to evaluate it
            return False

        return _condition(never, node)

    def is_found(properties: bytes) -> bool:
        value = read(properties)
        return value is not None and test(value, text) is not negative

    return _condition(is_found, node)

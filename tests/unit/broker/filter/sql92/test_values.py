"""Texts as numbers, as Java reads them."""

from __future__ import annotations

import math

import pytest

from orbitmq.broker.filter.sql92.values import EvaluationError, double_order, to_double, to_int, to_long


def test_integers_have_bounds() -> None:
    assert to_int(b"2147483647") == 2**31 - 1
    assert to_int(b"-2147483648") == -(2**31)
    assert to_long(b"9223372036854775807") == 2**63 - 1
    for text in (b"2147483648", b"-2147483649"):
        with pytest.raises(EvaluationError):
            to_int(text)
        to_long(text)
    with pytest.raises(EvaluationError):
        to_long(b"9223372036854775808")


@pytest.mark.parametrize(
    "text", [b"", b"+", b" 5", b"5 ", b"1_0", b"0x10", b"5.0", b"5L", b"--5", b"9" * 5000]
)
def test_what_is_no_integer(text: bytes) -> None:
    with pytest.raises(EvaluationError):
        to_long(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"5", 5.0),
        (b" 5.5 ", 5.5),
        (b"5d", 5.0),
        (b".5F", 0.5),
        (b"5.", 5.0),
        (b"-1e3", -1000.0),
        (b"0x1p3", 8.0),
        (b"-Infinity", -math.inf),
        (b"1e999", math.inf),
        (b"-0x1p9999", -math.inf),
        ("\u0665".encode(), None),
        (b"inf", None),
        (b"1_0", None),
        (b"", None),
        (b"0x10", None),
    ],
)
def test_doubles(text: bytes, number: float | None) -> None:
    if number is None:
        with pytest.raises(EvaluationError):
            to_double(text)
    else:
        assert to_double(text) == number


def test_the_order_of_doubles_is_total() -> None:
    in_order = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for one, left in enumerate(in_order):
        for other, right in enumerate(in_order):
            assert double_order(left, right) == (one > other) - (one < other)


def test_a_text_that_is_no_utf8_is_read_as_java_reads_it() -> None:
    from orbitmq.broker.filter.sql92 import compile_filter

    assert compile_filter("a = 'x\ufffd'").matches(b"a\x01x\xff\x02")

"""Refused expressions, and the text that their user is told."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from orbitmq.broker.filter.sql92 import MAX_LENGTH, BadExpression, compile_filter

MESSAGES = {
    "": "the expression is empty",
    "   ": "the expression is empty",
    "price >": "the expression ends too early",
    "price == 5": "= is not expected at character 8",
    "price # 5": "nothing can begin with '#' at character 7",
    'a = 5 AND\n b = "x"': "nothing can begin with '\"' at line 2, character 6",
    "price > 'ten'": "> compares numbers only",
    "(a = 1) > 2": "> cannot compare a truth value",
    "a = NULL": "nothing can be compared with NULL: say IS NULL",
    "TRUE = 5": "a truth value cannot be compared with a number or a text",
    "a BETWEEN 9 AND 1": "the first bound of BETWEEN is more than the second",
    "a BETWEEN NULL AND 1": "a bound of BETWEEN cannot be NULL",
    "5 IN ('x')": "IN needs a property on its left",
    "'x'": "a condition is expected where there is a value",
    "a = 99999999999999999999": "99999999999999999999 is too large",
    "a = " + "9" * 5000: "99999999999999999999… is too large",
    "a > 0.0": "0.0 is not more than 0",
    "a > 1E999": "1E999 is too large",
    "a IN (aVeryLongWordThatNobodyWantsToRead)": "aVeryLongWordThatNob... is not expected at character 7",
}


@pytest.mark.parametrize(("text", "message"), MESSAGES.items())
def test_the_reason_is_told(text: str, message: str) -> None:
    with pytest.raises(BadExpression) as refused:
        compile_filter(text)
    assert str(refused.value) == message


def test_a_refusal_is_remembered() -> None:
    for _ in range(2):
        with pytest.raises(BadExpression, match="too early"):
            compile_filter("nothing >")
    assert compile_filter("price > 3") is compile_filter("price > 3")


def test_what_follows_a_whole_expression_is_not_looked_at() -> None:
    assert compile_filter("a = 5 whatever # comes").matches(b"a\x015\x02")


HOSTILE = {
    "long": "a = 5 OR " * 1000 + "a = 6",
    "parentheses": "(" * 8000,
    "closed parentheses": "(" * 2000 + "a = 1" + ")" * 2000,
    "minus signs": "a = " + "-" * 8000 + "5",
    "signs apart": "a = " + "- " * 4000 + "5",
    "negations": "NOT " * 2000 + "a",
    "comparisons": "a = 1" + " = TRUE" * 1000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_too_long_or_too_deep_is_refused_at_once(name: str) -> None:
    started = time.process_time()
    with pytest.raises(BadExpression, match=r"nested deeper than 100|8192 are allowed"):
        compile_filter(HOSTILE[name])
    assert time.process_time() - started < 1


def test_long_chains_and_lists_are_not_deep() -> None:
    chain = " OR ".join(f"a = '{number}'" for number in range(600))
    assert len(chain) < MAX_LENGTH
    assert compile_filter(chain).matches(b"a\x01599\x02")
    wanted = ", ".join(f"'{number}'" for number in range(1000))
    assert compile_filter(f"a IN ({wanted})").matches(b"a\x01999\x02")
    assert not compile_filter(f"a IN ({wanted})").matches(b"a\x011000\x02")


def test_the_parser_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, orbitmq.broker.broker, orbitmq.cli; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

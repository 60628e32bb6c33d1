"""This broker makes the same of expressions as Apache's own filter classes."""

from __future__ import annotations

import pytest

from orbitmq.broker.filter.sql92 import BadExpression, EvaluationError, compile_filter
from orbitmq.protocol.records.properties import encode_properties
from tests.wire.vector_files import load

RESULTS = {None: "null", True: "true", False: "false"}
CASES = [
    (name, text, expected)
    for name in ("sql92", "sql92_more")
    for text, expected in load(name)["cases"]
    # A property without a value, which is in the map of the vectors, cannot be in a stored message.
    if not (name == "sql92" and text in ("e = ''", "e IS NULL"))
]

BOOLEAN_LEFT = {
    "TRUE = a": "false",
    "(a=5) = t": "true",
    "(1=1) = 'true'": "true",
    "TRUE IS NULL = '5' <> -1e3": "true",
    "+0 IS NULL = 'it''s' = sg": "false",
    "--neg >= - 2 AND NOT over <> under AND - 2 NOT EndsWith ''": "false",
    "pdot <> suf = h = 'it''s'": "true",
    " NOT T <> E5": "true",
    "suf startswith 'ell' = inf": "true",
    "long IS NULL = (hexf IS NULL = over IS NOT NULL)": "false",
    "-a <> (E5 IN ('lo', '') OR pdot >= pdot) = a IS NULL = q IS NOT NULL": "true",
    "hexf \n CONTAINS '5' = TAGS IS NULL": "false",
    "mz <> 'it''s' = 'x' = +5 = mz": "true",
    "ar startswith '5' = mz IS NULL": "false",
    "NOT over = TAGS' = T = ''": "false",
}
"""Apache's evaluation fails where a truth value is compared with a text on its right; here it gives the same
as the other way around.
"""


def evaluate(text: str, properties: dict[str, str]) -> str:
    try:
        compiled = compile_filter(text)
    except BadExpression:
        return "parse-error"
    encoded = encode_properties(properties)
    try:
        result = RESULTS[compiled.evaluate(encoded)]
    except EvaluationError:
        result = "eval-error"
    assert compiled.matches(encoded) is (result == "true")
    return result


@pytest.mark.parametrize(("name", "text", "expected"), CASES)
def test_an_expression_gives_what_it_gives_at_apache(name: str, text: str, expected: str) -> None:
    assert evaluate(text, load(name)["properties"]) == BOOLEAN_LEFT.get(text, expected)


def test_the_order_of_a_truth_value_and_a_property_does_not_matter() -> None:
    for value in ("true", "TRUE", "false", "other"):
        for left, right in (("TRUE", "a"), ("FALSE", "a"), ("(b = 1)", "a")):
            properties = {"a": value, "b": "1"}
            assert evaluate(f"{left} = {right}", properties) == evaluate(f"{right} = {left}", properties)
            assert evaluate(f"{left} <> {right}", properties) == evaluate(f"{right} <> {left}", properties)
    assert evaluate("TRUE = a", {"a": "true"}) == "true"
    assert evaluate("TRUE = a", {}) == "false"

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
    assert evaluate(text, load(name)["properties"]) == expected

"""SQL92 message filters: the text of a subscription becomes a function of a message's properties.

`compile_filter` is all that others need. The grammar is read by a parser library, which is loaded with the
first filter; what it builds are closures (`expressions`), so that a message costs no look at the text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from orbitmq.broker.filter.sql92.values import MAX_NESTING, BadExpression, EvaluationError

__all__ = ["MAX_LENGTH", "MAX_NESTING", "BadExpression", "EvaluationError", "SqlFilter", "compile_filter"]

MAX_LENGTH = 8192
"""Characters of an expression: what is longer would hold everybody up while it is read."""

_CACHED = 1024


class SqlFilter:
    """A compiled expression."""

    __slots__ = ("evaluate", "text")

    def __init__(self, text: str, evaluate: Callable[[bytes], bool | None]) -> None:
        self.text = text
        self.evaluate = evaluate
        """True, False or None (unknown) for a property string; raises EvaluationError where values do not
        compare."""

    def matches(self, properties: bytes) -> bool:
        """True if the expression is true for a property string. Unknown and incomparable are not."""
        try:
            return self.evaluate(properties) is True
        except EvaluationError:
            return False

    def __repr__(self) -> str:
        return f"<SqlFilter {self.text!r}>"


def compile_filter(text: str) -> SqlFilter:
    """The filter that an expression means. Raises BadExpression, which says what is wrong and where."""
    result = _compile(text)
    if isinstance(result, str):
        raise BadExpression(result)
    return result


@lru_cache(maxsize=_CACHED)
def _compile(text: str) -> SqlFilter | str:
    """The filter, or why there is none: failures are remembered as well."""
    if not text.strip():
        return "the expression is empty"
    if len(text) > MAX_LENGTH:
        return f"the expression has {len(text)} characters, {MAX_LENGTH} are allowed"
    from orbitmq.broker.filter.sql92.grammar import parse

    try:
        node = parse(text).as_boolean()
    except BadExpression as error:
        return str(error)
    return SqlFilter(text, node.read)


def load_parser() -> None:
    """Loads the parser library ahead of the first filter: for a thread, where filters are to be expected."""
    _compile("TRUE")

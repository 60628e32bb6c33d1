"""The grammar of filters, and its reading by lark. Loaded with the first filter only: lark is not small.

As in Apache's parser what follows a complete expression is not looked at, beyond its first word.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from orbitmq.broker.filter.sql92 import expressions as make
from orbitmq.broker.filter.sql92.expressions import TOO_DEEP, Kind, Node
from orbitmq.broker.filter.sql92.values import MAX_NESTING, BadExpression

GRAMMAR = r"""
?start: disjunction

?disjunction: conjunction
    | disjunction "OR"i conjunction -> either

?conjunction: equality
    | conjunction "AND"i equality -> both

?equality: comparison
    | equality "=" comparison -> equal
    | equality "<>" comparison -> not_equal
    | equality "IS"i "NULL"i -> is_null
    | equality "IS"i "NOT"i "NULL"i -> is_not_null

?comparison: unary
    | comparison (GREATER | AT_LEAST | LESS | AT_MOST) unary -> ordered
    | comparison (CONTAINS | STARTSWITH | ENDSWITH) STRING -> text_test
    | comparison "NOT"i (CONTAINS | STARTSWITH | ENDSWITH) STRING -> not_text_test
    | comparison "BETWEEN"i unary "AND"i unary -> between
    | comparison "NOT"i "BETWEEN"i unary "AND"i unary -> not_between
    | comparison "IN"i "(" STRING ("," STRING)* ")" -> one_of
    | comparison "NOT"i "IN"i "(" STRING ("," STRING)* ")" -> none_of

?unary: "+" unary
    | "-" unary -> negated
    | "NOT"i unary -> opposite
    | primary

?primary: STRING -> text
    | INTEGER -> integer
    | DOUBLE -> double
    | "TRUE"i -> true
    | "FALSE"i -> false
    | "NULL"i -> null
    | NAME -> property_value
    | "(" disjunction ")"

GREATER: ">"
AT_LEAST: ">="
LESS: "<"
AT_MOST: "<="
CONTAINS: "CONTAINS"i
STARTSWITH: "STARTSWITH"i
ENDSWITH: "ENDSWITH"i
NAME: /(?a:[a-z_$][a-z0-9_$]*)/i
DOUBLE.2: /[0-9]+\.[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
INTEGER: /0|[1-9][0-9]*l?/i
STRING: /'(?:[^']|'')*'/
COMMENT.3: /--[^\n\r]*+(?:\r\n|\n|\r)|\/\*(?:.|\n)*?\*\//

%ignore /[ \t\n\r\f]+/
%ignore COMMENT
"""
# The plus sign behind the asterisk keeps a text of minus signs from being read again and again.

_PREFIXES = frozenset({"PLUS", "MINUS", "NOT"})
_SHOWN = 20
"""Characters of a word that a message shows."""


class _Nodes(Transformer[Token, Node]):
    """Nodes that the rules of the grammar become."""

    def either(self, found: list[Any]) -> Node:
        return make.either(*found)

    def both(self, found: list[Any]) -> Node:
        return make.both(*found)

    def equal(self, found: list[Any]) -> Node:
        return make.equal(*found)

    def not_equal(self, found: list[Any]) -> Node:
        return make.not_equal(*found)

    def is_null(self, found: list[Any]) -> Node:
        return make.is_null(*found)

    def is_not_null(self, found: list[Any]) -> Node:
        return make.is_not_null(*found)

    def ordered(self, found: list[Any]) -> Node:
        left, word, right = found
        return make.ordered(left, str(word), right)

    def text_test(self, found: list[Any]) -> Node:
        node, word, text = found
        return make.text_test(node, word.upper(), _content(text), negative=False)

    def not_text_test(self, found: list[Any]) -> Node:
        node, word, text = found
        return make.text_test(node, word.upper(), _content(text), negative=True)

    def between(self, found: list[Any]) -> Node:
        return make.between(*found)

    def not_between(self, found: list[Any]) -> Node:
        return make.not_between(*found)

    def one_of(self, found: list[Any]) -> Node:
        return make.one_of(found[0], [_content(text) for text in found[1:]], negative=False)

    def none_of(self, found: list[Any]) -> Node:
        return make.one_of(found[0], [_content(text) for text in found[1:]], negative=True)

    def negated(self, found: list[Any]) -> Node:
        return make.negated(*found)

    def opposite(self, found: list[Any]) -> Node:
        return make.opposite(*found)

    def text(self, found: list[Any]) -> Node:
        return make.literal(Kind.TEXT, _content(found[0]))

    def integer(self, found: list[Any]) -> Node:
        return make.integer(found[0])

    def double(self, found: list[Any]) -> Node:
        return make.double(found[0])

    def true(self, found: list[Any]) -> Node:
        return make.literal(Kind.BOOLEAN, True)

    def false(self, found: list[Any]) -> Node:
        return make.literal(Kind.BOOLEAN, False)

    def null(self, found: list[Any]) -> Node:
        return make.null()

    def property_value(self, found: list[Any]) -> Node:
        return make.property_value(str(found[0]))


def _content(text: str) -> bytes:
    return text[1:-1].replace("''", "'").encode("utf-8", "replace")


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=_Nodes())


def parse(text: str) -> Node:
    """The expression that a text begins with. Raises BadExpression."""
    reading = _parser().parse_interactive(text)
    read: list[Token] = []
    try:
        for token in _tokens(reading):
            reading.feed_token(token)
            read.append(token)
        return _end(reading)
    except UnexpectedCharacters as error:
        begin = text[error.pos_in_stream or 0]
        raise BadExpression(f"nothing can begin with {begin!r} at {_place(error)}") from None
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise BadExpression("the expression ends too early") from None
        stopped_at = error
    # Something follows that does not belong to it: what was read before may be a whole expression.
    again = _parser().parse_interactive()
    for token in read:
        again.feed_token(token)
    try:
        return _end(again)
    except UnexpectedToken:
        word = str(stopped_at.token)
        shown = word if len(word) <= _SHOWN else f"{word[:_SHOWN]}..."
        raise BadExpression(f"{shown} is not expected at {_place(stopped_at)}") from None


def _tokens(reading: InteractiveParser) -> Iterator[Token]:
    """The words of a text, as they are asked for. Raises BadExpression where too much is open at a time."""
    tokens: Iterator[Token] = reading.lexer_thread.lex(reading.parser_state)  # type: ignore[no-untyped-call]
    opened = signs = 0
    for token in tokens:
        if token.type == "LPAR":
            opened += 1
        elif token.type == "RPAR":
            opened -= 1
        signs = signs + 1 if token.type in _PREFIXES else 0
        if opened + signs > MAX_NESTING:
            raise BadExpression(TOO_DEEP)
        yield token


def _end(reading: InteractiveParser) -> Node:
    node: Node = reading.feed_eof()  # type: ignore[no-untyped-call]
    return node


def _place(error: UnexpectedCharacters | UnexpectedToken) -> str:
    return f"character {error.column}" if error.line == 1 else f"line {error.line}, character {error.column}"

"""JSON as Apache's peers write and read it: fastjson2's text, which is not always JSON.

Maps with number keys are written with bare keys (`{0:"x"}`), maps keyed by an object with the object as key
(`{{"topic":"T"}:1}`). The reader takes both, single quotes and trailing commas; it refuses bare names and
comments, as fastjson2 does. Plain JSON takes the standard library's path.

Decoded, an object is a dict; a number key is its text and an object key an `ObjectKey`.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NoReturn

from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.schema.json_pieces import Reader, count

MAX_DEPTH = 100
"""Deepest nesting taken. No body class needs more than 8."""

LONG_BYTES = 128 << 10
"""Texts from this length on are read in pieces: the standard reader takes a millisecond for as much."""
MAX_JSON_BYTES = 64 << 20
"""Longest text taken: bodies are bounded by the frame (16 MiB), files by this."""


class ObjectKey:
    """An object that stands where JSON has a text key; two are equal when their fields are."""

    __slots__ = ("_text", "fields")

    def __init__(self, fields: dict[Any, Any]) -> None:
        self.fields = fields
        try:
            self._text = _SORTED.encode(fields)
        except TypeError:  # one of its own keys is an object
            self._text = write(dict(sorted(fields.items(), key=lambda item: str(item[0]))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"ObjectKey({self._text})"


def parse(data: str | bytes | bytearray | memoryview, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """The value of a text. Raises MalformedJson for what fastjson2 could not have written or read."""
    if len(data) > max_bytes:
        raise MalformedJson(f"a JSON text of {len(data)} bytes is longer than {max_bytes}")
    if len(data) > LONG_BYTES:
        return _read_long(data)
    value, is_standard = _read(data)
    if is_standard and is_too_deep(data):
        raise MalformedJson(f"nested more than {MAX_DEPTH} deep")
    return value


def count_elements(data: bytes | memoryview) -> int:
    """At least as many as there are values in a text's lists and members in its objects."""
    return count(bytes(data), b",[{")


def is_too_deep(data: str | bytes | bytearray | memoryview) -> bool:
    """True if a JSON text is nested deeper than any of ours."""
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    brackets = _TEXT.sub(b"", text).translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def _read_long(data: str | bytes | bytearray | memoryview) -> Any:
    """The value of a long text: other threads have their turn meanwhile."""
    text = data if isinstance(data, str) else _decoded(data)
    try:
        return Reader(text, MAX_DEPTH, _STANDARD).document()
    except ValueError:
        return _Lenient(text).document()


def _decoded(data: bytes | bytearray | memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJson(f"not UTF-8 at byte {error.start}") from None


def _read(data: str | bytes | bytearray | memoryview) -> tuple[Any, bool]:
    """The value of a text, and whether it is JSON as everybody writes it."""
    if not isinstance(data, str):
        data = _decoded(data)
    try:
        return _STANDARD.decode(data), True
    except (ValueError, RecursionError):
        pass
    try:
        quoted = _TEXT_OR_NUMBER_KEY.sub(_quote_number_key, data)
        return _STANDARD.decode(quoted), True
    except (ValueError, RecursionError):
        return _Lenient(data).document(), False


_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


# Number keys are what most often keeps large texts (offset tables) from being JSON, so they get quotes and
# the standard reader a second chance. Text in double quotes is stepped over; whatever else is not JSON fails
# there again and is read as it was.
# The text's closing quote may be missing, so that no quote makes the search start over: it stays linear.
_TEXT_OR_NUMBER_KEY = re.compile(r'"(?:[^"\\]++|\\.)*+"?|([{,]\s*)(-?\d+)(?=\s*:)', re.DOTALL)


def _quote_number_key(match: re.Match[str]) -> str:
    return match.group() if match.lastindex is None else f'{match.group(1)}"{match.group(2)}"'


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _double(text: str) -> float:
    """Python's reader makes infinity of a number that is too large; written again, that is nothing."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is beyond what a double can hold")
    return number


_STANDARD = json.JSONDecoder(parse_float=_double, parse_constant=_refuse_constant)


_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_NESTED = re.compile(r"[{\['\\]")


_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_NUMBER_KEY = re.compile(r"-?\d+")
_WORD = re.compile(r"true|false|null")
_WORDS = {"true": True, "false": False, "null": None}
_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")


class _Lenient:
    """A reader of one text; slower than the standard one and only used where that gives up."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.tried = 0
        """The piece before this place was given to `pairs`."""

    def document(self) -> Any:
        value = self.value(0)
        self.blank()
        if self.at != len(self.text):
            self.fail("more text behind the value")
        return value

    def fail(self, reason: str) -> NoReturn:
        raise MalformedJson(f"{reason} at character {self.at}")

    def blank(self) -> None:
        match = _BLANK.match(self.text, self.at)
        if match:
            self.at = match.end()

    def peek(self) -> str:
        self.blank()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self.fail("nested too deep")
        start = self.peek()
        if start == "{":
            return self.members(depth)
        if start == "[":
            return self.elements(depth)
        if start in ('"', "'") and start:
            return self.string(start)
        match = _WORD.match(self.text, self.at)
        if match:
            self.at = match.end()
            return _WORDS[match.group()]
        return self.number()

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            self.fail("no JSON value")
        self.at = match.end()
        if match.group(1) or match.group(2):
            number = float(match.group())
            if not math.isfinite(number):
                self.fail("a number beyond what a double can hold")
            return number
        if len(match.group()) > 40:
            self.fail("a number of too many digits")
        return int(match.group())

    def members(self, depth: int) -> dict[Any, Any]:
        flat = self.flat()
        if flat is not None:
            return flat
        self.at += 1
        found: dict[Any, Any] = {}
        while self.peek() != "}":
            if self.pairs(found):
                continue
            key = self.key(depth)
            if self.peek() != ":":
                self.fail("a colon is missing")
            self.at += 1
            found[key] = self.value(depth + 1)
            self.separator("}")
        self.at += 1
        return found

    def flat(self) -> dict[Any, Any] | None:
        """An object without others inside, by the standard reader; None for all else. In a table with objects
        as keys nearly all of them are such.
        """
        end = self.text.find("}", self.at) + 1
        if not end or _NESTED.search(self.text, self.at + 1, end):
            return None
        try:
            found: dict[Any, Any] = _STANDARD.decode(self.text[self.at : end])
        except ValueError:
            return None
        self.at = end
        return found

    def pairs(self, found: dict[Any, Any]) -> bool:
        """Reads a piece of a long table of flat objects by flat objects by the standard reader.

        False for all else, of which no part is tried twice. A table of queues takes little more than half of
        the time so.
        """
        if self.at < self.tried or not self.text.startswith("{", self.at):
            return False
        end = self.text.find("},{", self.at + LONG_BYTES) + 1
        self.tried = end or len(self.text)
        piece = self.text[self.at : end]
        # Braces that nest or are part of a text are too many.
        members = piece.split("},{")
        if not end or piece.count("{") != 2 * len(members) or any(one.count("}:{") != 1 for one in members):
            return False
        try:
            read = _STANDARD.decode(f"[{piece.replace('}:{', '},{')}]")
        except ValueError:
            return False
        if len(read) != 2 * len(members):
            return False
        found.update(zip(map(ObjectKey, read[::2]), read[1::2], strict=True))
        self.at = end + 1
        return True

    def key(self, depth: int) -> Any:
        start = self.peek()
        if start == "{":
            if depth >= MAX_DEPTH:
                self.fail("nested too deep")
            return ObjectKey(self.members(depth + 1))
        if start in ('"', "'") and start:
            return self.string(start)
        match = _NUMBER_KEY.match(self.text, self.at)
        if match is None:
            self.fail("no key")
        self.at = match.end()
        return match.group()

    def elements(self, depth: int) -> list[Any]:
        self.at += 1
        found = []
        while self.peek() != "]":
            found.append(self.value(depth + 1))
            self.separator("]")
        self.at += 1
        return found

    def separator(self, closing: str) -> None:
        """Steps over a comma; one may also stand before the closing bracket."""
        following = self.peek()
        if following == ",":
            self.at += 1
        elif following != closing:
            self.fail(f"a comma or {closing} is missing")

    def string(self, quote: str) -> str:
        self.at += 1
        parts = []
        while True:
            match = _PLAIN[quote].match(self.text, self.at)
            if match is None:
                self.fail("a text that cannot be read")
            parts.append(match.group())
            self.at = match.end()
            stop = self.text[self.at : self.at + 1]
            self.at += 1
            if stop == quote:
                return "".join(parts)
            if stop != "\\":
                self.at -= 1
                self.fail("a text does not end" if not stop else "a control character in a text")
            parts.append(self.escaped())

    def escaped(self) -> str:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        if letter == "u":
            first = self.hex4()
            if 0xD800 <= first < 0xDC00 and self.text[self.at : self.at + 2] == "\\u":
                back = self.at
                self.at += 2
                second = self.hex4()
                if 0xDC00 <= second < 0xE000:
                    return chr(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
                self.at = back
            return chr(first)
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if not letter or letter not in "\"'\\/":
            self.at -= 1
            self.fail("an unknown escape")
        return letter

    def hex4(self) -> int:
        match = _HEX4.match(self.text, self.at)
        if match is None:
            self.fail("four hex digits are missing")
        self.at = match.end()
        return int(match.group(), 16)


def write(value: Any) -> str:
    """The compact text of plain values: no spaces, fields in the order given, absent values left out."""
    if isinstance(value, dict):
        return (
            "{"
            + ",".join([f"{_key(key)}:{write(item)}" for key, item in value.items() if item is not None])
            + "}"
        )
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ",".join([write(item) for item in value]) + "]"
    return _scalar(value)


def write_pretty(value: Any, level: int = 0) -> str:
    """The text of Apache's config files: a line per field, tabs, an empty map over two lines."""
    if not isinstance(value, dict | list | tuple | set | frozenset):
        return _scalar(value)
    outer, inner = "\n" + "\t" * level, "\n" + "\t" * (level + 1)
    if isinstance(value, dict):
        members = [
            f"{_key(key)}:{write_pretty(item, level + 1)}" for key, item in value.items() if item is not None
        ]
        return "{" + inner + ("," + inner).join(members) + outer + "}"
    if not value:
        return "[]"
    return "[" + inner + ("," + inner).join([write_pretty(item, level + 1) for item in value]) + outer + "]"


def write_standard(value: Any) -> str:
    """Standard JSON for peers that read nothing else: quoted, sorted keys, non-ASCII escaped."""
    return json.dumps(_standard(value), separators=(",", ":"), sort_keys=True)


def _standard(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            write(key.fields) if isinstance(key, ObjectKey) else str(key): _standard(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_standard(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _key(key: Any) -> str:
    if isinstance(key, str):
        return encode_basestring(key)
    if isinstance(key, ObjectKey):
        return write(key.fields)
    return str(key)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return double_text(value)
    raise TypeError(f"{type(value).__name__} has no JSON text")


def double_text(value: float) -> str:
    """A double as Java prints it: `0.0`, `1.5`, `1.0E10`, `1.0E-5`; `null` for what is no number."""
    if not math.isfinite(value):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        if "e" not in text:
            return text
    exact = Decimal(repr(value)).normalize()
    digits = "".join(map(str, exact.as_tuple().digits))
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exact.adjusted()}"

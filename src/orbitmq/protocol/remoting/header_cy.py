"""Frames to commands and back: the length words and both header encodings (remoting protocol, 1 to 4).

A frame is `length i32 | serialize type u8 | header length u24 | header | body`. Hot: every message passes
here twice. Compiled, the JSON header is scanned in place; whatever the scanner does not expect goes to the
standard library's parser, which alone decides what is malformed.
"""

from __future__ import annotations

import json
import struct
from json.encoder import encode_basestring
from struct import Struct, pack, unpack_from
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.remoting.command import (
    FLAG_RESPONSE,
    LANGUAGE_CODES,
    LANGUAGE_OTHER,
    LANGUAGES,
    Command,
)

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Span,
        Writer,
        byte_of,
        is_literal,
        no_span,
        part_of,
        span_over,
        span_written,
        text_of,
        writer_over,
    )
    from cython.cimports.orbitmq.protocol.remoting.send_header import (  # type: ignore[import-not-found]
        Numbers,
        no_numbers,
        past_blanks,
        unescape,
    )

MAX_HEADER_BYTES = 1 << 20
"""Longest header taken. Headers hold at most 32 KiB of properties and a few lists of names."""

_LANGUAGE_OTHER = cython.declare(cython.int, LANGUAGE_OTHER)
_LANGUAGE_JSON = [json.dumps(name) for name in LANGUAGES]
_FRAME = Struct(">iI")
_BINARY_HEAD = Struct(">hBhii")
_INT32_MIN = -(1 << 31)
_INT32_MAX = (1 << 31) - 1


def decode_frames(
    data: Any, max_frame_bytes: int, position: cython.Py_ssize_t = 0
) -> tuple[list[Command], int]:
    """The whole frames of `data` from a position on, and where they end.

    Raises MalformedFrame for a length that no frame can have or a header that cannot be read.
    """
    commands: list[Command] = []
    view: cython.const[cython.uchar][::1] = memoryview(data)
    end: cython.Py_ssize_t = len(view)
    while end - position >= 8:
        length: cython.longlong = (
            (view[position] << 24)
            | (view[position + 1] << 16)
            | (view[position + 2] << 8)
            | view[position + 3]
        )
        if length < 4 or length + 4 > max_frame_bytes:
            raise MalformedFrame(f"frame length {length} is outside 4..{max_frame_bytes - 4} bytes")
        header_length: cython.Py_ssize_t = (
            (view[position + 5] << 16) | (view[position + 6] << 8) | view[position + 7]
        )
        if header_length + 4 > length or header_length > MAX_HEADER_BYTES:
            raise MalformedFrame(f"header length {header_length} does not fit a frame of {length} bytes")
        if end - position - 4 < length:
            break
        kind = view[position + 4]
        start: cython.Py_ssize_t = position + 8
        command: Command | None
        if kind == 0:
            command = None
            if cython.compiled:
                whole: Span = span_over(cython.address(view[0]), len(view))
                command = _scan_json(part_of(whole, start, header_length))
            if command is None:
                command = _decode_json(bytes(view[start : start + header_length]))
        elif kind == 1:
            command = _decode_binary(bytes(view[start : start + header_length]))
        else:
            raise MalformedFrame(f"serialize type {kind} is unknown")
        position = position + 4 + length
        if start + header_length < position:
            command.body = bytes(view[start + header_length : position])
        commands.append(command)
    return commands, position


def _decode_json(header: bytes) -> Command:
    try:
        fields = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise MalformedFrame(f"header is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise MalformedFrame("header is not a JSON object")
    ext = fields.get("extFields")
    if ext is not None:
        if not isinstance(ext, dict):
            raise MalformedFrame("extFields is not a JSON object")
        ext = {key: _text(value) for key, value in ext.items() if value is not None}
    remark = None if fields.get("remark") is None else _text(fields["remark"])
    try:
        "".join((remark or "", *(ext or {}), *(ext or {}).values())).encode()
    except UnicodeEncodeError:
        raise MalformedFrame("a header text is half of a surrogate pair") from None
    return Command(
        _int32(fields, "code"),
        _int32(fields, "opaque"),
        _int32(fields, "flag"),
        ext,
        None,
        remark,
        LANGUAGE_CODES.get(str(fields.get("language")), LANGUAGE_OTHER),
        _int32(fields, "version"),
        0,
    )


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise MalformedFrame(f"a header field is a JSON {type(value).__name__}")


def _int32(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise MalformedFrame(f"{name} is not a number") from None
    if not _INT32_MIN <= number <= _INT32_MAX:
        raise MalformedFrame(f"{name} does not fit 32 bits")
    return number


def _decode_binary(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag = _BINARY_HEAD.unpack_from(header, 0)
        position = _BINARY_HEAD.size
        (length,) = unpack_from(">i", header, position)
        position += 4
        remark = None
        if length:
            remark = _binary_text(header, position, length)
            position += length
        (length,) = unpack_from(">i", header, position)
        position += 4
        if length < 0 or position + length > len(header):
            raise MalformedFrame("the header fields run past the header")
        ext: dict[str, str] | None = None
        end = position + length
        if length:
            ext = {}
            while position < end:
                (length,) = unpack_from(">h", header, position)
                key = _binary_text(header, position + 2, length)
                position += 2 + length
                (length,) = unpack_from(">i", header, position)
                ext[key] = _binary_text(header, position + 4, length)
                position += 4 + length
            if position != end:
                raise MalformedFrame("a header field runs past the fields' length")
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"binary header cannot be read: {error}") from None
    return Command(
        code,
        opaque,
        flag,
        ext,
        None,
        remark,
        language if language < len(LANGUAGES) else LANGUAGE_OTHER,
        version,
        1,
    )


def _binary_text(header: bytes, position: int, length: int) -> str:
    if length < 0 or position + length > len(header):
        raise MalformedFrame("a header text runs past the header")
    return header[position : position + length].decode()


# The scanner below takes the form that Java, Go and C++ peers write: an object of the eight known fields with
# numbers, strings and one object of strings. For anything else it gives None, and `_decode_json` decides.
# `send_header.pxd` reads the same form into slots, for requests that need no object; here texts may be any
# UTF-8, and there may be any number of fields.
#
# Each step gets the place where it begins and gives the place behind what it read, -1 where that is something
# else. The end of a span reads as a zero byte, which no step takes.


@cython.cfunc
def _scan_json(header: Span) -> object:
    """The command of a header; None if it is not of the form. Compiled only."""
    numbers: Numbers = no_numbers()
    language: cython.int = _LANGUAGE_OTHER
    ext: dict[str, str] | None = None
    remark: str | None = None
    name: Span = no_span()
    first: cython.uchar
    at: cython.Py_ssize_t = 0
    if byte_of(header, 0) != 123:  # {
        return None
    while True:
        at = _scan_name(header, past_blanks(header, at + 1), cython.address(name))
        first = byte_of(header, at)
        if first == 34:  # "
            text = _scan_text(header, at, cython.address(at))
            if text is None:
                return None
            if is_literal(name, b"language"):
                language = LANGUAGE_CODES.get(text, LANGUAGE_OTHER)
            elif is_literal(name, b"remark"):
                remark = text
            elif not is_literal(name, b"serializeTypeCurrentRPC"):
                return None
        elif first == 123 and is_literal(name, b"extFields"):
            ext = {}
            at = _scan_texts(header, at, ext)
        else:
            at = _scan_number(header, at, name, cython.address(numbers))
        if at < 0:
            return None
        at = past_blanks(header, at)
        if byte_of(header, at) == 125:  # }
            break
        if byte_of(header, at) != 44:  # ,
            return None
    if past_blanks(header, at + 1) != header.size:
        return None
    return Command(
        numbers.code, numbers.opaque, numbers.flag, ext, None, remark, language, numbers.version, 0
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _scan_name(header: Span, at: cython.Py_ssize_t, name: cython.pointer[Span]) -> cython.Py_ssize_t:
    """Reads the name of a field, without escapes, and goes to its value."""
    start: cython.Py_ssize_t = at + 1
    c: cython.uchar
    if byte_of(header, at) != 34:
        return -1
    while True:
        at += 1
        c = byte_of(header, at)
        if c == 34:
            break
        if c == 92 or c < 32:
            return -1
    name[0] = part_of(header, start, at - start)
    return _scan_colon(header, at + 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _scan_colon(header: Span, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Goes from behind a name to its value."""
    at = past_blanks(header, at)
    return past_blanks(header, at + 1) if byte_of(header, at) == 58 else -1


@cython.cfunc
@cython.inline
def _scan_texts(header: Span, at: cython.Py_ssize_t, texts: dict[str, str]) -> cython.Py_ssize_t:
    """Reads an object of strings."""
    at = past_blanks(header, at + 1)
    if byte_of(header, at) == 125:
        return at + 1
    while True:
        name = _scan_text(header, at, cython.address(at))
        if name is None:
            return -1
        at = _scan_colon(header, at)
        text = _scan_text(header, at, cython.address(at))
        if text is None:
            return -1
        texts[name] = text
        at = past_blanks(header, at)
        if byte_of(header, at) == 125:
            return at + 1
        if byte_of(header, at) != 44:
            return -1
        at = past_blanks(header, at + 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _scan_number(
    header: Span, at: cython.Py_ssize_t, name: Span, numbers: cython.pointer[Numbers]
) -> cython.Py_ssize_t:
    """Reads a number of 32 bits of the field of that name."""
    negative: cython.bint = byte_of(header, at) == 45  # -
    number: cython.longlong = 0
    if negative:
        at += 1
    if not 48 <= byte_of(header, at) <= 57:
        return -1
    while 48 <= byte_of(header, at) <= 57:
        number = number * 10 + (byte_of(header, at) - 48)
        if number > 2147483648:
            return -1
        at += 1
    if negative:
        number = -number
    elif number > 2147483647:
        return -1
    if is_literal(name, b"code"):
        numbers.code = cython.cast(cython.int, number)
    elif is_literal(name, b"opaque"):
        numbers.opaque = cython.cast(cython.int, number)
    elif is_literal(name, b"flag"):
        numbers.flag = cython.cast(cython.int, number)
    elif is_literal(name, b"version"):
        numbers.version = cython.cast(cython.int, number)
    else:
        return -1
    return at


@cython.cfunc
def _scan_text(header: Span, at: cython.Py_ssize_t, behind: cython.pointer[cython.Py_ssize_t]) -> Any:
    """The string that begins at a quote, and in `behind` the place after it; None for anything else."""
    start: cython.Py_ssize_t = at + 1
    c: cython.uchar
    escaped: cython.bint = False
    if byte_of(header, at) != 34:
        return None
    while True:
        at += 1
        c = byte_of(header, at)
        if c == 34:
            break
        if c == 92:
            escaped = True
            at += 1
            if at >= header.size:
                return None
        elif c < 32:
            return None
    behind[0] = at + 1
    try:
        if escaped:
            return _unescaped(part_of(header, start, at - start))
        return text_of(part_of(header, start, at - start))
    except UnicodeDecodeError:
        return None


@cython.cfunc
def _unescaped(text: Span) -> object:
    """Text of an escaped string of moderate length whose escapes are all of ASCII; None for any other."""
    memory = cython.declare(cython.uchar[8192])
    out: Writer = writer_over(memory, cython.sizeof(memory))
    if not unescape(text, True, cython.address(out)):
        return None
    return text_of(span_written(cython.address(out)))


def encode_head(command: Command, body_length: int) -> bytes:
    """Everything of the frame before its body: length word, header word, header.

    Raises ValueError where a header does not fit its 24 bits of length.
    """
    header = _encode_json(command) if command.serialize == 0 else _encode_binary(command)
    if len(header) > 0xFFFFFF:
        raise ValueError(f"a header of {len(header)} bytes does not fit a frame")
    return _FRAME.pack(4 + len(header) + body_length, (command.serialize << 24) | len(header)) + header


def encode_command(command: Command) -> bytes:
    """The whole frame."""
    body = command.body
    if body is None:
        return encode_head(command, 0)
    return b"".join((encode_head(command, len(body)), body))


def encode_success(opaque: int) -> bytes:
    """The whole frame of an answer that says no more than that all went well."""
    header = b"%s%d%s" % (_SUCCESS_START, opaque, _SUCCESS_END)
    length = len(header)
    return b"%s%s%s" % ((length + 4).to_bytes(4, "big"), length.to_bytes(4, "big"), header)


def _encode_json(command: Command) -> bytes:
    ext = command.ext
    fields = ""
    if ext is not None:
        fields = (
            '"extFields":{'
            + ",".join([f"{encode_basestring(key)}:{encode_basestring(value)}" for key, value in ext.items()])
            + "},"
        )
    remark = "" if command.remark is None else f'"remark":{encode_basestring(command.remark)},'
    return (
        f'{{"code":{command.code},{fields}"flag":{command.flag},"language":{_LANGUAGE_JSON[command.language]},'
        f'"opaque":{command.opaque},{remark}"serializeTypeCurrentRPC":"JSON","version":{command.version}}}'
    ).encode("utf-8", "replace")


def _encode_binary(command: Command) -> bytes:
    remark = b"" if command.remark is None else command.remark.encode("utf-8", "replace")
    fields = []
    for name, value in (command.ext or {}).items():
        key = name.encode("utf-8", "replace")
        text = value.encode("utf-8", "replace")
        fields.append(pack(">h", len(key)) + key + pack(">i", len(text)) + text)
    ext = b"".join(fields)
    # The code has 16 bits here: POP codes are cut, as every peer's are; they are sent with JSON headers.
    code = ((command.code + 0x8000) & 0xFFFF) - 0x8000
    return b"".join(
        (
            _BINARY_HEAD.pack(code, command.language, command.version, command.opaque, command.flag),
            pack(">i", len(remark)),
            remark,
            pack(">i", len(ext)),
            ext,
        )
    )


_SUCCESS_START, _SUCCESS_END = _encode_json(Command(0, 77, FLAG_RESPONSE)).split(b"77")

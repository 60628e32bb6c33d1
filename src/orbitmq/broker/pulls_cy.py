"""Pulls straight from the frames of a read, and the frames that answer them.

Hot: every message that is consumed passes here with some others. A header is read to a request without a dict
of its fields, and an answer is put together from its numbers and the records. What is not written as Java, Go
and C++ peers write it goes the ordinary way, which decides everything that this one does not. Interpreted,
all pulls go that way.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore"
# ruff: noqa: F821
# (The C structures are names that only the compiler knows.)

from __future__ import annotations

from typing import Any, TypeAlias

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.command import LANGUAGE_CODES, LANGUAGE_OTHER
from orbitmq.protocol.header_cy import encode_command
from orbitmq.protocol.requests.pull import PullMessage, PullReply

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING  # type: ignore[import-not-found]
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8  # type: ignore[import-not-found]
    from cython.cimports.libc.string import memcpy  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.big_endian import get_int, put_int  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.decimal import put_decimal  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        Text,
        named,
        scan_send,
        to_number,
    )

_NUMBERS = (9001, 9002, 9003, 9004, 9005, 9006, 9007)
"""Stand for the numbers of an answer while its template is made."""
_new = object.__new__


PullFrame: TypeAlias = tuple[PullMessage, int, int, int, int]
"""A pull as its frame has it: the request, its opaque, its sender's version and language, and its end."""


def read_pull(data: bytes, position: cython.Py_ssize_t) -> PullFrame | None:
    """The pull that begins at a position; None if the ordinary way has to look at what is there."""
    if not cython.compiled:
        return None
    left: cython.Py_ssize_t = PyBytes_GET_SIZE(data) - position
    frame: cython.pointer[cython.const[cython.uchar]] = (
        cython.cast(cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(data)) + position
    )
    length: cython.Py_ssize_t
    header_length: cython.Py_ssize_t
    header: SendHeader
    text: Text
    queue_id: cython.longlong = 0
    queue_offset: cython.longlong = 0
    most: cython.longlong = 0
    sys_flag: cython.longlong = 0
    commit_offset: cython.longlong = 0
    suspend_ms: cython.longlong = 0
    sub_version: cython.longlong = 0
    most_bytes: cython.longlong = 0
    has_most_bytes: cython.bint
    if left < 8:
        return None
    length = get_int(frame)
    header_length = get_int(frame + 4)  # above 24 bits: the kind of header, 0 for JSON
    if length < 4 or length + 4 > left or header_length < 2 or header_length + 4 > length or frame[4]:
        return None
    if not scan_send(frame + 8, frame + 8 + header_length, cython.address(header)):
        return None
    # Neither an answer nor one-way.
    if header.code != 11 or header.flag & 3:
        return None
    if (
        not _number(cython.address(header), b"queueId", 7, 31, cython.address(queue_id))
        or not _number(cython.address(header), b"queueOffset", 11, 63, cython.address(queue_offset))
        or not _number(cython.address(header), b"maxMsgNums", 10, 31, cython.address(most))
        or not _number(cython.address(header), b"sysFlag", 7, 31, cython.address(sys_flag))
        or not _number(cython.address(header), b"commitOffset", 12, 63, cython.address(commit_offset))
        or not _number(cython.address(header), b"suspendTimeoutMillis", 20, 63, cython.address(suspend_ms))
        or not _number(cython.address(header), b"subVersion", 10, 63, cython.address(sub_version))
    ):
        return None
    has_most_bytes = named(cython.address(header), b"maxMsgBytes", 11, cython.address(text))
    if has_most_bytes and not _number(
        cython.address(header), b"maxMsgBytes", 11, 31, cython.address(most_bytes)
    ):
        return None
    # Proxies' pulls, and those of static topics.
    if named(cython.address(header), b"requestSource", 13, cython.address(text)) or named(
        cython.address(header), b"proxyFrowardClientId", 20, cython.address(text)
    ):
        return None
    bulk = _string(cython.address(header), b"orbitmqBulk", 11)
    if bulk is not None and bulk != "true":
        return None
    group = _string(cython.address(header), b"consumerGroup", 13)
    topic = _string(cython.address(header), b"topic", 5)
    if group is None or topic is None:
        return None
    request: Any = _new(PullMessage)
    request.consumer_group = group
    request.topic = topic
    request.queue_id = queue_id
    request.queue_offset = queue_offset
    request.max_msg_nums = most
    request.sys_flag = sys_flag
    request.commit_offset = commit_offset
    request.suspend_timeout_millis = suspend_ms
    request.sub_version = sub_version
    request.subscription = _string(cython.address(header), b"subscription", 12)
    request.expression_type = _string(cython.address(header), b"expressionType", 14)
    request.max_msg_bytes = most_bytes if has_most_bytes else None
    request.request_source = None
    request.proxy_froward_client_id = None
    request.broker_name = _string(cython.address(header), b"bname", 5)
    request.bulk = True if bulk else None
    language = PyUnicode_DecodeUTF8(
        cython.cast(cython.p_char, header.language.at), header.language.size, cython.NULL
    )
    return (
        request,
        header.opaque,
        header.version,
        LANGUAGE_CODES.get(language, LANGUAGE_OTHER),
        position + 4 + length,
    )


@cython.cfunc
@cython.exceptval(check=False)
def _number(
    header: cython.pointer[SendHeader],
    name: cython.p_char,
    size: cython.Py_ssize_t,
    bits: cython.int,
    number: cython.pointer[cython.longlong],
) -> cython.bint:
    """Reads a field that is a number and fits; False for anything else. Compiled only."""
    text: Text
    if not named(header, name, size, cython.address(text)) or not to_number(text.at, text.size, number):
        return False
    return bits == 63 or -0x80000000 <= number[0] <= 0x7FFFFFFF


@cython.cfunc
def _string(header: cython.pointer[SendHeader], name: cython.p_char, size: cython.Py_ssize_t) -> Any:
    """A field's text; None without it. Compiled only."""
    text: Text
    if not named(header, name, size, cython.address(text)):
        return None
    return PyUnicode_DecodeUTF8(cython.cast(cython.p_char, text.at), text.size, cython.NULL)


class AnswerTemplate:
    """The frame that answers a pull: all but seven numbers and the records is always the same."""

    __slots__ = ("_between",)

    def __init__(self, remark: str) -> None:
        suggest, next_offset, low, end, topic_flag, group_flag, opaque = _NUMBERS
        reply = PullReply(
            suggest_which_broker_id=suggest,
            next_begin_offset=next_offset,
            min_offset=low,
            max_offset=end,
            topic_sys_flag=topic_flag,
            group_sys_flag=group_flag,
            remark=remark,
        )
        rest = encode_command(reply.to_command(opaque))[8:]
        between: list[bytes] = []
        for number in _NUMBERS:
            before, _, rest = rest.partition(b"%d" % number)
            between.append(before)
        self._between = (*between, rest)

    def frame(
        self,
        suggest: cython.longlong,
        next_offset: cython.longlong,
        low: cython.longlong,
        end: cython.longlong,
        topic_flag: cython.longlong,
        group_flag: cython.longlong,
        opaque: cython.longlong,
        records: bytearray,
        size: cython.Py_ssize_t,
    ) -> bytes:
        """The whole frame, with the first `size` bytes of `records`."""
        if not cython.compiled:
            texts = [b"%d" % n for n in (suggest, next_offset, low, end, topic_flag, group_flag, opaque)]
            pairs = zip(self._between, [*texts, b""], strict=True)
            header = b"".join([part for pair in pairs for part in pair])
            lengths = (len(header) + 4 + size).to_bytes(4, "big") + len(header).to_bytes(4, "big")
            return b"".join((lengths, header, memoryview(records)[:size]))
        numbers = cython.declare(cython.longlong[7])
        numbers[0] = suggest
        numbers[1] = next_offset
        numbers[2] = low
        numbers[3] = end
        numbers[4] = topic_flag
        numbers[5] = group_flag
        numbers[6] = opaque
        head = cython.declare(cython.uchar[1024])
        at: cython.p_uchar = cython.cast(cython.p_uchar, head) + 8
        i: cython.Py_ssize_t = 0
        between: tuple[bytes, ...] = self._between
        for i in range(8):
            part: bytes = between[i]
            memcpy(at, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
            at += PyBytes_GET_SIZE(part)
            if i < 7:
                at = put_decimal(at, numbers[i])
        length: cython.Py_ssize_t = at - cython.cast(cython.p_uchar, head)
        put_int(cython.cast(cython.p_uchar, head), cython.cast(cython.uint, length - 4 + size))
        put_int(cython.cast(cython.p_uchar, head) + 4, cython.cast(cython.uint, length - 8))
        made: bytes = PyBytes_FromStringAndSize(cython.NULL, length + size)
        memcpy(PyBytes_AS_STRING(made), head, length)
        memcpy(PyBytes_AS_STRING(made) + length, PyByteArray_AS_STRING(records), size)
        return made

"""Plain sends straight from the frames of a read to records, units and answers, without an object for each.

Hot: nearly every message sent passes here. It is the short way of `send_cy`, gone at once for all the sends
that a read brings: the header is read to slots, the record is written where it stays, and the answer beside
the others. What is no plain send, or has no place yet (an unknown queue, a full segment), ends it, and goes
the ordinary way, which decides everything that this one does not. Interpreted, all sends go that way.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore"
# ruff: noqa: F821
# (Py_buffer and the C structures are names that only the compiler knows.)

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.message_cy import CRC_TABLES, crc32

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-not-found]
        PyByteArray_AS_STRING,
        PyByteArray_GET_SIZE,
        PyByteArray_Resize,
    )
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory  # type: ignore[import-not-found]
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8  # type: ignore[import-not-found]
    from cython.cimports.libc.string import memcmp, memcpy  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.plain import Plain, look_through  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.big_endian import get_int, put_int  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.crc import short_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.record import put_record  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        scan_send,
        to_number,
        unescape,
    )
    from cython.cimports.orbitmq.store.units import put_unit  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.broker.send_cy import ReplyTemplate
    from orbitmq.broker.stats import BrokerStats
    from orbitmq.store.room import Room

_CRC: bytes = CRC_TABLES
_HEX: bytes = b"0123456789ABCDEF"
_RETRY_PREFIX = "%RETRY%"
_WRITE = 2
_SMALL_BYTES = 1024
"""Larger messages are counted one by one: statistics tell sizes above it apart."""


class TakenSends(NamedTuple):
    """What came of the sends at the start of a read."""

    end: int
    """How many bytes of the read they were."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    oneway: int
    version: int
    """Of the first one's sender."""
    language: str


def take_sends(
    data: bytes,
    topics: dict[str, Any],
    refused: Container[str],
    own: bytes,
    template: ReplyTemplate,
    host: bytes,
    store_host: bytes,
    sync_flush: cython.bint,
    room: Room,
    stats: BrokerStats,
    answers: bytearray,
) -> TakenSends | None:
    """Stores the plain sends at the start of `data`; None if the first frame is none.

    `topics`, `refused`, `own` and the hosts are as in `send_cy.plain_message`; `answers` is memory to work in
    that the caller keeps. With `sync_flush` nothing is taken that does not wait for the disk.
    """
    if not cython.compiled:
        return None
    end: cython.Py_ssize_t = PyBytes_GET_SIZE(data)
    start: cython.pointer[cython.const[cython.uchar]] = cython.cast(
        cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(data)
    )
    frame: cython.pointer[cython.const[cython.uchar]] = start
    body: cython.pointer[cython.const[cython.uchar]]
    left: cython.Py_ssize_t
    length: cython.Py_ssize_t
    header_length: cython.Py_ssize_t
    body_length: cython.Py_ssize_t
    header: SendHeader
    plain: Plain
    properties = cython.declare(cython.uchar[65536])
    properties_length: cython.Py_ssize_t
    own_length: cython.Py_ssize_t = PyBytes_GET_SIZE(own)
    queue_id: cython.longlong = 0
    sys_flag: cython.longlong = 0
    born_timestamp: cython.longlong = 0
    flag: cython.longlong = 0
    topic_name: bytes = b""
    topic: str = ""
    topic_size: cython.Py_ssize_t = -1
    most_queues: cython.longlong = 0
    queues: dict[int, Any] = {}
    queue: Any = None
    known_queue_id: cython.longlong = -1
    tail: bytearray
    queue_offset: cython.longlong
    size: cython.Py_ssize_t
    fixed: cython.Py_ssize_t = 75 + PyBytes_GET_SIZE(host) + PyBytes_GET_SIZE(store_host)
    host_flags: cython.int = (0x10 if PyBytes_GET_SIZE(host) == 20 else 0) | (
        0x20 if PyBytes_GET_SIZE(store_host) == 20 else 0
    )
    crc: cython.uint
    tables: cython.pointer[cython.const[cython.uint]] = cython.cast(
        cython.pointer[cython.const[cython.uint]], PyBytes_AS_STRING(_CRC)
    )
    position: cython.Py_ssize_t = room.position
    limit: cython.Py_ssize_t = room.limit
    segment_start: cython.longlong = room.segment_start
    store_timestamp: cython.longlong = room.store_timestamp
    max_body: cython.Py_ssize_t = room.max_body_bytes
    max_record: cython.Py_ssize_t = room.max_record_bytes
    by_topic: dict[str, Any] = room.queues
    dirty: list[Any] = room.dirty
    before: bytes = template.before_offset
    after: bytes = template.after_id
    last: bytes = template.end
    used: cython.Py_ssize_t = 0
    needed: cython.Py_ssize_t
    out: cython.p_uchar
    answered: cython.Py_ssize_t = 0
    oneway: cython.Py_ssize_t = 0
    version: cython.int = 0
    language: str = ""
    counted: dict[int, Any] = {}
    count: list[Any]
    target: Py_buffer
    if PyBytes_GET_SIZE(host) not in (8, 20) or PyBytes_GET_SIZE(store_host) not in (8, 20):
        return None
    PyObject_GetBuffer(room.view, cython.address(target), PyBUF_WRITABLE)
    try:
        while True:
            left = start + end - frame
            if left < 8:
                break
            length = get_int(frame)
            header_length = get_int(frame + 4)  # above 24 bits: the kind of header, 0 for JSON
            if length < 4 or length + 4 > left or header_length < 2 or header_length + 4 > length:
                break
            if frame[4] or not scan_send(frame + 8, frame + 8 + header_length, cython.address(header)):
                break
            if header.code != 310 or header.flag & 1:
                break
            # b topic, e queue id, f sysFlag, g born time, h flag, i properties, j reconsume times, m batch
            if (
                header.fields[1].at == cython.NULL
                or header.fields[8].at == cython.NULL
                or not to_number(header.fields[4].at, header.fields[4].size, cython.address(queue_id))
                or not to_number(header.fields[5].at, header.fields[5].size, cython.address(sys_flag))
                or not to_number(header.fields[6].at, header.fields[6].size, cython.address(born_timestamp))
                or not to_number(header.fields[7].at, header.fields[7].size, cython.address(flag))
            ):
                break
            if header.fields[9].at != cython.NULL and not (
                header.fields[9].size == 1 and header.fields[9].at[0] == 48
            ):
                break
            if header.fields[12].size == 4 and memcmp(header.fields[12].at, b"true", 4) == 0:
                break
            # Transactions and inner batches are no plain sends.
            if sys_flag & 0x8C or not (
                -0x80000000 <= sys_flag <= 0x7FFFFFFF and -0x80000000 <= flag <= 0x7FFFFFFF
            ):
                break
            if header.fields[1].size != topic_size or (
                memcmp(header.fields[1].at, PyBytes_AS_STRING(topic_name), topic_size) != 0
            ):
                if counted:
                    _count(stats, topic, counted)
                topic_size = header.fields[1].size
                if topic_size > 127:
                    break
                topic_name = PyBytes_FromStringAndSize(
                    cython.cast(cython.p_char, header.fields[1].at), topic_size
                )
                topic = PyUnicode_DecodeUTF8(PyBytes_AS_STRING(topic_name), topic_size, cython.NULL)
                config = topics.get(topic)
                found = by_topic.get(topic)
                if (
                    config is None
                    or found is None
                    or topic in refused
                    or topic.startswith(_RETRY_PREFIX)
                    or not config.perm & _WRITE
                ):
                    break
                queues = found
                most_queues = max(config.write_queue_nums, config.read_queue_nums)
                known_queue_id = -1
            if queue_id < 0 or queue_id >= most_queues:
                break
            if queue_id != known_queue_id:
                queue = queues.get(queue_id)
                if queue is None or queue.code_is_special:
                    break
                known_queue_id = queue_id
                tail = queue.tail
                if queue_id not in counted:
                    counted[queue_id] = [0, 0]
                count = counted[queue_id]
            properties_length = unescape(cython.address(header.fields[8]), properties, 32767)
            if properties_length <= 0 or not look_through(
                cython.cast(cython.p_char, properties), properties_length, sync_flush, cython.address(plain)
            ):
                break
            if properties[properties_length - 1] != 2:
                properties[properties_length] = 2
                properties_length += 1
            if properties_length + own_length > 32767:
                break
            memcpy(properties + properties_length, PyBytes_AS_STRING(own), own_length)
            properties_length += own_length
            body = frame + 8 + header_length
            body_length = length - 4 - header_length
            size = fixed + topic_size + properties_length + body_length
            if body_length > max_body or size > max_record or size + 8 > limit - position:
                break
            needed = used + 160 + plain.unique_size + PyBytes_GET_SIZE(before)
            needed += PyBytes_GET_SIZE(after) + PyBytes_GET_SIZE(last)
            if needed > PyByteArray_GET_SIZE(answers):
                PyByteArray_Resize(answers, max(needed, 2 * PyByteArray_GET_SIZE(answers)))
            if body_length <= 512:
                crc = short_crc(tables, body, body_length) & 0x7FFFFFFF
            else:
                crc = crc32(PyMemoryView_FromMemory(cython.cast(cython.p_char, body), body_length, 0x100))
            # Nothing was changed so far, and from here on nothing fails but for want of memory.
            if not queue.dirty:
                queue.dirty = True
                dirty.append(queue)
            queue_offset = queue.max_offset
            put_record(
                cython.cast(cython.p_uchar, target.buf) + position,
                size,
                crc,
                cython.cast(cython.int, queue_id),
                cython.cast(cython.int, flag),
                queue_offset,
                segment_start + position,
                (cython.cast(cython.int, sys_flag) & ~0x30) | host_flags,
                born_timestamp,
                host,
                store_timestamp,
                store_host,
                0,
                0,
                body,
                body_length,
                topic_name,
                properties,
                properties_length,
            )
            put_unit(tail, segment_start + position, cython.cast(cython.int, size), plain.tags_code)
            queue.max_offset = queue_offset + 1
            if header.flag & 2:
                oneway += 1
            else:
                answered += 1
                out = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(answers)) + used
                used += _answer(
                    out,
                    before,
                    segment_start + position,
                    queue_id,
                    queue_offset,
                    properties + plain.unique_at,
                    plain.unique_size,
                    after,
                    header.opaque,
                    last,
                )
            if not version:
                version = header.version
                language = PyUnicode_DecodeUTF8(
                    cython.cast(cython.p_char, header.language.at), header.language.size, cython.NULL
                )
            room.last_record = segment_start + position
            position += size
            room.position = position
            frame = body + body_length
            if size <= _SMALL_BYTES:
                count[0] += 1
                count[1] += size
            else:
                stats.put_fresh(topic, queue_id, 1, size)
            if plain.is_ordered:
                stats.put_typed("fifo", topic, size)
    finally:
        PyBuffer_Release(cython.address(target))
    if counted:
        _count(stats, topic, counted)
    if frame == start:
        return None
    return TakenSends(
        frame - start,
        PyBytes_FromStringAndSize(PyByteArray_AS_STRING(answers), used),
        answered,
        oneway,
        version,
        language,
    )


@cython.cfunc
def _count(stats: Any, topic: str, counted: dict[int, Any]) -> Any:
    """Tells the statistics of what the queues of a topic got."""
    for queue_id, count in counted.items():
        if count[0]:
            stats.put_fresh(topic, queue_id, count[0], count[1], count[0])
    counted.clear()


@cython.cfunc
@cython.exceptval(check=False)
def _answer(
    out: cython.p_uchar,
    before: bytes,
    physical_offset: cython.longlong,
    queue_id: cython.longlong,
    queue_offset: cython.longlong,
    unique: cython.p_uchar,
    unique_size: cython.Py_ssize_t,
    after: bytes,
    opaque: cython.int,
    last: bytes,
) -> cython.Py_ssize_t:
    """The frame that `ReplyTemplate.frame` makes, written where it goes; gives its length. Compiled only."""
    at: cython.p_uchar = out + 8
    digits: cython.p_char = PyBytes_AS_STRING(_HEX)
    i: cython.int
    memcpy(at, PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before))
    at += PyBytes_GET_SIZE(before)
    for i in range(16):
        at[15 - i] = digits[physical_offset & 0xF]
        physical_offset >>= 4
    memcpy(at + 16, b'","queueId":"', 13)
    at = _decimal(at + 29, queue_id)
    memcpy(at, b'","queueOffset":"', 17)
    at = _decimal(at + 17, queue_offset)
    memcpy(at, b'","transactionId":"', 19)
    memcpy(at + 19, unique, unique_size)
    at += 19 + unique_size
    memcpy(at, PyBytes_AS_STRING(after), PyBytes_GET_SIZE(after))
    at = _decimal(at + PyBytes_GET_SIZE(after), opaque)
    memcpy(at, PyBytes_AS_STRING(last), PyBytes_GET_SIZE(last))
    at += PyBytes_GET_SIZE(last)
    put_int(out, cython.cast(cython.uint, at - out - 4))
    put_int(out + 4, cython.cast(cython.uint, at - out - 8))
    return at - out


@cython.cfunc
@cython.exceptval(check=False)
@cython.cdivision(True)
def _decimal(at: cython.p_uchar, number: cython.longlong) -> cython.p_uchar:
    """Writes a number; gives the place behind it. Compiled only."""
    digits = cython.declare(cython.uchar[20])
    n: cython.int = 0
    if number < 0:
        at[0] = 45
        at += 1
        number = -number
    while True:
        digits[n] = 48 + number % 10
        n += 1
        number //= 10
        if number == 0:
            break
    while n:
        n -= 1
        at[0] = digits[n]
        at += 1
    return at

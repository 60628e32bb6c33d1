"""Batches straight from the frames of a read to records, units and answers, as `frames_cy` takes sends.

Hot: a batch holds many messages. It is looked through as a whole first: all of it is stored, or it goes the
ordinary way, as whatever is no plain batch does. Interpreted, all batches go that way.
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
    from cython.cimports.libc.string import memcpy  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.plain import (  # type: ignore[import-not-found]
        Content,
        find_tags,
        look_through_batch,
        look_through_batch_properties,
    )
    from cython.cimports.orbitmq.protocol.big_endian import (  # type: ignore[import-not-found]
        get_int,
        get_short,
        put_int,
    )
    from cython.cimports.orbitmq.protocol.crc import is_short, short_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.decimal import put_decimal  # type: ignore[import-not-found]
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


class TakenBatches(NamedTuple):
    """What came of the batches at the start of a read."""

    end: int
    """How many bytes of the read they were."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    oneway: int
    version: int
    """Of the first one's sender."""
    language: str


def take_batches(
    data: bytes,
    topics: dict[str, Any],
    refused: Container[str],
    template: ReplyTemplate,
    host: bytes,
    store_host: bytes,
    room: Room,
    stats: BrokerStats,
    answers: bytearray,
) -> TakenBatches | None:
    """Stores the plain batches at the start of `data`; None if the first frame is none.

    See `frames_cy.take_sends`, and `send_cy.plain_batch` for what is plain.
    """
    if not cython.compiled:
        return None
    start: cython.pointer[cython.const[cython.uchar]] = cython.cast(
        cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(data)
    )
    end: cython.pointer[cython.const[cython.uchar]] = start + PyBytes_GET_SIZE(data)
    frame: cython.pointer[cython.const[cython.uchar]] = start
    source: cython.pointer[cython.const[cython.uchar]]
    behind: cython.pointer[cython.const[cython.uchar]]
    length: cython.Py_ssize_t
    header_length: cython.Py_ssize_t
    header: SendHeader
    content: Content
    properties = cython.declare(cython.uchar[4096])
    properties_length: cython.Py_ssize_t
    unique_at: cython.Py_ssize_t = 0
    unique_size: cython.Py_ssize_t = 0
    queue_id: cython.longlong = 0
    sys_flag: cython.longlong = 0
    born_timestamp: cython.longlong = 0
    queue_offset: cython.longlong
    tags_code: cython.longlong = 0
    body_length: cython.Py_ssize_t
    size: cython.Py_ssize_t
    total: cython.Py_ssize_t
    fixed: cython.Py_ssize_t
    hosts: cython.Py_ssize_t = 75 + PyBytes_GET_SIZE(host) + PyBytes_GET_SIZE(store_host)
    host_flags: cython.int = (0x10 if PyBytes_GET_SIZE(host) == 20 else 0) | (
        0x20 if PyBytes_GET_SIZE(store_host) == 20 else 0
    )
    crc: cython.uint
    tables: cython.pointer[cython.const[cython.uint]] = cython.cast(
        cython.pointer[cython.const[cython.uint]], PyBytes_AS_STRING(_CRC)
    )
    position: cython.Py_ssize_t = room.position
    at: cython.Py_ssize_t
    limit: cython.Py_ssize_t = room.limit
    segment_start: cython.longlong = room.segment_start
    store_timestamp: cython.longlong = room.store_timestamp
    max_body: cython.Py_ssize_t = room.max_body_bytes
    max_record: cython.Py_ssize_t = room.max_record_bytes
    by_topic: dict[str, Any] = room.queues
    dirty: list[Any] = room.dirty
    tail: bytearray
    used: cython.Py_ssize_t = 0
    needed: cython.Py_ssize_t
    answered: cython.Py_ssize_t = 0
    oneway: cython.Py_ssize_t = 0
    version: cython.int = 0
    language: str = ""
    target: Py_buffer
    if PyBytes_GET_SIZE(host) not in (8, 20) or PyBytes_GET_SIZE(store_host) not in (8, 20):
        return None
    PyObject_GetBuffer(room.view, cython.address(target), PyBUF_WRITABLE)
    try:
        while end - frame >= 8:
            length = get_int(frame)
            header_length = get_int(frame + 4)  # above 24 bits: the kind of header, 0 for JSON
            if length < 4 or length + 4 > end - frame or header_length < 2 or header_length + 4 > length:
                break
            if frame[4] or not scan_send(frame + 8, frame + 8 + header_length, cython.address(header)):
                break
            if header.code != 320 or header.flag & 1:
                break
            # b topic, e queue id, f sysFlag, g born time, i properties, j reconsume times
            if (
                header.fields[1].at == cython.NULL
                or header.fields[1].size > 127
                or header.fields[8].at == cython.NULL
                or not to_number(header.fields[4].at, header.fields[4].size, cython.address(queue_id))
                or not to_number(header.fields[5].at, header.fields[5].size, cython.address(sys_flag))
                or not to_number(header.fields[6].at, header.fields[6].size, cython.address(born_timestamp))
            ):
                break
            if header.fields[9].at != cython.NULL and not (
                header.fields[9].size == 1 and header.fields[9].at[0] == 48
            ):
                break
            # Neither transactions nor inner batches.
            if sys_flag & 0x8C or not -0x80000000 <= sys_flag <= 0x7FFFFFFF:
                break
            properties_length = unescape(cython.address(header.fields[8]), properties, 4095)
            if properties_length < 0 or not look_through_batch_properties(
                cython.cast(cython.p_char, properties),
                properties_length,
                cython.address(unique_at),
                cython.address(unique_size),
            ):
                break
            topic_name: bytes = PyBytes_FromStringAndSize(
                cython.cast(cython.p_char, header.fields[1].at), header.fields[1].size
            )
            topic: str = PyUnicode_DecodeUTF8(
                PyBytes_AS_STRING(topic_name), PyBytes_GET_SIZE(topic_name), cython.NULL
            )
            config = topics.get(topic)
            queues = by_topic.get(topic)
            if (
                config is None
                or queues is None
                or topic in refused
                or topic.startswith(_RETRY_PREFIX)
                or not config.perm & _WRITE
                or queue_id < 0
                or queue_id >= max(config.write_queue_nums, config.read_queue_nums)
            ):
                break
            queue = queues.get(queue_id)
            if queue is None or queue.code_is_special:
                break
            source = frame + 8 + header_length
            behind = frame + 4 + length
            if not look_through_batch(source, behind, cython.address(content)):
                break
            fixed = hosts + PyBytes_GET_SIZE(topic_name)
            total = content.count * fixed + content.size
            if (
                behind - source > max_body
                or content.longest_body > max_body
                or fixed + content.longest > max_record
                or total + 8 > limit - position
            ):
                break
            needed = used + 160 + PyBytes_GET_SIZE(template.before_offset) + PyBytes_GET_SIZE(template.end)
            needed += unique_size + PyBytes_GET_SIZE(template.after_id)
            needed += content.count * (16 + PyBytes_GET_SIZE(template.between_ids))
            if needed > PyByteArray_GET_SIZE(answers):
                PyByteArray_Resize(answers, max(needed, 2 * PyByteArray_GET_SIZE(answers)))
            # Nothing was changed so far, and from here on nothing fails but for want of memory.
            if not queue.dirty:
                dirty.append(queue)
                queue.dirty = True
            queue_offset = queue.max_offset
            tail = queue.tail
            at = position
            while source < behind:
                body_length = get_int(source + 16)
                properties_length = get_short(source + 20 + body_length)
                if is_short(body_length):
                    crc = short_crc(tables, source + 20, body_length) & 0x7FFFFFFF
                else:
                    crc = crc32(
                        PyMemoryView_FromMemory(cython.cast(cython.p_char, source + 20), body_length, 0x100)
                    )
                size = fixed + body_length + properties_length
                put_record(
                    cython.cast(cython.p_uchar, target.buf) + at,
                    size,
                    crc,
                    cython.cast(cython.int, queue_id),
                    get_int(source + 12),
                    queue_offset,
                    segment_start + at,
                    (cython.cast(cython.int, sys_flag) & ~0x30) | host_flags,
                    born_timestamp,
                    host,
                    store_timestamp,
                    store_host,
                    0,
                    0,
                    source + 20,
                    body_length,
                    topic_name,
                    source + 22 + body_length,
                    properties_length,
                )
                find_tags(
                    cython.cast(cython.p_char, source) + 22 + body_length,
                    properties_length,
                    cython.address(tags_code),
                )
                put_unit(tail, segment_start + at, cython.cast(cython.int, size), tags_code)
                room.last_record = segment_start + at
                at += size
                queue_offset += 1
                source += 22 + body_length + properties_length
            if header.flag & 2:
                oneway += 1
            else:
                answered += 1
                used += _answer(
                    cython.cast(cython.p_uchar, PyByteArray_AS_STRING(answers)) + used,
                    template,
                    tail,
                    content.count,
                    queue_id,
                    queue.max_offset,
                    properties + unique_at,
                    unique_size,
                    header.opaque,
                )
            queue.max_offset = queue_offset
            if not version:
                version = header.version
                language = PyUnicode_DecodeUTF8(
                    cython.cast(cython.p_char, header.language.at), header.language.size, cython.NULL
                )
            position = at
            room.position = position
            frame = behind
            stats.put_fresh(topic, queue_id, content.count, total)
    finally:
        PyBuffer_Release(cython.address(target))
    if frame == start:
        return None
    return TakenBatches(
        frame - start,
        PyBytes_FromStringAndSize(PyByteArray_AS_STRING(answers), used),
        answered,
        oneway,
        version,
        language,
    )


@cython.cfunc
@cython.exceptval(check=False)
def _answer(
    out: cython.p_uchar,
    template: ReplyTemplate,
    tail: bytearray,
    count: cython.Py_ssize_t,
    queue_id: cython.longlong,
    queue_offset: cython.longlong,
    unique: cython.p_uchar,
    unique_size: cython.Py_ssize_t,
    opaque: cython.int,
) -> cython.Py_ssize_t:
    """The frame that `ReplyTemplate.batch_frame` makes for the last units of a queue. Compiled only."""
    before: bytes = template.before_offset
    between: bytes = template.between_ids
    after: bytes = template.after_id
    last: bytes = template.end
    at: cython.p_uchar = out + 8
    digits: cython.p_char = PyBytes_AS_STRING(_HEX)
    unit: cython.p_uchar = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(tail))
    i: cython.Py_ssize_t
    byte: cython.int
    unit += PyByteArray_GET_SIZE(tail) - 20 * count
    memcpy(at, PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before))
    at += PyBytes_GET_SIZE(before)
    for i in range(count):
        if i:
            memcpy(at, PyBytes_AS_STRING(between), PyBytes_GET_SIZE(between))
            at += PyBytes_GET_SIZE(between)
        for byte in range(8):
            at[2 * byte] = digits[unit[byte] >> 4]
            at[2 * byte + 1] = digits[unit[byte] & 0xF]
        at += 16
        unit += 20
    memcpy(at, b'","queueId":"', 13)
    at = put_decimal(at + 13, queue_id)
    memcpy(at, b'","queueOffset":"', 17)
    at = put_decimal(at + 17, queue_offset)
    if unique_size:
        memcpy(at, b'","transactionId":"', 19)
        memcpy(at + 19, unique, unique_size)
        at += 19 + unique_size
    memcpy(at, PyBytes_AS_STRING(after), PyBytes_GET_SIZE(after))
    at = put_decimal(at + PyBytes_GET_SIZE(after), opaque)
    memcpy(at, PyBytes_AS_STRING(last), PyBytes_GET_SIZE(last))
    at += PyBytes_GET_SIZE(last)
    put_int(out, cython.cast(cython.uint, at - out - 4))
    put_int(out + 4, cython.cast(cython.uint, at - out - 8))
    return at - out

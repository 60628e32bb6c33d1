"""Records of the commit log, read: one, or those of an answer to a pull.

A record (all numbers big endian):

    size i32 | magic i32 | body CRC i32 | queue id i32 | flag i32 | queue offset i64 | physical offset i64
    | sysFlag i32 | born time i64 | born host 8 or 20 | store time i64 | store host 8 or 20
    | reconsume times i32 | prepared transaction offset i64 | body length i32, body
    | topic length i8 (v2: i16), topic | properties length i16, properties

Hot: every message is read here. Compiled, records are read in the caller's buffer (`buffers/bounded.pxd`);
interpreted, by `plain`. Both ways are tested alike. `encoding_cy` writes records, `scanning_cy` walks over
many.
"""

from __future__ import annotations

from typing import Any, TypeAlias

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records import plain
from orbitmq.protocol.records.checksums_cy import crc32, property_crc_holds
from orbitmq.protocol.records.message import BadRecord, StoredMessage

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.located import Parts  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.parts import *  # type: ignore[import-not-found]


def decode_record(
    buf: Any,
    position: cython.Py_ssize_t = 0,
    check_crc: cython.bint = True,
    check_property_crc: cython.bint = False,
) -> StoredMessage:
    """The record that begins at byte `position` of a buffer; what follows it does not matter.

    Raises BadRecord if it is cut off or no record, its lengths do not add up, its topic is not UTF-8, its
    properties hold a zero byte, its body does not have its checksum (`check_crc`), or all of it does not have
    the one in its last property (`check_property_crc`, where there is one).
    """
    if cython.compiled:
        return _decode(buf, position, check_crc, check_property_crc)
    return plain.decode(buf, position, check_crc, check_property_crc)


@cython.cfunc
def _decode(
    buf: Any, position: cython.Py_ssize_t, check_crc: cython.bint, check_property_crc: cython.bint
) -> object:
    """Compiled only."""
    view: Py_buffer
    data: Span
    at: Span
    parts: Parts
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        data = span_over(view.buf, view.len)
        if not find_parts(data, position, data.size, cython.address(parts)):
            raise plain.bad_record(buf, position, data.size)
        at = rest_of(data, position)
        body: bytes = bytes_of(body_of(data, cython.address(parts)))
        if check_crc and i32_of(at, 8) != crc32(body):
            raise BadRecord("the body does not have its checksum", position)
        if check_property_crc and not property_crc_holds(buf, position, i32_of(at, 0)):
            raise BadRecord("the record does not have its checksum", position)
        return StoredMessage(
            text_of(topic_of(data, cython.address(parts))),
            body,
            bytes_of(properties_of_record(data, cython.address(parts))),
            queue_id_of(data, cython.address(parts)),
            queue_offset_of(data, cython.address(parts)),
            physical_offset_of(data, cython.address(parts)),
            flag_of(data, cython.address(parts)),
            sys_flag_of(data, cython.address(parts)),
            born_timestamp_of(data, cython.address(parts)),
            bytes_of(born_host_of(data, cython.address(parts))),
            store_timestamp_of(data, cython.address(parts)),
            bytes_of(store_host_of(data, cython.address(parts))),
            reconsume_times_of(data, cython.address(parts)),
            i64_of(data, parts.body - 12),
            i32_of(at, 8),
            i32_of(at, 0),
        )
    finally:
        PyBuffer_Release(cython.address(view))


def decode_records(buf: Any, check_crc: bool = True) -> tuple[list[StoredMessage], list[BadRecord]]:
    """The records that stand back to back in a buffer, as in the answer to a pull.

    A bad record is stepped over where its size can be believed; else it is the last thing in the answer. Bad
    records come beside the good ones.
    """
    records: list[StoredMessage] = []
    bad: list[BadRecord] = []
    position = 0
    while position < len(buf):
        try:
            record = decode_record(buf, position, check_crc)
            records.append(record)
            position += record.size
        except BadRecord as error:
            bad.append(error)
            position = plain.behind_bad_record(buf, position)
    return records, bad


# ---- records whose fields are read when somebody asks for them ----

SplitRecord: TypeAlias = tuple[int, int, int, bytes, bytes, bytes]
"""Queue offset, sysFlag, reconsume times, body, properties, and the record without the last two."""


def split_records(buf: Any) -> tuple[list[SplitRecord], list[BadRecord]]:
    """The same as `decode_records` for callers that need few of the fields: every check is made here.

    `joined_record` reads the other fields.
    """
    records: list[SplitRecord] = []
    bad: list[BadRecord] = []
    position = 0
    while position < len(buf):
        try:
            record = _split(buf, position)
            records.append(record)
            position += len(record[3]) + len(record[4]) + len(record[5])
        except BadRecord as error:
            bad.append(error)
            position = plain.behind_bad_record(buf, position)
    return records, bad


@cython.cfunc
def _split(buf: Any, position: cython.Py_ssize_t) -> tuple:  # type: ignore[type-arg]
    if not cython.compiled:
        return plain.split(buf, position)
    view: Py_buffer
    data: Span
    parts: Parts
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        data = span_over(view.buf, view.len)
        if not find_parts(data, position, data.size, cython.address(parts)):
            raise plain.bad_record(buf, position, data.size)
        body: bytes = bytes_of(body_of(data, cython.address(parts)))
        if i32_of(data, position + 8) != crc32(body):
            raise BadRecord("the body does not have its checksum", position)
        return (
            queue_offset_of(data, cython.address(parts)),
            sys_flag_of(data, cython.address(parts)),
            reconsume_times_of(data, cython.address(parts)),
            body,
            bytes_of(properties_of_record(data, cython.address(parts))),
            _without_body(data, cython.address(parts)),
        )
    finally:
        PyBuffer_Release(cython.address(view))


@cython.cfunc
def _without_body(data: Span, parts: cython.pointer[Parts]) -> bytes:
    """A record without body and properties, whose lengths are 0. Compiled only."""
    head: Span = part_of(data, parts.record + 4, parts.body - parts.record - 8)
    behind_body: cython.Py_ssize_t = parts.body + parts.body_length
    topic: Span = part_of(data, behind_body, parts.topic + parts.topic_length - behind_body)
    size: cython.Py_ssize_t = 4 + head.size + 4 + topic.size + 2
    made: bytes = new_bytes(size)
    out: Writer = writer_of_new(made)
    put_u32(cython.address(out), cython.cast(cython.uint, size))
    put_span(cython.address(out), head)
    put_u32(cython.address(out), 0)
    put_span(cython.address(out), topic)
    put_u16(cython.address(out), 0)
    if out.overflow or left_of(cython.address(out)):
        raise SystemError("a record was measured with another size than it has")
    return made


def joined_record(split: SplitRecord) -> StoredMessage:
    """The record that `split_records` has taken apart."""
    _, _, _, body, properties, rest = split
    record = decode_record(rest, 0, False)
    record.body = body
    record.properties = properties
    record.size += len(body) + len(properties)
    return record


RecordHeader: TypeAlias = tuple[int, int, int, int, int, int, int]


def read_header(buf: Any, position: cython.Py_ssize_t = 0) -> RecordHeader:
    """Reads the first fields of a record.

    That is: (size, magic, queue id, queue offset, physical offset, sysFlag, store time). Of a blank record
    only size and magic mean something, the rest is 0. Raises BadRecord if there is no record, its lengths do
    not add up, or there is no room for it.
    """
    if not cython.compiled:
        return plain.header(buf, position)
    view: Py_buffer
    data: Span
    parts: Parts
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        data = span_over(view.buf, view.len)
        if position >= 0 and i32_of(data, position + 4) == -875286124:
            return i32_of(data, position), -875286124, 0, 0, 0, 0, 0
        if not find_parts(data, position, data.size, cython.address(parts)):
            raise plain.bad_record(buf, position, data.size)
        return (
            i32_of(data, position),
            i32_of(data, position + 4),
            queue_id_of(data, cython.address(parts)),
            queue_offset_of(data, cython.address(parts)),
            physical_offset_of(data, cython.address(parts)),
            sys_flag_of(data, cython.address(parts)),
            store_timestamp_of(data, cython.address(parts)),
        )
    finally:
        PyBuffer_Release(cython.address(view))

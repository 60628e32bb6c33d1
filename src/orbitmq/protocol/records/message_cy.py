"""Records of the commit log to bytes and back, one or many.

A record (all numbers big endian):

    size i32 | magic i32 | body CRC i32 | queue id i32 | flag i32 | queue offset i64 | physical offset i64
    | sysFlag i32 | born time i64 | born host 8 or 20 | store time i64 | store host 8 or 20
    | reconsume times i32 | prepared transaction offset i64 | body length i32, body
    | topic length i8 (v2: i16), topic | properties length i16, properties

Hot: every message is written and read here. Compiled, records are read and written in the caller's buffer
(`buffers/bounded.pxd`); interpreted, with `struct`. Both ways stand side by side and are tested alike.
"""
# mypy: disable-error-code="name-defined"
# ruff: noqa: F821
# (Py_buffer is a name that only the compiler knows.)

from __future__ import annotations

import mmap
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.batch_cy import encode_batch, measure_batch, split_batch
from orbitmq.protocol.records.message import (
    BLANK_BYTES,
    BORN_HOST_V6,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES_BYTES,
    PROPERTY_CRC_BYTES,
    PROPERTY_CRC_NAME,
    STORE_HOST_V6,
    BadRecord,
    RecordTooLarge,
    StoredMessage,
)
from orbitmq.protocol.records.properties_cy import find_property, tags_code
from orbitmq.protocol.records.queue_units import UNIT

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Reader,
        Span,
        Writer,
        byte_of,
        bytes_of,
        find_byte,
        i16_of,
        i32_of,
        i64_of,
        is_ascii,
        is_same,
        is_there,
        left_of,
        new_bytes,
        no_span,
        part_of,
        put_span,
        put_u16,
        put_u32,
        put_u64,
        reader_over,
        rest_of,
        skip,
        span_of,
        span_over,
        starts_with,
        text_of,
        unread,
        view_of,
        writer_of,
        writer_of_new,
        writer_over,
    )
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.batch import (  # type: ignore[import-not-found]
        BatchEntry,
        next_of_batch,
    )
    from cython.cimports.orbitmq.protocol.records.located import Parts, put_parts  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.record import put_record  # type: ignore[import-not-found]

__all__ = [
    "CRC_TABLES",
    "FIXED_BYTES",
    "PARTS_PER_RECORD",
    "BadRecord",
    "Located",
    "RecordTooLarge",
    "Scan",
    "ScannedRecord",
    "SplitRecord",
    "Stop",
    "crc32",
    "decode_record",
    "decode_records",
    "encode_batch",
    "encode_batch_records",
    "encode_blank",
    "encode_record",
    "find_property",
    "joined_record",
    "locate_records",
    "measure_batch",
    "read_header",
    "record_size",
    "scan_records",
    "split_batch",
    "split_records",
    "tags_code",
]

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap

_crc32: Callable[[Any], int]
try:
    # Several times as fast as the standard library's.
    from isal.isal_zlib import crc32 as _crc32
except ImportError:
    _crc32 = zlib.crc32

FIXED_BYTES = 91
"""Size of a v1 record with IPv4 hosts and without body, topic and properties."""

_V1_TOPIC_BYTES = 127

_HEAD = Struct(">iiiiiqqiq")
_INT = Struct(">i")
_LONG = Struct(">q")
_RECONSUME = Struct(">iqi")
_SHORT = Struct(">h")
_BLANK = Struct(">ii")


def crc32(data: ReadableBuffer) -> int:
    """The CRC-32 of a body as records hold it: without its highest bit."""
    return _crc32(data) & 0x7FFFFFFF


def _crc_tables() -> bytes:
    """Eight tables of 256 words for the CRC-32 of eight bytes at a time, as native 32-bit words."""
    tables = [[0] * 256 for _ in range(8)]
    for byte in range(256):
        code = byte
        for _ in range(8):
            code = code >> 1 ^ (0xEDB88320 if code & 1 else 0)
        tables[0][byte] = code
    for byte in range(256):
        code = tables[0][byte]
        for table in tables[1:]:
            code = tables[0][code & 0xFF] ^ code >> 8
            table[byte] = code
    return b"".join(Struct("=256I").pack(*table) for table in tables)


CRC_TABLES: bytes = _crc_tables()
"""For bodies of up to 512 bytes in compiled code: a call to the library costs more than they do."""
_CRC: bytes = CRC_TABLES


# ---- one record: encode ----


def record_size(
    body_length: int,
    topic_length: int,
    properties_length: int,
    born_host_length: int = 8,
    store_host_length: int = 8,
    append_property_crc: bool = False,
) -> int:
    """The size of a record in bytes, from the lengths of its parts in bytes.

    With `append_property_crc` the answer may be one byte more than `encode_record` writes: a separator is put
    where properties lack their last one.
    """
    size = (
        FIXED_BYTES
        + body_length
        + topic_length
        + properties_length
        + (born_host_length - 8)
        + (store_host_length - 8)
    )
    if topic_length > _V1_TOPIC_BYTES:
        size += 1
    if append_property_crc:
        size += PROPERTY_CRC_BYTES + 1
    return size


def encode_record(
    out: Any,
    position: cython.Py_ssize_t,
    queue_id: cython.int,
    flag: cython.int,
    queue_offset: cython.longlong,
    physical_offset: cython.longlong,
    sys_flag: cython.int,
    born_timestamp: cython.longlong,
    born_host: bytes,
    store_timestamp: cython.longlong,
    store_host: bytes,
    reconsume_times: cython.int,
    prepared_transaction_offset: cython.longlong,
    body: Any,
    topic: bytes,
    properties: bytes,
    body_crc: Any = None,
    append_property_crc: cython.bint = False,
) -> int:
    """Writes a record into `out` from byte `position` on; gives its size in bytes.

    `out` is any writable buffer, `body` any readable one. Hosts are packed; their lengths set the IPv6 bits
    of sysFlag. A topic of more than 127 bytes makes it a v2 record. `body_crc` is what `crc32(body)` gives,
    for callers that know it. `append_property_crc` ends the record with a checksum over all of it
    (enabledAppendPropCRC).

    Raises RecordTooLarge if topic or properties are too long or the record does not fit into `out`,
    ValueError for a host of neither 8 nor 20 bytes, OverflowError for a number too large for its field.
    Nothing is written then.
    """
    born_length: cython.Py_ssize_t = len(born_host)
    store_length: cython.Py_ssize_t = len(store_host)
    topic_length: cython.Py_ssize_t = len(topic)
    crc: cython.uint = crc32(body) if body_crc is None else body_crc
    if born_length == 20:
        sys_flag |= 0x10
    elif born_length == 8:
        sys_flag &= ~0x10
    else:
        raise ValueError(f"a packed address has 8 or 20 bytes, not {born_length}")
    if store_length == 20:
        sys_flag |= 0x20
    elif store_length == 8:
        sys_flag &= ~0x20
    else:
        raise ValueError(f"a packed address has 8 or 20 bytes, not {store_length}")
    if append_property_crc:
        properties = _room_for_crc(properties)
    properties_length: cython.Py_ssize_t = len(properties)
    if properties_length > 32767:
        raise RecordTooLarge(f"{properties_length} bytes of properties: {MAX_PROPERTIES_BYTES} can be stored")
    if topic_length > 32767:
        raise RecordTooLarge(f"a topic of {topic_length} bytes")
    size: cython.Py_ssize_t = 75 + born_length + store_length + topic_length + properties_length
    if topic_length > 127:
        size += 1
    if cython.compiled:
        target: Py_buffer
        source: Py_buffer
        content: Span
        room: Writer
        plain: cython.bint = type(body) is bytes
        if plain:
            content = span_of(body)
        else:
            PyObject_GetBuffer(body, cython.address(source), PyBUF_SIMPLE)
            content = span_over(source.buf, source.len)
        try:
            size += content.size
            PyObject_GetBuffer(out, cython.address(target), PyBUF_WRITABLE)
            try:
                if position < 0 or size > target.len - position or size > 0x7FFFFFFF:
                    raise RecordTooLarge(f"{size} bytes do not fit into {max(0, target.len - position)}")
                room = writer_over(target.buf, target.len)
                skip(cython.address(room), position)
                put_record(
                    cython.address(room),
                    size,
                    crc,
                    queue_id,
                    flag,
                    queue_offset,
                    physical_offset,
                    sys_flag,
                    born_timestamp,
                    born_host,
                    store_timestamp,
                    store_host,
                    reconsume_times,
                    prepared_transaction_offset,
                    content,
                    topic,
                    span_of(properties),
                )
                assert not room.overflow
            finally:
                PyBuffer_Release(cython.address(target))
        finally:
            if not plain:
                PyBuffer_Release(cython.address(source))
    else:
        body = body if isinstance(body, bytes) else memoryview(body).cast("B")
        size += len(body)
        view = memoryview(out).cast("B")
        if position < 0 or size > len(view) - position or size > 0x7FFFFFFF:
            raise RecordTooLarge(f"{size} bytes do not fit into {max(0, len(view) - position)}")
        try:
            magic = MAGIC_V1 if topic_length <= _V1_TOPIC_BYTES else MAGIC_V2
            record = b"".join(
                (
                    _HEAD.pack(
                        size,
                        magic,
                        crc,
                        queue_id,
                        flag,
                        queue_offset,
                        physical_offset,
                        sys_flag,
                        born_timestamp,
                    ),
                    born_host,
                    _LONG.pack(store_timestamp),
                    store_host,
                    _RECONSUME.pack(reconsume_times, prepared_transaction_offset, len(body)),
                    body,
                    topic_length.to_bytes(1 if topic_length <= _V1_TOPIC_BYTES else 2, "big"),
                    topic,
                    properties_length.to_bytes(2, "big"),
                    properties,
                )
            )
        except struct.error as error:
            raise OverflowError(str(error)) from None
        view[position : position + size] = record
    if append_property_crc:
        _write_property_crc(out, position, size)
    return size


def encode_batch_records(
    out: Any,
    position: cython.Py_ssize_t,
    queue_id: cython.int,
    queue_offset: cython.longlong,
    physical_offset: cython.longlong,
    sys_flag: cython.int,
    born_timestamp: cython.longlong,
    born_host: bytes,
    store_timestamp: cython.longlong,
    store_host: bytes,
    reconsume_times: cython.int,
    batch: bytes,
    topic: bytes,
    append_property_crc: cython.bint = False,
) -> bytes:
    """Writes a record for each message of a batch (see `batch_cy`), one behind the other; gives their units.

    A unit is physical offset, size and tags code of a record, as consume queues hold them. Queue offset and
    physical offset are those of the first record. Raises as `encode_record` does, and BadRecord for a batch
    that cannot be read.
    """
    size: cython.Py_ssize_t
    at: cython.Py_ssize_t = position
    units = bytearray()
    if not cython.compiled or append_property_crc or len(topic) > 127:
        for flag, body, properties in split_batch(batch):
            size = encode_record(
                out,
                at,
                queue_id,
                flag,
                queue_offset,
                physical_offset + (at - position),
                sys_flag,
                born_timestamp,
                born_host,
                store_timestamp,
                store_host,
                reconsume_times,
                0,
                body,
                topic,
                properties,
                None,
                append_property_crc,
            )
            units += UNIT.pack(physical_offset + (at - position), size, tags_code(properties))
            queue_offset += 1
            at += size
        return bytes(units)
    count, content, _, _ = measure_batch(batch)
    fixed: cython.Py_ssize_t = 75 + len(born_host) + len(store_host) + len(topic)
    if len(born_host) not in (8, 20) or len(store_host) not in (8, 20):
        raise ValueError("a packed address has 8 or 20 bytes")
    sys_flag = (
        (sys_flag & ~0x30) | (0x10 if len(born_host) == 20 else 0) | (0x20 if len(store_host) == 20 else 0)
    )
    made: bytes = new_bytes(count * 20)
    unit: Writer = writer_of_new(made)
    source: Reader = reader_over(span_of(batch))
    entry: BatchEntry
    tag: cython.longlong
    target: Py_buffer
    PyObject_GetBuffer(out, cython.address(target), PyBUF_WRITABLE)
    try:
        if position < 0 or count * fixed + content > target.len - position:
            raise RecordTooLarge(f"{count * fixed + content} bytes do not fit")
        room: Writer = writer_over(target.buf, target.len)
        skip(cython.address(room), position)
        while unread(cython.address(source)):
            if not next_of_batch(cython.address(source), cython.address(entry)):
                raise SystemError("a batch was measured, and is not whole")
            size = fixed + entry.body.size + entry.properties.size
            put_record(
                cython.address(room),
                size,
                body_crc(entry.body, _CRC, crc32),
                queue_id,
                entry.flag,
                queue_offset,
                physical_offset,
                sys_flag,
                born_timestamp,
                born_host,
                store_timestamp,
                store_host,
                reconsume_times,
                0,
                entry.body,
                topic,
                entry.properties,
            )
            tag = 0
            if _may_have_tags(entry.properties):
                tag = tags_code(bytes_of(entry.properties))
            put_u64(cython.address(unit), cython.cast(cython.ulonglong, physical_offset))
            put_u32(cython.address(unit), cython.cast(cython.uint, size))
            put_u64(cython.address(unit), cython.cast(cython.ulonglong, tag))
            at += size
            physical_offset += size
            queue_offset += 1
        if room.overflow or unit.overflow:
            raise SystemError("a batch was measured smaller than it is")
    finally:
        PyBuffer_Release(cython.address(target))
    return made


@cython.cfunc
@cython.exceptval(check=False)
def _may_have_tags(properties: Span) -> cython.bint:
    """True if `TAGS` and its separator occur anywhere in a property string. Compiled only."""
    at: cython.Py_ssize_t = find_byte(properties, 84)
    while at >= 0:
        if starts_with(rest_of(properties, at), b"TAGS\x01"):
            return True
        at = find_byte(properties, 84, at + 1)
    return False


def _room_for_crc(properties: bytes) -> bytes:
    """The properties with a place for the checksum at their end, and without one they had before."""
    if PROPERTY_CRC_NAME + b"\x01" in properties:
        entries = properties.split(b"\x02")
        properties = b"\x02".join([e for e in entries if not e.startswith(PROPERTY_CRC_NAME + b"\x01")])
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    return properties + bytes(PROPERTY_CRC_BYTES)


_CRC_NAME = PROPERTY_CRC_NAME + b"\x01"
_CRC_NAME_BITS = int.from_bytes(_CRC_NAME, "big")


def _property_crc(record: memoryview) -> bytes:
    """The last property of a record: the checksum of what is before it, last digit first."""
    digits = f"{crc32(record[:-PROPERTY_CRC_BYTES]):010d}"[::-1]
    return b"%b\x01%b\x02" % (PROPERTY_CRC_NAME, digits.encode())


def _write_property_crc(out: Any, position: int, size: int) -> None:
    with memoryview(out) as whole, whole.cast("B") as view, view[position : position + size] as record:
        record[-PROPERTY_CRC_BYTES:] = _property_crc(record)


def _property_crc_holds(buf: Any, position: int, size: int) -> bool:
    """True if the checksum at a record's end is right, and for a record without one.

    A name that differs from that of the checksum in a single bit is a damaged one, not another property's.
    """
    with memoryview(buf) as whole, whole.cast("B") as view, view[position : position + size] as record:
        last = bytes(record[-PROPERTY_CRC_BYTES:])
        different = int.from_bytes(last[: len(_CRC_NAME)], "big") ^ _CRC_NAME_BITS
        return different.bit_count() > 1 or last == _property_crc(record)


def encode_blank(out: Any, position: int, remaining_bytes: int) -> None:
    """Marks the rest of a segment as empty: `remaining_bytes` from `position` on, at least 8."""
    if remaining_bytes < BLANK_BYTES:
        raise ValueError(f"a blank record needs {BLANK_BYTES} bytes, there are {remaining_bytes}")
    _BLANK.pack_into(out, position, remaining_bytes, MAGIC_BLANK)


# ---- one record: decode ----

_Parts: TypeAlias = tuple[int, int, int, int, int, int, int]


@cython.cfunc
def _parts(
    data: Span, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[
    cython.Py_ssize_t,
    cython.Py_ssize_t,
    cython.Py_ssize_t,
    cython.Py_ssize_t,
    cython.Py_ssize_t,
    cython.Py_ssize_t,
    cython.Py_ssize_t,
]:
    """Positions of the parts of a record; compiled only, `_plain_parts` is its twin.

    Gives (store time, body length, body, topic length, topic, properties length, properties): positions in
    `data` and lengths. Every length is checked against the record's own size, the sum as well.
    """
    if position < 0 or end - position < 8:
        raise BadRecord("the record is cut off", position)
    size: cython.Py_ssize_t = i32_of(data, position)
    magic: cython.int = i32_of(data, position + 4)
    if magic != -626843481 and magic != -626843477:
        raise BadRecord(f"{magic & 0xFFFFFFFF:08X} is no record's magic number", position)
    if size < 91 or size > end - position:
        raise BadRecord(f"a record of {size} bytes cannot stand in {end - position}", position)
    stop: cython.Py_ssize_t = position + size
    sys_flag: cython.int = i32_of(data, position + 36)
    stored: cython.Py_ssize_t = position + (68 if sys_flag & 0x10 else 56)
    reconsume: cython.Py_ssize_t = stored + (28 if sys_flag & 0x20 else 16)
    if reconsume + 19 > stop:
        raise BadRecord(f"{size} bytes are too few for a record", position)
    body_length: cython.Py_ssize_t = i32_of(data, reconsume + 12)
    body: cython.Py_ssize_t = reconsume + 16
    if body_length < 0 or body_length > stop - body - 3:
        raise BadRecord(f"a body of {body_length} bytes in a record of {size}", position)
    topic: cython.Py_ssize_t = body + body_length
    topic_length: cython.Py_ssize_t
    if magic == -626843481:
        topic_length = cython.cast(cython.schar, byte_of(data, topic))
        topic += 1
    else:
        topic_length = i16_of(data, topic)
        topic += 2
    if topic_length < 0 or topic_length > stop - topic - 2:
        raise BadRecord(f"a topic of {topic_length} bytes in a record of {size}", position)
    properties: cython.Py_ssize_t = topic + topic_length
    properties_length: cython.Py_ssize_t = i16_of(data, properties)
    properties += 2
    if properties_length != stop - properties:
        raise BadRecord(f"the parts of the record do not add up to its {size} bytes", position)
    if not is_ascii(part_of(data, topic, topic_length)):
        _topic_text(part_of(data, topic, topic_length), position)
    if find_byte(part_of(data, properties, properties_length), 0) >= 0:
        raise BadRecord("a zero byte in the properties", position)
    return stored, body_length, body, topic_length, topic, properties_length, properties


def _plain_parts(buf: Any, position: int, end: int) -> _Parts:
    """`_parts` for the interpreter."""
    if position < 0 or end - position < 8:
        raise BadRecord("the record is cut off", position)
    size, magic = _BLANK.unpack_from(buf, position)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise BadRecord(f"{magic & 0xFFFFFFFF:08X} is no record's magic number", position)
    if size < FIXED_BYTES or size > end - position:
        raise BadRecord(f"a record of {size} bytes cannot stand in {end - position}", position)
    stop = position + size
    (sys_flag,) = _INT.unpack_from(buf, position + 36)
    stored = position + (68 if sys_flag & BORN_HOST_V6 else 56)
    reconsume = stored + (28 if sys_flag & STORE_HOST_V6 else 16)
    if reconsume + 19 > stop:
        raise BadRecord(f"{size} bytes are too few for a record", position)
    (body_length,) = _INT.unpack_from(buf, reconsume + 12)
    body = reconsume + 16
    if body_length < 0 or body_length > stop - body - 3:
        raise BadRecord(f"a body of {body_length} bytes in a record of {size}", position)
    topic = body + body_length
    if magic == MAGIC_V1:
        topic_length = buf[topic]
        if topic_length > 127:
            topic_length -= 256
        topic += 1
    else:
        (topic_length,) = _SHORT.unpack_from(buf, topic)
        topic += 2
    if topic_length < 0 or topic_length > stop - topic - 2:
        raise BadRecord(f"a topic of {topic_length} bytes in a record of {size}", position)
    properties = topic + topic_length
    (properties_length,) = _SHORT.unpack_from(buf, properties)
    properties += 2
    if properties_length != stop - properties:
        raise BadRecord(f"the parts of the record do not add up to its {size} bytes", position)
    _plain_topic(buf, topic, topic_length, position)
    if b"\x00" in bytes(buf[properties:stop]):
        raise BadRecord("a zero byte in the properties", position)
    return stored, body_length, body, topic_length, topic, properties_length, properties


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
    stored: cython.Py_ssize_t
    body_length: cython.Py_ssize_t
    body_at: cython.Py_ssize_t
    topic_length: cython.Py_ssize_t
    topic_at: cython.Py_ssize_t
    properties_length: cython.Py_ssize_t
    properties_at: cython.Py_ssize_t
    if cython.compiled:
        view: Py_buffer
        data: Span
        at: Span
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            data = span_over(view.buf, view.len)
            (
                stored,
                body_length,
                body_at,
                topic_length,
                topic_at,
                properties_length,
                properties_at,
            ) = _parts(data, position, data.size)
            at = rest_of(data, position)
            body: bytes = bytes_of(part_of(data, body_at, body_length))
            if check_crc and i32_of(at, 8) != crc32(body):
                raise BadRecord("the body does not have its checksum", position)
            if check_property_crc and not _property_crc_holds(buf, position, i32_of(at, 0)):
                raise BadRecord("the record does not have its checksum", position)
            return StoredMessage(
                _topic_text(part_of(data, topic_at, topic_length), position),
                body,
                bytes_of(part_of(data, properties_at, properties_length)),
                i32_of(at, 12),
                i64_of(at, 20),
                i64_of(at, 28),
                i32_of(at, 16),
                i32_of(at, 36),
                i64_of(at, 40),
                bytes_of(part_of(at, 48, stored - position - 48)),
                i64_of(data, stored),
                bytes_of(part_of(data, stored + 8, body_at - stored - 24)),
                i32_of(data, body_at - 16),
                i64_of(data, body_at - 12),
                i32_of(at, 8),
                i32_of(at, 0),
            )
        finally:
            PyBuffer_Release(cython.address(view))
    if not isinstance(buf, bytes | mmap.mmap):
        buf = memoryview(buf).cast("B")
    stored, body_length, body_at, topic_length, topic_at, _, properties_at = _plain_parts(
        buf, position, len(buf)
    )
    size, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born = _HEAD.unpack_from(
        buf, position
    )
    reconsume_times, prepared_transaction_offset, _ = _RECONSUME.unpack_from(buf, body_at - 16)
    body = bytes(buf[body_at : body_at + body_length])
    if check_crc and crc != crc32(body):
        raise BadRecord("the body does not have its checksum", position)
    if check_property_crc and not _property_crc_holds(buf, position, size):
        raise BadRecord("the record does not have its checksum", position)
    topic = _plain_topic(buf, topic_at, topic_length, position)
    return StoredMessage(
        topic,
        body,
        bytes(buf[properties_at : position + size]),
        queue_id,
        queue_offset,
        physical_offset,
        flag,
        sys_flag,
        born,
        bytes(buf[position + 48 : stored]),
        _LONG.unpack_from(buf, stored)[0],
        bytes(buf[stored + 8 : body_at - 16]),
        reconsume_times,
        prepared_transaction_offset,
        crc,
        size,
    )


@cython.cfunc
def _topic_text(text: Span, position: cython.Py_ssize_t) -> str:
    """Compiled only."""
    try:
        return text_of(text)
    except UnicodeDecodeError:
        raise BadRecord("the topic is not UTF-8", position) from None


def _plain_topic(buf: Any, at: int, length: int, position: int) -> str:
    """`_topic_text` for the interpreter."""
    try:
        return bytes(buf[at : at + length]).decode()
    except UnicodeDecodeError:
        raise BadRecord("the topic is not UTF-8", position) from None


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
            position = _after_bad(buf, position)
    return records, bad


def _after_bad(buf: Any, position: int) -> int:
    """The place behind a bad record, which is the end where its size cannot be believed."""
    end = len(buf)
    size = _INT.unpack_from(buf, position)[0] if end - position >= BLANK_BYTES else 0
    return end if size < FIXED_BYTES or size > end - position else position + size


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
            record = _split_record(buf, position)
            records.append(record)
            position += len(record[3]) + len(record[4]) + len(record[5])
        except BadRecord as error:
            bad.append(error)
            position = _after_bad(buf, position)
    return records, bad


@cython.cfunc
def _split_record(buf: Any, position: cython.Py_ssize_t) -> tuple:  # type: ignore[type-arg]
    body_length: cython.Py_ssize_t
    body_at: cython.Py_ssize_t
    topic_length: cython.Py_ssize_t
    topic_at: cython.Py_ssize_t
    properties_length: cython.Py_ssize_t
    properties_at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    if cython.compiled:
        view: Py_buffer
        data: Span
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            data = span_over(view.buf, view.len)
            (
                _,
                body_length,
                body_at,
                topic_length,
                topic_at,
                properties_length,
                properties_at,
            ) = _parts(data, position, data.size)
            body: bytes = bytes_of(part_of(data, body_at, body_length))
            if i32_of(data, position + 8) != crc32(body):
                raise BadRecord("the body does not have its checksum", position)
            size = i32_of(data, position) - body_length - properties_length
            rest: bytes = new_bytes(size)
            out: Writer = writer_of_new(rest)
            put_u32(cython.address(out), cython.cast(cython.uint, size))
            put_span(cython.address(out), part_of(data, position + 4, body_at - position - 8))
            put_u32(cython.address(out), 0)
            body_at += body_length
            put_span(cython.address(out), part_of(data, body_at, topic_at + topic_length - body_at))
            put_u16(cython.address(out), 0)
            if out.overflow or left_of(cython.address(out)):
                raise SystemError("a record was measured with another size than it has")
            return (
                i64_of(data, position + 20),
                i32_of(data, position + 36),
                i32_of(data, body_at - body_length - 16),
                body,
                bytes_of(part_of(data, properties_at, properties_length)),
                rest,
            )
        finally:
            PyBuffer_Release(cython.address(view))
    if not isinstance(buf, bytes | mmap.mmap):
        buf = memoryview(buf).cast("B")
    _, body_length, body_at, topic_length, topic_at, properties_length, properties_at = _plain_parts(
        buf, position, len(buf)
    )
    size, _, crc, _, _, queue_offset, _, sys_flag, _ = _HEAD.unpack_from(buf, position)
    body = bytes(buf[body_at : body_at + body_length])
    if crc != crc32(body):
        raise BadRecord("the body does not have its checksum", position)
    rest = b"".join(
        (
            _INT.pack(size - body_length - properties_length),
            buf[position + 4 : body_at - 4],
            bytes(4),
            buf[body_at + body_length : topic_at + topic_length],
            bytes(2),
        )
    )
    (reconsume_times,) = _INT.unpack_from(buf, body_at - 16)
    properties = bytes(buf[properties_at : properties_at + properties_length])
    return queue_offset, sys_flag, reconsume_times, body, properties, rest


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
    if cython.compiled:
        view: Py_buffer
        data: Span
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            data = span_over(view.buf, view.len)
            if position >= 0 and i32_of(data, position + 4) == -875286124:
                return i32_of(data, position), -875286124, 0, 0, 0, 0, 0
            stored: cython.Py_ssize_t = _parts(data, position, data.size)[0]
            return (
                i32_of(data, position),
                i32_of(data, position + 4),
                i32_of(data, position + 12),
                i64_of(data, position + 20),
                i64_of(data, position + 28),
                i32_of(data, position + 36),
                i64_of(data, stored),
            )
        finally:
            PyBuffer_Release(cython.address(view))
    if 0 <= position <= len(buf) - BLANK_BYTES:
        size, magic = _BLANK.unpack_from(buf, position)
        if magic == MAGIC_BLANK:
            return size, magic, 0, 0, 0, 0, 0
    stored = _plain_parts(buf, position, len(buf))[0]
    size, magic, _, queue_id, _, queue_offset, physical_offset, sys_flag, _ = _HEAD.unpack_from(buf, position)
    return size, magic, queue_id, queue_offset, physical_offset, sys_flag, _LONG.unpack_from(buf, stored)[0]


# ---- many records ----


class Stop(IntEnum):
    """Why a scan ended where it did."""

    END = 0
    """At the end of the range, or of what was asked for."""
    BLANK = 1
    """At a blank record: the log goes on in the next segment."""
    EMPTY = 2
    """At zero bytes: nothing was ever written there."""
    BAD = 3
    """At something that is no sound record."""


ScannedRecord: TypeAlias = tuple[int, int, int, int, int, int, str, int, bytes]
"""(physical offset, size, queue id, queue offset, store time, sysFlag, topic, tags code, properties)"""


class Scan(NamedTuple):
    """The result of a scan of records."""

    records: list[ScannedRecord]
    position: int
    """Behind the last record taken; for Stop.BLANK, EMPTY and BAD that is where the reason stands."""
    stop: Stop
    reason: str
    """In words, for Stop.BAD; else empty."""


PARTS_PER_RECORD = 8
"""Numbers per record in the table of `locate_records`."""


class Located(NamedTuple):
    """Positions of the parts of many records."""

    table: bytearray
    """Eight native 64-bit numbers per record, positions being bytes of the buffer: record, size, store time,
    body, body length, topic, topic length, properties (which go on to the end of the record)."""
    position: int
    stop: Stop
    reason: str
    """These three as in `Scan`."""


def locate_records(
    buf: Any,
    start: cython.Py_ssize_t = 0,
    end: cython.Py_ssize_t = 1 << 62,
    check_crc: cython.bint = True,
    max_records: cython.Py_ssize_t = 8192,
) -> Located:
    """Checks the records in `buf[start:end]` and says where their parts are, without an object per record.

    For those who go on with compiled code. Records may be of anywhere: what they say of their physical offset
    is not looked at.
    """
    stored: cython.Py_ssize_t
    body_length: cython.Py_ssize_t
    body_at: cython.Py_ssize_t
    topic_length: cython.Py_ssize_t
    topic_at: cython.Py_ssize_t
    properties_at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    stop = Stop.BAD
    reason = ""
    if start < 0 or max_records < 0:
        raise ValueError(f"a scan of {max_records} records from byte {start}")
    if cython.compiled:
        view: Py_buffer
        data: Span
        at: Span
        parts: Parts
        rows: Writer
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            data = span_over(view.buf, view.len)
            end = min(end, data.size)
            max_records = min(max_records, max(0, end - start) // 91 + 1)
            table: bytearray = bytearray(max_records * 64)
            rows = writer_of(table)
            while True:
                if start >= end or count >= max_records:
                    stop = Stop.END
                    break
                at = part_of(data, start, end - start)
                if _ends_log(at):
                    stop = Stop.BLANK if i32_of(at, 4) else Stop.EMPTY
                    break
                (
                    stored,
                    body_length,
                    body_at,
                    topic_length,
                    topic_at,
                    _,
                    properties_at,
                ) = _parts(data, start, end)
                if check_crc and i32_of(at, 8) != crc32(view_of(part_of(data, body_at, body_length))):
                    raise BadRecord("the body does not have its checksum", start)
                size = i32_of(at, 0)
                parts.record = start
                parts.size = size
                parts.store_time = stored
                parts.body = body_at
                parts.body_length = body_length
                parts.topic = topic_at
                parts.topic_length = topic_length
                parts.properties = properties_at
                put_parts(cython.address(rows), cython.address(parts))
                count += 1
                start += size
        except BadRecord as error:
            reason = error.reason
        finally:
            PyBuffer_Release(cython.address(view))
        del table[count * 64 :]
        return Located(table, start, stop, reason)
    walk = _PlainWalk(buf, start, end, check_crc, max_records)
    numbers = array("q")
    for row in walk:
        numbers.extend(row)
    return Located(bytearray(numbers.tobytes()), walk.position, walk.stop, walk.reason)


@cython.cfunc
@cython.exceptval(check=False)
def _ends_log(at: Span) -> cython.bint:
    """True at a blank record, or if only zeros follow. Compiled only."""
    return at.size >= 8 and (i32_of(at, 4) == -875286124 or (i32_of(at, 4) == 0 and i32_of(at, 0) == 0))


def scan_records(
    buf: Any,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base_physical_offset: cython.longlong,
    check_crc: cython.bint = True,
    check_property_crc: cython.bint = False,
    max_records: cython.Py_ssize_t = 1 << 62,
) -> Scan:
    """Walks over the records in `buf[start:end]`.

    `base_physical_offset` is the physical offset of byte 0 of `buf` (not of `start`). A record has to say of
    itself that it stands where it does; the other checks are those of `decode_record`.
    """
    records: list[ScannedRecord] = []
    stored: cython.Py_ssize_t
    body_length: cython.Py_ssize_t
    body_at: cython.Py_ssize_t
    topic_length: cython.Py_ssize_t
    topic_at: cython.Py_ssize_t
    properties_length: cython.Py_ssize_t
    properties_at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    stop = Stop.BAD
    reason = ""
    if cython.compiled:
        view: Py_buffer
        data: Span
        at: Span
        topic: str = ""
        this_topic: Span
        last_topic: Span = no_span()
        properties: bytes
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            data = span_over(view.buf, view.len)
            end = min(end, data.size)
            if start < 0:
                raise ValueError(f"a scan from byte {start}")
            while True:
                if start >= end or len(records) >= max_records:
                    stop = Stop.END
                    break
                at = part_of(data, start, end - start)
                if _ends_log(at):
                    stop = Stop.BLANK if i32_of(at, 4) else Stop.EMPTY
                    break
                (
                    stored,
                    body_length,
                    body_at,
                    topic_length,
                    topic_at,
                    properties_length,
                    properties_at,
                ) = _parts(data, start, end)
                size = i32_of(at, 0)
                if check_crc and i32_of(at, 8) != crc32(view_of(part_of(data, body_at, body_length))):
                    raise BadRecord("the body does not have its checksum", start)
                if check_property_crc and not _property_crc_holds(buf, start, size):
                    raise BadRecord("the record does not have its checksum", start)
                if i64_of(at, 28) != base_physical_offset + start:
                    raise BadRecord(
                        f"a record for physical offset {i64_of(at, 28)} is at {base_physical_offset + start}",
                        start,
                    )
                # Neighbours mostly have the same topic.
                this_topic = part_of(data, topic_at, topic_length)
                if not is_there(last_topic) or not is_same(this_topic, last_topic):
                    last_topic = this_topic
                    topic = _topic_text(this_topic, start)
                properties = bytes_of(part_of(data, properties_at, properties_length))
                records.append(
                    (
                        base_physical_offset + start,
                        size,
                        i32_of(at, 12),
                        i64_of(at, 20),
                        i64_of(data, stored),
                        i32_of(at, 36),
                        topic,
                        tags_code(properties),
                        properties,
                    )
                )
                start += size
        except BadRecord as error:
            reason = error.reason
        finally:
            PyBuffer_Release(cython.address(view))
        return Scan(records, start, stop, reason)
    walk = _PlainWalk(buf, start, end, check_crc, max_records, check_property_crc)
    for position, size, stored, _, _, topic_at, topic_length, properties_at in walk:
        _, _, _, queue_id, _, queue_offset, physical_offset, sys_flag, _ = _HEAD.unpack_from(
            walk.buf, position
        )
        if physical_offset != base_physical_offset + position:
            walk.step_back(
                position,
                f"a record for physical offset {physical_offset} is at {base_physical_offset + position}",
            )
            break
        properties = bytes(walk.buf[properties_at : position + size])
        records.append(
            (
                physical_offset,
                size,
                queue_id,
                queue_offset,
                _LONG.unpack_from(walk.buf, stored)[0],
                sys_flag,
                _plain_topic(walk.buf, topic_at, topic_length, position),
                tags_code(properties),
                properties,
            )
        )
    return Scan(records, walk.position, walk.stop, walk.reason)


class _PlainWalk:
    """The walk over records for the interpreter: a row of `Located` for each, and where and why it ended."""

    def __init__(
        self,
        buf: Any,
        start: int,
        end: int,
        check_crc: bool,
        max_records: int,
        check_property_crc: bool = False,
    ) -> None:
        if start < 0:
            raise ValueError(f"a scan from byte {start}")
        self.buf = buf if isinstance(buf, bytes | mmap.mmap) else memoryview(buf).cast("B")
        self.position = start
        self.stop = Stop.END
        self.reason = ""
        self._end = min(end, len(buf))
        self._left = max_records
        self._check_crc = check_crc
        self._check_property_crc = check_property_crc

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        while self.position < self._end and self._left > 0:
            at = self.position
            if self._end - at >= BLANK_BYTES:
                size, magic = _BLANK.unpack_from(self.buf, at)
                if magic == MAGIC_BLANK or size == magic == 0:
                    self.stop = Stop.BLANK if magic else Stop.EMPTY
                    return
            try:
                row = self._checked(at)
            except BadRecord as error:
                self.step_back(at, error.reason)
                return
            self.position += row[1]
            self._left -= 1
            yield row

    def _checked(self, at: int) -> tuple[int, ...]:
        stored, body_length, body_at, topic_length, topic_at, _, properties_at = _plain_parts(
            self.buf, at, self._end
        )
        size, _, crc = _HEAD.unpack_from(self.buf, at)[:3]
        if self._check_crc and crc != crc32(self.buf[body_at : body_at + body_length]):
            raise BadRecord("the body does not have its checksum", at)
        if self._check_property_crc and not _property_crc_holds(self.buf, at, size):
            raise BadRecord("the record does not have its checksum", at)
        return at, size, stored, body_at, body_length, topic_at, topic_length, properties_at

    def step_back(self, position: int, reason: str) -> None:
        """Ends the walk at a bad record."""
        self.position, self.stop, self.reason = position, Stop.BAD, reason

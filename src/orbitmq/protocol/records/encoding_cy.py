"""Records of the commit log, written: one, or those of a batch. `message_cy` shows their layout.

Hot: every message is written here, but for those of fast paths. Compiled, records are written in the caller's
buffer (`buffers/bounded.pxd`); interpreted, by `plain`. Both ways are tested alike.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.batch_cy import measure_batch, split_batch
from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32, room_for_crc, write_property_crc
from orbitmq.protocol.records.message import (
    FIXED_BYTES,
    MAX_PROPERTIES_BYTES,
    PROPERTY_CRC_BYTES,
    RecordTooLarge,
)
from orbitmq.protocol.records.plain import V1_TOPIC_BYTES, encode
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.protocol.records.queue_units import UNIT

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.batch import (  # type: ignore[import-not-found]
        BatchEntry,
        next_of_batch,
    )
    from cython.cimports.orbitmq.protocol.records.record import put_record  # type: ignore[import-not-found]

_CRC: bytes = CRC_TABLES


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
    if topic_length > V1_TOPIC_BYTES:
        size += 1
    if append_property_crc:
        size += PROPERTY_CRC_BYTES + 1
    return size


def encode_record(
    out: Any, position: cython.Py_ssize_t, queue_id: cython.int, flag: cython.int,
    queue_offset: cython.longlong, physical_offset: cython.longlong, sys_flag: cython.int,
    born_timestamp: cython.longlong, born_host: bytes, store_timestamp: cython.longlong, store_host: bytes,
    reconsume_times: cython.int, prepared_transaction_offset: cython.longlong, body: Any, topic: bytes,
    properties: bytes, body_crc: Any = None, append_property_crc: cython.bint = False,
) -> int:  # fmt: skip
    """Writes a record into `out` from byte `position` on; gives its size in bytes.

    `out` is any writable buffer, `body` any readable one. Hosts are packed; their lengths set the IPv6 bits
    of sysFlag. A topic of more than 127 bytes makes it a v2 record. `body_crc` is what `crc32(body)` gives,
    for callers that know it. `append_property_crc` ends the record with a checksum over all of it
    (enabledAppendPropCRC).

    Raises RecordTooLarge if topic or properties are too long or the record does not fit into `out`,
    ValueError for a host of neither 8 nor 20 bytes, OverflowError for a number too large for its field.
    Nothing is written then.
    """
    crc: cython.uint = crc32(body) if body_crc is None else body_crc
    sys_flag = _with_host_bits(sys_flag, len(born_host), len(store_host))
    if append_property_crc:
        properties = room_for_crc(properties)
    size: cython.Py_ssize_t = _size_without_body(
        len(born_host) + len(store_host), len(topic), len(properties)
    )
    if cython.compiled:
        size = _encode(
            out, position, size, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp,
            born_host, store_timestamp, store_host, reconsume_times, prepared_transaction_offset, body, topic,
            properties,
        )  # fmt: skip
    else:
        numbers = queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp
        size = encode(
            out, position, size, crc, numbers, born_host, store_timestamp, store_host,
            (reconsume_times, prepared_transaction_offset), body, topic, properties,
        )  # fmt: skip
    if append_property_crc:
        write_property_crc(out, position, size)
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=True)
def _with_host_bits(
    sys_flag: cython.int, born_length: cython.Py_ssize_t, store_length: cython.Py_ssize_t
) -> cython.int:
    """SysFlag with the bits that say which hosts are IPv6 addresses."""
    if born_length not in (8, 20):
        raise ValueError(f"a packed address has 8 or 20 bytes, not {born_length}")
    if store_length not in (8, 20):
        raise ValueError(f"a packed address has 8 or 20 bytes, not {store_length}")
    return (sys_flag & ~0x30) | (0x10 if born_length == 20 else 0) | (0x20 if store_length == 20 else 0)


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _size_without_body(
    hosts_length: cython.Py_ssize_t,
    topic_length: cython.Py_ssize_t,
    properties_length: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """The size of a record but for its body. Raises RecordTooLarge."""
    if properties_length > 32767:
        raise RecordTooLarge(f"{properties_length} bytes of properties: {MAX_PROPERTIES_BYTES} can be stored")
    if topic_length > 32767:
        raise RecordTooLarge(f"a topic of {topic_length} bytes")
    return 75 + hosts_length + topic_length + properties_length + (1 if topic_length > 127 else 0)


@cython.cfunc
@cython.exceptval(-1)
def _encode(
    out: Any, position: cython.Py_ssize_t, size: cython.Py_ssize_t, crc: cython.uint, queue_id: cython.int,
    flag: cython.int, queue_offset: cython.longlong, physical_offset: cython.longlong, sys_flag: cython.int,
    born_timestamp: cython.longlong, born_host: bytes, store_timestamp: cython.longlong, store_host: bytes,
    reconsume_times: cython.int, prepared_transaction_offset: cython.longlong, body: Any, topic: bytes,
    properties: bytes,
) -> cython.Py_ssize_t:  # fmt: skip
    """Writes a record of `size` bytes and the body's into a buffer; gives its size. Compiled only."""
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
                cython.address(room), size, crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
                born_timestamp, born_host, store_timestamp, store_host, reconsume_times,
                prepared_transaction_offset, content, topic, span_of(properties),
            )  # fmt: skip
            assert not room.overflow
        finally:
            PyBuffer_Release(cython.address(target))
    finally:
        if not plain:
            PyBuffer_Release(cython.address(source))
    return size


def encode_batch_records(
    out: Any, position: cython.Py_ssize_t, queue_id: cython.int, queue_offset: cython.longlong,
    physical_offset: cython.longlong, sys_flag: cython.int, born_timestamp: cython.longlong, born_host: bytes,
    store_timestamp: cython.longlong, store_host: bytes, reconsume_times: cython.int, batch: bytes,
    topic: bytes, append_property_crc: cython.bint = False,
) -> bytes:  # fmt: skip
    """Writes a record for each message of a batch (see `batch_cy`), one behind the other; gives their units.

    A unit is physical offset, size and tags code of a record, as consume queues hold them. Queue offset and
    physical offset are those of the first record. Raises as `encode_record` does, and BadRecord for a batch
    that cannot be read.
    """
    if cython.compiled and not append_property_crc and len(topic) <= 127:
        return _encode_batch(
            out, position, queue_id, queue_offset, physical_offset, sys_flag, born_timestamp, born_host,
            store_timestamp, store_host, reconsume_times, batch, topic,
        )  # fmt: skip
    at: cython.Py_ssize_t = position
    units = bytearray()
    for flag, body, properties in split_batch(batch):
        place = physical_offset + (at - position)
        size = encode_record(
            out, at, queue_id, flag, queue_offset, place, sys_flag, born_timestamp, born_host,
            store_timestamp, store_host, reconsume_times, 0, body, topic, properties, None,
            append_property_crc,
        )  # fmt: skip
        units += UNIT.pack(place, size, tags_code(properties))
        queue_offset += 1
        at += size
    return bytes(units)


@cython.cfunc
def _encode_batch(
    out: Any, position: cython.Py_ssize_t, queue_id: cython.int, queue_offset: cython.longlong,
    physical_offset: cython.longlong, sys_flag: cython.int, born_timestamp: cython.longlong, born_host: bytes,
    store_timestamp: cython.longlong, store_host: bytes, reconsume_times: cython.int, batch: bytes,
    topic: bytes,
) -> bytes:  # fmt: skip
    """Writes the records of a batch, version 1 and without checksums over all of them. Compiled only."""
    size: cython.Py_ssize_t
    entry: BatchEntry
    target: Py_buffer
    count, content, _, _ = measure_batch(batch)
    fixed: cython.Py_ssize_t = 75 + len(born_host) + len(store_host) + len(topic)
    sys_flag = _with_host_bits(sys_flag, len(born_host), len(store_host))
    made: bytes = new_bytes(count * 20)
    unit: Writer = writer_of_new(made)
    source: Reader = reader_over(span_of(batch))
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
                cython.address(room), size, body_crc(entry.body, _CRC, crc32), queue_id, entry.flag,
                queue_offset, physical_offset, sys_flag, born_timestamp, born_host, store_timestamp,
                store_host, reconsume_times, 0, entry.body, topic, entry.properties,
            )  # fmt: skip
            put_u64(cython.address(unit), cython.cast(cython.ulonglong, physical_offset))
            put_u32(cython.address(unit), cython.cast(cython.uint, size))
            put_u64(cython.address(unit), cython.cast(cython.ulonglong, _tags_code_of(entry.properties)))
            physical_offset += size
            queue_offset += 1
        if room.overflow or unit.overflow:
            raise SystemError("a batch was measured smaller than it is")
    finally:
        PyBuffer_Release(cython.address(target))
    return made


@cython.cfunc
@cython.inline
@cython.exceptval(check=True)
def _tags_code_of(properties: Span) -> cython.longlong:
    """The tags code of a property string; 0 without a tag. Compiled only."""
    return tags_code(bytes_of(properties)) if _may_have_tags(properties) else 0


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

"""Walks over many records of the commit log, which check each of them.

Hot: recovery, followers, indexes and readers of whole topics read records here.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.checksums_cy import crc32, property_crc_holds
from orbitmq.protocol.records.plain import bad_record, locate, scan
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.protocol.records.scans import Located, Scan, ScannedRecord, Stop

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.located import Parts, put_parts  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.parts import *  # type: ignore[import-not-found]


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
    if start < 0 or max_records < 0:
        raise ValueError(f"a scan of {max_records} records from byte {start}")
    if cython.compiled:
        return _locate(buf, start, end, check_crc, max_records)
    return locate(buf, start, end, check_crc, max_records)


@cython.cfunc
def _locate(
    buf: Any,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    check_crc: cython.bint,
    max_records: cython.Py_ssize_t,
) -> object:
    """Compiled only."""
    view: Py_buffer
    data: Span
    parts: Parts
    rows: Writer
    count: cython.Py_ssize_t = 0
    end_of_walk: tuple[Stop, str] | None = None
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        data = span_over(view.buf, view.len)
        end = min(end, data.size)
        max_records = min(max_records, max(0, end - start) // 91 + 1)
        table: bytearray = bytearray(max_records * 64)
        rows = writer_of(table)
        while count < max_records:
            end_of_walk = _find_next(buf, data, start, end, check_crc, False, cython.address(parts))
            if end_of_walk is not None:
                break
            put_parts(cython.address(rows), cython.address(parts))
            count += 1
            start += parts.size
    finally:
        PyBuffer_Release(cython.address(view))
    del table[count * 64 :]
    stop, reason = end_of_walk or (Stop.END, "")
    return Located(table, start, stop, reason)


@cython.cfunc
@cython.inline
def _find_next(
    buf: Any,
    data: Span,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    check_crc: cython.bint,
    check_property_crc: cython.bint,
    parts: cython.pointer[Parts],
) -> tuple[Stop, str] | None:
    """Finds the parts of the record at `start`; if a walk ends there instead, says why. Compiled only."""
    if start >= end:
        return Stop.END, ""
    at: Span = part_of(data, start, end - start)
    if _ends_log(at):
        return Stop.BLANK if i32_of(at, 4) else Stop.EMPTY, ""
    if not find_parts(data, start, end, parts):
        return Stop.BAD, bad_record(buf, start, end).reason
    reason: str = _wrong_checksum(buf, data, parts, check_crc, check_property_crc)
    return (Stop.BAD, reason) if reason else None


@cython.cfunc
@cython.inline
def _wrong_checksum(
    buf: Any,
    data: Span,
    parts: cython.pointer[Parts],
    check_crc: cython.bint,
    check_property_crc: cython.bint,
) -> str:
    """The words for a checksum that a record does not have; empty if it has them. Compiled only."""
    if check_crc and i32_of(data, parts.record + 8) != crc32(view_of(body_of(data, parts))):
        return "the body does not have its checksum"
    if check_property_crc and not property_crc_holds(buf, parts.record, parts.size):
        return "the record does not have its checksum"
    return ""


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
    if start < 0:
        raise ValueError(f"a scan from byte {start}")
    if cython.compiled:
        return _scan(buf, start, end, base_physical_offset, check_crc, check_property_crc, max_records)
    return scan(buf, start, end, base_physical_offset, check_crc, check_property_crc, max_records)


@cython.cfunc
def _scan(
    buf: Any,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base: cython.longlong,
    check_crc: cython.bint,
    check_property_crc: cython.bint,
    max_records: cython.Py_ssize_t,
) -> object:
    """Compiled only."""
    view: Py_buffer
    data: Span
    parts: Parts
    claimed: cython.longlong
    topic: str = ""
    last_topic: Span = no_span()
    records: list[ScannedRecord] = []
    end_of_walk: tuple[Stop, str] | None = None
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        data = span_over(view.buf, view.len)
        end = min(end, data.size)
        while len(records) < max_records:
            end_of_walk = _find_next(
                buf, data, start, end, check_crc, check_property_crc, cython.address(parts)
            )
            if end_of_walk is not None:
                break
            claimed = physical_offset_of(data, cython.address(parts))
            if claimed != base + start:
                end_of_walk = Stop.BAD, f"a record for physical offset {claimed} is at {base + start}"
                break
            # Neighbours mostly have the same topic.
            if not is_there(last_topic) or not is_same(topic_of(data, cython.address(parts)), last_topic):
                last_topic = topic_of(data, cython.address(parts))
                topic = text_of(last_topic)
            records.append(_scanned(data, cython.address(parts), base, topic))
            start += parts.size
    finally:
        PyBuffer_Release(cython.address(view))
    stop, reason = end_of_walk or (Stop.END, "")
    return Scan(records, start, stop, reason)


@cython.cfunc
@cython.inline
def _scanned(data: Span, parts: cython.pointer[Parts], base: cython.longlong, topic: str) -> tuple:  # type: ignore[type-arg]
    """Compiled only."""
    properties: bytes = bytes_of(properties_of_record(data, parts))
    return (
        base + parts.record,
        parts.size,
        queue_id_of(data, parts),
        queue_offset_of(data, parts),
        store_timestamp_of(data, parts),
        sys_flag_of(data, parts),
        topic,
        tags_code(properties),
        properties,
    )

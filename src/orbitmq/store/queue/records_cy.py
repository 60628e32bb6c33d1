"""Records as reads find them: their properties, their queue offsets, and whether they are sound.

Hot: the queue offset of every popped message is read here. Compiled reads ask `sound.pxd` for `is_sound`.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.scanning_cy import scan_records

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]

_LONG_TOPIC_MAGIC = (-626843477).to_bytes(4, "big", signed=True)
"""Magic number of records whose topics are longer than 127 bytes."""


def properties_of(view: Any, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> bytes:
    """The property string of a sound record of `size` bytes at a position."""
    head: bytes = bytes(view[position + 4 : position + 40])
    at: cython.Py_ssize_t = position + 88
    if head[35] & 0x10:
        at += 12
    if head[35] & 0x20:
        at += 12
    at += int.from_bytes(view[at - 4 : at], "big")
    if head[:4] == _LONG_TOPIC_MAGIC:
        at += 2 + int.from_bytes(view[at : at + 2], "big")
    else:
        at += 1 + view[at]
    return bytes(view[at + 2 : position + size])


def is_sound(
    view: Any,
    base: int,
    physical_offset: int,
    size: int,
    queue_id: int,
    queue_offset: int,
    topic: str,
    whole: bool,
) -> bool:
    """True if the record at a physical offset is whole, in its place, and the one its unit means.

    Without a topic the unit is one of a light message queue: its records have topics and places of their own.
    """
    position = physical_offset - base
    scan = scan_records(view, position, position + size, base, True, whole, 1)
    if len(scan.records) != 1:
        return False
    record = scan.records[0]
    is_there = record[2] == queue_id and record[3] == queue_offset and record[6] == topic
    return record[1] == size and (is_there or not topic)


def record_offsets(records: list[Any]) -> list[int]:
    """The queue offsets of records that were picked: each of `records` is one or several of them."""
    offsets: list[int] = []
    position: cython.Py_ssize_t
    length: cython.Py_ssize_t
    size: cython.int
    for record in records:
        length = len(record)
        position = 0
        if cython.compiled:
            if length < 28:
                continue
            view: cython.const[cython.uchar][::1] = record
            data: Span = span_over(cython.address(view[0]), len(view))
            while position + 28 <= length:
                offsets.append(cython.cast(cython.longlong, i64_of(data, position + 20)))
                size = i32_of(data, position)
                position += max(size, 28)
        else:
            while position + 28 <= length:
                offsets.append(int.from_bytes(record[position + 20 : position + 28], "big"))
                position += max(int.from_bytes(record[position : position + 4], "big", signed=True), 28)
    return offsets

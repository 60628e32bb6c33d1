"""The inner loop of the index: entries into a file's map, and chains of entries out of it.

Hot: several entries per stored message pass here, in bulk. Header 40 bytes | slots i32 | entries of 20 bytes:

    key hash i32 | physical offset i64 | seconds since the file's first message i32 | entry before it in its
    slot i32
"""
# mypy: disable-error-code="name-defined"
# ruff: noqa: F821
# (Py_buffer is a name that only the compiler knows.)

from __future__ import annotations

from struct import Struct
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.big_endian import get_int, put_int  # type: ignore[import-not-found]

HEADER_BYTES = 40
SLOT_BYTES = 4
ENTRY_BYTES = 20

_INT = Struct(">i")
_ENTRY = Struct(">iqii")
_MAX_SECONDS = 0x7FFFFFFF


def put_entries(
    view: Any,
    slot_count: cython.longlong,
    entry: cython.longlong,
    hashes: list[int],
    physical_offset: cython.longlong,
    seconds: cython.longlong,
) -> int:
    """Adds entries for one message, from entry number `entry` on; gives how many slots were empty before.

    The caller has made sure that the entries fit, and that their blocks are reserved.
    """
    used: cython.int = 0
    key_hash: cython.longlong
    before: cython.longlong
    slot: cython.longlong
    if seconds < 0:
        seconds = 0
    if seconds > 0x7FFFFFFF:
        seconds = 0x7FFFFFFF
    if cython.compiled:
        buffer: Py_buffer
        data: cython.p_uchar
        at: cython.p_uchar
        PyObject_GetBuffer(view, cython.address(buffer), PyBUF_WRITABLE)
        try:
            data = cython.cast(cython.p_uchar, buffer.buf)
            for item in hashes:
                key_hash = item
                slot = 40 + 4 * (key_hash % slot_count)
                before = get_int(data + slot)
                if before <= 0 or before >= entry:
                    before = 0
                    used += 1
                at = data + 40 + 4 * slot_count + 20 * entry
                if slot + 4 > buffer.len or 60 + 4 * slot_count + 20 * entry > buffer.len:
                    raise IndexError(f"entry {entry} is beyond the file")
                put_int(at, cython.cast(cython.uint, key_hash))
                put_int(at + 4, cython.cast(cython.uint, physical_offset >> 32))
                put_int(at + 8, cython.cast(cython.uint, physical_offset & 0xFFFFFFFF))
                put_int(at + 12, cython.cast(cython.uint, seconds))
                put_int(at + 16, cython.cast(cython.uint, before))
                put_int(data + slot, cython.cast(cython.uint, entry))
                entry += 1
        finally:
            PyBuffer_Release(cython.address(buffer))
        return used
    for key_hash in hashes:
        slot = HEADER_BYTES + SLOT_BYTES * (key_hash % slot_count)
        before = _INT.unpack_from(view, slot)[0]
        if before <= 0 or before >= entry:
            before = 0
            used += 1
        at_entry = HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry
        _ENTRY.pack_into(view, at_entry, key_hash, physical_offset, seconds, before)
        _INT.pack_into(view, slot, entry)
        entry += 1
    return used


def link_slots(view: Any, slot_count: cython.longlong, entry_count: cython.longlong) -> int:
    """Makes the slots anew from entries 1 to `entry_count` - 1; gives how many slots are in use.

    The slots have to be zero. For files whose slots and entries may be of different ages.
    """
    used: cython.longlong = 0
    entry: cython.longlong
    slot: cython.longlong
    before: cython.int
    if cython.compiled:
        buffer: Py_buffer
        data: cython.p_uchar
        at: cython.p_uchar
        PyObject_GetBuffer(view, cython.address(buffer), PyBUF_WRITABLE)
        try:
            if 40 + 4 * slot_count + 20 * entry_count > buffer.len:
                raise IndexError(f"entry {entry_count} is beyond the file")
            data = cython.cast(cython.p_uchar, buffer.buf)
            for entry in range(1, entry_count):
                at = data + 40 + 4 * slot_count + 20 * entry
                slot = 40 + 4 * (cython.cast(cython.longlong, get_int(at) & 0x7FFFFFFF) % slot_count)
                before = get_int(data + slot)
                if before == 0:
                    used += 1
                put_int(at + 16, before)
                put_int(data + slot, cython.cast(cython.uint, entry))
        finally:
            PyBuffer_Release(cython.address(buffer))
        return used
    for entry in range(1, entry_count):
        at_entry = HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry
        slot = HEADER_BYTES + SLOT_BYTES * ((_INT.unpack_from(view, at_entry)[0] & 0x7FFFFFFF) % slot_count)
        before = _INT.unpack_from(view, slot)[0]
        if not before:
            used += 1
        _INT.pack_into(view, at_entry + 16, before)
        _INT.pack_into(view, slot, entry)
    return used


def find_entries(
    view: Any, slot_count: int, entry_count: int, key_hash: int, earliest: int, latest: int, most: int
) -> list[int]:
    """Physical offsets of the entries of a hash, newest first; times are seconds since the first message."""
    found: list[int] = []
    entry = _INT.unpack_from(view, HEADER_BYTES + SLOT_BYTES * (key_hash % slot_count))[0]
    while 0 < entry < entry_count and len(found) < most:
        at = HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry
        entry_hash, physical_offset, seconds, before = _ENTRY.unpack_from(view, at)
        if entry_hash == key_hash and earliest <= seconds <= latest:
            found.append(physical_offset)
        if before >= entry:
            break
        entry = before
    return found

"""The inner loop of the index: entries into a file's map, and chains of entries out of it.

Hot: several entries per stored message pass here, in bulk. Header 40 bytes | slots i32 | entries of 20 bytes:

    key hash i32 | physical offset i64 | seconds since the file's first message i32 | entry before it in its
    slot i32
"""

from __future__ import annotations

from struct import Struct
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.text_hash import (  # type: ignore[import-not-found]
        absolute,
        hash_on,
    )
    from cython.cimports.orbitmq.protocol.records.located import Parts  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.parts import *  # type: ignore[import-not-found]

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
    seconds = max(0, min(seconds, _MAX_SECONDS))
    if cython.compiled:
        return _put_entries(view, slot_count, entry, hashes, physical_offset, seconds)
    used = 0
    for key_hash in hashes:
        slot = HEADER_BYTES + SLOT_BYTES * (key_hash % slot_count)
        at_entry = HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry
        if slot + SLOT_BYTES > len(view) or entry < 0 or at_entry + ENTRY_BYTES > len(view):
            raise IndexError(f"entry {entry} is beyond the file")
        before = _INT.unpack_from(view, slot)[0]
        if before <= 0 or before >= entry:
            before = 0
            used += 1
        _ENTRY.pack_into(view, at_entry, key_hash, physical_offset, seconds, before)
        _INT.pack_into(view, slot, entry)
        entry += 1
    return used


@cython.cfunc
@cython.exceptval(-1)
def _put_entries(
    view: Any,
    slot_count: cython.longlong,
    entry: cython.longlong,
    hashes: list[int],
    physical_offset: cython.longlong,
    seconds: cython.longlong,
) -> cython.int:
    """Compiled only."""
    used: cython.int = 0
    key_hash: cython.longlong
    slot: cython.longlong
    buffer: Py_buffer
    PyObject_GetBuffer(view, cython.address(buffer), PyBUF_WRITABLE)
    try:
        file: Writer = writer_over(buffer.buf, buffer.len)
        skip(cython.address(file), buffer.len)
        for item in hashes:
            key_hash = item
            slot = 40 + 4 * (key_hash % slot_count)
            if slot + 4 > buffer.len or entry < 0 or 60 + 4 * slot_count + 20 * entry > buffer.len:
                raise IndexError(f"entry {entry} is beyond the file")
            used += _put_entry(cython.address(file), slot_count, entry, key_hash, physical_offset, seconds)
            entry += 1
    finally:
        PyBuffer_Release(cython.address(buffer))
    return used


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.cdivision(True)
def _put_entry(
    file: cython.pointer[Writer],
    slot_count: cython.longlong,
    entry: cython.longlong,
    key_hash: cython.longlong,
    physical_offset: cython.longlong,
    seconds: cython.longlong,
) -> cython.bint:
    """Makes an entry the newest of its slot; gives whether the slot was empty. Compiled only."""
    slot: cython.longlong = 40 + 4 * (key_hash % slot_count)
    at: cython.longlong = 40 + 4 * slot_count + 20 * entry
    before: cython.longlong = i32_of(span_written(file), slot)
    is_first: cython.bint = before <= 0 or before >= entry
    set_u32(file, at, cython.cast(cython.uint, key_hash))
    set_u64(file, at + 4, physical_offset)
    set_u32(file, at + 12, cython.cast(cython.uint, seconds))
    set_u32(file, at + 16, 0 if is_first else cython.cast(cython.uint, before))
    set_u32(file, slot, cython.cast(cython.uint, entry))
    return is_first


def put_records(
    view: Any,
    slot_count: cython.longlong,
    entry: cython.longlong,
    limit: cython.longlong,
    begin_ms: cython.longlong,
    data: bytes,
    base_physical_offset: cython.longlong,
    max_records: cython.Py_ssize_t,
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    """Adds the entries of the records at the start of `data`, which begins at a physical offset of the log.

    Entries get numbers from `entry` on and stay below `limit`; `begin_ms` is when the file's first message
    was stored, -1 without one. Gives (where it ended in `data`, entries, slots that were empty, first and
    last message with entries as (physical offset, store time)). It ends at the first record that is anything
    but plain: damaged, not of ASCII, with very many keys. Interpreted it takes none.
    """
    if not cython.compiled:
        return 0, 0, 0, (0, 0), (0, 0)
    return _put_records(view, slot_count, entry, limit, begin_ms, data, base_physical_offset, max_records)


@cython.cfunc
@cython.cdivision(True)
def _put_records(
    view: Any, slot_count: cython.longlong, entry: cython.longlong, limit: cython.longlong,
    begin_ms: cython.longlong, data: bytes, base: cython.longlong, max_records: cython.Py_ssize_t,
) -> tuple:  # type: ignore[type-arg] # fmt: skip
    """Compiled only."""
    position: cython.Py_ssize_t = 0
    first_physical: cython.longlong = 0
    first_ms: cython.longlong = 0
    last_physical: cython.longlong = 0
    last_ms: cython.longlong = 0
    first_entry: cython.longlong = entry
    used: cython.longlong = 0
    count: cython.Py_ssize_t
    log: Span = span_of(data)
    parts: Parts
    memory = cython.declare(cython.uchar[256])
    hashes: Writer
    buffer: Py_buffer
    PyObject_GetBuffer(view, cython.address(buffer), PyBUF_WRITABLE)
    try:
        if slot_count < 1 or entry < 0 or 40 + 4 * slot_count + 20 * limit > buffer.len:
            raise IndexError(f"entry {limit} is beyond the file")
        file: Writer = writer_over(buffer.buf, buffer.len)
        skip(cython.address(file), buffer.len)
        while max_records > 0 and _find_plain(log, position, base, cython.address(parts)):
            max_records -= 1
            hashes = writer_over(memory, cython.sizeof(memory))
            # A record that takes a half message back has no entries.
            if i32_of(log, position + 36) & 0xC != 0xC:
                _put_hashes(log, cython.address(parts), cython.address(hashes))
            count = written(cython.address(hashes)) // 4
            if hashes.overflow or count > limit - entry:
                break
            if count:
                last_physical = base + position
                last_ms = i64_of(log, parts.store_time)
                if entry == first_entry:
                    first_physical, first_ms = last_physical, last_ms
                    begin_ms = last_ms if begin_ms < 0 else begin_ms
                used += _put_hashed(
                    cython.address(file), slot_count, entry, span_written(cython.address(hashes)),
                    last_physical, _seconds_since(begin_ms, last_ms),
                )  # fmt: skip
                entry += count
            position += parts.size
    finally:
        PyBuffer_Release(cython.address(buffer))
    return position, entry - first_entry, used, (first_physical, first_ms), (last_physical, last_ms)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _find_plain(
    log: Span, position: cython.Py_ssize_t, base: cython.longlong, parts: cython.pointer[Parts]
) -> cython.bint:
    """Finds the parts of a record whose topic and properties are ASCII without zeros. Compiled only."""
    if not find_usual(log, position, log.size, parts) or i64_of(log, position + 28) != base + position:
        return False
    properties: Span = properties_of_record(log, parts)
    return find_byte(topic_of(log, parts), 0) < 0 and is_ascii(properties) and find_byte(properties, 0) < 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.cdivision(True)
def _seconds_since(begin_ms: cython.longlong, stored_ms: cython.longlong) -> cython.longlong:
    """Seconds from the file's first message to another one, as an entry holds them. Compiled only."""
    if begin_ms <= 0 or stored_ms <= begin_ms:
        return 0
    return min((stored_ms - begin_ms) // 1000, 0x7FFFFFFF)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_hashed(
    file: cython.pointer[Writer], slot_count: cython.longlong, entry: cython.longlong, hashes: Span,
    physical_offset: cython.longlong, seconds: cython.longlong,
) -> cython.int:  # fmt: skip
    """Adds an entry for each hash; gives how many slots were empty. Compiled only."""
    used: cython.int = 0
    source: Reader = reader_over(hashes)
    while unread(cython.address(source)):
        used += _put_entry(
            file,
            slot_count,
            entry,
            cython.cast(cython.uint, get_native_i32(cython.address(source))),
            physical_offset,
            seconds,
        )
        entry += 1
    return used


@cython.cfunc
@cython.exceptval(check=False)
def _put_hashes(log: Span, parts: cython.pointer[Parts], out: cython.pointer[Writer]) -> cython.void:
    """Writes what `properties_cy.index_hashes` gives, as native numbers. Compiled only."""
    properties: Span = properties_of_record(log, parts)
    unique: Span = no_span()
    keys: Span = no_span()
    tags: Span = no_span()
    entry: Span
    word: Span
    at: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    base: cython.uint
    while at < properties.size:
        stop = find_end(properties, 2, at)
        entry = part_of(properties, at, stop - at)
        if entry.size > 9 and starts_with(entry, b"UNIQ_KEY\x01"):
            unique = rest_of(entry, 9)
        elif entry.size > 5 and starts_with(entry, b"KEYS\x01"):
            keys = rest_of(entry, 5)
        elif entry.size > 5 and starts_with(entry, b"TAGS\x01"):
            tags = rest_of(entry, 5)
        at = stop + 1
    base = hash_on(0, topic_of(log, parts)) * 31 + 35
    if is_there(unique):
        put_native_i32(out, cython.cast(cython.int, absolute(hash_on(base, unique))))
    at = 0
    while at < keys.size:
        stop = find_end(keys, 32, at)
        if stop > at:
            word = part_of(keys, at, stop - at)
            put_native_i32(out, cython.cast(cython.int, absolute(hash_on(base, word))))
        at = stop + 1
    if is_there(tags):
        put_native_i32(out, cython.cast(cython.int, absolute(hash_on((base * 31 + 84) * 31 + 35, tags))))


def link_slots(view: Any, slot_count: cython.longlong, entry_count: cython.longlong) -> int:
    """Makes the slots anew from entries 1 to `entry_count` - 1; gives how many slots are in use.

    The slots have to be zero. For files whose slots and entries may be of different ages.
    """
    used: cython.longlong = 0
    entry: cython.longlong
    at: cython.longlong
    slot: cython.longlong
    before: cython.int
    if cython.compiled:
        buffer: Py_buffer
        PyObject_GetBuffer(view, cython.address(buffer), PyBUF_WRITABLE)
        try:
            if 40 + 4 * slot_count + 20 * entry_count > buffer.len:
                raise IndexError(f"entry {entry_count} is beyond the file")
            file: Writer = writer_over(buffer.buf, buffer.len)
            skip(cython.address(file), buffer.len)
            data: Span = span_written(cython.address(file))
            for entry in range(1, entry_count):
                at = 40 + 4 * slot_count + 20 * entry
                slot = 40 + 4 * (cython.cast(cython.longlong, i32_of(data, at) & 0x7FFFFFFF) % slot_count)
                before = i32_of(data, slot)
                if before == 0:
                    used += 1
                set_u32(cython.address(file), at + 16, before)
                set_u32(cython.address(file), slot, cython.cast(cython.uint, entry))
        finally:
            PyBuffer_Release(cython.address(buffer))
        return used
    if HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry_count > len(view):
        raise IndexError(f"entry {entry_count} is beyond the file")
    for entry in range(1, entry_count):
        at_entry = HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry
        slot = HEADER_BYTES + SLOT_BYTES * ((_INT.unpack_from(view, at_entry)[0] & 0x7FFFFFFF) % slot_count)
        before = _INT.unpack_from(view, slot)[0]
        if not before:
            used += 1
        _INT.pack_into(view, at_entry + 16, before)
        _INT.pack_into(view, slot, entry)
    return used


def first_entry(view: Any, slot_count: cython.longlong, key_hash: cython.longlong) -> int:
    """The newest entry of a hash's slot; 0 where there is none."""
    at: cython.longlong = 40 + 4 * (key_hash % slot_count)
    entry: cython.int
    if cython.compiled:
        buffer: Py_buffer
        PyObject_GetBuffer(view, cython.address(buffer), PyBUF_SIMPLE)
        try:
            if key_hash < 0 or at + 4 > buffer.len:
                raise IndexError("a slot beyond the file")
            data: Span = span_over(buffer.buf, buffer.len)
            with cython.nogil:  # its page may have to come from the disk
                entry = i32_of(data, at)
        finally:
            PyBuffer_Release(cython.address(buffer))
        return entry
    if key_hash < 0 or at + SLOT_BYTES > len(view):
        raise IndexError("a slot beyond the file")
    first: int = _INT.unpack_from(view, at)[0]
    return first


def find_entries(
    view: Any,
    slot_count: cython.longlong,
    entry_count: cython.longlong,
    key_hash: cython.longlong,
    earliest: cython.longlong,
    latest: cython.longlong,
    most: cython.Py_ssize_t,
    entry: cython.longlong,
    steps: cython.longlong,
) -> tuple[list[int], int]:
    """Physical offsets of the entries of a hash, newest first, from an entry of its chain on; and the entry
    to go on with, 0 at the end. Times are seconds since the first message.

    It follows `steps` entries at most. Compiled, it does so without the GIL: their pages may have to come
    from the disk.
    """
    if cython.compiled:
        return _find_entries(view, slot_count, entry_count, key_hash, earliest, latest, most, entry, steps)
    if HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry_count > len(view):
        raise IndexError(f"entry {entry_count} is beyond the file")
    found: list[int] = []
    while 0 < entry < entry_count and len(found) < most and steps > 0:
        steps -= 1
        at = HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry
        entry_hash, physical_offset, seconds, before = _ENTRY.unpack_from(view, at)
        if entry_hash == key_hash and earliest <= seconds <= latest:
            found.append(physical_offset)
        entry = before if before < entry else 0
    return found, entry if 0 < entry < entry_count else 0


@cython.cfunc
def _find_entries(
    view: Any, slot_count: cython.longlong, entry_count: cython.longlong, key_hash: cython.longlong,
    earliest: cython.longlong, latest: cython.longlong, most: cython.Py_ssize_t, entry: cython.longlong,
    steps: cython.longlong,
) -> tuple:  # type: ignore[type-arg] # fmt: skip
    """Compiled only."""
    before: cython.longlong
    seconds: cython.longlong
    at: cython.longlong
    buffer: Py_buffer
    offsets = cython.declare(cython.longlong[64])
    count: cython.Py_ssize_t = 0
    room: cython.Py_ssize_t = min(most, 64)
    PyObject_GetBuffer(view, cython.address(buffer), PyBUF_SIMPLE)
    try:
        if 40 + 4 * slot_count + 20 * entry_count > buffer.len:
            raise IndexError(f"entry {entry_count} is beyond the file")
        data: Span = span_over(buffer.buf, buffer.len)
        with cython.nogil:
            while 0 < entry < entry_count and count < room and steps > 0:
                steps -= 1
                at = 40 + 4 * slot_count + 20 * entry
                if i32_of(data, at) == key_hash:
                    seconds = i32_of(data, at + 12)
                    if earliest <= seconds <= latest:
                        offsets[count] = i64_of(data, at + 4)
                        count += 1
                before = i32_of(data, at + 16)
                entry = before if before < entry else 0
    finally:
        PyBuffer_Release(cython.address(buffer))
    return [offsets[i] for i in range(count)], entry if 0 < entry < entry_count else 0

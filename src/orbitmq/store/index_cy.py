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
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.libc.string import memchr, memcmp  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.big_endian import get_int, get_long, get_short, put_int  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.text_hash import absolute, hash_on  # type: ignore[import-not-found]

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


@cython.cdivision(True)
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
    position: cython.Py_ssize_t = 0
    first_physical: cython.longlong = 0
    first_ms: cython.longlong = 0
    last_physical: cython.longlong = 0
    last_ms: cython.longlong = 0
    first_entry: cython.longlong = entry
    used: cython.longlong = 0
    if not cython.compiled:
        return 0, 0, 0, (0, 0), (0, 0)
    end: cython.Py_ssize_t = PyBytes_GET_SIZE(data)
    record: cython.pointer[cython.const[cython.uchar]]
    stop: cython.pointer[cython.const[cython.uchar]]
    at: cython.pointer[cython.const[cython.uchar]]
    topic: cython.pointer[cython.const[cython.uchar]]
    size: cython.Py_ssize_t
    length: cython.Py_ssize_t
    hashes = cython.declare(cython.uint[64])
    count: cython.Py_ssize_t
    number: cython.Py_ssize_t
    sys_flag: cython.int
    stored_ms: cython.longlong
    seconds: cython.longlong
    slot: cython.longlong
    before: cython.longlong
    buffer: Py_buffer
    out: cython.p_uchar
    PyObject_GetBuffer(view, cython.address(buffer), PyBUF_WRITABLE)
    try:
        if 40 + 4 * slot_count + 20 * limit > buffer.len:
            raise IndexError(f"entry {limit} is beyond the file")
        while max_records > 0 and end - position >= 91:
            max_records -= 1
            record = (
                cython.cast(cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(data)) + position
            )
            size = get_int(record)
            if get_int(record + 4) != -626843481 or size < 91 or size > end - position:
                break
            if get_long(record + 28) != base_physical_offset + position:
                break
            stop = record + size
            sys_flag = get_int(record + 36)
            at = record + (68 if sys_flag & 0x10 else 56)
            stored_ms = get_long(at)
            at += 28 if sys_flag & 0x20 else 16
            if stop - at < 19:
                break
            length = get_int(at + 12)
            at += 16
            if length < 0 or length > stop - at - 3:
                break
            at += length
            length = at[0]
            topic = at + 1
            if length > 127 or length > stop - topic - 2:
                break
            at = topic + length
            if get_short(at) != stop - at - 2 or not _is_plain(topic, stop - topic - 2, at - topic):
                break
            count = 0
            if sys_flag & 0xC != 0xC:
                count = _hashes(topic, length, at + 2, stop, hashes)
            if count < 0 or count > limit - entry:
                break
            if count:
                last_physical = base_physical_offset + position
                last_ms = stored_ms
                if entry == first_entry:
                    first_physical = last_physical
                    first_ms = stored_ms
                    if begin_ms < 0:
                        begin_ms = stored_ms
                seconds = 0
                if begin_ms > 0 and stored_ms > begin_ms:
                    seconds = min((stored_ms - begin_ms) // 1000, 0x7FFFFFFF)
            for number in range(count):
                slot = 40 + 4 * (hashes[number] % slot_count)
                out = cython.cast(cython.p_uchar, buffer.buf)
                before = get_int(out + slot)
                if before <= 0 or before >= entry:
                    before = 0
                    used += 1
                put_int(out + slot, cython.cast(cython.uint, entry))
                out += 40 + 4 * slot_count + 20 * entry
                put_int(out, hashes[number])
                put_int(out + 4, cython.cast(cython.uint, last_physical >> 32))
                put_int(out + 8, cython.cast(cython.uint, last_physical & 0xFFFFFFFF))
                put_int(out + 12, cython.cast(cython.uint, seconds))
                put_int(out + 16, cython.cast(cython.uint, before))
                entry += 1
            position += size
    finally:
        PyBuffer_Release(cython.address(buffer))
    return position, entry - first_entry, used, (first_physical, first_ms), (last_physical, last_ms)


@cython.cfunc
@cython.exceptval(check=False)
def _is_plain(
    text: cython.pointer[cython.const[cython.uchar]], size: cython.Py_ssize_t, gap: cython.Py_ssize_t
) -> cython.bint:
    """Whether a topic and properties, with their two bytes of length between them, are ASCII without zeros.
    Compiled only.
    """
    i: cython.Py_ssize_t
    plain: cython.bint = True
    for i in range(size + 2):
        if (text[i] == 0 or text[i] > 127) and i != gap and i != gap + 1:
            plain = False
            break
    return plain


@cython.cfunc
@cython.exceptval(check=False)
def _hashes(
    topic: cython.pointer[cython.const[cython.uchar]],
    topic_length: cython.Py_ssize_t,
    at: cython.pointer[cython.const[cython.uchar]],
    end: cython.pointer[cython.const[cython.uchar]],
    hashes: cython.pointer[cython.uint],
) -> cython.Py_ssize_t:
    """What `properties_cy.index_hashes` gives, if it is at most 64, else -1. Compiled only."""
    unique: cython.pointer[cython.const[cython.uchar]] = cython.NULL
    keys: cython.pointer[cython.const[cython.uchar]] = cython.NULL
    tags: cython.pointer[cython.const[cython.uchar]] = cython.NULL
    unique_end: cython.pointer[cython.const[cython.uchar]] = at
    keys_end: cython.pointer[cython.const[cython.uchar]] = at
    tags_end: cython.pointer[cython.const[cython.uchar]] = at
    stop: cython.pointer[cython.const[cython.uchar]]
    base: cython.uint
    count: cython.Py_ssize_t = 0
    while at < end:
        stop = cython.cast(cython.pointer[cython.const[cython.uchar]], memchr(at, 2, end - at))
        if stop == cython.NULL:
            stop = end
        if stop - at > 9 and memcmp(at, b"UNIQ_KEY\x01", 9) == 0:
            unique = at + 9
            unique_end = stop
        elif stop - at > 5 and memcmp(at, b"KEYS\x01", 5) == 0:
            keys = at + 5
            keys_end = stop
        elif stop - at > 5 and memcmp(at, b"TAGS\x01", 5) == 0:
            tags = at + 5
            tags_end = stop
        at = stop + 1
    base = hash_on(0, topic, topic_length) * 31 + 35
    if unique != cython.NULL:
        hashes[0] = absolute(hash_on(base, unique, unique_end - unique))
        count = 1
    while keys != cython.NULL and keys < keys_end:
        stop = cython.cast(cython.pointer[cython.const[cython.uchar]], memchr(keys, 32, keys_end - keys))
        if stop == cython.NULL:
            stop = keys_end
        if stop > keys:
            if count >= 63:
                return -1
            hashes[count] = absolute(hash_on(base, keys, stop - keys))
            count += 1
        keys = stop + 1
    if tags != cython.NULL:
        hashes[count] = absolute(hash_on((base * 31 + 84) * 31 + 35, tags, tags_end - tags))
        count += 1
    return count


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

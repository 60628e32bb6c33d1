"""Units of consume queues, many at a time.

Hot: the units of every stored message pass here, and those of all queues at a start.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.queue_units import BLANK_SIZE, UNIT

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]

_BLANK_SIZE = cython.declare(cython.int, BLANK_SIZE)


def arrivals(
    topic: str, queue_id: int, units: bytes, first_offset: cython.longlong
) -> list[tuple[str, int, int, int]]:
    """(topic, queue id, queue offset behind it, tags code) of each unit."""
    arrived: list[tuple[str, int, int, int]] = []
    offset: cython.longlong = first_offset
    for _, _, tag in UNIT.iter_unpack(units):
        offset += 1
        arrived.append((topic, queue_id, offset, tag))
    return arrived


def count_valid(units: bytes) -> int:
    """Number of valid units at the beginning: physical offset not negative, size more than 0."""
    count: cython.Py_ssize_t = len(units) // 20
    i: cython.Py_ssize_t
    if cython.compiled:
        source: Reader = reader_over(span_of(units))
    for i in range(count):
        if cython.compiled:
            damaged: cython.bint = get_i64(cython.address(source)) < 0
            if get_i32(cython.address(source)) <= 0 or damaged:
                return i
            get_i64(cython.address(source))
        else:
            physical_offset, size, _ = UNIT.unpack_from(units, i * 20)
            if physical_offset < 0 or size <= 0:
                return i
    return count


def count_confirmed(units: bytearray, first: cython.Py_ssize_t, confirmed: cython.longlong) -> int:
    """Number of units from the `first` on, up to the first one whose message ends behind a physical offset.
    A blank unit counts with what is in front of it.
    """
    place: cython.Py_ssize_t = max(0, first)
    begin: cython.Py_ssize_t = place
    count: cython.Py_ssize_t = len(units) // 20
    size: cython.int
    physical_offset: cython.longlong
    if cython.compiled:
        held: Span = span_of_array(units)
    while place < count:
        if cython.compiled:
            physical_offset = i64_of(held, place * 20)
            size = i32_of(held, place * 20 + 8)
        else:
            physical_offset, size, _ = UNIT.unpack_from(units, place * 20)
        if physical_offset >= 0 and 0 < size != _BLANK_SIZE and physical_offset > confirmed - size:
            break
        place += 1
    return place - begin

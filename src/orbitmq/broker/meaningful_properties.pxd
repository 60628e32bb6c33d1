# The names of `meaningful_properties.py`, looked up in place: for the hot modules where they are compiled.

from orbitmq.protocol.buffers.bounded cimport Span, byte_of, part_of, starts_with_span


cdef inline bint is_left_to_rules(Span entry, Span beginnings) noexcept:
    """True if an entry's name begins like one of `packed_beginnings`: nearly always two bytes say that it does not."""
    cdef Py_ssize_t at = byte_of(beginnings, byte_of(entry, 0) ^ byte_of(entry, 1))
    cdef Py_ssize_t size
    if not at:
        return False
    at += 256
    size = byte_of(beginnings, at)
    while size:
        if starts_with_span(entry, part_of(beginnings, at + 1, size)):
            return True
        at += 1 + size
        size = byte_of(beginnings, at)
    return False

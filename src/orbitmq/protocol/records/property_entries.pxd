# The entries of a property string, one after the other: for the hot modules where they are compiled.

from orbitmq.protocol.buffers.bounded cimport Span, find_byte, find_end, part_of, rest_of


cdef inline bint next_property(Span properties, Py_ssize_t *place, Span *name, Span *value) noexcept nogil:
    """Reads the next entry from a place on, and moves the place behind it; False without one.

    Entries with an empty name or an empty value do not count.
    """
    cdef Span entry
    cdef Py_ssize_t stop
    cdef Py_ssize_t middle
    while place[0] < properties.size:
        stop = find_end(properties, 2, place[0])
        entry = part_of(properties, place[0], stop - place[0])
        place[0] = stop + 1
        middle = find_byte(entry, 1)
        if 0 < middle < entry.size - 1:
            name[0] = part_of(entry, 0, middle)
            value[0] = rest_of(entry, middle + 1)
            return True
    return False

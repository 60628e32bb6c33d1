# The tags code of a message, from properties in place: for the hot modules where they are compiled.

from orbitmq.protocol.buffers.bounded cimport Span, find_end, is_ascii, part_of, rest_of, starts_with
from orbitmq.protocol.buffers.text_hash cimport tag_hash


cdef inline bint find_tags(Span properties, long long *tags_code) noexcept:
    """Gives the tags code of properties; False for tags that are more than ASCII."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t stop
    cdef Span entry
    tags_code[0] = 0
    while at < properties.size:
        stop = find_end(properties, 2, at)
        entry = part_of(properties, at, stop - at)
        if entry.size > 5 and starts_with(entry, b"TAGS\x01"):
            entry = rest_of(entry, 5)
            if not is_ascii(entry):
                return False
            tags_code[0] = tag_hash(entry)
        at = stop + 1
    return True

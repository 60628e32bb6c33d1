# The messages in the body of a batch (see `batch_cy`), one after the other: for the hot modules where they are
# compiled.

from orbitmq.protocol.buffers.bounded cimport Reader, Span, get_i16, get_i32, get_span, unread


cdef struct BatchEntry:
    int flag
    Span body
    Span properties


cdef inline bint next_of_batch(Reader *source, BatchEntry *entry) noexcept nogil:
    """Reads the next message; False if it is not whole, or its parts do not add up."""
    cdef Py_ssize_t left = unread(source)
    cdef Py_ssize_t size = get_i32(source)
    cdef Py_ssize_t body_length
    cdef Py_ssize_t properties_length
    if size < 22 or size > left:
        return False
    get_i32(source)
    get_i32(source)
    entry.flag = get_i32(source)
    body_length = get_i32(source)
    if body_length < 0 or body_length > size - 22:
        return False
    entry.body = get_span(source, body_length)
    properties_length = get_i16(source)
    if properties_length != size - 22 - body_length:
        return False
    entry.properties = get_span(source, properties_length)
    return not source.overflow

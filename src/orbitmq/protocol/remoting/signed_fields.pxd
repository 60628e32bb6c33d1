# The fields of a request in the order in which `signing` signs their values: for the hot modules where they are compiled.

from orbitmq.protocol.buffers.bounded cimport (
    Span,
    is_literal,
    is_there,
    no_span,
    order_of,
    part_of,
    span_of_literal,
)
from orbitmq.protocol.remoting.send_header cimport MOST_NAMED, SendHeader, Text


cdef struct SignedFields:
    Span signature  # of nothing where there is none
    Py_ssize_t count
    Span names[26 + MOST_NAMED]  # as many as a header has
    Text values[26 + MOST_NAMED]


cdef inline bint sort_fields(const SendHeader *header, SignedFields *fields) noexcept:
    """Sorts all fields but the signature by name; False if one is there twice, or is one that old clients do not sign."""
    cdef Span letters = span_of_literal(b"abcdefghijklmnopqrstuvwxyz")
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t place
    cdef int i
    fields.signature = no_span()
    for i in range(26):
        if is_there(header.fields[i].span):
            fields.names[count] = part_of(letters, i, 1)
            fields.values[count] = header.fields[i]
            count += 1
    for i in range(header.named):
        if is_literal(header.names[i].span, b"Signature"):
            if is_there(fields.signature):
                return False
            fields.signature = header.values[i].span
            continue
        if is_literal(header.names[i].span, b"_UNIQUE_KEY_QUERY"):
            return False
        place = _make_place(fields, count, header.names[i].span)
        if place < 0:
            return False
        fields.names[place] = header.names[i].span
        fields.values[place] = header.values[i]
        count += 1
    fields.count = count
    return True


cdef inline Py_ssize_t _make_place(SignedFields *fields, Py_ssize_t count, Span name) noexcept:
    """Moves those of the first `count` fields that sort behind a name by one; -1 if one has that name."""
    cdef Py_ssize_t place = count
    cdef int order
    while place > 0:
        order = order_of(name, fields.names[place - 1])
        if order == 0:
            return -1
        if order > 0:
            break
        fields.names[place] = fields.names[place - 1]
        fields.values[place] = fields.values[place - 1]
        place -= 1
    return place

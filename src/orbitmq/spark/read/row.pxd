# A message on its way from a stored record into the columns of a batch: for `collecting_cy`, which finds it, and
# `batch_builder_cy`, which adds it.

from orbitmq.protocol.buffers.bounded cimport Span, is_literal, is_same, no_span
from orbitmq.protocol.records.located cimport Parts
from orbitmq.protocol.records.property_entries cimport next_property


cdef enum:
    MOST_PROPERTIES = 64


cdef struct FoundProperties:
    # The three that have columns of their own; no span where a message has none.
    Span keys
    Span tags
    Span unique_id
    # All of them, where the map is asked for; `count` is -1 if there are more than fit.
    int count
    Span names[MOST_PROPERTIES]
    Span values[MOST_PROPERTIES]


cdef struct Row:
    Span data  # the buffer of the record
    Parts parts
    int sys_flag
    # These are the record's own, or those of one message of an inner batch.
    int flag
    long long queue_offset
    Span body
    Span properties
    FoundProperties found


cdef inline void _keep(FoundProperties *found, Span name, Span value) noexcept nogil:
    """Keeps a property; of two with one name the later value, in the place of the first."""
    cdef int i = 0
    while i < found.count and not is_same(found.names[i], name):
        i += 1
    if i == MOST_PROPERTIES:
        found.count = -1
        return
    found.names[i] = name
    found.values[i] = value
    if i == found.count:
        found.count += 1


cdef inline void find_properties(Span properties, FoundProperties *found, bint keep_all) noexcept nogil:
    """Finds the properties that have columns, and all of them with `keep_all`."""
    cdef Py_ssize_t place = 0
    cdef Span name
    cdef Span value
    found.count = 0
    found.keys = found.tags = found.unique_id = no_span()
    while next_property(properties, &place, &name, &value):
        if is_literal(name, b"TAGS"):
            found.tags = value
        elif is_literal(name, b"KEYS"):
            found.keys = value
        elif is_literal(name, b"UNIQ_KEY"):
            found.unique_id = value
        if keep_all and found.count >= 0:
            _keep(found, name, value)

# The fields of a `Selection`, and what the compiled loop asks it of every record.

cimport cython

from orbitmq.protocol.buffers.bounded cimport Span
from orbitmq.protocol.records.located cimport Parts


@cython.final
cdef class Selection:
    cdef object _accept
    cdef object _tags
    cdef list _tag_list
    cdef dict _answers
    cdef readonly long long from_queue_offset
    cdef readonly long long to_queue_offset
    cdef long long _from_time_ms
    cdef long long _last_time_ms
    # The topics met last, each in the slot of a hash of its name, and whether they are selected.
    cdef list _met
    cdef bint _is_selected[64]
    cdef readonly bint has_tags

    cdef bint takes_located(self, Span data, const Parts *parts) except -1
    cdef bint takes_tag_span(self, Span tag) except -1
    cdef bint _takes_topic_span(self, Span topic) except -1

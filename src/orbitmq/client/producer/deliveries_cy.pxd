# The fields of a delivery, for compiled code.

from orbitmq.client.core.outgoing_cy cimport Message


cdef class Delivery:
    cdef public object message
    cdef public object unique_id
    cdef public object properties
    cdef object _outcome
    cdef int _place
    cdef object _future
    cdef bint _is_watched

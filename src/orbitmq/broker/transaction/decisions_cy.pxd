# `Decisions` for `frames_cy`, which reads the frames.

cimport cython

from orbitmq.broker.delay.rerouting cimport Half
from orbitmq.protocol.remoting.send_header cimport SendHeader
from orbitmq.store.log.append cimport LogEnd


cdef struct Decision:
    long long physical_offset  # of the half message
    long long offset  # its queue offset
    bint is_commit
    long long queue_id  # to which a commit publishes


@cython.final
cdef class Decisions:
    cdef object _rules
    cdef dict _open_halves
    cdef dict _queues
    cdef list _dirty
    cdef object _op_queue
    cdef bytes _store_host
    cdef long long _now
    cdef bytearray _named
    cdef set _decided
    cdef dict _counts
    cdef readonly long long op_offset
    cdef readonly list ended
    cdef Py_ssize_t reserved

    cdef bint handle(self, SendHeader *header, LogEnd *log) except -1
    cdef bint _find_half(self, Decision *decision, const LogEnd *log, Half *half) except -1
    cdef bint _commit(self, const Decision *decision, const Half *half, LogEnd *log, Py_ssize_t reserved) except -1
    cdef Py_ssize_t _op_bytes(self, const LogEnd *log, Py_ssize_t body) except -1
    cdef int _note(self, const Decision *decision, const Half *half, Py_ssize_t reserved) except -1
    cdef int _count(self, str topic, int queue_id, long long offset, Py_ssize_t size) except -1
    cdef int end(self, LogEnd *log, object stats) except -1

# What `frames_cy`, which reads the frames, does with batches.

from orbitmq.broker.send.plain cimport Content
from orbitmq.protocol.buffers.bounded cimport Span, Writer
from orbitmq.store.log.append cimport LogEnd, NewRecord


cdef bint batch_fits(const Content *content, const NewRecord *record, const LogEnd *log, Py_ssize_t reserved) noexcept
cdef int write_batch(
    LogEnd *log, NewRecord *record, Span own_behind, bytearray tail, long long queue_offset
) except -1
cdef void put_ids(Writer *out, bytes between, bytearray tail, Py_ssize_t count) noexcept

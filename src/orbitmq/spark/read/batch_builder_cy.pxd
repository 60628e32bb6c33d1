# The fields of a `BatchBuilder` for compiled code.

cimport cython

from orbitmq.protocol.buffers.bounded cimport Span
from orbitmq.spark.read.column_builders_cy cimport ColumnBuilder
from orbitmq.spark.read.row cimport Row


@cython.final
cdef class HostTexts:
    cdef bytes _host
    cdef bytes _text

    cdef bytes text_of(self, Span host)


@cython.final
cdef class BatchBuilder:
    cdef tuple _names
    cdef dict _builders
    cdef readonly Py_ssize_t rows
    cdef readonly long long weight  # bytes of the rows, roughly: to be asked after each of them
    cdef long long _row_bytes
    cdef readonly Py_ssize_t max_body_bytes
    cdef readonly bint null_unreadable
    cdef public Py_ssize_t unreadable  # rows whose body is null because it cannot be inflated
    cdef public str unreadable_reason  # of the last one of them
    cdef readonly bint reads_properties
    cdef HostTexts _born_hosts
    cdef HostTexts _store_hosts
    # Columns that nobody asked for are None.
    cdef ColumnBuilder topic
    cdef ColumnBuilder queue_id
    cdef ColumnBuilder queue_offset
    cdef ColumnBuilder physical_offset
    cdef ColumnBuilder keys
    cdef ColumnBuilder tags
    cdef ColumnBuilder body
    # A map is three columns: where each row ends in the two others, names, values.
    cdef ColumnBuilder map_ends
    cdef ColumnBuilder map_names
    cdef ColumnBuilder map_values
    cdef ColumnBuilder flag
    cdef ColumnBuilder sys_flag
    cdef ColumnBuilder born_timestamp
    cdef ColumnBuilder store_timestamp
    cdef ColumnBuilder born_host
    cdef ColumnBuilder store_host
    cdef ColumnBuilder message_id
    cdef ColumnBuilder offset_id
    cdef ColumnBuilder reconsume_times
    cdef ColumnBuilder record_size
    cdef ColumnBuilder property_bytes

    cdef int add_row(self, const Row *row) except -1
    cdef int _bind(self) except -1
    cdef int _add_place(self, const Row *row) except -1
    cdef int _add_numbers(self, const Row *row) except -1
    cdef int _add_hosts(self, const Row *row) except -1
    cdef int _add_ids(self, const Row *row) except -1
    cdef int _add_content(self, const Row *row) except -1
    cdef int _add_map(self, const Row *row) except -1
    cdef int _count(self, const Row *row) except -1

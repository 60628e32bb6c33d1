# Units of consume queues, put where they wait in memory: for the hot modules where they are compiled.

from cpython.bytearray cimport PyByteArray_GET_SIZE, PyByteArray_Resize

from orbitmq.protocol.buffers.bounded cimport Writer, put_u32, put_u64, skip, writer_of


cdef inline int put_unit(bytearray tail, long long physical_offset, int size, long long tags_code) except -1:
    """Adds a unit to a tail."""
    cdef Py_ssize_t length = PyByteArray_GET_SIZE(tail)
    cdef Writer out
    PyByteArray_Resize(tail, length + 20)
    out = writer_of(tail)
    skip(&out, length)
    put_u64(&out, <unsigned long long> physical_offset)
    put_u32(&out, <unsigned int> size)
    put_u64(&out, <unsigned long long> tags_code)
    return 0

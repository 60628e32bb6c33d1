# Units of consume queues, put where they wait in memory: for the hot modules where they are compiled.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize

from orbitmq.protocol.big_endian cimport put_int, put_long


cdef inline int put_unit(bytearray tail, long long physical_offset, int size, long long tags_code) except -1:
    """Adds a unit to a tail."""
    cdef Py_ssize_t length = PyByteArray_GET_SIZE(tail)
    PyByteArray_Resize(tail, length + 20)
    cdef unsigned char *at = <unsigned char *> PyByteArray_AS_STRING(tail) + length
    put_long(at, <unsigned long long> physical_offset)
    put_int(at + 8, <unsigned int> size)
    put_long(at + 12, <unsigned long long> tags_code)
    return 0

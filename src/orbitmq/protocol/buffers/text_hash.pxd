# Java's hash of ASCII text, as units and index entries hold it: for the hot modules where they are compiled.

from orbitmq.protocol.buffers.bounded cimport Span


cdef inline unsigned int hash_on(unsigned int code, Span text) noexcept nogil:
    """Goes on with a hash over more characters."""
    cdef Py_ssize_t i
    for i in range(text.size):
        code = code * 31 + text.at[i]
    return code


cdef inline int tag_hash(Span tag) noexcept nogil:
    """The hash of an ASCII tag, as Java makes it."""
    return <int> hash_on(0, tag)


cdef inline unsigned int absolute(unsigned int code) noexcept nogil:
    """The absolute value of a hash, as the index has it: 0 for the one that has none."""
    if code == 0x80000000U:
        return 0
    return 0 - code if code & 0x80000000U else code

# Java's hash of ASCII text, as units and index entries hold it: for the hot modules where they are compiled.

cdef inline unsigned int hash_on(unsigned int code, const unsigned char *text, Py_ssize_t size) noexcept nogil:
    """Goes on with a hash over more characters."""
    cdef Py_ssize_t i
    for i in range(size):
        code = code * 31 + text[i]
    return code


cdef inline unsigned int absolute(unsigned int code) noexcept nogil:
    """The absolute value of a hash, as the index has it: 0 for the one that has none."""
    if code == 0x80000000U:
        return 0
    return 0 - code if code & 0x80000000U else code

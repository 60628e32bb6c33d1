# Big-endian numbers, as the wire and the files hold them: for the hot modules where they are compiled.
# Interpreted, those modules take `struct` instead, and never come to the lines that use these.

cdef inline short get_short(const unsigned char *at) noexcept nogil:
    return <short> ((at[0] << 8) | at[1])


cdef inline int get_int(const unsigned char *at) noexcept nogil:
    return <int> ((<unsigned int> at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3])


cdef inline long long get_long(const unsigned char *at) noexcept nogil:
    return (<long long> get_int(at) << 32) | <unsigned int> get_int(at + 4)


cdef inline void put_int(unsigned char *at, unsigned int value) noexcept nogil:
    at[0] = value >> 24
    at[1] = (value >> 16) & 0xFF
    at[2] = (value >> 8) & 0xFF
    at[3] = value & 0xFF


cdef inline void put_long(unsigned char *at, unsigned long long value) noexcept nogil:
    put_int(at, <unsigned int> (value >> 32))
    put_int(at + 4, <unsigned int> value)

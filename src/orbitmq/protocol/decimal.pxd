# Numbers as text: for the hot modules where they are compiled.

cimport cython


@cython.cdivision(True)
cdef inline unsigned char *put_decimal(unsigned char *at, long long number) noexcept nogil:
    """Writes a number; gives the place behind it."""
    cdef unsigned char digits[20]
    cdef int n = 0
    if number < 0:
        at[0] = 45
        at += 1
        number = -number
    while True:
        digits[n] = <unsigned char> (48 + number % 10)
        n += 1
        number //= 10
        if number == 0:
            break
    while n:
        n -= 1
        at[0] = digits[n]
        at += 1
    return at

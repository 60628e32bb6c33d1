# CRC-32 where a call to a library costs more than the work: for the hot modules where they are compiled.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from orbitmq.protocol.buffers.bounded cimport Span, view_of


cdef extern from *:
    """
    #if defined(__GNUC__) && defined(__x86_64__)
    #include <immintrin.h>

    static int orbitmq_can_fold(void) {
        static int known = -1;
        if (known < 0)
            known = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
        return known;
    }

    #define FOLD(x, k) _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11))
    #define LOAD(p) _mm_loadu_si128((const __m128i *)(p))

    /* The CRC of `size` bytes, at least 64 and a multiple of 16, behind those whose inverted CRC is `crc`: by
       multiplication without carries (Gopal and others, "Fast CRC Computation for Generic Polynomials Using
       PCLMULQDQ Instruction", 2009). The constants are powers of x modulo the polynomial, bits reversed: how
       far 64 and 16 bytes are carried on, then 8 and 4, then the polynomial and its inverse. */
    __attribute__((target("pclmul,sse4.1")))
    static unsigned int orbitmq_fold(const unsigned char *data, Py_ssize_t size, unsigned int crc) {
        const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
        const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        const __m128i by_8 = _mm_set_epi64x(0, 0x0163cd6124);
        const __m128i polynomial = _mm_set_epi64x(0x01f7011641, 0x01db710641);
        const __m128i low = _mm_setr_epi32(~0, 0, ~0, 0);
        __m128i a = _mm_xor_si128(LOAD(data), _mm_cvtsi32_si128((int)crc));
        __m128i b = LOAD(data + 16), c = LOAD(data + 32), d = LOAD(data + 48), t;
        data += 64;
        size -= 64;
        for (; size >= 64; data += 64, size -= 64) {
            a = _mm_xor_si128(FOLD(a, by_64), LOAD(data));
            b = _mm_xor_si128(FOLD(b, by_64), LOAD(data + 16));
            c = _mm_xor_si128(FOLD(c, by_64), LOAD(data + 32));
            d = _mm_xor_si128(FOLD(d, by_64), LOAD(data + 48));
        }
        a = _mm_xor_si128(FOLD(a, by_16), b);
        a = _mm_xor_si128(FOLD(a, by_16), c);
        a = _mm_xor_si128(FOLD(a, by_16), d);
        for (; size >= 16; data += 16, size -= 16)
            a = _mm_xor_si128(FOLD(a, by_16), LOAD(data));
        /* 128 bits to 64, to 32. */
        a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_16, 0x10));
        t = _mm_srli_si128(a, 4);
        a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low), by_8, 0x00), t);
        t = _mm_clmulepi64_si128(_mm_and_si128(a, low), polynomial, 0x10);
        t = _mm_clmulepi64_si128(_mm_and_si128(t, low), polynomial, 0x00);
        return (unsigned int)_mm_extract_epi32(_mm_xor_si128(a, t), 1);
    }
    #undef FOLD
    #undef LOAD
    #else
    static int orbitmq_can_fold(void) { return 0; }
    static unsigned int orbitmq_fold(const unsigned char *data, Py_ssize_t size, unsigned int crc) { return crc; }
    #endif
    """
    bint orbitmq_can_fold() noexcept nogil
    unsigned int orbitmq_fold(const unsigned char *data, Py_ssize_t size, unsigned int crc) noexcept nogil


cdef inline bint _is_short(Py_ssize_t length) noexcept nogil:
    """True if `_short_crc` is the quicker way for so many bytes."""
    return length <= 512 or (length <= 65536 and orbitmq_can_fold())


cdef inline unsigned int _short_crc(const unsigned int *t, Span body) noexcept nogil:
    """Sixteen bytes at a time where the processor can, else eight."""
    cdef const unsigned char *data = body.at
    cdef Py_ssize_t length = body.size
    cdef unsigned int crc = ~(<unsigned int> 0)
    cdef Py_ssize_t folded
    if length >= 64 and orbitmq_can_fold():
        folded = length & ~(<Py_ssize_t> 15)
        crc = orbitmq_fold(data, folded, crc)
        data += folded
        length -= folded
    while length >= 8:
        crc ^= data[0] | (data[1] << 8) | (data[2] << 16) | (<unsigned int> data[3] << 24)
        crc = (
            t[1792 + (crc & 0xFF)]
            ^ t[1536 + ((crc >> 8) & 0xFF)]
            ^ t[1280 + ((crc >> 16) & 0xFF)]
            ^ t[1024 + (crc >> 24)]
            ^ t[768 + data[4]]
            ^ t[512 + data[5]]
            ^ t[256 + data[6]]
            ^ t[data[7]]
        )
        data += 8
        length -= 8
    while length > 0:
        crc = t[(crc ^ data[0]) & 0xFF] ^ (crc >> 8)
        data += 1
        length -= 1
    return ~crc


cdef inline unsigned int body_crc(Span body, bytes tables, object crc32) except 0xFFFFFFFF:
    """The checksum of a body as records hold it: without its highest bit.

    `tables` are `message_cy.CRC_TABLES`, and `crc32` is the library's way, for long bodies.
    """
    if _is_short(body.size) and PyBytes_GET_SIZE(tables) == 8 * 256 * 4:
        return _short_crc(<const unsigned int *> PyBytes_AS_STRING(tables), body) & 0x7FFFFFFF
    return <unsigned int> crc32(view_of(body)) & 0x7FFFFFFF

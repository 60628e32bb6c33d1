# Raw memory, read and written within bounds: for the hot modules where they are compiled.
#
# The one place that moves a pointer. A `Writer` and a `Reader` know where their memory ends: each put and each
# get is one comparison. Bytes that do not fit are not written, those that are not there read as zero, and
# `overflow` says so from then on, however much follows: callers look once, behind everything. A `Span` is a piece
# of memory that somebody else keeps alive; its bytes are asked for by their place in it.
#
# Literals are C strings without a zero byte: their lengths are constants once the compiler has inlined `strlen`.

from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_GET_SIZE,
    PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcmp, memcpy, strlen

from orbitmq.protocol.buffers.big_endian cimport get_int, get_long, get_short, put_int, put_long


# ---- spans ----


cdef struct Span:
    const unsigned char *at  # NULL where there is none
    Py_ssize_t size  # never negative


cdef inline Span no_span() noexcept nogil:
    cdef Span span
    span.at = NULL
    span.size = 0
    return span


cdef inline Span span_over(const void *start, Py_ssize_t size) noexcept nogil:
    """The memory of a buffer whose owner says that it has so many bytes."""
    cdef Span span
    span.at = <const unsigned char *> start
    span.size = max(<Py_ssize_t> 0, size)
    return span


cdef inline Span span_of(bytes data) noexcept:
    """The bytes of an object that outlives the span."""
    return span_over(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline Span span_of_array(bytearray memory) noexcept:
    """The bytes that an array has, until it grows or shrinks."""
    return span_over(PyByteArray_AS_STRING(memory), PyByteArray_GET_SIZE(memory))


cdef inline Span span_of_literal(const char *literal) noexcept nogil:
    return span_over(literal, strlen(literal))


cdef inline bint is_there(Span span) noexcept nogil:
    """False for the span of nothing; an empty one of something is there."""
    return span.at != NULL


cdef inline Span part_of(Span span, Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    """A piece of a span, cut where the span ends."""
    if start < 0 or start > span.size or size < 0:
        return no_span()
    span.size = min(size, span.size - start)
    if start:  # of no memory nothing can be counted on from
        span.at += start
    return span


cdef inline Span rest_of(Span span, Py_ssize_t start) noexcept nogil:
    """The part of a span that begins at a place of it."""
    return part_of(span, start, span.size)


cdef inline unsigned char byte_of(Span span, Py_ssize_t place) noexcept nogil:
    """A byte; 0 outside of the span, so that a walk ends there on any byte but 0."""
    if <size_t> place >= <size_t> span.size:  # negative places are very large ones
        return 0
    return span.at[place]


cdef inline Py_ssize_t find_byte(Span span, int byte, Py_ssize_t start=0) noexcept nogil:
    """The first place of a byte from `start` on; -1 without one."""
    cdef const unsigned char *found
    if start < 0 or start >= span.size:
        return -1
    found = <const unsigned char *> memchr(span.at + start, byte, span.size - start)
    return -1 if found == NULL else found - span.at


cdef inline Py_ssize_t find_end(Span span, int byte, Py_ssize_t start) noexcept nogil:
    """The first place of a byte from `start` on; the end of the span without one."""
    cdef Py_ssize_t place = find_byte(span, byte, start)
    return span.size if place < 0 else place


cdef inline bint is_ascii(Span span) noexcept nogil:
    cdef unsigned char bits = 0
    cdef Py_ssize_t i
    for i in range(span.size):
        bits |= span.at[i]
    return bits < 128


cdef inline bint is_alphanumeric(Span span) noexcept nogil:
    """Letters and digits of ASCII, or nothing at all."""
    cdef unsigned char c
    cdef Py_ssize_t i
    for i in range(span.size):
        c = span.at[i]
        if not (48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122):
            return False
    return True


cdef inline bint is_digits(Span span) noexcept nogil:
    """Decimal digits, one at least."""
    cdef Py_ssize_t i
    for i in range(span.size):
        if not 48 <= span.at[i] <= 57:
            return False
    return span.size > 0


cdef inline bint starts_with(Span span, const char *literal) noexcept nogil:
    cdef Py_ssize_t size = strlen(literal)
    return span.size >= size and memcmp(span.at, literal, size) == 0


cdef inline bint starts_with_span(Span span, Span begin) noexcept nogil:
    return span.size >= begin.size and (begin.size == 0 or memcmp(span.at, begin.at, begin.size) == 0)


cdef inline bint is_literal(Span span, const char *literal) noexcept nogil:
    cdef Py_ssize_t size = strlen(literal)
    return span.size == size and memcmp(span.at, literal, size) == 0


cdef inline bint is_same(Span one, Span other) noexcept nogil:
    return one.size == other.size and (one.size == 0 or memcmp(one.at, other.at, one.size) == 0)


cdef inline int order_of(Span one, Span other) noexcept nogil:
    """Below 0 if the first one sorts first, 0 for the same."""
    cdef Py_ssize_t size = min(one.size, other.size)
    cdef int order = memcmp(one.at, other.at, size) if size else 0
    if order == 0 and one.size != other.size:
        order = -1 if one.size < other.size else 1
    return order


cdef inline Py_ssize_t place_in(Span span, Span part) noexcept nogil:
    """The place at which a part of a span begins."""
    return part.at - span.at


cdef inline bytes bytes_of(Span span):
    return PyBytes_FromStringAndSize(<const char *> span.at, span.size)


cdef inline str text_of(Span span):
    """Raises UnicodeDecodeError for anything but UTF-8."""
    return PyUnicode_DecodeUTF8(<const char *> span.at, span.size, NULL)


cdef inline str replaced_text_of(Span span):
    """The text with U+FFFD for what is not UTF-8."""
    return PyUnicode_DecodeUTF8(<const char *> span.at, span.size, "replace")


cdef inline object view_of(Span span):
    """A view for a call that ends before the memory does."""
    return PyMemoryView_FromMemory(<char *> span.at, span.size, 0x100)  # PyBUF_READ


# ---- writing ----


cdef struct Writer:
    unsigned char *start
    unsigned char *at
    unsigned char *end
    bint overflow


cdef inline Writer writer_over(void *start, Py_ssize_t size) noexcept nogil:
    """A writer of a buffer whose owner says that it has so many bytes."""
    cdef Writer out
    out.start = out.at = <unsigned char *> start
    out.end = out.at + max(<Py_ssize_t> 0, size)
    out.overflow = size < 0
    return out


cdef inline Py_ssize_t written(const Writer *out) noexcept nogil:
    return out.at - out.start


cdef inline Py_ssize_t left_of(const Writer *out) noexcept nogil:
    return out.end - out.at


cdef inline Span span_written(const Writer *out, Py_ssize_t start=0) noexcept nogil:
    """The bytes written from a place on. Valid as long as its memory, and until more is written over it."""
    return part_of(span_over(out.start, out.at - out.start), start, out.at - out.start)


cdef inline void roll_back(Writer *out, Py_ssize_t place) noexcept nogil:
    """Takes back what was written from a place on. An overflow stays noted."""
    if 0 <= place <= out.at - out.start:
        out.at = out.start + place


cdef inline unsigned char *_claim(Writer *out, Py_ssize_t size) noexcept nogil:
    """The next so many bytes; NULL if they do not fit, and then no more ever do."""
    cdef unsigned char *at = out.at
    if size < 0 or size > out.end - at:
        out.overflow = True
        out.end = at
        return NULL
    out.at = at + size
    return at


cdef inline void skip(Writer *out, Py_ssize_t size) noexcept nogil:
    """Leaves so many bytes as they are."""
    _claim(out, size)


cdef inline void put_u8(Writer *out, unsigned char value) noexcept nogil:
    cdef unsigned char *at = _claim(out, 1)
    if at != NULL:
        at[0] = value


cdef inline void put_u16(Writer *out, unsigned int value) noexcept nogil:
    cdef unsigned char *at = _claim(out, 2)
    if at != NULL:
        at[0] = (value >> 8) & 0xFF
        at[1] = value & 0xFF


cdef inline void put_u32(Writer *out, unsigned int value) noexcept nogil:
    cdef unsigned char *at = _claim(out, 4)
    if at != NULL:
        put_int(at, value)


cdef inline void put_u64(Writer *out, unsigned long long value) noexcept nogil:
    cdef unsigned char *at = _claim(out, 8)
    if at != NULL:
        put_long(at, value)


cdef inline void put_span(Writer *out, Span span) noexcept nogil:
    cdef unsigned char *at = _claim(out, span.size)
    if at != NULL and span.size:
        memcpy(at, span.at, span.size)


cdef inline void put_bytes(Writer *out, bytes data) noexcept:
    put_span(out, span_of(data))


cdef inline void put_literal(Writer *out, const char *literal) noexcept nogil:
    put_span(out, span_over(literal, strlen(literal)))


cdef inline void set_u32(Writer *out, Py_ssize_t place, unsigned int value) noexcept nogil:
    """Writes over what was written at a place: for lengths that are known only after the bytes they count."""
    if place < 0 or place > out.at - out.start - 4:
        out.overflow = True
    else:
        put_int(out.start + place, value)


cdef inline void set_u64(Writer *out, Py_ssize_t place, unsigned long long value) noexcept nogil:
    if place < 0 or place > out.at - out.start - 8:
        out.overflow = True
    else:
        put_long(out.start + place, value)


cdef inline void put_native_i32(Writer *out, int value) noexcept nogil:
    """A number as this machine has it: for memory that never leaves it."""
    cdef unsigned char *at = _claim(out, 4)
    if at != NULL:
        memcpy(at, &value, 4)


cdef inline void put_native_i64(Writer *out, long long value) noexcept nogil:
    cdef unsigned char *at = _claim(out, 8)
    if at != NULL:
        memcpy(at, &value, 8)


cdef inline void put_hex_span(Writer *out, Span span) noexcept nogil:
    """Writes two hexadecimal digits for each byte."""
    cdef unsigned char *at = _claim(out, 2 * span.size)
    cdef Py_ssize_t i
    if at != NULL:
        for i in range(span.size):
            at[2 * i] = <unsigned char> b"0123456789ABCDEF"[span.at[i] >> 4]
            at[2 * i + 1] = <unsigned char> b"0123456789ABCDEF"[span.at[i] & 0xF]


cdef inline void put_decimal(Writer *out, long long number) noexcept nogil:
    cdef unsigned char digits[20]
    cdef unsigned long long rest = <unsigned long long> number
    cdef int n = 20
    if number < 0:
        put_u8(out, 45)
        rest = 0 - rest
    while True:
        n -= 1
        digits[n] = <unsigned char> (48 + rest % 10)
        rest //= 10
        if rest == 0:
            break
    put_span(out, span_over(digits + n, 20 - n))


cdef inline void put_hex(Writer *out, unsigned long long number) noexcept nogil:
    """Writes 16 hexadecimal digits."""
    cdef unsigned char *at = _claim(out, 16)
    cdef int i
    if at != NULL:
        for i in range(15, -1, -1):
            at[i] = <unsigned char> b"0123456789ABCDEF"[number & 0xF]
            number >>= 4


cdef inline int make_room(bytearray memory, Writer *out, Py_ssize_t size) except -1:
    """Lets a writer over `memory` write so many bytes more: the memory grows where they do not fit."""
    cdef Py_ssize_t used = out.at - out.start
    if size > out.end - out.at:
        PyByteArray_Resize(memory, max(used + size, 2 * PyByteArray_GET_SIZE(memory)))
        out.start = <unsigned char *> PyByteArray_AS_STRING(memory)
        out.at = out.start + used
        out.end = out.start + PyByteArray_GET_SIZE(memory)
    return 0


cdef inline Writer writer_of(bytearray memory) noexcept:
    """A writer over the bytes that an array has. Nobody else may make the array grow meanwhile."""
    return writer_over(PyByteArray_AS_STRING(memory), PyByteArray_GET_SIZE(memory))


cdef inline Writer writer_of_new(bytes fresh) noexcept:
    """A writer over `new_bytes` that nobody else has seen yet."""
    return writer_over(PyBytes_AS_STRING(fresh), PyBytes_GET_SIZE(fresh))


cdef inline bytes new_bytes(Py_ssize_t size):
    """Bytes for a writer to fill: all of them, before anybody else sees them."""
    return PyBytes_FromStringAndSize(NULL, size)


cdef inline bytearray new_array(Py_ssize_t size):
    """An array for a writer to fill; what it holds before is nothing to read."""
    return PyByteArray_FromStringAndSize(NULL, size)


# ---- reading ----


cdef struct Reader:
    const unsigned char *at
    const unsigned char *end
    bint overflow


cdef inline Reader reader_over(Span span) noexcept nogil:
    cdef Reader source
    source.at = span.at
    source.end = span.at + span.size if span.size > 0 else span.at
    source.overflow = False
    return source


cdef inline Py_ssize_t unread(const Reader *source) noexcept nogil:
    return source.end - source.at


cdef inline const unsigned char *_take(Reader *source, Py_ssize_t size) noexcept nogil:
    """The next so many bytes; NULL if they are not there, and then no more ever are."""
    cdef const unsigned char *at = source.at
    if size < 0 or size > source.end - at:
        source.overflow = True
        source.end = at
        return NULL
    if size:
        source.at = at + size
    return at


cdef inline unsigned char get_u8(Reader *source) noexcept nogil:
    cdef const unsigned char *at = _take(source, 1)
    return 0 if at == NULL else at[0]


cdef inline int get_i16(Reader *source) noexcept nogil:
    cdef const unsigned char *at = _take(source, 2)
    return 0 if at == NULL else get_short(at)


cdef inline int get_i32(Reader *source) noexcept nogil:
    cdef const unsigned char *at = _take(source, 4)
    return 0 if at == NULL else get_int(at)


cdef inline long long get_i64(Reader *source) noexcept nogil:
    cdef const unsigned char *at = _take(source, 8)
    return 0 if at == NULL else get_long(at)


cdef inline int get_native_i32(Reader *source) noexcept nogil:
    """A number as `put_native_i32` wrote it."""
    cdef const unsigned char *at = _take(source, 4)
    cdef int value = 0
    if at != NULL:
        memcpy(&value, at, 4)
    return value


cdef inline long long get_native_i64(Reader *source) noexcept nogil:
    cdef const unsigned char *at = _take(source, 8)
    cdef long long value = 0
    if at != NULL:
        memcpy(&value, at, 8)
    return value


cdef inline Span get_span(Reader *source, Py_ssize_t size) noexcept nogil:
    """The next so many bytes; none of them if they are not all there."""
    cdef const unsigned char *at = _take(source, size)
    return no_span() if at == NULL else span_over(at, size)


# ---- numbers at a place of a span ----


cdef inline int i16_of(Span span, Py_ssize_t place) noexcept nogil:
    """The number at a place; 0 where the span ends before it does."""
    if place < 0 or place > span.size - 2:
        return 0
    return get_short(span.at + place)


cdef inline int i32_of(Span span, Py_ssize_t place) noexcept nogil:
    if place < 0 or place > span.size - 4:
        return 0
    return get_int(span.at + place)


cdef inline long long i64_of(Span span, Py_ssize_t place) noexcept nogil:
    if place < 0 or place > span.size - 8:
        return 0
    return get_long(span.at + place)

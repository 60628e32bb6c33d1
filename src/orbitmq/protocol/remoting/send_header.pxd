# The header of a request, from JSON to slots without a Python object: for the hot modules where they are
# compiled. A header that is not as Java, Go and C++ peers write it is for `header_cy`, which alone
# decides what is malformed.

from orbitmq.protocol.buffers.bounded cimport (
    Span,
    Writer,
    byte_of,
    i32_of,
    is_literal,
    is_same,
    is_there,
    no_span,
    part_of,
    put_span,
    put_u8,
    span_of_literal,
)


cdef enum:
    MOST_NAMED = 20

cdef struct Text:
    Span span  # of nothing where there is no such field
    bint escaped


cdef struct Numbers:  # of a header, for `header_cy`
    int code
    int opaque
    int flag
    int version


cdef struct SendHeader:
    int code
    int opaque
    int flag
    int version
    Text language
    Text fields[26]  # of extFields, by letter
    int named
    Text names[MOST_NAMED]  # of extFields, those that are longer
    Text values[MOST_NAMED]


cdef inline Numbers no_numbers() noexcept:
    cdef Numbers numbers
    numbers.code = numbers.opaque = numbers.flag = numbers.version = 0
    return numbers


cdef inline Text _no_text() noexcept:
    cdef Text text
    text.span = no_span()
    text.escaped = False
    return text


# The steps below give the place behind what they took, -1 where it is anything else. The end of a span reads as
# a zero byte, which nothing here takes.


cdef inline Py_ssize_t past_blanks(Span json, Py_ssize_t at) noexcept:
    cdef unsigned char c = byte_of(json, at)
    while c == 32 or c == 9 or c == 10 or c == 13:
        at += 1
        c = byte_of(json, at)
    return at


cdef inline Py_ssize_t _text(Span json, Py_ssize_t at, Text *text) noexcept:
    """Reads the ASCII string that begins at a quote."""
    cdef Py_ssize_t start
    cdef unsigned char c
    if byte_of(json, at) != 34:
        return -1
    at += 1
    start = at
    text.escaped = False
    while True:
        c = byte_of(json, at)
        if c == 34:
            break
        if c == 92:
            text.escaped = True
            at += 1
            c = byte_of(json, at)
        if c < 32 or c > 127:
            return -1
        at += 1
    text.span = part_of(json, start, at - start)
    return at + 1


cdef inline Py_ssize_t _colon(Span json, Py_ssize_t at) noexcept:
    """Goes from behind a name to the begin of its value."""
    at = past_blanks(json, at)
    if byte_of(json, at) != 58:
        return -1
    return past_blanks(json, at + 1)


cdef inline bint to_number(Span text, long long *number) noexcept:
    """Reads a decimal number of at most 18 digits; False for anything else."""
    cdef bint negative = byte_of(text, 0) == 45
    cdef Py_ssize_t at = 1 if negative else 0
    cdef long long value = 0
    cdef unsigned char digit
    if at >= text.size or text.size - at > 18:
        return False
    while at < text.size:
        digit = byte_of(text, at)
        if digit < 48 or digit > 57:
            return False
        value = value * 10 + (digit - 48)
        at += 1
    number[0] = -value if negative else value
    return True


cdef inline Py_ssize_t _fields(Span json, Py_ssize_t at, SendHeader *header) noexcept:
    """Reads the object of fields that begins at a brace; -1 as well where there are too many."""
    cdef Text name
    cdef Text value
    cdef unsigned char letter
    cdef unsigned char c
    at = past_blanks(json, at + 1)
    if byte_of(json, at) == 125:
        return at + 1
    while True:
        at = _text(json, at, &name)
        if at < 0 or name.escaped:
            return -1
        at = _colon(json, at)
        if at < 0:
            return -1
        at = _text(json, at, &value)
        letter = byte_of(name.span, 0) if name.span.size == 1 else 0
        # Properties, `i`, are the one field that is written with escapes.
        if at < 0 or (value.escaped and letter != 105):
            return -1
        if 97 <= letter <= 122:
            header.fields[letter - 97] = value
        elif header.named < MOST_NAMED:
            header.names[header.named] = name
            header.values[header.named] = value
            header.named += 1
        else:
            return -1
        at = past_blanks(json, at)
        c = byte_of(json, at)
        if c == 125:
            return at + 1
        if c != 44:
            return -1
        at = past_blanks(json, at + 1)


cdef inline bint scan_send(Span json, SendHeader *header) noexcept:
    """Reads a whole header; False if it is not of the form."""
    cdef Text name
    cdef Text text
    cdef Py_ssize_t at
    cdef Py_ssize_t digits
    cdef unsigned char c
    cdef long long number = 0
    cdef bint has_fields = False
    cdef int i
    header.code = header.opaque = header.flag = header.version = header.named = 0
    header.language = _no_text()
    for i in range(26):
        header.fields[i] = _no_text()
    if byte_of(json, 0) != 123:
        return False
    at = 1
    while True:
        at = _text(json, past_blanks(json, at), &name)
        if at < 0 or name.escaped:
            return False
        at = _colon(json, at)
        if at < 0:
            return False
        c = byte_of(json, at)
        if c == 34:
            at = _text(json, at, &text)
            if at < 0 or text.escaped:
                return False
            if is_literal(name.span, b"language"):
                header.language = text
            elif not is_literal(name.span, b"serializeTypeCurrentRPC"):
                return False
        elif c == 123:
            if has_fields or not is_literal(name.span, b"extFields"):
                return False
            has_fields = True
            at = _fields(json, at, header)
            if at < 0:
                return False
        else:
            digits = at
            while c == 45 or 48 <= c <= 57:
                at += 1
                c = byte_of(json, at)
            if not to_number(part_of(json, digits, at - digits), &number):
                return False
            if not -2147483648 <= number <= 2147483647:
                return False
            if is_literal(name.span, b"code"):
                header.code = <int> number
            elif is_literal(name.span, b"opaque"):
                header.opaque = <int> number
            elif is_literal(name.span, b"flag"):
                header.flag = <int> number
            elif is_literal(name.span, b"version"):
                header.version = <int> number
            else:
                return False
        at = past_blanks(json, at)
        c = byte_of(json, at)
        if c == 125:
            return past_blanks(json, at + 1) == json.size
        if c != 44:
            return False
        at += 1


cdef inline Py_ssize_t scan_frame(Span read, Py_ssize_t at, SendHeader *header, Span *body) noexcept:
    """Reads the frame of a request at a place of a read; gives its size, 0 if it is not whole or not of the form."""
    cdef Py_ssize_t left = read.size - at
    cdef Py_ssize_t length
    cdef Py_ssize_t header_length
    if left < 8:
        return 0
    length = i32_of(read, at)
    header_length = i32_of(read, at + 4)  # above 24 bits: the kind of header, 0 for JSON
    if length < 4 or length + 4 > left or header_length < 2 or header_length + 4 > length:
        return 0
    if byte_of(read, at + 4) or not scan_send(part_of(read, at + 8, header_length), header):
        return 0
    body[0] = part_of(read, at + 8 + header_length, length - 4 - header_length)
    return length + 4


cdef inline bint named(const SendHeader *header, const char *literal, Span *value) noexcept:
    """Gives the value of a field by its name; False without it, and then the value is none."""
    cdef Span name = span_of_literal(literal)
    cdef int i = header.named
    while i > 0:
        i -= 1
        if is_same(header.names[i].span, name):
            value[0] = header.values[i].span
            return True
    value[0] = no_span()
    return False


cdef inline bint is_i32(Span text) noexcept:
    """True for a decimal number of 32 bits."""
    cdef long long number = 0
    return to_number(text, &number) and -2147483648 <= number <= 2147483647


cdef inline bint has_needed_fields(const SendHeader *header) noexcept:
    """False if the header of a send lacks a field that the rules need, or one that they read as a number is none."""
    return (
        header.fields[0].span.size > 0  # a: producer group
        and header.fields[2].span.size > 0  # c: default topic
        and is_i32(header.fields[3].span)  # d: its queues
        and is_i32(header.fields[7].span)  # h: flag
        and (not is_there(header.fields[11].span) or is_i32(header.fields[11].span))  # l: reconsume times at most
    )


cdef inline unsigned char _digit(unsigned char digit) noexcept:
    """The value of a hexadecimal digit; above 15 if it is none."""
    if 48 <= digit <= 57:
        return digit - 48
    if 97 <= digit <= 102:
        return digit - 87
    if 65 <= digit <= 70:
        return digit - 55
    return 255


cdef inline bint unescape(Span text, bint escaped, Writer *out) noexcept:
    """Writes what a JSON string stands for; False for one with rare escapes, or that does not fit."""
    cdef Writer own = out[0]  # in registers, see `put_record`
    cdef Py_ssize_t at = 0
    cdef unsigned char c
    if not escaped:
        put_span(out, text)
        return not out.overflow
    while at < text.size:
        c = byte_of(text, at)
        if c != 92:
            at += 1
        else:
            c = byte_of(text, at + 1)
            if c == 117:  # u00xx
                if byte_of(text, at + 2) != 48 or byte_of(text, at + 3) != 48:
                    return False
                if _digit(byte_of(text, at + 4)) > 7 or _digit(byte_of(text, at + 5)) > 15:
                    return False
                c = (_digit(byte_of(text, at + 4)) << 4) | _digit(byte_of(text, at + 5))
                at += 6
            else:
                if c == 110:
                    c = 10
                elif c == 116:
                    c = 9
                elif c != 34 and c != 92 and c != 47:
                    return False
                at += 2
        put_u8(&own, c)
    out[0] = own
    return not own.overflow

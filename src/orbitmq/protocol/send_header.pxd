# The header of a request, from JSON to slots without a Python object: for the hot modules where they are
# compiled. Whatever is not as Java, Go and C++ peers write it is for `header_cy`, which alone
# decides what is malformed.

from libc.string cimport memcmp, memset


cdef enum:
    MOST_NAMED = 20

cdef struct Text:
    const unsigned char *at  # NULL where there is none
    Py_ssize_t size
    bint escaped


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


cdef inline const unsigned char *_past_blanks(const unsigned char *at, const unsigned char *end) noexcept:
    while at < end and (at[0] == 32 or at[0] == 9 or at[0] == 10 or at[0] == 13):
        at += 1
    return at


cdef inline const unsigned char *_text(const unsigned char *at, const unsigned char *end, Text *text) noexcept:
    """The ASCII string that begins at a quote, and what is behind it; NULL if it is anything else."""
    if at >= end or at[0] != 34:
        return NULL
    at += 1
    text.at = at
    text.escaped = False
    while at < end and at[0] != 34:
        if at[0] == 92:
            text.escaped = True
            at += 1
            if at >= end:
                return NULL
        if at[0] < 32 or at[0] > 127:
            return NULL
        at += 1
    if at >= end:
        return NULL
    text.size = at - text.at
    return at + 1


cdef inline const unsigned char *_colon(const unsigned char *at, const unsigned char *end) noexcept:
    """The begin of the value behind a name; NULL if no colon follows."""
    at = _past_blanks(at, end)
    if at >= end or at[0] != 58:
        return NULL
    return _past_blanks(at + 1, end)


cdef inline bint is_text(const Text *text, const char *other, Py_ssize_t size) noexcept:
    return text.size == size and memcmp(text.at, other, size) == 0


cdef inline bint to_number(const unsigned char *at, Py_ssize_t size, long long *number) noexcept:
    """Reads a decimal number of at most 18 digits; False for anything else."""
    cdef bint negative = size > 0 and at[0] == 45
    cdef const unsigned char *end = at + size
    cdef long long value = 0
    if negative:
        at += 1
    if at >= end or end - at > 18:
        return False
    while at < end:
        if at[0] < 48 or at[0] > 57:
            return False
        value = value * 10 + (at[0] - 48)
        at += 1
    number[0] = -value if negative else value
    return True


cdef inline const unsigned char *_fields(
    const unsigned char *at, const unsigned char *end, SendHeader *header
) noexcept:
    """The object of fields that begins at `at`, and what is behind it; NULL if there are too many."""
    cdef Text name
    cdef Text value
    at = _past_blanks(at + 1, end)
    if at < end and at[0] == 125:
        return at + 1
    while True:
        at = _text(at, end, &name)
        if at == NULL or name.escaped:
            return NULL
        at = _colon(at, end)
        if at == NULL:
            return NULL
        at = _text(at, end, &value)
        # Properties, `i`, are the one field that is written with escapes.
        if at == NULL or (value.escaped and not (name.size == 1 and name.at[0] == 105)):
            return NULL
        if name.size == 1 and 97 <= name.at[0] <= 122:
            header.fields[name.at[0] - 97] = value
        elif header.named < MOST_NAMED:
            header.names[header.named] = name
            header.values[header.named] = value
            header.named += 1
        else:
            return NULL
        at = _past_blanks(at, end)
        if at >= end:
            return NULL
        if at[0] == 125:
            return at + 1
        if at[0] != 44:
            return NULL
        at = _past_blanks(at + 1, end)


cdef inline bint scan_send(const unsigned char *at, const unsigned char *end, SendHeader *header) noexcept:
    """Reads a whole header; False if it is not of the form."""
    cdef Text name
    cdef Text text
    cdef const unsigned char *digits
    cdef long long number = 0
    cdef bint has_fields = False
    memset(header, 0, sizeof(SendHeader) - sizeof(header.names) - sizeof(header.values))
    if at >= end or at[0] != 123:
        return False
    at += 1
    while True:
        at = _text(_past_blanks(at, end), end, &name)
        if at == NULL or name.escaped:
            return False
        at = _colon(at, end)
        if at == NULL or at >= end:
            return False
        if at[0] == 34:
            at = _text(at, end, &text)
            if at == NULL or text.escaped:
                return False
            if is_text(&name, b"language", 8):
                header.language = text
            elif not is_text(&name, b"serializeTypeCurrentRPC", 23):
                return False
        elif at[0] == 123:
            if has_fields or not is_text(&name, b"extFields", 9):
                return False
            has_fields = True
            at = _fields(at, end, header)
            if at == NULL:
                return False
        else:
            digits = at
            while at < end and (at[0] == 45 or 48 <= at[0] <= 57):
                at += 1
            if not to_number(digits, at - digits, &number) or not -2147483648 <= number <= 2147483647:
                return False
            if is_text(&name, b"code", 4):
                header.code = <int> number
            elif is_text(&name, b"opaque", 6):
                header.opaque = <int> number
            elif is_text(&name, b"flag", 4):
                header.flag = <int> number
            elif is_text(&name, b"version", 7):
                header.version = <int> number
            else:
                return False
        at = _past_blanks(at, end)
        if at >= end:
            return False
        if at[0] == 125:
            return _past_blanks(at + 1, end) == end
        if at[0] != 44:
            return False
        at += 1


cdef inline bint named(const SendHeader *header, const char *name, Py_ssize_t size, Text *value) noexcept:
    """Gives the value of a field by its name; False without it, and then the value is none."""
    cdef int i = header.named
    while i > 0:
        i -= 1
        if is_text(&header.names[i], name, size):
            value[0] = header.values[i]
            return True
    value.at = NULL
    value.size = 0
    return False


cdef inline unsigned char _digit(unsigned char digit) noexcept:
    """What a hexadecimal digit stands for; above 15 if it is none."""
    if 48 <= digit <= 57:
        return digit - 48
    if 97 <= digit <= 102:
        return digit - 87
    if 65 <= digit <= 70:
        return digit - 55
    return 255


cdef inline Py_ssize_t unescape(const Text *text, unsigned char *out, Py_ssize_t most) noexcept:
    """Writes what a string stands for; gives its length, -1 for one with rare escapes or of more than `most`."""
    cdef const unsigned char *at = text.at
    cdef const unsigned char *end = at + text.size
    cdef Py_ssize_t n = 0
    cdef unsigned char c
    if text.size > 6 * most:
        return -1
    while at < end:
        if n >= most:
            return -1
        c = at[0]
        if c != 92:
            at += 1
        else:
            c = at[1]
            if c == 117:  # u00xx
                if end - at < 6 or at[2] != 48 or at[3] != 48 or _digit(at[4]) > 7 or _digit(at[5]) > 15:
                    return -1
                c = (_digit(at[4]) << 4) | _digit(at[5])
                at += 6
            else:
                if c == 110:
                    c = 10
                elif c == 116:
                    c = 9
                elif c != 34 and c != 92 and c != 47:
                    return -1
                at += 2
        out[n] = c
        n += 1
    return n

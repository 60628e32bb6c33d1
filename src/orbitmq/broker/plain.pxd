# What properties mean to the broker, looked at in place: for the hot modules where they are compiled.

from libc.string cimport memchr, memcmp

from orbitmq.protocol.big_endian cimport get_int, get_short


cdef inline bint is_meaningful(const char *name, Py_ssize_t length) noexcept:
    """Whether an entry's name begins like one of those in `send_cy`'s `_MEANINGFUL`."""
    cdef char c = name[0]
    if c == 68:  # D
        return length >= 5 and memcmp(name, b"DELAY", 5) == 0
    if c == 84:  # T
        return length >= 6 and (
            memcmp(name, b"TIMER_", 6) == 0
            or (length >= 8 and (memcmp(name, b"TRAN_MSG", 8) == 0 or memcmp(name, b"TRACE_ON", 8) == 0))
        )
    if c == 80:  # P
        return length >= 6 and memcmp(name, b"POP_CK", 6) == 0
    if c == 77:  # M
        return length >= 10 and memcmp(name, b"MSG_REGION", 10) == 0
    if c == 95:  # _
        return length >= 18 and memcmp(name, b"_SYS_MSG_PRIORITY_", 18) == 0
    if c == 67:  # C
        return length >= 7 and memcmp(name, b"CLUSTER", 7) == 0
    return False


cdef inline bint counts_for_something(const char *entry, Py_ssize_t size) noexcept:
    """Whether an entry has a name and a value: others are not stored."""
    cdef const char *middle = <const char *> memchr(entry, 1, size)
    return middle != NULL and middle > entry and middle + 1 < entry + size


cdef inline bint is_alphanumeric(const char *text, Py_ssize_t length) noexcept:
    cdef Py_ssize_t i
    cdef char c
    for i in range(length):
        c = text[i]
        if not (48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122):
            return False
    return True


cdef inline bint look_through_batch_properties(
    const char *start, Py_ssize_t size, Py_ssize_t *unique_at, Py_ssize_t *unique_size
) noexcept:
    """Gives the id of a batch as a whole, of size 0 where it has none; False if its properties mean more."""
    cdef const char *at = start
    cdef const char *end = start + size
    cdef const char *stop
    unique_at[0] = unique_size[0] = 0
    while at < end:
        if end - at >= 5 and memcmp(at, b"DELAY", 5) == 0:
            return False
        if end - at >= 8 and memcmp(at, b"TRAN_MSG", 8) == 0:
            return False
        stop = <const char *> memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        if stop - at >= 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
            if unique_size[0] or stop - at < 10 or at[8] != 1 or not is_alphanumeric(at + 9, stop - at - 9):
                return False
            unique_at[0] = at + 9 - start
            unique_size[0] = stop - at - 9
        at = stop + 1
    return True


cdef inline bint find_tags(const char *start, Py_ssize_t size, long long *tags_code) noexcept:
    """Gives the tags code of properties; False for tags that are more than ASCII."""
    cdef const char *at = start
    cdef const char *end = start + size
    cdef const char *stop
    cdef Py_ssize_t i
    cdef unsigned int code
    cdef unsigned char bits
    tags_code[0] = 0
    while at < end:
        stop = <const char *> memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        if stop - at > 5 and memcmp(at, b"TAGS\x01", 5) == 0:
            code = 0
            bits = 0
            for i in range(5, stop - at):
                code = code * 31 + <unsigned char> at[i]
                bits |= <unsigned char> at[i]
            if bits > 127:
                return False
            tags_code[0] = <int> code
        at = stop + 1
    return True


cdef struct Content:
    Py_ssize_t count
    Py_ssize_t size  # of bodies and properties together
    Py_ssize_t longest  # body and properties of one message
    Py_ssize_t longest_body


cdef inline bint look_through_batch(const unsigned char *at, const unsigned char *end, Content *content) noexcept:
    """What is in the body of a batch (see `batch_cy`); False if it is not whole, or one of its messages not plain."""
    cdef long long size
    cdef long long body_length
    cdef long long tags_code
    content.count = content.size = content.longest = content.longest_body = 0
    if at >= end:
        return False
    while at < end:
        if end - at < 22:
            return False
        size = get_int(at)
        body_length = get_int(at + 16)
        if size < 22 or size > end - at or body_length < 0 or body_length > size - 22:
            return False
        if get_short(at + 20 + body_length) != size - 22 - body_length:
            return False
        if memchr(at + 22 + body_length, 0, size - 22 - body_length) != NULL or not find_tags(
            <const char *> at + 22 + body_length, size - 22 - body_length, &tags_code
        ):
            return False
        content.count += 1
        content.size += size - 22
        content.longest = max(content.longest, size - 22)
        content.longest_body = max(content.longest_body, body_length)
        at += size
    return True


cdef struct Plain:
    Py_ssize_t unique_at
    Py_ssize_t unique_size
    long long tags_code
    bint is_ordered


cdef inline bint look_through(const char *start, Py_ssize_t size, bint sync_flush, Plain *plain) noexcept:
    """What storing and answering need of ASCII properties; False if one of them means more, or no id is there."""
    cdef const char *at = start
    cdef const char *end = start + size
    cdef const char *stop
    cdef Py_ssize_t i
    cdef unsigned int code
    plain.unique_size = 0
    plain.tags_code = 0
    plain.is_ordered = False
    if memchr(start, 0, size) != NULL:
        return False
    while at < end:
        if is_meaningful(at, end - at):
            return False
        stop = <const char *> memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        size = stop - at
        if not counts_for_something(at, size):
            return False
        if at[0] == 85:
            if not plain.unique_size and size > 9 and memcmp(at, b"UNIQ_KEY\x01", 9) == 0:
                plain.unique_at = at + 9 - start
                plain.unique_size = size - 9
                if not is_alphanumeric(at + 9, size - 9):
                    return False
        elif at[0] == 84:
            if size > 5 and memcmp(at, b"TAGS\x01", 5) == 0:
                code = 0
                for i in range(5, size):
                    code = code * 31 + <unsigned char> at[i]
                plain.tags_code = <int> code
        elif at[0] == 95:
            if size >= 14 and memcmp(at, b"__SHARDINGKEY\x01", 14) == 0:
                plain.is_ordered = True
        elif at[0] == 87 and sync_flush:
            if size == 10 and memcmp(at, b"WAIT\x01false", 10) == 0:
                return False
        at = stop + 1
    return plain.unique_size > 0

# The parts of a record, the checks of their lengths, and the fields in them: for the hot modules where they are
# compiled. The layout of a record is in `message_cy`. The twin for the interpreter is `plain.parts_of`, which also has
# the words for each fault.

from orbitmq.protocol.buffers.bounded cimport (
    Span,
    byte_of,
    find_byte,
    i16_of,
    i32_of,
    i64_of,
    is_ascii,
    part_of,
    text_of,
)
from orbitmq.protocol.records.located cimport Parts


cdef enum:
    LEAST_RECORD_BYTES = 91
    MAGIC_V1 = -626843481
    MAGIC_V2 = -626843477
    MAGIC_BLANK = -875286124


cdef inline bint is_text(Span text) except -1:
    """True if bytes are UTF-8."""
    if is_ascii(text):
        return True
    try:
        text_of(text)
    except UnicodeDecodeError:
        return False
    return True


cdef inline Span body_of(Span data, const Parts *parts) noexcept nogil:
    return part_of(data, parts.body, parts.body_length)


cdef inline Span topic_of(Span data, const Parts *parts) noexcept nogil:
    return part_of(data, parts.topic, parts.topic_length)


cdef inline Span properties_of_record(Span data, const Parts *parts) noexcept nogil:
    return part_of(data, parts.properties, parts.record + parts.size - parts.properties)


cdef inline bint find_lengths(Span data, Py_ssize_t position, Py_ssize_t stop, Parts *parts) noexcept nogil:
    """Follows the lengths of body, topic and properties; False if they do not add up to the record's size.

    The record's magic is that of one.
    """
    cdef int sys_flag = i32_of(data, position + 36)
    cdef Py_ssize_t stored = position + (68 if sys_flag & 0x10 else 56)
    cdef Py_ssize_t reconsume = stored + (28 if sys_flag & 0x20 else 16)
    cdef Py_ssize_t body = reconsume + 16
    cdef Py_ssize_t body_length
    cdef Py_ssize_t topic
    cdef Py_ssize_t topic_length
    if reconsume + 19 > stop:
        return False
    body_length = i32_of(data, reconsume + 12)
    if body_length < 0 or body_length > stop - body - 3:
        return False
    topic = body + body_length
    if i32_of(data, position + 4) == MAGIC_V1:
        topic_length = <signed char> byte_of(data, topic)
        topic += 1
    else:
        topic_length = i16_of(data, topic)
        topic += 2
    if topic_length < 0 or topic_length > stop - topic - 2:
        return False
    parts.store_time = stored
    parts.body = body
    parts.body_length = body_length
    parts.topic = topic
    parts.topic_length = topic_length
    parts.properties = topic + topic_length + 2
    return i16_of(data, topic + topic_length) == stop - parts.properties


cdef inline bint find_whole(Span data, Py_ssize_t position, Py_ssize_t end, Parts *parts) noexcept nogil:
    """Finds the parts of the record at a position. False if there is none, or not all of it is before `end`.

    Every length is checked against the record's own size, the sum as well.
    """
    cdef Py_ssize_t size
    cdef int magic
    if position < 0 or end - position < 8:
        return False
    size = i32_of(data, position)
    magic = i32_of(data, position + 4)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return False
    if size < LEAST_RECORD_BYTES or size > end - position:
        return False
    parts.record = position
    parts.size = size
    return find_lengths(data, position, position + size, parts)


cdef inline bint find_parts(Span data, Py_ssize_t position, Py_ssize_t end, Parts *parts) except -1:
    """Finds the parts of the record at a position. False if there is none, or it is not whole and sound."""
    if not find_whole(data, position, end, parts):
        return False
    return is_text(topic_of(data, parts)) and find_byte(properties_of_record(data, parts), 0) < 0


cdef inline bint find_usual(Span data, Py_ssize_t position, Py_ssize_t end, Parts *parts) noexcept nogil:
    """Finds the parts of the record at a position if it has the form of nearly all: version 1, and a topic of ASCII."""
    if not find_whole(data, position, end, parts):
        return False
    return i32_of(data, position + 4) == MAGIC_V1 and is_ascii(topic_of(data, parts))


# ---- fields of a record whose parts were found ----


cdef inline int queue_id_of(Span data, const Parts *parts) noexcept nogil:
    return i32_of(data, parts.record + 12)


cdef inline int flag_of(Span data, const Parts *parts) noexcept nogil:
    return i32_of(data, parts.record + 16)


cdef inline long long queue_offset_of(Span data, const Parts *parts) noexcept nogil:
    return i64_of(data, parts.record + 20)


cdef inline long long physical_offset_of(Span data, const Parts *parts) noexcept nogil:
    return i64_of(data, parts.record + 28)


cdef inline Span physical_offset_bytes(Span data, const Parts *parts) noexcept nogil:
    return part_of(data, parts.record + 28, 8)


cdef inline int sys_flag_of(Span data, const Parts *parts) noexcept nogil:
    return i32_of(data, parts.record + 36)


cdef inline long long born_timestamp_of(Span data, const Parts *parts) noexcept nogil:
    return i64_of(data, parts.record + 40)


cdef inline Span born_host_of(Span data, const Parts *parts) noexcept nogil:
    return part_of(data, parts.record + 48, parts.store_time - parts.record - 48)


cdef inline long long store_timestamp_of(Span data, const Parts *parts) noexcept nogil:
    return i64_of(data, parts.store_time)


cdef inline Span store_host_of(Span data, const Parts *parts) noexcept nogil:
    return part_of(data, parts.store_time + 8, parts.body - parts.store_time - 24)


cdef inline int reconsume_times_of(Span data, const Parts *parts) noexcept nogil:
    return i32_of(data, parts.body - 16)


cdef inline bint is_compressed(int sys_flag) noexcept nogil:
    return sys_flag & 0x1 != 0


cdef inline bint is_unpublished(int sys_flag) noexcept nogil:
    """True for half messages (0x4) and those that were rolled back (0xC)."""
    return sys_flag & 0x4 != 0


cdef inline bint is_inner_batch(int sys_flag) noexcept nogil:
    """True if the record holds several messages."""
    return sys_flag & 0xC0 == 0xC0

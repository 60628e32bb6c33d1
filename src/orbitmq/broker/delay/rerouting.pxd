# Delayed messages, timers and half messages, which are stored elsewhere first: their properties as clients send them, and
# their records as they are stored, read in place. For the hot modules where they are compiled.

from orbitmq.broker.meaningful_properties cimport is_left_to_rules
from orbitmq.protocol.buffers.bounded cimport (
    Span,
    byte_of,
    find_byte,
    i16_of,
    i32_of,
    i64_of,
    is_alphanumeric,
    is_ascii,
    is_digits,
    is_literal,
    is_there,
    no_span,
    part_of,
    rest_of,
    starts_with,
)
from orbitmq.protocol.buffers.crc cimport body_crc
from orbitmq.protocol.buffers.text_hash cimport tag_hash
from orbitmq.protocol.records.record cimport property_crc_holds


cdef enum:
    MAGIC = -626843481  # 0xDAA320A7, of a record whose topic has up to 127 bytes


cdef struct Rerouting:
    Py_ssize_t unique_at
    Py_ssize_t unique_size
    Py_ssize_t group_at
    Py_ssize_t group_size
    int level  # 0: a half message
    long long tags_code
    bint is_ordered


cdef struct Entry:
    Span name
    Span value
    Py_ssize_t value_at
    Py_ssize_t behind  # where the next one begins


cdef inline bint read_entry(Span properties, Py_ssize_t at, Entry *entry) noexcept:
    """Reads the entry of properties that begins at `at`; False if it is not of the usual form: a name and a
    value, neither empty, with 0x01 between them alone and 0x02 behind.
    """
    cdef Py_ssize_t stop = find_byte(properties, 2, at)
    cdef Py_ssize_t middle
    if stop < 0:
        return False
    middle = find_byte(part_of(properties, at, stop - at), 1)
    if middle < 0:
        return False
    entry.name = part_of(properties, at, middle)
    entry.value_at = at + middle + 1
    entry.value = part_of(properties, entry.value_at, stop - entry.value_at)
    entry.behind = stop + 1
    return entry.name.size > 0 and entry.value.size > 0 and find_byte(entry.value, 1) < 0


cdef inline bint classify_rerouted(
    Span properties, Span beginnings, bint sync_flush, Rerouting *rerouted
) noexcept:
    """True if ASCII properties, which end with 0x02, are those of a message with a delay level or of a half message, to
    which three more can be added as they are; what that needs of them is in `rerouted`.
    """
    cdef Py_ssize_t at = 0
    cdef Entry entry
    cdef bint is_half = False
    cdef bint has_tags = False
    rerouted.unique_at = rerouted.group_at = 0
    rerouted.unique_size = rerouted.group_size = 0
    rerouted.level = 0
    rerouted.tags_code = 0
    rerouted.is_ordered = False
    if find_byte(properties, 0) >= 0:
        return False
    while at < properties.size:
        if not read_entry(properties, at, &entry):
            return False
        if is_literal(entry.name, b"DELAY"):
            if rerouted.level or entry.value.size > 2:
                return False
            if byte_of(entry.value, 0) == 48 or not is_digits(entry.value):
                return False
            rerouted.level = <int> digits(entry.value)
        elif is_literal(entry.name, b"UNIQ_KEY"):
            if rerouted.unique_size or not is_alphanumeric(entry.value):
                return False
            rerouted.unique_at = entry.value_at
            rerouted.unique_size = entry.value.size
        elif is_literal(entry.name, b"TAGS"):
            if has_tags:
                return False
            has_tags = True
            rerouted.tags_code = tag_hash(entry.value)
        elif is_literal(entry.name, b"TRAN_MSG"):
            if is_half or not is_literal(entry.value, b"true"):
                return False
            is_half = True
        elif is_literal(entry.name, b"PGROUP"):
            if rerouted.group_size:
                return False
            rerouted.group_at = entry.value_at
            rerouted.group_size = entry.value.size
        elif is_literal(entry.name, b"__SHARDINGKEY"):
            if rerouted.is_ordered:
                return False
            rerouted.is_ordered = True
        elif sync_flush and is_literal(entry.name, b"WAIT"):
            return False
        elif is_left_to_rules(entry.name, beginnings):
            return False
        at = entry.behind
    if not rerouted.unique_size:
        return False
    if is_half:
        return rerouted.group_size > 0 and not rerouted.level
    return rerouted.level > 0


cdef struct Half:
    Span record
    Py_ssize_t host_size
    Py_ssize_t body_at
    Span body
    Span sent  # properties that its commit publishes, but for the broker's own
    Span own
    Span topic  # where it goes
    Span queue_id
    Span group
    Span unique
    long long tags_code


cdef inline bint parse_half(Span log, Half *half) noexcept:
    """Takes apart a record of a half message that `classify_rerouted` has let pass, with which a piece of the log
    begins; False if it is anything else.
    """
    cdef Entry entry
    cdef Span properties
    cdef Py_ssize_t at
    cdef Py_ssize_t size = i32_of(log, 0)
    cdef Py_ssize_t body_size
    cdef unsigned char host_flags
    if size < 91 or size > log.size:
        return False
    half.record = part_of(log, 0, size)
    host_flags = byte_of(half.record, 39)
    half.host_size = 20 if host_flags & 0x10 else 8
    at = 48 + half.host_size + 8 + (20 if host_flags & 0x20 else 8) + 12
    half.body_at = at + 4
    body_size = i32_of(half.record, at)
    at = half.body_at + body_size
    if body_size < 0 or at > size - 3:
        return False
    half.body = part_of(half.record, half.body_at, body_size)
    at += 1 + byte_of(half.record, at)
    properties = rest_of(half.record, at + 2)
    if at > size - 2 or i16_of(half.record, at) != properties.size:
        return False
    half.topic = half.queue_id = half.group = half.unique = half.own = half.sent = no_span()
    half.tags_code = 0
    at = 0
    while at < properties.size:
        if not read_entry(properties, at, &entry):
            return False
        if is_literal(entry.name, b"REAL_TOPIC"):
            half.sent = part_of(properties, 0, at)
            half.topic = entry.value
        elif is_literal(entry.name, b"REAL_QID"):
            half.queue_id = entry.value
            half.own = rest_of(properties, entry.behind)
            break
        elif is_literal(entry.name, b"UNIQ_KEY"):
            half.unique = entry.value
        elif is_literal(entry.name, b"PGROUP"):
            half.group = entry.value
        elif is_literal(entry.name, b"TAGS"):
            half.tags_code = tag_hash(entry.value)
        at = entry.behind
    return is_there(half.topic) and is_there(half.queue_id) and is_there(half.group) and is_there(half.unique)


cdef struct Record:
    Span whole
    Span body
    Py_ssize_t store_time  # where it stands in the record
    Py_ssize_t body_at  # the same of its body
    Span topic
    Span properties


cdef inline bint parse_record(Span whole, Record *record) noexcept:
    """Takes apart the record of a plain message; False if it is damaged, or not of the usual form. Checksums are for
    the caller to check.
    """
    cdef Py_ssize_t at
    cdef Py_ssize_t body_size
    cdef unsigned char sys_flag = byte_of(whole, 39)
    if whole.size < 91 or i32_of(whole, 0) != whole.size or i32_of(whole, 4) != MAGIC:
        return False
    if sys_flag & 0x8C:  # transactions, inner batches
        return False
    record.whole = whole
    record.store_time = 48 + (20 if sys_flag & 0x10 else 8)
    at = record.store_time + 8 + (20 if sys_flag & 0x20 else 8) + 12
    if at > whole.size - 7:
        return False
    body_size = i32_of(whole, at)
    at += 4
    if body_size < 0 or body_size > whole.size - at - 3:
        return False
    record.body = part_of(whole, at, body_size)
    record.body_at = at
    at += body_size
    record.topic = part_of(whole, at + 1, byte_of(whole, at))
    at += 1 + byte_of(whole, at)
    if at > whole.size - 2:
        return False
    record.properties = rest_of(whole, at + 2)
    if i16_of(whole, at) != record.properties.size:  # more than 32,767 read as a negative number
        return False
    return find_byte(record.properties, 0) < 0


cdef inline Span record_at(
    Span log, long long log_start, long long physical_offset, Py_ssize_t size, Py_ssize_t near_bytes
) noexcept:
    """The record that a unit points to, of a piece of the log which ends where the log does; nothing if it is not within
    `near_bytes` of that end, and so perhaps on the disk, or is another one.
    """
    cdef Py_ssize_t begin
    cdef Span record
    # Damaged units hold any number: no sum of two of them may overflow.
    if physical_offset < log_start or physical_offset > log_start + log.size:
        return no_span()
    begin = physical_offset - log_start
    if size <= 0 or size > log.size - begin or log.size - begin > near_bytes:
        return no_span()
    record = part_of(log, begin, size)
    return record if i64_of(record, 28) == physical_offset else no_span()


cdef inline bint has_checksums(const Record *record, bint with_crc, bytes crc_tables, object crc32) except -1:
    """True if the checksum of a record's body is right and, if records have one over all of them, that one as well."""
    cdef unsigned int crc = body_crc(record.body, crc_tables, crc32)
    if crc != <unsigned int> i32_of(record.whole, 8):
        return False
    return not with_crc or property_crc_holds(record.whole, crc_tables, crc32)


cdef struct Delayed:
    Span topic  # where it goes
    Span queue_id
    long long tags_code


cdef inline bint parse_delayed(const Record *record, Delayed *delayed) noexcept:
    """Reads the properties of a delayed message; False if they are not of the usual form."""
    cdef Span properties = record.properties
    cdef Py_ssize_t at = 0
    cdef Entry entry
    delayed.topic = delayed.queue_id = no_span()
    delayed.tags_code = 0
    while at < properties.size:
        if not read_entry(properties, at, &entry):
            return False
        if is_literal(entry.name, b"REAL_TOPIC"):
            if entry.value.size > 127 or not is_ascii(entry.value):
                return False
            delayed.topic = entry.value
        elif is_literal(entry.name, b"REAL_QID"):
            delayed.queue_id = entry.value
        elif is_literal(entry.name, b"TAGS"):
            if not is_ascii(entry.value):
                return False
            delayed.tags_code = tag_hash(entry.value)
        elif starts_with(entry.name, b"INNER_MULTI_"):
            return False
        at = entry.behind
    return is_there(delayed.topic) and is_there(delayed.queue_id)


cdef inline long long digits(Span text) noexcept:
    """The number that up to 18 digits are; -1 for anything else."""
    cdef long long number = 0
    cdef Py_ssize_t i
    if text.size > 18 or not is_digits(text):
        return -1
    for i in range(text.size):
        number = number * 10 + byte_of(text, i) - 48
    return number


cdef struct Timer:
    Span topic  # where it goes
    long long out_ms
    long long asked_ms  # -1: it does not say


cdef inline bint parse_timer(const Record *record, long long stored_ms, Timer *timer) noexcept:
    """Reads the properties of a timer message; False if they are not of the usual form, or take another one back."""
    cdef Span properties = record.properties
    cdef Py_ssize_t at = 0
    cdef Entry entry
    cdef long long number
    cdef bint has_queue = False
    timer.topic = no_span()
    timer.out_ms = timer.asked_ms = -1
    while at < properties.size:
        if not read_entry(properties, at, &entry):
            return False
        if starts_with(entry.name, b"TIMER_"):
            number = digits(entry.value)
            if is_literal(entry.name, b"TIMER_OUT_MS"):
                if number < 0 or timer.out_ms >= 0:
                    return False
                timer.out_ms = number
            elif is_literal(entry.name, b"TIMER_DELIVER_MS"):
                if number < 0 or timer.asked_ms >= 0:
                    return False
                timer.asked_ms = number
            elif is_literal(entry.name, b"TIMER_DELAY_MS"):
                if number < 0 or timer.asked_ms >= 0:
                    return False
                timer.asked_ms = stored_ms + number
            elif is_literal(entry.name, b"TIMER_DELAY_SEC"):
                if number < 0 or number > 1000000000 or timer.asked_ms >= 0:
                    return False
                timer.asked_ms = stored_ms + number * 1000
            elif is_literal(entry.name, b"TIMER_DEL_UNIQKEY"):
                return False
        elif is_literal(entry.name, b"REAL_TOPIC"):
            if is_there(timer.topic) or not is_ascii(entry.value):
                return False
            timer.topic = entry.value
        elif is_literal(entry.name, b"REAL_QID"):
            if has_queue or digits(entry.value) < 0:
                return False
            has_queue = True
        at = entry.behind
    return is_there(timer.topic) and has_queue and timer.out_ms >= 0

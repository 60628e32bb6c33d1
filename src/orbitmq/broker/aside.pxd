# Properties of messages that wait elsewhere first, and of half messages as they are stored, looked at in place:
# for the hot modules where they are compiled.

from libc.string cimport memchr, memcmp

from orbitmq.broker.plain cimport is_alphanumeric
from orbitmq.protocol.big_endian cimport get_int


cdef enum:
    MAGIC = -626843481  # 0xDAA320A7, of a record whose topic has up to 127 bytes


cdef struct Aside:
    Py_ssize_t unique_at
    Py_ssize_t unique_size
    Py_ssize_t group_at
    Py_ssize_t group_size
    int level  # 0: a half message
    long long tags_code
    bint is_ordered


cdef inline bint begins(const char *at, Py_ssize_t size, const char *text, Py_ssize_t length) noexcept:
    return size >= length and memcmp(at, text, length) == 0


cdef inline int tag_hash(const char *at, Py_ssize_t size) noexcept:
    """The hash of an ASCII tag, as Java makes it."""
    cdef unsigned int code = 0
    cdef Py_ssize_t i
    for i in range(size):
        code = code * 31 + <unsigned char> at[i]
    return <int> code


cdef struct Entry:
    const unsigned char *name
    Py_ssize_t name_size
    const unsigned char *value
    Py_ssize_t value_size
    const unsigned char *behind  # where the next one begins


cdef inline bint take_entry(const unsigned char *at, const unsigned char *end, Entry *entry) noexcept:
    """Reads the entry of properties that begins at `at`; False if it is not of the usual form: a name and a
    value, neither empty, with 0x01 between them alone and 0x02 behind.
    """
    cdef const unsigned char *stop = <const unsigned char *> memchr(at, 2, end - at)
    if stop == NULL:
        return False
    entry.name = at
    entry.value = <const unsigned char *> memchr(at, 1, stop - at)
    if entry.value == NULL:
        return False
    entry.name_size = entry.value - at
    entry.value += 1
    entry.value_size = stop - entry.value
    entry.behind = stop + 1
    return (
        entry.name_size > 0 and entry.value_size > 0 and memchr(entry.value, 1, entry.value_size) == NULL
    )


cdef inline bint is_named(const Entry *entry, const char *name, Py_ssize_t size) noexcept:
    return entry.name_size == size and memcmp(entry.name, name, size) == 0


cdef inline bint look_aside(const char *start, Py_ssize_t size, bint sync_flush, Aside *aside) noexcept:
    """Whether ASCII properties, which end with 0x02, are those of a message with a delay level or of a half
    message, to which three more can be added as they are; what that needs of them is in `aside`. It takes no
    more than `send_cy` does.
    """
    cdef const unsigned char *at = <const unsigned char *> start
    cdef const unsigned char *end = at + size
    cdef const unsigned char *value
    cdef const char *name
    cdef Py_ssize_t length
    cdef Py_ssize_t value_length
    cdef Entry entry
    cdef bint is_half = False
    cdef bint has_tags = False
    aside.unique_size = aside.group_size = 0
    aside.level = 0
    aside.tags_code = 0
    aside.is_ordered = False
    if memchr(start, 0, size) != NULL:
        return False
    while at < end:
        if not take_entry(at, end, &entry):
            return False
        name = <const char *> at
        length = entry.name_size
        value = entry.value
        value_length = entry.value_size
        if at[0] == 68:  # D
            if begins(name, length, b"DELAY", 5):
                if length != 5 or aside.level or value_length > 2 or not 49 <= value[0] <= 57:
                    return False
                aside.level = value[0] - 48
                if value_length == 2:
                    if not 48 <= value[1] <= 57:
                        return False
                    aside.level = aside.level * 10 + value[1] - 48
        elif at[0] == 85:  # U
            if is_named(&entry, b"UNIQ_KEY", 8):
                if aside.unique_size or not is_alphanumeric(<const char *> value, value_length):
                    return False
                aside.unique_at = value - <const unsigned char *> start
                aside.unique_size = value_length
        elif at[0] == 84:  # T
            if is_named(&entry, b"TAGS", 4):
                if has_tags:
                    return False
                has_tags = True
                aside.tags_code = tag_hash(<const char *> value, value_length)
            elif is_named(&entry, b"TRAN_MSG", 8):
                if is_half or value_length != 4 or memcmp(value, b"true", 4) != 0:
                    return False
                is_half = True
            elif (
                begins(name, length, b"TIMER_", 6)
                or begins(name, length, b"TRACE_ON", 8)
                or begins(name, length, b"TRAN", 4)
            ):
                return False
        elif at[0] == 80:  # P
            if is_named(&entry, b"PGROUP", 6):
                if aside.group_size:
                    return False
                aside.group_at = value - <const unsigned char *> start
                aside.group_size = value_length
            elif begins(name, length, b"POP_CK", 6):
                return False
        elif at[0] == 95:  # _
            if is_named(&entry, b"__SHARDINGKEY", 13):
                if aside.is_ordered:
                    return False
                aside.is_ordered = True
            elif begins(name, length, b"__transactionId__", 17) or begins(name, length, b"_SYS_MSG_PRIORITY_", 18):
                return False
        elif at[0] == 82:  # R
            if begins(name, length, b"REAL_", 5):
                return False
        elif at[0] == 77:  # M
            if begins(name, length, b"MSG_REGION", 10):
                return False
        elif at[0] == 67:  # C
            if begins(name, length, b"CLUSTER", 7) or begins(name, length, b"CHECK_IMMUNITY_", 15):
                return False
        elif at[0] == 87 and sync_flush:  # W
            if is_named(&entry, b"WAIT", 4):
                return False
        at = entry.behind
    if not aside.unique_size:
        return False
    if is_half:
        return aside.group_size > 0 and not aside.level
    return aside.level > 0


cdef struct Half:
    Py_ssize_t size
    const unsigned char *born_host
    Py_ssize_t host_size
    const unsigned char *body
    Py_ssize_t body_size
    const unsigned char *properties
    Py_ssize_t sent_size  # of those that its commit publishes, but for the broker's own
    const unsigned char *own
    Py_ssize_t own_size
    const unsigned char *topic  # where it goes
    Py_ssize_t topic_size
    const unsigned char *queue_id
    Py_ssize_t queue_id_size
    const unsigned char *group
    Py_ssize_t group_size
    const unsigned char *unique
    Py_ssize_t unique_size
    long long tags_code


cdef inline bint look_at_half(const unsigned char *at, Py_ssize_t left, Half *half) noexcept:
    """Takes apart a record of a half message that `look_aside` has let pass; False if it is anything else."""
    cdef const unsigned char *end
    cdef Entry entry
    cdef int sys_flag
    if left < 91:
        return False
    half.size = (<Py_ssize_t> at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3]
    if half.size > left:
        return False
    end = at + half.size
    sys_flag = at[39]
    half.born_host = at + 48
    half.host_size = 20 if sys_flag & 0x10 else 8
    at = half.born_host + half.host_size + 8 + (20 if sys_flag & 0x20 else 8) + 12
    if end - at < 7:
        return False
    half.body_size = (<Py_ssize_t> at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3]
    half.body = at + 4
    at = half.body + half.body_size
    if end - at < 3 or end - at < 3 + at[0]:
        return False
    at += 1 + at[0]
    half.properties = at + 2
    if end - half.properties != (at[0] << 8) | at[1]:
        return False
    half.topic = half.queue_id = half.group = half.unique = half.own = NULL
    half.sent_size = half.topic_size = half.queue_id_size = half.group_size = half.unique_size = half.own_size = 0
    half.tags_code = 0
    at = half.properties
    while at < end:
        if not take_entry(at, end, &entry):
            return False
        if is_named(&entry, b"REAL_TOPIC", 10):
            half.sent_size = at - half.properties
            half.topic = entry.value
            half.topic_size = entry.value_size
        elif is_named(&entry, b"REAL_QID", 8):
            half.queue_id = entry.value
            half.queue_id_size = entry.value_size
            half.own = entry.behind
            half.own_size = end - half.own
            break
        elif is_named(&entry, b"UNIQ_KEY", 8):
            half.unique = entry.value
            half.unique_size = entry.value_size
        elif is_named(&entry, b"PGROUP", 6):
            half.group = entry.value
            half.group_size = entry.value_size
        elif is_named(&entry, b"TAGS", 4):
            half.tags_code = tag_hash(<const char *> entry.value, entry.value_size)
        at = entry.behind
    return half.topic != NULL and half.queue_id != NULL and half.group != NULL and half.unique != NULL


cdef struct Record:
    const unsigned char *body
    Py_ssize_t body_size
    Py_ssize_t store_time  # where it stands in the record
    Py_ssize_t before_topic  # the bytes of the record before its topic
    const unsigned char *topic
    Py_ssize_t topic_size
    const unsigned char *properties
    Py_ssize_t properties_size


cdef inline bint look_at_record(const unsigned char *at, Py_ssize_t size, Record *record) noexcept:
    """Takes apart the record of a plain message; False if it is damaged, or not of the usual form. The checksum
    of its body is not looked at.
    """
    cdef const unsigned char *start = at
    cdef const unsigned char *end = at + size
    if size < 91 or get_int(at) != size or get_int(at + 4) != MAGIC:
        return False
    if at[39] & 0x8C:  # transactions, inner batches
        return False
    record.store_time = 48 + (20 if at[39] & 0x10 else 8)
    at = start + record.store_time + 8 + (20 if at[39] & 0x20 else 8) + 12
    if end - at < 7:
        return False
    record.body_size = get_int(at)
    record.body = at + 4
    if record.body_size < 0 or record.body_size > end - at - 7:
        return False
    at = record.body + record.body_size
    record.before_topic = at - start
    record.topic = at + 1
    record.topic_size = at[0]
    if end - at < 3 + record.topic_size:
        return False
    at += 1 + record.topic_size
    record.properties = at + 2
    record.properties_size = end - record.properties
    if record.properties_size != (at[0] << 8) | at[1] or record.properties_size > 32767:
        return False
    return memchr(record.properties, 0, record.properties_size) == NULL


cdef inline bint is_ascii(const unsigned char *text, Py_ssize_t size) noexcept:
    cdef Py_ssize_t i
    for i in range(size):
        if text[i] > 127:
            return False
    return True


cdef struct Delayed:
    const unsigned char *topic  # where it goes
    Py_ssize_t topic_size
    const unsigned char *queue_id
    Py_ssize_t queue_id_size
    long long tags_code


cdef inline bint look_at_delayed(const Record *record, Delayed *delayed) noexcept:
    """What the properties of a delayed message say; False if they are not of the usual form."""
    cdef const unsigned char *at = record.properties
    cdef const unsigned char *end = at + record.properties_size
    cdef Entry entry
    delayed.topic = delayed.queue_id = NULL
    delayed.topic_size = delayed.queue_id_size = 0
    delayed.tags_code = 0
    while at < end:
        if not take_entry(at, end, &entry):
            return False
        if is_named(&entry, b"REAL_TOPIC", 10):
            if entry.value_size > 127 or not is_ascii(entry.value, entry.value_size):
                return False
            delayed.topic = entry.value
            delayed.topic_size = entry.value_size
        elif is_named(&entry, b"REAL_QID", 8):
            delayed.queue_id = entry.value
            delayed.queue_id_size = entry.value_size
        elif is_named(&entry, b"TAGS", 4):
            if not is_ascii(entry.value, entry.value_size):
                return False
            delayed.tags_code = tag_hash(<const char *> entry.value, entry.value_size)
        at = entry.behind
    return delayed.topic != NULL and delayed.queue_id != NULL


cdef inline long long digits(const unsigned char *text, Py_ssize_t size) noexcept:
    """The number that up to 18 digits are; -1 for anything else."""
    cdef long long number = 0
    cdef Py_ssize_t i
    if size < 1 or size > 18:
        return -1
    for i in range(size):
        if not 48 <= text[i] <= 57:
            return -1
        number = number * 10 + text[i] - 48
    return number


cdef struct Timer:
    const unsigned char *topic  # where it goes
    Py_ssize_t topic_size
    long long out_ms
    long long asked_ms  # -1: it does not say


cdef inline bint look_at_timer(const Record *record, long long stored_ms, Timer *timer) noexcept:
    """What the properties of a timer message say; False if they are not of the usual form, or take another one
    back.
    """
    cdef const unsigned char *at = record.properties
    cdef const unsigned char *end = at + record.properties_size
    cdef Entry entry
    cdef long long number
    cdef bint has_queue = False
    timer.topic = NULL
    timer.out_ms = timer.asked_ms = -1
    while at < end:
        if not take_entry(at, end, &entry):
            return False
        if entry.name_size > 6 and memcmp(at, b"TIMER_", 6) == 0:
            number = digits(entry.value, entry.value_size)
            if is_named(&entry, b"TIMER_OUT_MS", 12):
                if number < 0 or timer.out_ms >= 0:
                    return False
                timer.out_ms = number
            elif is_named(&entry, b"TIMER_DELIVER_MS", 16):
                if number < 0 or timer.asked_ms >= 0:
                    return False
                timer.asked_ms = number
            elif is_named(&entry, b"TIMER_DELAY_MS", 14):
                if number < 0 or timer.asked_ms >= 0:
                    return False
                timer.asked_ms = stored_ms + number
            elif is_named(&entry, b"TIMER_DELAY_SEC", 15):
                if number < 0 or number > 1000000000 or timer.asked_ms >= 0:
                    return False
                timer.asked_ms = stored_ms + number * 1000
            elif is_named(&entry, b"TIMER_DEL_UNIQKEY", 17):
                return False
        elif is_named(&entry, b"REAL_TOPIC", 10):
            if timer.topic != NULL or not is_ascii(entry.value, entry.value_size):
                return False
            timer.topic = entry.value
            timer.topic_size = entry.value_size
        elif is_named(&entry, b"REAL_QID", 8):
            if has_queue or digits(entry.value, entry.value_size) < 0:
                return False
            has_queue = True
        at = entry.behind
    return timer.topic != NULL and has_queue and timer.out_ms >= 0

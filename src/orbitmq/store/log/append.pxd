# The one way in which fast paths add records to the log and units to its queues: for the hot modules where they are
# compiled. `MessageStore.reserve` gives a `LogWriter`; `begin_append` makes of it what is needed to write, each
# `append_record` writes one record that `has_space_for` has measured, and `end_append` reports the position to the
# `LogWriter`. Until `MessageStore.commit` nobody else sees any of it, and `MessageStore.rollback` undoes it.

from cpython.buffer cimport PyBUF_WRITABLE, PyObject_GetBuffer

from orbitmq.protocol.buffers.bounded cimport (
    Span,
    Writer,
    byte_of,
    left_of,
    part_of,
    put_literal,
    put_span,
    put_u8,
    put_u16,
    put_u32,
    put_u64,
    skip,
    span_written,
    writer_over,
    written,
)
from orbitmq.protocol.buffers.crc cimport body_crc
from orbitmq.protocol.records.record cimport (
    FIXED_BYTES,
    PROPERTY_CRC_BYTES,
    has_property_crc,
    put_property_crc,
)
from orbitmq.store.queue.units cimport put_unit


cdef enum:
    BLANK_BYTES = 8  # a blank record has to fit behind the last one
    MOST_PROPERTIES = 32767
    MOST_SENT_PROPERTIES = 31743  # of a sent message: the rest is for what a broker adds to its copies


cdef struct LogEnd:
    Writer out  # over the segment: behind its last record, up to where blocks are reserved
    long long segment_start  # physical offset of the segment's first byte
    long long store_timestamp
    Py_ssize_t max_body
    Py_ssize_t max_record
    bint with_crc  # each record ends with a checksum over all of it (enabledAppendPropCRC)
    long long last_record  # physical offset; -1 as long as none was written


cdef struct NewRecord:
    int queue_id
    int flag
    int sys_flag  # but for the two bits that say the size of the hosts
    long long born_timestamp
    Span born_host
    Span store_host
    int reconsume_times
    long long prepared_transaction_offset
    Span body
    unsigned int body_crc
    Span topic
    Span properties
    Span own_properties  # of the broker, behind those of the client
    # The fields below are filled in by `has_space_for` and `append_record`.
    Py_ssize_t size
    Py_ssize_t properties_size
    bint needs_separator
    long long queue_offset
    long long physical_offset


cdef inline int begin_append(object writer, Py_buffer *segment, LogEnd *log) except -1:
    """Opens the memory behind the last record. The caller releases `segment`, whatever happens."""
    cdef Py_ssize_t limit = writer.limit
    PyObject_GetBuffer(writer.view, segment, PyBUF_WRITABLE)
    log.out = writer_over(segment.buf, min(limit, segment.len))
    skip(&log.out, writer.position)
    log.segment_start = writer.segment_start
    log.store_timestamp = writer.store_timestamp
    log.max_body = writer.max_body_bytes
    log.max_record = writer.max_record_bytes
    log.with_crc = writer.property_crc
    log.last_record = -1
    return 0


cdef inline int end_append(object writer, const LogEnd *log) except -1:
    """Notes what was written, for `MessageStore.commit`."""
    writer.position = written(&log.out)
    writer.last_record = log.last_record
    return 0


cdef inline long long end_offset(const LogEnd *log) noexcept:
    """The physical offset at which the next record begins."""
    return log.segment_start + written(&log.out)


cdef inline bint has_space_for(const LogEnd *log, NewRecord *record, Py_ssize_t reserved) noexcept:
    """Measures a record; False if it is larger than records may be, or does not fit into the segment with `reserved`
    bytes behind it, or has properties that only the general path can store.
    """
    cdef Py_ssize_t most
    record.properties_size = record.properties.size + record.own_properties.size
    record.needs_separator = False
    record.size = most = (
        FIXED_BYTES
        + record.born_host.size
        + record.store_host.size
        + record.body.size
        + record.topic.size
        + record.properties_size
    )
    if log.with_crc:
        if has_property_crc(record.properties) or has_property_crc(record.own_properties):
            return False  # a client's; the general path replaces it
        # As `record_size` has it, which decides elsewhere: one byte more than may be needed.
        most += PROPERTY_CRC_BYTES + 1
        if record.own_properties.size:
            record.needs_separator = byte_of(record.own_properties, record.own_properties.size - 1) != 2
        elif record.properties.size:
            record.needs_separator = byte_of(record.properties, record.properties.size - 1) != 2
        record.properties_size += PROPERTY_CRC_BYTES + record.needs_separator
        record.size += PROPERTY_CRC_BYTES + record.needs_separator
    return (
        record.topic.size <= 127
        and record.properties_size <= MOST_PROPERTIES
        and record.body.size <= log.max_body
        and most <= log.max_record
        and most + BLANK_BYTES <= left_of(&log.out) - reserved
    )


cdef inline int append_to(
    LogEnd *log,
    NewRecord *record,
    bytearray tail,
    long long queue_offset,
    long long tags_code,
    bytes crc_tables,
    object crc32,
) except -1:
    """Writes a record that was measured, and its unit into the tail of its queue, whose end the caller moves on."""
    cdef Writer out = log.out  # in registers: the compiler cannot know that what is written is not `log` itself
    cdef Py_ssize_t start = written(&out)
    cdef int sys_flag = record.sys_flag & ~0x30
    if record.born_host.size == 20:
        sys_flag |= 0x10
    if record.store_host.size == 20:
        sys_flag |= 0x20
    record.queue_offset = queue_offset
    record.physical_offset = log.segment_start + start
    put_u32(&out, <unsigned int> record.size)
    put_u32(&out, 0xDAA320A7)
    put_u32(&out, record.body_crc)
    put_u32(&out, <unsigned int> record.queue_id)
    put_u32(&out, <unsigned int> record.flag)
    put_u64(&out, <unsigned long long> queue_offset)
    put_u64(&out, <unsigned long long> record.physical_offset)
    put_u32(&out, <unsigned int> sys_flag)
    put_u64(&out, <unsigned long long> record.born_timestamp)
    put_span(&out, record.born_host)
    put_u64(&out, <unsigned long long> log.store_timestamp)
    put_span(&out, record.store_host)
    put_u32(&out, <unsigned int> record.reconsume_times)
    put_u64(&out, <unsigned long long> record.prepared_transaction_offset)
    put_u32(&out, <unsigned int> record.body.size)
    put_span(&out, record.body)
    put_u8(&out, <unsigned char> record.topic.size)
    put_span(&out, record.topic)
    put_u16(&out, <unsigned int> record.properties_size)
    put_span(&out, record.properties)
    put_span(&out, record.own_properties)
    if log.with_crc:
        if record.needs_separator:
            put_u8(&out, 2)
        put_property_crc(&out, body_crc(span_written(&out, start), crc_tables, crc32))
    if out.overflow or written(&out) - start != record.size:
        raise SystemError("a record was measured smaller than it is")
    put_unit(tail, record.physical_offset, <int> record.size, tags_code)
    log.out = out
    log.last_record = record.physical_offset
    return 0


cdef inline int append_record(
    LogEnd *log, NewRecord *record, object queue, list dirty, long long tags_code, bytes crc_tables, object crc32
) except -1:
    """Writes a record that was measured as the last one of its queue; `dirty` lists queues with something new."""
    cdef long long queue_offset = queue.max_offset
    if not queue.dirty:
        # Before the unit is there: a rollback looks at the queues of this list.
        dirty.append(queue)
        queue.dirty = True
    append_to(log, record, queue.tail, queue_offset, tags_code, crc_tables, crc32)
    queue.max_offset = queue_offset + 1
    return 0

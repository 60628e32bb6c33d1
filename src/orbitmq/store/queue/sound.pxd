# Soundness of a record that a unit points to: for the hot modules where they are compiled. `records_cy.is_sound` is the same
# for interpreted ones.

from orbitmq.protocol.buffers.bounded cimport Span, find_byte, i32_of, i64_of, is_same
from orbitmq.protocol.buffers.crc cimport body_crc
from orbitmq.protocol.records.located cimport Parts
from orbitmq.protocol.records.parts cimport (
    LEAST_RECORD_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    body_of,
    find_lengths,
    properties_of_record,
    topic_of,
)
from orbitmq.protocol.records.record cimport PROPERTY_CRC_BYTES, property_crc_holds


cdef inline bint _has_place(
    Span record, long long physical_offset, int queue_id, long long queue_offset
) noexcept:
    """True if a record has the size that its unit says, and names the place that its unit has."""
    return (
        record.size >= LEAST_RECORD_BYTES
        and i32_of(record, 0) == record.size
        and (i32_of(record, 4) == MAGIC_V1 or i32_of(record, 4) == MAGIC_V2)
        and (queue_id < 0 or (i32_of(record, 12) == queue_id and i64_of(record, 20) == queue_offset))
        and i64_of(record, 28) == physical_offset
    )


cdef inline bint is_sound(
    Span record,
    long long physical_offset,
    int queue_id,
    long long queue_offset,
    Span topic,
    bint whole,
    bytes crc_tables,
    object crc32,
) except -1:
    """True if a record is whole, in its place, and the one that its unit means: topic, lengths and checksums.

    Without a topic the unit is one of a light message queue, whose records have topics and places of their own.
    """
    cdef Parts parts
    cdef Span properties
    if not _has_place(record, physical_offset, queue_id if topic.size else -1, queue_offset):
        return False
    parts.record = 0
    parts.size = record.size
    if not find_lengths(record, 0, record.size, &parts) or (
        topic.size and not is_same(topic_of(record, &parts), topic)
    ):
        return False
    properties = properties_of_record(record, &parts)
    if find_byte(properties, 0) >= 0:
        return False
    if whole and properties.size >= PROPERTY_CRC_BYTES and not property_crc_holds(record, crc_tables, crc32):
        return False
    return body_crc(body_of(record, &parts), crc_tables, crc32) == <unsigned int> i32_of(record, 8)

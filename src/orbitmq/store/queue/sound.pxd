# Soundness of a record that a unit points to: for the hot modules where they are compiled. `records_cy.is_sound` is the same
# for interpreted ones.

from orbitmq.protocol.buffers.bounded cimport Span, byte_of, find_byte, i16_of, i32_of, i64_of, is_same, part_of
from orbitmq.protocol.buffers.crc cimport body_crc
from orbitmq.protocol.records.record cimport property_crc_holds


cdef enum:
    MAGIC_V1 = -626843481
    MAGIC_V2 = -626843477  # the length of the topic has two bytes


cdef inline bint _has_place(
    Span record, long long physical_offset, int queue_id, long long queue_offset
) noexcept:
    """True if a record has the size that its unit says, and names the place that its unit has."""
    return (
        record.size >= 91
        and i32_of(record, 0) == record.size
        and (i32_of(record, 4) == MAGIC_V1 or i32_of(record, 4) == MAGIC_V2)
        and i32_of(record, 12) == queue_id
        and i64_of(record, 20) == queue_offset
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
    """True if a record is whole, in its place, and the one that its unit means: topic, lengths and checksums."""
    cdef Py_ssize_t body_at = 88
    cdef Py_ssize_t body_length
    cdef Py_ssize_t place
    cdef Py_ssize_t length
    if not _has_place(record, physical_offset, queue_id, queue_offset):
        return False
    if i32_of(record, 36) & 0x10:
        body_at += 12
    if i32_of(record, 36) & 0x20:
        body_at += 12
    body_length = i32_of(record, body_at - 4)
    # Topic and properties have a length of their own, at least three bytes together.
    if body_at + 3 > record.size or body_length < 0 or body_length > record.size - body_at - 3:
        return False
    place = body_at + body_length
    if i32_of(record, 4) == MAGIC_V1:
        length = byte_of(record, place)
        place += 1
    else:
        length = i16_of(record, place)
        place += 2
    if not is_same(part_of(record, place, length), topic):
        return False
    place += topic.size + 2
    length = i16_of(record, place - 2)
    if length != record.size - place or find_byte(part_of(record, place, length), 0) >= 0:
        return False
    if whole and length >= 20 and not property_crc_holds(record, crc_tables, crc32):
        return False
    return body_crc(part_of(record, body_at, body_length), crc_tables, crc32) == <unsigned int> i32_of(record, 8)

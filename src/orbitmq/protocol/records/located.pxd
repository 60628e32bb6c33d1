# Rows of the table that `scanning_cy.locate_records` makes: for the hot modules where they are compiled.

from orbitmq.protocol.buffers.bounded cimport Reader, Writer, get_native_i64, put_native_i64


cdef struct Parts:
    # Places are bytes of the buffer; properties go on to the end of the record.
    long long record
    long long size
    long long store_time
    long long body
    long long body_length
    long long topic
    long long topic_length
    long long properties


cdef inline void put_parts(Writer *out, const Parts *parts) noexcept nogil:
    put_native_i64(out, parts.record)
    put_native_i64(out, parts.size)
    put_native_i64(out, parts.store_time)
    put_native_i64(out, parts.body)
    put_native_i64(out, parts.body_length)
    put_native_i64(out, parts.topic)
    put_native_i64(out, parts.topic_length)
    put_native_i64(out, parts.properties)


cdef inline bint get_parts(Reader *source, Parts *parts) noexcept nogil:
    """Reads the next row; False where there is none."""
    parts.record = get_native_i64(source)
    parts.size = get_native_i64(source)
    parts.store_time = get_native_i64(source)
    parts.body = get_native_i64(source)
    parts.body_length = get_native_i64(source)
    parts.topic = get_native_i64(source)
    parts.topic_length = get_native_i64(source)
    parts.properties = get_native_i64(source)
    return not source.overflow

# A record of the commit log, written in place: for the hot modules where they are compiled.

from cpython.bytes cimport PyBytes_GET_SIZE

from orbitmq.protocol.buffers.bounded cimport (
    Span,
    Writer,
    put_bytes,
    put_literal,
    put_span,
    put_u8,
    put_u16,
    put_u32,
    put_u64,
    roll_back,
    written,
)


cdef enum:
    PROPERTY_CRC_BYTES = 20


cdef inline void put_place_for_crc(Writer *properties) noexcept:
    """Adds the property that holds a record's checksum, which is known once the rest is written."""
    put_literal(properties, b"__CRC32#\x010000000000\x02")


cdef inline void put_property_crc(Writer *out, unsigned int crc) noexcept:
    """Writes the checksum of all that is before it into the last property of the record that ends here."""
    cdef int i
    roll_back(out, written(out) - 11)
    for i in range(10):
        put_u8(out, 48 + crc % 10)
        crc //= 10
    put_u8(out, 2)


cdef inline void put_record(
    Writer *out,
    Py_ssize_t size,
    unsigned int crc,
    int queue_id,
    int flag,
    long long queue_offset,
    long long physical_offset,
    int sys_flag,
    long long born_timestamp,
    bytes born_host,
    long long store_timestamp,
    bytes store_host,
    int reconsume_times,
    long long prepared_transaction_offset,
    Span body,
    bytes topic,
    Span properties,
) noexcept:
    """Writes a record, of which the caller knows the size; its layout is in `message_cy`."""
    cdef Py_ssize_t topic_length = PyBytes_GET_SIZE(topic)
    cdef Writer own = out[0]  # in registers: what is written may not be `out` itself, which the compiler cannot know
    put_u32(&own, <unsigned int> size)
    put_u32(&own, 0xDAA320A7 if topic_length <= 127 else 0xDAA320AB)
    put_u32(&own, crc)
    put_u32(&own, <unsigned int> queue_id)
    put_u32(&own, <unsigned int> flag)
    put_u64(&own, <unsigned long long> queue_offset)
    put_u64(&own, <unsigned long long> physical_offset)
    put_u32(&own, <unsigned int> sys_flag)
    put_u64(&own, <unsigned long long> born_timestamp)
    put_bytes(&own, born_host)
    put_u64(&own, <unsigned long long> store_timestamp)
    put_bytes(&own, store_host)
    put_u32(&own, <unsigned int> reconsume_times)
    put_u64(&own, <unsigned long long> prepared_transaction_offset)
    put_u32(&own, <unsigned int> body.size)
    put_span(&own, body)
    if topic_length > 127:
        put_u16(&own, <unsigned int> topic_length)
    else:
        put_u8(&own, <unsigned char> topic_length)
    put_bytes(&own, topic)
    put_u16(&own, <unsigned int> properties.size)
    put_span(&own, properties)
    out[0] = own

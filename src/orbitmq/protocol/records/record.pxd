# A record of the commit log, written in place, and the checksum at its end: for the hot modules where they are compiled.

from cpython.bytes cimport PyBytes_GET_SIZE

from orbitmq.protocol.buffers.bounded cimport (
    Span,
    Writer,
    byte_of,
    find_byte,
    find_end,
    part_of,
    put_bytes,
    put_literal,
    put_span,
    put_u8,
    put_u16,
    put_u32,
    put_u64,
    rest_of,
    span_of_literal,
    starts_with,
)
from orbitmq.protocol.buffers.crc cimport body_crc


cdef enum:
    FIXED_BYTES = 75  # of a record beside its hosts, body, topic and properties
    PROPERTY_CRC_BYTES = 20


cdef inline bint has_property_crc(Span properties) noexcept:
    """True if one of the properties is the checksum of a record, wherever it stands."""
    cdef Py_ssize_t at = 0
    if find_byte(properties, 35) < 0:  # "#", which hardly any property has
        return False
    while at < properties.size:
        if starts_with(rest_of(properties, at), b"__CRC32#\x01"):
            return True
        at = find_end(properties, 2, at) + 1
    return False


cdef inline Span without_property_crc(Span properties) noexcept:
    """Properties without the checksum that a record of the general path and of the fast ones ends with, if it does."""
    cdef Py_ssize_t at = properties.size - PROPERTY_CRC_BYTES
    if at >= 0 and starts_with(rest_of(properties, at), b"__CRC32#\x01") and (at == 0 or byte_of(properties, at - 1) == 2):
        return part_of(properties, 0, at)
    return properties


cdef inline void put_property_crc(Writer *out, unsigned int crc) noexcept:
    """Writes the last property of a record: the checksum of all before it, last digit first."""
    cdef int i
    put_literal(out, b"__CRC32#\x01")
    for i in range(10):
        put_u8(out, 48 + crc % 10)
        crc //= 10
    put_u8(out, 2)


cdef inline int _differing_bits(Span at) noexcept:
    """In how many bits memory differs from the name of the checksum's property."""
    cdef Span name = span_of_literal(b"__CRC32#\x01")
    cdef int count = 0
    cdef int bits
    cdef Py_ssize_t i
    for i in range(name.size):
        bits = byte_of(at, i) ^ byte_of(name, i)
        while bits:
            bits &= bits - 1
            count += 1
    return count


cdef inline bint property_crc_holds(Span record, bytes crc_tables, object crc32) except -1:
    """True if the checksum at the end of a record is right, and for a record that has none. A name that differs from
    that of the checksum in a single bit is a damaged one, not another property's.
    """
    cdef Py_ssize_t place = record.size - PROPERTY_CRC_BYTES
    cdef int different = _differing_bits(rest_of(record, place))
    cdef unsigned int crc
    cdef int i
    if different:
        return different > 1
    crc = body_crc(part_of(record, 0, place), crc_tables, crc32)
    for i in range(10):
        if byte_of(record, place + 9 + i) != 48 + crc % 10:
            return False
        crc //= 10
    return crc == 0 and byte_of(record, record.size - 1) == 2


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

# A record of the commit log, written in place: for the hot modules where they are compiled.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

from orbitmq.protocol.big_endian cimport put_int, put_long


cdef inline void put_record(
    unsigned char *at,
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
    const unsigned char *body,
    Py_ssize_t body_length,
    bytes topic,
    const unsigned char *properties,
    Py_ssize_t properties_length,
) noexcept:
    """Writes a record whose size was made sure of; its layout is in `message_cy`."""
    cdef Py_ssize_t born_length = PyBytes_GET_SIZE(born_host)
    cdef Py_ssize_t store_length = PyBytes_GET_SIZE(store_host)
    cdef Py_ssize_t topic_length = PyBytes_GET_SIZE(topic)
    put_int(at, <unsigned int> size)
    put_int(at + 4, 0xDAA320A7 if topic_length <= 127 else 0xDAA320AB)
    put_int(at + 8, crc)
    put_int(at + 12, <unsigned int> queue_id)
    put_int(at + 16, <unsigned int> flag)
    put_long(at + 20, <unsigned long long> queue_offset)
    put_long(at + 28, <unsigned long long> physical_offset)
    put_int(at + 36, <unsigned int> sys_flag)
    put_long(at + 40, <unsigned long long> born_timestamp)
    memcpy(at + 48, PyBytes_AS_STRING(born_host), born_length)
    at += 48 + born_length
    put_long(at, <unsigned long long> store_timestamp)
    memcpy(at + 8, PyBytes_AS_STRING(store_host), store_length)
    at += 8 + store_length
    put_int(at, <unsigned int> reconsume_times)
    put_long(at + 4, <unsigned long long> prepared_transaction_offset)
    put_int(at + 12, <unsigned int> body_length)
    memcpy(at + 16, body, body_length)
    at += 16 + body_length
    if topic_length > 127:
        at[0] = <unsigned char> (topic_length >> 8)
        at += 1
    at[0] = <unsigned char> (topic_length & 0xFF)
    memcpy(at + 1, PyBytes_AS_STRING(topic), topic_length)
    at += 1 + topic_length
    at[0] = <unsigned char> (properties_length >> 8)
    at[1] = <unsigned char> (properties_length & 0xFF)
    memcpy(at + 2, properties, properties_length)

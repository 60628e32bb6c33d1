# CRC-32 of short pieces: a call to a library costs more than they do. For the hot modules where they are compiled.

cdef inline unsigned int short_crc(const unsigned int *t, const unsigned char *data, Py_ssize_t length) noexcept nogil:
    """Eight bytes at a time; `t` are the eight tables of `message_cy.CRC_TABLES`."""
    cdef unsigned int crc = ~(<unsigned int> 0)
    while length >= 8:
        crc ^= data[0] | (data[1] << 8) | (data[2] << 16) | (<unsigned int> data[3] << 24)
        crc = (
            t[1792 + (crc & 0xFF)]
            ^ t[1536 + ((crc >> 8) & 0xFF)]
            ^ t[1280 + ((crc >> 16) & 0xFF)]
            ^ t[1024 + (crc >> 24)]
            ^ t[768 + data[4]]
            ^ t[512 + data[5]]
            ^ t[256 + data[6]]
            ^ t[data[7]]
        )
        data += 8
        length -= 8
    while length > 0:
        crc = t[(crc ^ data[0]) & 0xFF] ^ (crc >> 8)
        data += 1
        length -= 1
    return ~crc

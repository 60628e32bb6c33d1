# The meaning of properties to the broker, looked at in place: for the hot modules where they are compiled.
# `beginnings` are those that the rules decide about (`meaningful_properties.py`).

from orbitmq.broker.meaningful_properties cimport is_left_to_rules
from orbitmq.protocol.buffers.bounded cimport (
    Reader,
    Span,
    byte_of,
    find_byte,
    find_end,
    is_alphanumeric,
    is_ascii,
    is_literal,
    part_of,
    reader_over,
    rest_of,
    starts_with,
    unread,
)
from orbitmq.protocol.buffers.text_hash cimport tag_hash
from orbitmq.protocol.records.batch cimport BatchEntry, next_of_batch
from orbitmq.protocol.records.record cimport has_property_crc


cdef inline bint is_stored(Span entry) noexcept:
    """True if an entry has a name and a value: others are not stored."""
    return 0 < find_byte(entry, 1) < entry.size - 1


cdef inline bint find_batch_id(
    Span properties, Span beginnings, Py_ssize_t *unique_at, Py_ssize_t *unique_size
) noexcept:
    """Gives the id of a batch as a whole, of size 0 where it has none; False if its properties mean more."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t stop
    cdef Span entry
    unique_at[0] = unique_size[0] = 0
    while at < properties.size:
        stop = find_end(properties, 2, at)
        entry = part_of(properties, at, stop - at)
        if is_left_to_rules(entry, beginnings):
            return False
        if starts_with(entry, b"UNIQ_KEY"):
            if (
                unique_size[0]
                or entry.size < 10
                or byte_of(entry, 8) != 1
                or not is_alphanumeric(rest_of(entry, 9))
            ):
                return False
            unique_at[0] = at + 9
            unique_size[0] = entry.size - 9
        at = stop + 1
    return True


cdef struct Content:
    Py_ssize_t count
    Py_ssize_t size  # of bodies and properties together
    Py_ssize_t longest  # body and properties of one message
    Py_ssize_t longest_body
    Py_ssize_t longest_properties
    bint has_crc  # one of the messages brings a property that is named like the checksum of records


cdef inline bint lacks_separator(Span properties) noexcept:
    """True if there are properties, and their last one has no separator behind it."""
    return properties.size > 0 and byte_of(properties, properties.size - 1) != 2


cdef inline bint is_plain_in_batch(Span properties, Span beginnings) noexcept:
    """True if the broker can add its own properties to those of a message of a batch; False if there are tags that are
    more than ASCII.
    """
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t stop
    cdef Span entry
    while at < properties.size:
        stop = find_end(properties, 2, at)
        entry = part_of(properties, at, stop - at)
        if is_left_to_rules(entry, beginnings):
            return False
        if entry.size > 5 and starts_with(entry, b"TAGS\x01") and not is_ascii(rest_of(entry, 5)):
            return False
        at = stop + 1
    return True


cdef inline bint measure_plain_batch(Span batch, Span beginnings, Content *content) noexcept:
    """Measures the body of a batch (see `batch_cy`); False if it is not whole, or one of its messages not plain."""
    cdef Reader source = reader_over(batch)
    cdef BatchEntry entry
    cdef Py_ssize_t size
    cdef Py_ssize_t properties_size
    content.count = content.size = content.longest = content.longest_body = content.longest_properties = 0
    content.has_crc = False
    if not batch.size:
        return False
    while unread(&source):
        if not next_of_batch(&source, &entry):
            return False
        if find_byte(entry.properties, 0) >= 0 or not is_plain_in_batch(entry.properties, beginnings):
            return False
        # With the separator that comes before the broker's own.
        properties_size = entry.properties.size + lacks_separator(entry.properties)
        size = entry.body.size + properties_size
        content.count += 1
        content.size += size
        content.longest = max(content.longest, size)
        content.longest_body = max(content.longest_body, entry.body.size)
        content.longest_properties = max(content.longest_properties, properties_size)
        content.has_crc = content.has_crc or has_property_crc(entry.properties)
    return True


cdef struct Plain:
    Py_ssize_t unique_at
    Py_ssize_t unique_size
    long long tags_code
    bint is_ordered


cdef inline bint classify_properties(
    Span properties, Span beginnings, bint sync_flush, Plain *plain
) noexcept:
    """Finds what storing and answering need of ASCII properties; False if one of them means more, or no id is there."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t stop
    cdef Span entry
    cdef unsigned char first
    plain.unique_at = plain.unique_size = 0
    plain.tags_code = 0
    plain.is_ordered = False
    if find_byte(properties, 0) >= 0:
        return False
    while at < properties.size:
        if is_left_to_rules(rest_of(properties, at), beginnings):
            return False
        stop = find_end(properties, 2, at)
        entry = part_of(properties, at, stop - at)
        if not is_stored(entry):
            return False
        first = byte_of(entry, 0)
        if first == 85:
            if not plain.unique_size and entry.size > 9 and starts_with(entry, b"UNIQ_KEY\x01"):
                plain.unique_at = at + 9
                plain.unique_size = entry.size - 9
                if not is_alphanumeric(rest_of(entry, 9)):
                    return False
        elif first == 84:
            if entry.size > 5 and starts_with(entry, b"TAGS\x01"):
                plain.tags_code = tag_hash(rest_of(entry, 5))
        elif first == 95:
            if starts_with(entry, b"__SHARDINGKEY\x01"):
                plain.is_ordered = True
        elif first == 87 and sync_flush:
            if is_literal(entry, b"WAIT\x01false"):
                return False
        at = stop + 1
    return plain.unique_size > 0

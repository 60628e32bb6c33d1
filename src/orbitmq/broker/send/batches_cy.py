"""Batches straight from the frames of a read to records and units: the part of `frames_cy` for them.

Hot: a batch holds many messages. It is read twice. The first time it is measured and checked as a whole,
for all of it is stored or nothing; the second time its messages become records, one behind the other.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32

if cython.compiled:
    from cython.cimports.orbitmq.broker.send.plain import lacks_separator  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.batch import (  # type: ignore[import-not-found]
        BatchEntry,
        next_of_batch,
    )
    from cython.cimports.orbitmq.protocol.records.record import (  # type: ignore[import-not-found]
        FIXED_BYTES,
        PROPERTY_CRC_BYTES,
    )
    from cython.cimports.orbitmq.protocol.records.tags import find_tags  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.log.append import *  # type: ignore[import-not-found]

_CRC: bytes = CRC_TABLES


def batch_fits(content, record, log, reserved):
    """True if all messages can be stored, and fit into the segment: a batch is stored as a whole.

    `record` is the batch itself, with what its messages have in common.
    """
    own: cython.Py_ssize_t = record.own_properties.size
    fixed: cython.Py_ssize_t = (
        FIXED_BYTES + record.born_host.size + record.store_host.size + record.topic.size + own
    )
    if log.with_crc:
        # As `record_size` has it: the checksum, and a separator before it.
        fixed += PROPERTY_CRC_BYTES + 1
        if content.has_crc or content.longest_properties + PROPERTY_CRC_BYTES + 1 > MOST_PROPERTIES:
            return False
    total: cython.Py_ssize_t = content.count * fixed + content.size
    return (
        record.body.size <= log.max_body
        and content.longest_properties + own <= MOST_SENT_PROPERTIES
        and content.longest_body <= log.max_body
        and fixed + content.longest <= log.max_record
        and total + reserved + BLANK_BYTES <= left_of(cython.address(log.out))
    )


def write_batch(log, record, own_behind, tail, queue_offset):
    """Writes the records of all messages of a batch that fits, and their units.

    `own_behind` are the broker's properties behind others that lack their last separator.
    """
    source: Reader = reader_over(record.body)
    own: Span = record.own_properties
    entry: BatchEntry
    tags_code: cython.longlong = 0
    while unread(cython.address(source)) and next_of_batch(cython.address(source), cython.address(entry)):
        record.flag = entry.flag
        record.body = entry.body
        record.body_crc = body_crc(entry.body, _CRC, crc32)
        record.properties = entry.properties
        record.own_properties = own_behind if lacks_separator(entry.properties) else own
        if not has_space_for(log, record, 0):
            raise SystemError("a batch was measured smaller than it is")
        find_tags(entry.properties, cython.address(tags_code))
        append_to(log, record, tail, queue_offset, tags_code, _CRC, crc32)
        queue_offset += 1
    return 0


def put_ids(out, between, tail, count):
    """Writes the ids of the last messages of a queue, but for the host of the first: see `AnswerTemplate`."""
    unit: Span = span_of_array(tail)
    place: cython.Py_ssize_t = unit.size - 20 * count
    i: cython.Py_ssize_t
    for i in range(count):
        if i:
            put_bytes(out, between)
        put_hex(out, i64_of(unit, place))
        place += 20

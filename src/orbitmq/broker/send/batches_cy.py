"""Batches straight from the frames of a read to records, units and answers, as `frames_cy` takes sends.

Hot: a batch holds many messages. It is looked through as a whole first: all of it is stored, or it goes the
ordinary way, as whatever is no plain batch does. Interpreted, all batches go that way.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore"
# ruff: noqa: F821
# (Py_buffer and the C structures are names that only the compiler knows.)

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.message_cy import CRC_TABLES, crc32

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytes import PyBytes_GET_SIZE  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.send.plain import (  # type: ignore[import-not-found]
        Content,
        find_tags,
        look_through_batch,
        look_through_batch_properties,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Reader,
        Span,
        Writer,
        bytes_of,
        i64_of,
        is_literal,
        is_there,
        make_room,
        part_of,
        put_bytes,
        put_decimal,
        put_hex,
        put_literal,
        put_span,
        reader_over,
        set_u32,
        skip,
        span_of,
        span_of_array,
        span_written,
        text_of,
        unread,
        writer_of,
        writer_over,
        written,
    )
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.batch import (  # type: ignore[import-not-found]
        BatchEntry,
        next_of_batch,
    )
    from cython.cimports.orbitmq.protocol.records.record import put_record  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        has_needed_fields,
        scan_frame,
        to_number,
        unescape,
    )
    from cython.cimports.orbitmq.store.queue.units import put_unit  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.broker.send.answer import AnswerTemplate
    from orbitmq.broker.stats.counters import BrokerStats
    from orbitmq.store.queue.room import Room

_CRC: bytes = CRC_TABLES
_RETRY_PREFIX = "%RETRY%"
_WRITE = 2


class TakenBatches(NamedTuple):
    """Result of taking the batches at the start of a read."""

    end: int
    """Number of bytes of the read that they were."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    oneway: int
    version: int
    """Of the first one's sender."""
    language: str


def take_batches(
    data: bytes,
    topics: dict[str, Any],
    refused: Container[str],
    template: AnswerTemplate,
    host: bytes,
    store_host: bytes,
    room: Room,
    stats: BrokerStats,
    answers: bytearray,
) -> TakenBatches | None:
    """Stores the plain batches at the start of `data`; None if the first frame is none.

    See `frames_cy.take_sends`. A batch is plain if its own properties mean nothing but an id.
    """
    if not cython.compiled:
        return None
    read: Span = span_of(data)
    end: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t
    batch: Span
    source: Reader
    entry: BatchEntry
    header: SendHeader
    content: Content
    properties = cython.declare(cython.uchar[4095])
    laid: Writer
    sent: Span
    unique_at: cython.Py_ssize_t = 0
    unique_size: cython.Py_ssize_t = 0
    queue_id: cython.longlong = 0
    sys_flag: cython.longlong = 0
    born_timestamp: cython.longlong = 0
    queue_offset: cython.longlong
    tags_code: cython.longlong = 0
    size: cython.Py_ssize_t
    total: cython.Py_ssize_t
    fixed: cython.Py_ssize_t
    hosts: cython.Py_ssize_t = 75 + PyBytes_GET_SIZE(host) + PyBytes_GET_SIZE(store_host)
    host_flags: cython.int = (0x10 if PyBytes_GET_SIZE(host) == 20 else 0) | (
        0x20 if PyBytes_GET_SIZE(store_host) == 20 else 0
    )
    crc: cython.uint
    position: cython.Py_ssize_t = room.position
    at: cython.Py_ssize_t
    limit: cython.Py_ssize_t = room.limit
    segment_start: cython.longlong = room.segment_start
    store_timestamp: cython.longlong = room.store_timestamp
    max_body: cython.Py_ssize_t = room.max_body_bytes
    max_record: cython.Py_ssize_t = room.max_record_bytes
    by_topic: dict[str, Any] = room.queues
    dirty: list[Any] = room.dirty
    tail: bytearray
    out: Writer = writer_of(answers)
    needed: cython.Py_ssize_t
    answered: cython.Py_ssize_t = 0
    oneway: cython.Py_ssize_t = 0
    version: cython.int = 0
    language: str = ""
    target: Py_buffer
    if PyBytes_GET_SIZE(host) not in (8, 20) or PyBytes_GET_SIZE(store_host) not in (8, 20):
        return None
    PyObject_GetBuffer(room.view, cython.address(target), PyBUF_WRITABLE)
    log: Writer = writer_over(target.buf, min(limit, target.len))
    skip(cython.address(log), position)
    try:
        while True:
            length = scan_frame(read, end, cython.address(header), cython.address(batch))
            if not length:
                break
            if header.code != 320 or header.flag & 1:
                break
            # b topic, e queue id, f sysFlag, g born time, i properties, j reconsume times
            if (
                not has_needed_fields(cython.address(header))
                or not is_there(header.fields[1].span)
                or header.fields[1].span.size > 127
                or not is_there(header.fields[8].span)
                or not to_number(header.fields[4].span, cython.address(queue_id))
                or not to_number(header.fields[5].span, cython.address(sys_flag))
                or not to_number(header.fields[6].span, cython.address(born_timestamp))
            ):
                break
            if is_there(header.fields[9].span) and not is_literal(header.fields[9].span, b"0"):
                break
            # Neither transactions nor inner batches.
            if sys_flag & 0x8C or not -0x80000000 <= sys_flag <= 0x7FFFFFFF:
                break
            laid = writer_over(properties, cython.sizeof(properties))
            if not unescape(header.fields[8].span, header.fields[8].escaped, cython.address(laid)):
                break
            sent = span_written(cython.address(laid))
            if not look_through_batch_properties(
                sent, cython.address(unique_at), cython.address(unique_size)
            ):
                break
            topic_name: bytes = bytes_of(header.fields[1].span)
            topic: str = text_of(header.fields[1].span)
            config = topics.get(topic)
            queues = by_topic.get(topic)
            if (
                config is None
                or queues is None
                or topic in refused
                or topic.startswith(_RETRY_PREFIX)
                or not config.perm & _WRITE
                or queue_id < 0
                or queue_id >= max(config.write_queue_nums, config.read_queue_nums)
            ):
                break
            queue = queues.get(queue_id)
            if queue is None or queue.code_is_special:
                break
            if not look_through_batch(batch, cython.address(content)):
                break
            fixed = hosts + PyBytes_GET_SIZE(topic_name)
            total = content.count * fixed + content.size
            if (
                batch.size > max_body
                or content.longest_body > max_body
                or fixed + content.longest > max_record
                or total + 8 > limit - position
            ):
                break
            needed = 160 + PyBytes_GET_SIZE(template.before_offset) + PyBytes_GET_SIZE(template.end)
            needed += unique_size + PyBytes_GET_SIZE(template.after_id)
            needed += content.count * (16 + PyBytes_GET_SIZE(template.between_ids))
            make_room(answers, cython.address(out), needed)
            # Nothing was changed so far, and from here on nothing fails but for want of memory.
            if not queue.dirty:
                dirty.append(queue)
                queue.dirty = True
            queue_offset = queue.max_offset
            tail = queue.tail
            at = position
            source = reader_over(batch)
            while unread(cython.address(source)) and next_of_batch(
                cython.address(source), cython.address(entry)
            ):
                crc = body_crc(entry.body, _CRC, crc32)
                size = fixed + entry.body.size + entry.properties.size
                put_record(
                    cython.address(log),
                    size,
                    crc,
                    cython.cast(cython.int, queue_id),
                    entry.flag,
                    queue_offset,
                    segment_start + at,
                    (cython.cast(cython.int, sys_flag) & ~0x30) | host_flags,
                    born_timestamp,
                    host,
                    store_timestamp,
                    store_host,
                    0,
                    0,
                    entry.body,
                    topic_name,
                    entry.properties,
                )
                find_tags(entry.properties, cython.address(tags_code))
                put_unit(tail, segment_start + at, cython.cast(cython.int, size), tags_code)
                room.last_record = segment_start + at
                at += size
                queue_offset += 1
            if header.flag & 2:
                oneway += 1
            else:
                answered += 1
                _answer(
                    cython.address(out),
                    template,
                    tail,
                    content.count,
                    queue_id,
                    queue.max_offset,
                    part_of(sent, unique_at, unique_size),
                    header.opaque,
                )
            if log.overflow or out.overflow:
                raise SystemError("a batch was measured smaller than it is")
            queue.max_offset = queue_offset
            if not version:
                version = header.version
                language = text_of(header.language.span)
            position = at
            room.position = position
            end += length
            stats.put_fresh(topic, queue_id, content.count, total)
    finally:
        PyBuffer_Release(cython.address(target))
    if not end:
        return None
    return TakenBatches(
        end,
        bytes_of(span_written(cython.address(out))),
        answered,
        oneway,
        version,
        language,
    )


@cython.cfunc
@cython.exceptval(check=False)
def _answer(
    out: cython.pointer[Writer],
    template: AnswerTemplate,
    tail: bytearray,
    count: cython.Py_ssize_t,
    queue_id: cython.longlong,
    queue_offset: cython.longlong,
    unique: Span,
    opaque: cython.int,
) -> cython.void:
    """Writes what `AnswerTemplate` makes for the last units of a queue. Compiled only."""
    before: bytes = template.before_offset
    between: bytes = template.between_ids
    after: bytes = template.after_id
    last: bytes = template.end
    start: cython.Py_ssize_t = written(out)
    unit: Span = span_of_array(tail)
    place: cython.Py_ssize_t = unit.size - 20 * count
    i: cython.Py_ssize_t
    skip(out, 8)
    put_bytes(out, before)
    for i in range(count):
        if i:
            put_bytes(out, between)
        put_hex(out, i64_of(unit, place))
        place += 20
    put_literal(out, b'","queueId":"')
    put_decimal(out, queue_id)
    put_literal(out, b'","queueOffset":"')
    put_decimal(out, queue_offset)
    if unique.size:
        put_literal(out, b'","transactionId":"')
        put_span(out, unique)
    put_bytes(out, after)
    put_decimal(out, opaque)
    put_bytes(out, last)
    set_u32(out, start, cython.cast(cython.uint, written(out) - start - 4))
    set_u32(out, start + 4, cython.cast(cython.uint, written(out) - start - 8))

"""Batches straight from the frames of a read to records, units and answers, as `frames_cy` handles sends.

Hot: a batch holds many messages. It is read twice. The first time it is measured and checked as a whole,
for all of it is stored or nothing; the second time its messages become records, one behind the other. A
batch that is not plain is left to the general path, as all are where this is interpreted.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore,no-any-return"
# ruff: noqa: F821
# (Py_buffer and the C structures are names that only the compiler knows.)

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBuffer_Release  # type: ignore[import-not-found]
    from cython.cimports.cpython.bytes import PyBytes_GET_SIZE  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.send.plain import (  # type: ignore[import-not-found]
        Content,
        find_batch_id,
        lacks_separator,
        measure_plain_batch,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Reader,
        Span,
        Writer,
        bytes_of,
        i64_of,
        is_literal,
        is_there,
        left_of,
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
    from cython.cimports.orbitmq.protocol.records.record import (  # type: ignore[import-not-found]
        FIXED_BYTES,
        PROPERTY_CRC_BYTES,
    )
    from cython.cimports.orbitmq.protocol.records.tags import find_tags  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.frames import (  # type: ignore[import-not-found]
        Frames,
        begin_frames,
        is_oneway,
        language_of,
        next_frame,
        note_handled,
    )
    from cython.cimports.orbitmq.protocol.remoting.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        has_needed_fields,
        to_number,
        unescape,
    )
    from cython.cimports.orbitmq.store.log.append import (  # type: ignore[import-not-found]
        BLANK_BYTES,
        MOST_PROPERTIES,
        MOST_SENT_PROPERTIES,
        LogEnd,
        NewRecord,
        append_to,
        begin_append,
        end_append,
        has_space_for,
    )

if TYPE_CHECKING:
    from orbitmq.broker.send.answer import AnswerTemplate
    from orbitmq.broker.stats.counters import BrokerStats
    from orbitmq.store.log.log_writer import LogWriter

_CRC: bytes = CRC_TABLES
_SEND_BATCH = cython.declare(cython.int, 320)


class HandledBatches(NamedTuple):
    """The result of handling the batches at the start of a read."""

    end: int
    """Bytes of the read that they were."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    oneway: int
    version: int
    """Of the first one's sender."""
    language: str


def handle_batches(
    data: bytes,
    open_queues: Mapping[str, int],
    own_properties: bytes,
    template: AnswerTemplate,
    host: bytes,
    store_host: bytes,
    writer: LogWriter,
    stats: BrokerStats,
    answers: bytearray,
) -> HandledBatches | None:
    """Stores the plain batches at the start of `data`; None if the first frame is none.

    See `frames_cy.handle_sends`. A batch is plain if its own properties mean nothing but an id.
    `own_properties` are those that the broker adds to every message of a batch.
    """
    if not cython.compiled:
        return None
    if PyBytes_GET_SIZE(host) not in (8, 20) or PyBytes_GET_SIZE(store_host) not in (8, 20):
        return None
    properties = cython.declare(cython.uchar[4095])
    laid: Writer
    segment: Py_buffer
    batches: _Batches = _Batches(
        data, open_queues, own_properties, template, host, store_host, writer, stats, answers
    )
    begin_append(writer, cython.address(segment), cython.address(batches.log))
    try:
        while next_frame(cython.address(batches.frames)) and batches.frames.header.code == _SEND_BATCH:
            laid = writer_over(properties, cython.sizeof(properties))
            if not batches.handle(cython.address(batches.frames.header), cython.address(laid)):
                break
            note_handled(cython.address(batches.frames))
        if not batches.frames.end:
            return None
        end_append(writer, cython.address(batches.log))
    finally:
        PyBuffer_Release(cython.address(segment))
    return batches.result()


@cython.final
@cython.cclass
class _Batches:
    """The batches of a read, and what was done so far. Compiled only."""

    frames: Frames
    log: LogEnd
    _open: Any
    _own_properties: bytes
    _own_behind: bytes  # the same behind properties that lack their last separator
    _template: Any
    _host: bytes
    _store_host: bytes
    _queues: dict[str, Any]
    _dirty: list[Any]
    _stats: Any
    _answers: bytearray
    _out: Writer
    _answered: cython.Py_ssize_t
    _oneway: cython.Py_ssize_t
    # Of the batch at hand:
    _queue_id: cython.longlong
    _sys_flag: cython.longlong
    _born_timestamp: cython.longlong
    _content: Content

    def __init__(
        self,
        data: bytes,
        open_queues: Mapping[str, int],
        own_properties: bytes,
        template: AnswerTemplate,
        host: bytes,
        store_host: bytes,
        writer: LogWriter,
        stats: BrokerStats,
        answers: bytearray,
    ) -> None:
        begin_frames(cython.address(self.frames), data)
        self._open = open_queues
        self._own_properties = own_properties
        self._own_behind = b"\x02" + own_properties
        self._template = template
        self._host = host
        self._store_host = store_host
        self._queues = writer.queues
        self._dirty = writer.dirty
        self._stats = stats
        self._answers = answers
        self._out = writer_of(answers)

    @cython.cfunc
    def handle(self, header: cython.pointer[SendHeader], laid: cython.pointer[Writer]) -> cython.bint:
        """Stores a batch and answers it; False if it is for the general path: then nothing has changed."""
        unique_at: cython.Py_ssize_t = 0
        unique_size: cython.Py_ssize_t = 0
        if not self._read_numbers(header):
            return False
        if not unescape(header.fields[8].span, header.fields[8].escaped, laid):
            return False
        sent: Span = span_written(laid)
        if not find_batch_id(sent, cython.address(unique_at), cython.address(unique_size)):
            return False
        topic: str = text_of(header.fields[1].span)
        queue: Any = self._queue_of(topic)
        if (
            queue is None
            or not measure_plain_batch(self.frames.body, cython.address(self._content))
            or not self._fits(header.fields[1].span.size)
        ):
            return False
        count: cython.Py_ssize_t = self._content.count
        make_room(self._answers, cython.address(self._out), self._answer_bytes(unique_size))
        # Nothing was changed so far, and from here on nothing fails but for want of memory.
        before: cython.Py_ssize_t = written(cython.address(self.log.out))
        first_offset: cython.longlong = queue.max_offset
        if not queue.dirty:
            self._dirty.append(queue)
            queue.dirty = True
        self._store(header.fields[1].span, queue.tail, first_offset)
        queue.max_offset = first_offset + count
        if is_oneway(cython.address(self.frames)):
            self._oneway += 1
        else:
            self._answered += 1
            _answer(
                cython.address(self._out),
                self._template,
                queue.tail,
                count,
                self._queue_id,
                first_offset,
                part_of(sent, unique_at, unique_size),
                header.opaque,
            )
        if self._out.overflow:
            raise SystemError("an answer was measured smaller than it is")
        self._stats.put_fresh(topic, self._queue_id, count, written(cython.address(self.log.out)) - before)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _read_numbers(self, header: cython.pointer[SendHeader]) -> cython.bint:
        """Reads the numbers of a header; False if it lacks a field, or says more than a plain batch does."""
        # b topic, e queue id, f sysFlag, g born time, i properties, j reconsume times
        if (
            not has_needed_fields(header)
            or not is_there(header.fields[1].span)
            or header.fields[1].span.size > 127
            or not is_there(header.fields[8].span)
            or not to_number(header.fields[4].span, cython.address(self._queue_id))
            or not to_number(header.fields[5].span, cython.address(self._sys_flag))
            or not to_number(header.fields[6].span, cython.address(self._born_timestamp))
        ):
            return False
        if is_there(header.fields[9].span) and not is_literal(header.fields[9].span, b"0"):
            return False
        # Neither transactions nor inner batches.
        return not self._sys_flag & 0x8C and -0x80000000 <= self._sys_flag <= 0x7FFFFFFF

    @cython.cfunc
    def _queue_of(self, topic: str) -> Any:
        """The queue that a batch asks for; None if it does not exist yet, or clients may not send to it."""
        count: cython.longlong = self._open[topic]
        queues = self._queues.get(topic)
        if queues is None or self._queue_id < 0 or self._queue_id >= count:
            return None
        queue = queues.get(self._queue_id)
        return None if queue is None or queue.code_is_special else queue

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fits(self, topic_bytes: cython.Py_ssize_t) -> cython.bint:
        """True if all messages can be stored, and fit into the segment: a batch is stored as a whole."""
        fixed: cython.Py_ssize_t = (
            FIXED_BYTES + PyBytes_GET_SIZE(self._host) + PyBytes_GET_SIZE(self._store_host) + topic_bytes
        )
        if self.log.with_crc:
            # As `record_size` has it: the checksum, and a separator before it.
            fixed += PROPERTY_CRC_BYTES + 1
            if (
                self._content.has_crc
                or self._content.longest_properties + PROPERTY_CRC_BYTES + 1 > MOST_PROPERTIES
            ):
                return False
        own: cython.Py_ssize_t = PyBytes_GET_SIZE(self._own_properties)
        fixed += own
        total: cython.Py_ssize_t = self._content.count * fixed + self._content.size
        return (
            self.frames.body.size <= self.log.max_body
            and self._content.longest_properties + own <= MOST_SENT_PROPERTIES
            and self._content.longest_body <= self.log.max_body
            and fixed + self._content.longest <= self.log.max_record
            and total + BLANK_BYTES <= left_of(cython.address(self.log.out))
        )

    @cython.cfunc
    def _answer_bytes(self, unique_bytes: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """An upper limit of the answer's size."""
        template: Any = self._template
        return (
            160
            + len(template.before_offset)
            + len(template.end)
            + len(template.after_id)
            + unique_bytes
            + self._content.count * (16 + len(template.between_ids))
        )

    @cython.cfunc
    def _store(self, topic: Span, tail: bytearray, queue_offset: cython.longlong) -> cython.int:
        """Writes the records of all messages of a batch, and their units."""
        source: Reader = reader_over(self.frames.body)
        entry: BatchEntry
        record: NewRecord
        tags_code: cython.longlong = 0
        record.queue_id = cython.cast(cython.int, self._queue_id)
        record.sys_flag = cython.cast(cython.int, self._sys_flag)
        record.born_timestamp = self._born_timestamp
        record.born_host = span_of(self._host)
        record.store_host = span_of(self._store_host)
        record.reconsume_times = 0
        record.prepared_transaction_offset = 0
        record.topic = topic
        own: Span = span_of(self._own_properties)
        own_behind: Span = span_of(self._own_behind)
        while unread(cython.address(source)) and next_of_batch(cython.address(source), cython.address(entry)):
            record.flag = entry.flag
            record.body = entry.body
            record.body_crc = body_crc(entry.body, _CRC, crc32)
            record.properties = entry.properties
            record.own_properties = own_behind if lacks_separator(entry.properties) else own
            if not has_space_for(cython.address(self.log), cython.address(record), 0):
                raise SystemError("a batch was measured smaller than it is")
            find_tags(entry.properties, cython.address(tags_code))
            append_to(
                cython.address(self.log), cython.address(record), tail, queue_offset, tags_code, _CRC, crc32
            )
            queue_offset += 1
        return 0

    @cython.cfunc
    def result(self) -> HandledBatches:
        return HandledBatches(
            self.frames.end,
            bytes_of(span_written(cython.address(self._out))),
            self._answered,
            self._oneway,
            self.frames.version,
            language_of(cython.address(self.frames)),
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

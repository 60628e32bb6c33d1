"""Sends, batches and ends of transactions straight from the frames of a read to records, units and answers.

Hot: nearly every message that is sent passes here. There are two paths. This one handles the frames at the
start of a read, one behind the other, without an object for each: it reads a header into slots
(`send_header.pxd`), decides with one look at the properties whether the message is plain (`plain.pxd`),
delayed by a level, or a half message (`rerouting.pxd`), writes record and unit (`append.pxd`), and the
answer behind those before it. It stops at the first frame that it does not know for sure. From there on the
general path (`handlers`, `rules`) handles the read, and it comes to the same, byte by byte.

The fast path holds no rule of its own. Tables and options that the rules decide by are given to it: the
properties that mean more (`meaningful_properties.py`), the topics, names that nobody may send to, delay
levels, the half messages that may be decided. A message that needs a decision, such as a queue that does not
exist yet, a topic that is not writable, or a segment without space, stops it.

A read is atomic: nothing of it is visible before `MessageStore.commit`. Each frame is checked before it
changes anything; what fails behind that, for want of memory, rolls back the whole read.

Interpreted, nothing is handled here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.broker.meaningful_properties import FastPath, packed_beginnings
from orbitmq.broker.transaction.events import EndedHalf, StoredHalf
from orbitmq.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32
from orbitmq.protocol.remoting.header_cy import encode_success

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBuffer_Release  # type: ignore[import-not-found]
    from cython.cimports.cpython.bytes import PyBytes_GET_SIZE  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.delay.rerouting import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.send.batches_cy import (  # type: ignore[import-not-found]
        batch_fits,
        put_ids,
        write_batch,
    )
    from cython.cimports.orbitmq.broker.send.plain import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.transaction.decisions_cy import (  # type: ignore[import-not-found]
        Decisions,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.frames import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.send_header import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.log.append import *  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.broker.send.tables import Fixed
    from orbitmq.broker.stats.counters import BrokerStats
    from orbitmq.store.log.log_writer import LogWriter

_CRC: bytes = CRC_TABLES
_SMALL_BYTES = cython.declare(cython.Py_ssize_t, 1024)
"""Larger messages are counted one by one: statistics tell sizes above it apart."""
_ANSWER_BYTES = cython.declare(cython.Py_ssize_t, 160)
"""Limit of an answer beside the parts of its template and the unique id."""
_HALF_TOPIC: bytes = HALF_TOPIC.encode()
_SCHEDULE_TOPIC: bytes = SCHEDULE_TOPIC.encode()
_OF_PLAIN: bytes = packed_beginnings(FastPath.PLAIN)
_OF_REROUTED: bytes = packed_beginnings(FastPath.REROUTED)
_OF_BATCH: bytes = packed_beginnings(FastPath.BATCH)
_IN_BATCH: bytes = packed_beginnings(FastPath.IN_BATCH)
_SEND = cython.declare(cython.int, 310)
_SEND_BATCH = cython.declare(cython.int, 320)
_END_TRANSACTION = cython.declare(cython.int, 37)

_new_tuple: Any = tuple.__new__


class HandledSends(NamedTuple):
    """The result of handling the sends, batches and decisions at the start of a read."""

    end: int
    """Bytes of the read that they were."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    by_code: Mapping[int, tuple[int, int]]
    """Request code -> number of those that were answered, and of those that wanted no answer."""
    version: int
    """Of the first one's sender."""
    language: str
    halves: Sequence[StoredHalf]
    ended: Sequence[EndedHalf]
    op_offset: int
    """The queue offset of the op record that names those."""


def handle_sends(
    data: bytes,
    open_queues: Mapping[str, int],
    fixed: Fixed,
    host: bytes,
    store_host: bytes,
    sync_flush: cython.bint,
    writer: LogWriter,
    stats: BrokerStats,
    now: cython.longlong,
) -> HandledSends | None:
    """Stores the sends at the start of `data`, and ends transactions; None if the first frame is neither.

    `open_queues` are the numbers of queues of the topics that it may store in, 0 of others. With `sync_flush`
    batches and messages that do not wait for the disk are left to the general path. A batch is plain if its
    own properties mean nothing but an id.
    """
    if not cython.compiled:
        return None
    if PyBytes_GET_SIZE(host) not in (8, 20) or PyBytes_GET_SIZE(store_host) not in (8, 20):
        return None
    properties = cython.declare(cython.uchar[32767])
    laid: Writer
    segment: Py_buffer
    code: cython.int
    sends: _Sends = _Sends(data, open_queues, fixed, host, store_host, sync_flush, writer, stats, now)
    begin_append(writer, cython.address(segment), cython.address(sends.log))
    try:
        while next_frame(cython.address(sends.frames)):
            code = sends.frames.header.code
            if code == _SEND:
                laid = writer_over(properties, cython.sizeof(properties))
                if not sends.handle_send(cython.address(sends.frames.header), cython.address(laid)):
                    break
            elif code == _SEND_BATCH:
                laid = writer_over(properties, cython.sizeof(properties))
                if not sends.handle_batch(cython.address(sends.frames.header), cython.address(laid)):
                    break
            elif code != _END_TRANSACTION or not sends.handle_decision():
                break
            note_handled(cython.address(sends.frames))
        if not sends.frames.end:
            return None
        sends.end()
        end_append(writer, cython.address(sends.log))
    finally:
        PyBuffer_Release(cython.address(segment))
    return sends.result()


@cython.final
@cython.cclass
class _Sends:
    """The sends of a read, and what was done so far. Compiled only."""

    frames: Frames
    log: LogEnd
    # Given for the whole read:
    _open: Any
    _own_properties: bytes
    _own_of_batches: bytes
    _host: bytes
    _store_host: bytes
    _sync_flush: cython.bint
    _writer: Any
    _queues: dict[str, Any]
    _dirty: list[Any]
    _stats: Any
    _rules: Any
    _rules_are_fresh: cython.bint
    _now: cython.longlong
    # The numbers of the frame at hand:
    _queue_id: cython.longlong
    _sys_flag: cython.longlong
    _born_timestamp: cython.longlong
    _flag: cython.longlong
    # The topic of the frame at hand and of those before it, for most reads have one topic alone:
    _topic_name: bytes
    _topic: str
    _queue_count: cython.longlong
    _topic_queues: dict[int, Any] | None
    _plain_queue_id: cython.longlong
    _plain_queue: Any
    _plain_count: list[Any]
    # The place of the message at hand:
    _queue: Any
    _count: list[Any]  # messages and bytes that the queue got
    _tags_code: cython.longlong
    # Results:
    _answers: bytearray
    _out: Writer
    _before_offset: bytes
    _between_ids: bytes
    _after_id: bytes
    _template_end: bytes
    _answer_bytes: cython.Py_ssize_t
    _answered: cython.Py_ssize_t
    _oneway: cython.Py_ssize_t
    _batches_answered: cython.Py_ssize_t
    _batches_oneway: cython.Py_ssize_t
    _ended_answered: cython.Py_ssize_t
    _ended_oneway: cython.Py_ssize_t
    _counts: dict[int, Any]
    _half_counts: dict[int, Any]
    _delayed_counts: dict[int, Any]
    _halves: list[StoredHalf] | None
    _decisions: Decisions

    def __init__(
        self,
        data: bytes,
        open_queues: Mapping[str, int],
        fixed: Fixed,
        host: bytes,
        store_host: bytes,
        sync_flush: bool,
        writer: LogWriter,
        stats: BrokerStats,
        now: int,
    ) -> None:
        begin_frames(cython.address(self.frames), data)
        self._open = open_queues
        self._own_properties = fixed.own_properties
        self._own_of_batches = fixed.batch_properties
        self._host = host
        self._store_host = store_host
        self._sync_flush = sync_flush
        self._writer = writer
        self._queues = writer.queues
        self._dirty = writer.dirty
        self._stats = stats
        self._rules = fixed.rerouting
        self._now = now
        self._topic_name = b""
        self._topic = ""
        self._answers = fixed.answers
        self._out = writer_of(self._answers)
        template = fixed.template
        self._before_offset = template.before_offset
        self._between_ids = template.between_ids
        self._after_id = template.after_id
        self._template_end = template.end
        self._answer_bytes = (
            _ANSWER_BYTES
            + PyBytes_GET_SIZE(self._before_offset)
            + PyBytes_GET_SIZE(self._after_id)
            + PyBytes_GET_SIZE(self._template_end)
        )
        self._counts = {}

    # One send. Each step is False where the general path has to decide, and has changed nothing then.

    @cython.cfunc
    def handle_send(self, header: cython.pointer[SendHeader], laid: cython.pointer[Writer]) -> cython.bint:
        """Stores a message and answers it; `laid` is empty memory for the properties."""
        plain: Plain
        rerouting: Rerouting
        record: NewRecord
        sent: Span
        unique: Span
        if not self._read_numbers(header):
            return False
        # h flag, m batch
        if not to_number(header.fields[7].span, cython.address(self._flag)) or not (
            -0x80000000 <= self._flag <= 0x7FFFFFFF
        ):
            return False
        if is_literal(header.fields[12].span, b"true"):
            return False
        if not is_same(header.fields[1].span, span_of(self._topic_name)) and not self._choose_topic(
            header.fields[1].span
        ):
            return False
        if self._queue_id < 0 or self._queue_id >= self._queue_count:
            return False
        if not unescape(header.fields[8].span, header.fields[8].escaped, laid):
            return False
        sent = span_written(laid)
        if sent.size == 0:
            return False
        # Half messages are no plain sends.
        is_plain: cython.bint = not self._sys_flag & 0xC and classify_properties(
            sent, span_of(_OF_PLAIN), self._sync_flush, cython.address(plain)
        )
        if byte_of(sent, sent.size - 1) != 2:
            put_u8(laid, 2)
        if is_plain:
            if self._queue_id != self._plain_queue_id and not self._choose_queue():
                return False
            self._queue = self._plain_queue
            self._count = self._plain_count
            self._tags_code = plain.tags_code
            unique = part_of(sent, plain.unique_at, plain.unique_size)
            record.queue_id = cython.cast(cython.int, self._queue_id)
            record.topic = span_of(self._topic_name)
        else:
            if not classify_rerouted(
                span_written(laid), span_of(_OF_REROUTED), self._sync_flush, cython.address(rerouting)
            ):
                return False
            self._refresh_rules()
            unique = part_of(sent, rerouting.unique_at, rerouting.unique_size)
            if rerouting.level:
                if not self._choose_delay_queue(rerouting.level):
                    return False
                record.queue_id = rerouting.level - 1
                record.topic = span_of(_SCHEDULE_TOPIC)
            else:
                if not self._choose_half_queue():
                    return False
                self._tags_code = rerouting.tags_code
                record.queue_id = 0
                record.topic = span_of(_HALF_TOPIC)
                put_literal(laid, b"__transactionId__\x01")
                put_span(laid, unique)
                put_u8(laid, 2)
            self._put_real_queue(laid)
        record.properties = span_written(laid)
        if laid.overflow or not self._store(cython.address(record), unique.size):
            return False
        if is_oneway(cython.address(self.frames)):
            self._oneway += 1
        else:
            self._answered += 1
            self._answer(header, record.physical_offset, record.queue_offset, unique, None, 0)
        if self._out.overflow:
            raise SystemError("an answer was measured smaller than it is")
        self._count_stored(cython.address(record))
        if is_plain:
            if plain.is_ordered:
                self._stats.put_typed("fifo", self._topic, record.size)
        else:
            self._note_rerouted(cython.address(record), cython.address(rerouting), sent)
        return True

    @cython.cfunc
    def handle_batch(self, header: cython.pointer[SendHeader], laid: cython.pointer[Writer]) -> cython.bint:
        """Stores a batch and answers it; `laid` is empty memory for its properties."""
        unique_at: cython.Py_ssize_t = 0
        unique_size: cython.Py_ssize_t = 0
        content: Content
        record: NewRecord
        sent: Span
        if self._sync_flush or not self._read_numbers(header) or self._sys_flag & 0xC:
            return False
        if not unescape(header.fields[8].span, header.fields[8].escaped, laid):
            return False
        sent = span_written(laid)
        if not find_batch_id(
            sent, span_of(_OF_BATCH), cython.address(unique_at), cython.address(unique_size)
        ):
            return False
        if not is_same(header.fields[1].span, span_of(self._topic_name)) and not self._choose_topic(
            header.fields[1].span
        ):
            return False
        if self._queue_id < 0 or self._queue_id >= self._queue_count:
            return False
        if self._queue_id != self._plain_queue_id and not self._choose_queue():
            return False
        self._fill(cython.address(record), self._own_of_batches)
        record.queue_id = cython.cast(cython.int, self._queue_id)
        record.topic = span_of(self._topic_name)
        if not measure_plain_batch(
            record.body, span_of(_IN_BATCH), cython.address(content)
        ) or not batch_fits(
            cython.address(content), cython.address(record), cython.address(self.log), self._reserved()
        ):
            return False
        make_room(
            self._answers,
            cython.address(self._out),
            self._answer_bytes + unique_size + content.count * (16 + PyBytes_GET_SIZE(self._between_ids)),
        )
        # Nothing was changed so far, and from here on nothing fails but for want of memory.
        queue: Any = self._plain_queue
        before: cython.Py_ssize_t = written(cython.address(self.log.out))
        if not queue.dirty:
            self._dirty.append(queue)
            queue.dirty = True
        own_behind: bytes = b"\x02" + self._own_of_batches
        first_offset: cython.longlong = queue.max_offset
        write_batch(
            cython.address(self.log), cython.address(record), span_of(own_behind), queue.tail, first_offset
        )
        queue.max_offset = first_offset + content.count
        if is_oneway(cython.address(self.frames)):
            self._batches_oneway += 1
        else:
            self._batches_answered += 1
            self._answer(
                header, 0, first_offset, part_of(sent, unique_at, unique_size), queue.tail, content.count
            )
        if self._out.overflow:
            raise SystemError("an answer was measured smaller than it is")
        size: cython.Py_ssize_t = written(cython.address(self.log.out)) - before
        self._stats.put_fresh(self._topic, self._queue_id, content.count, size)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _read_numbers(self, header: cython.pointer[SendHeader]) -> cython.bint:
        """Reads the numbers of a header; False if it lacks one, or is that of a retry or an inner batch."""
        # b topic, e queue id, f sysFlag, g born time, i properties, j reconsume times
        if (
            not has_needed_fields(header)
            or not is_there(header.fields[1].span)
            or not is_there(header.fields[8].span)
            or not to_number(header.fields[4].span, cython.address(self._queue_id))
            or not to_number(header.fields[5].span, cython.address(self._sys_flag))
            or not to_number(header.fields[6].span, cython.address(self._born_timestamp))
        ):
            return False
        if is_there(header.fields[9].span) and not is_literal(header.fields[9].span, b"0"):
            return False
        return not self._sys_flag & 0x80 and -0x80000000 <= self._sys_flag <= 0x7FFFFFFF

    @cython.cfunc
    def _choose_topic(self, name: Span) -> cython.bint:
        """Goes on with another topic; False if it does not exist, or clients may not send to it."""
        if self._counts:
            _report(self._stats, self._topic, self._counts)
        self._topic_name = b""  # of a topic that is refused no later frame may find anything
        self._queue_count = 0
        self._plain_queue_id = -1
        if name.size > 127:
            return False
        topic: str = text_of(name)
        count: cython.longlong = self._open[topic]
        if not count:
            return False
        self._topic = topic
        self._topic_name = bytes_of(name)
        self._topic_queues = self._queues.get(topic)
        self._queue_count = count
        return True

    @cython.cfunc
    def _choose_queue(self) -> cython.bint:
        """Goes on with another queue of the topic; False if it does not exist yet."""
        queues = self._topic_queues
        queue: Any = None if queues is None else queues.get(self._queue_id)
        if queue is None or queue.code_is_special:
            return False
        self._plain_queue = queue
        self._plain_queue_id = self._queue_id
        self._plain_count = _counter(self._counts, self._queue_id)
        return True

    # Messages that are stored elsewhere first.

    @cython.cfunc
    def _refresh_rules(self) -> cython.int:
        if not self._rules_are_fresh:
            self._rules.refresh(self._rules)
            self._rules_are_fresh = True
        return 0

    @cython.cfunc
    def _choose_delay_queue(self, level: cython.int) -> cython.bint:
        """Chooses the queue of a delay level, where the unit says when a message is due."""
        delay = self._rules.delays_ms.get(level)
        queues = self._queues.get(SCHEDULE_TOPIC)
        queue: Any = None if queues is None or delay is None else queues.get(level - 1)
        if queue is None:
            return False
        delay_ms: cython.longlong = delay
        self._queue = queue
        self._tags_code = self._now + delay_ms
        if self._delayed_counts is None:
            self._delayed_counts = {}
        self._count = _counter(self._delayed_counts, level - 1)
        return True

    @cython.cfunc
    def _choose_half_queue(self) -> cython.bint:
        queues = self._queues.get(HALF_TOPIC)
        queue: Any = None if queues is None else queues.get(0)
        if not self._rules.accepts_halves or queue is None or queue.code_is_special:
            return False
        self._queue = queue
        if self._half_counts is None:
            self._half_counts = {}
        self._count = _counter(self._half_counts, 0)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _put_real_queue(self, laid: cython.pointer[Writer]) -> cython.void:
        """Adds the properties that say where the message goes in the end."""
        put_literal(laid, b"REAL_TOPIC\x01")
        put_bytes(laid, self._topic_name)
        put_literal(laid, b"\x02REAL_QID\x01")
        put_decimal(laid, self._queue_id)
        put_u8(laid, 2)

    @cython.cfunc
    def _note_rerouted(
        self, record: cython.pointer[NewRecord], rerouting: cython.pointer[Rerouting], sent: Span
    ) -> cython.int:
        if rerouting.is_ordered:
            self._stats.put_typed("fifo", SCHEDULE_TOPIC if rerouting.level else HALF_TOPIC, record.size)
        if not rerouting.level:
            if self._halves is None:
                self._halves = []
            self._halves.append(
                StoredHalf(
                    self._topic,
                    text_of(part_of(sent, rerouting.group_at, rerouting.group_size)),
                    record.physical_offset,
                    record.queue_offset,
                )
            )
        return 0

    # The record and its answer.

    @cython.cfunc
    def _store(self, record: cython.pointer[NewRecord], unique_bytes: cython.Py_ssize_t) -> cython.bint:
        """Writes the message at hand; False if it is too large, or has no space in this segment."""
        self._fill(record, self._own_properties)
        if record.properties.size + record.own_properties.size > MOST_SENT_PROPERTIES:
            return False
        if not has_space_for(cython.address(self.log), record, self._reserved()):
            return False
        # The answer is measured before, too: from here on nothing fails but for want of memory.
        make_room(self._answers, cython.address(self._out), self._answer_bytes + unique_bytes)
        record.body_crc = body_crc(record.body, _CRC, crc32)
        append_record(
            cython.address(self.log), record, self._queue, self._dirty, self._tags_code, _CRC, crc32
        )
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fill(self, record: cython.pointer[NewRecord], own_properties: bytes) -> cython.void:
        """Fills in what does not depend on where the message at hand is stored, or on its properties."""
        record.flag = cython.cast(cython.int, self._flag)
        record.sys_flag = cython.cast(cython.int, self._sys_flag) & ~0xC
        record.born_timestamp = self._born_timestamp
        record.born_host = span_of(self._host)
        record.store_host = span_of(self._store_host)
        record.reconsume_times = 0
        record.prepared_transaction_offset = 0
        record.body = self.frames.body
        record.own_properties = span_of(own_properties)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _reserved(self) -> cython.Py_ssize_t:
        """Bytes to leave behind the next record."""
        return 0 if self._decisions is None else self._decisions.reserved

    @cython.cfunc
    @cython.exceptval(check=False)
    def _answer(
        self,
        header: cython.pointer[SendHeader],
        physical_offset: cython.longlong,
        queue_offset: cython.longlong,
        unique: Span,
        tail: bytearray | None,
        batched: cython.Py_ssize_t,
    ) -> cython.void:
        """Writes the frame that `AnswerTemplate` makes; of a batch for the last messages of a queue."""
        out: Writer = self._out  # in registers, see `append_to`
        start: cython.Py_ssize_t = written(cython.address(out))
        skip(cython.address(out), 8)
        put_bytes(cython.address(out), self._before_offset)
        if batched:
            put_ids(cython.address(out), self._between_ids, tail, batched)
        else:
            put_hex(cython.address(out), physical_offset)
        put_literal(cython.address(out), b'","queueId":"')
        put_decimal(cython.address(out), self._queue_id)
        put_literal(cython.address(out), b'","queueOffset":"')
        put_decimal(cython.address(out), queue_offset)
        if unique.size:
            put_literal(cython.address(out), b'","transactionId":"')
            put_span(cython.address(out), unique)
        put_bytes(cython.address(out), self._after_id)
        put_decimal(cython.address(out), header.opaque)
        put_bytes(cython.address(out), self._template_end)
        size: cython.Py_ssize_t = written(cython.address(out)) - start
        set_u32(cython.address(out), start, cython.cast(cython.uint, size - 4))
        set_u32(cython.address(out), start + 4, cython.cast(cython.uint, size - 8))
        self._out = out

    @cython.cfunc
    def _count_stored(self, record: cython.pointer[NewRecord]) -> cython.int:
        if record.size <= _SMALL_BYTES:
            self._count[0] += 1
            self._count[1] += record.size
        else:
            self._stats.put_fresh(text_of(record.topic), record.queue_id, 1, record.size)
        return 0

    # Decisions, and the end of the read.

    @cython.cfunc
    def handle_decision(self) -> cython.bint:
        """Handles the end of a transaction and answers it; False if it is for the general path."""
        if self._sync_flush and not is_oneway(cython.address(self.frames)):
            return False  # its answer waits for the disk, with a remark of its own where that is late
        self._refresh_rules()
        if self._rules.open_halves is None:
            return False
        if self._decisions is None:
            self._decisions = Decisions(self._rules, self._writer, self._store_host, self._now)
        if not self._decisions.handle(cython.address(self.frames.header), cython.address(self.log)):
            return False
        if is_oneway(cython.address(self.frames)):
            self._ended_oneway += 1
            return True
        success: bytes = encode_success(self.frames.header.opaque)
        make_room(self._answers, cython.address(self._out), PyBytes_GET_SIZE(success))
        put_bytes(cython.address(self._out), success)
        self._ended_answered += 1
        return True

    @cython.cfunc
    def end(self) -> cython.int:
        """Writes what follows from all frames together, and reports to the statistics."""
        if self._decisions is not None:
            self._decisions.end(cython.address(self.log), self._stats)
        if self._counts:
            _report(self._stats, self._topic, self._counts)
        if self._half_counts:
            _report(self._stats, HALF_TOPIC, self._half_counts)
        if self._delayed_counts:
            _report(self._stats, SCHEDULE_TOPIC, self._delayed_counts)
        return 0

    @cython.cfunc
    def result(self) -> HandledSends:
        decisions: Decisions = self._decisions
        by_code: dict[int, tuple[int, int]] = {}
        if self._answered or self._oneway:
            by_code[_SEND] = self._answered, self._oneway
        if self._batches_answered or self._batches_oneway:
            by_code[_SEND_BATCH] = self._batches_answered, self._batches_oneway
        if self._ended_answered or self._ended_oneway:
            by_code[_END_TRANSACTION] = self._ended_answered, self._ended_oneway
        # Not its constructor, which is a Python function and takes as long as a good part of a send.
        made: HandledSends = _new_tuple(
            HandledSends,
            (
                self.frames.end,
                bytes_of(span_written(cython.address(self._out))),
                self._answered + self._batches_answered + self._ended_answered,
                by_code,
                self.frames.version,
                language_of(cython.address(self.frames)),
                self._halves or (),
                () if decisions is None else decisions.ended,
                -1 if decisions is None else decisions.op_offset,
            ),
        )
        return made


@cython.cfunc
def _counter(counts: dict[int, Any], queue_id: cython.longlong) -> list[Any]:
    """The messages and bytes that a queue got."""
    count: list[Any] | None = counts.get(queue_id)
    if count is None:
        count = counts[queue_id] = [0, 0]
    return count


@cython.cfunc
def _report(stats: Any, topic: str, counts: dict[int, Any]) -> cython.int:
    """Reports to the statistics what the queues of a topic got, and begins anew."""
    for queue_id, count in counts.items():
        if count[0]:
            stats.put_fresh(topic, queue_id, count[0], count[1], count[0])
    counts.clear()
    return 0

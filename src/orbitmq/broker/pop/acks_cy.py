"""Acknowledgements of popped messages straight from the frames of a read to records, units and answers.

Hot: every popped message is acknowledged, by most clients with a request of its own. Acknowledgements of
one pop share a record: it is rendered from the pop's template, which has places for the offsets, once all
frames were read. Space for the records is reserved with each frame, so that all of them fit. The rules
decide once which pops have a template. A frame that is in any way unusual, and everything behind it, is
left to the general path; interpreted, all are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.protocol.remoting.header_cy import encode_success

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBuffer_Release  # type: ignore[import-not-found]
    from cython.cimports.cpython.bytes import PyBytes_GET_SIZE  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.record import (  # type: ignore[import-not-found]
        FIXED_BYTES,
        PROPERTY_CRC_BYTES,
    )
    from cython.cimports.orbitmq.protocol.remoting.frames import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.send_header import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.log.append import *  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.protocol.handles.pop import PopHandle
    from orbitmq.store import PendingMessage
    from orbitmq.store.log.log_writer import LogWriter

_CRC: bytes = CRC_TABLES
MARK = 923_456_789_012_345_678
"""Stands for an offset while a template is made."""
MOST_FIXED_BYTES = 2048
"""Of a record's body and properties, beside the offsets; longer names are for the general path."""
_MOST_FIXED_BYTES = cython.declare(cython.Py_ssize_t, MOST_FIXED_BYTES)
_MOST_TOGETHER = cython.declare(cython.Py_ssize_t, 512)
"""Limit of acknowledgements that share a record."""
_OFFSET_BYTES = cython.declare(cython.Py_ssize_t, 20)
"""Limit of an offset and its comma."""
_ACK_MESSAGE = cython.declare(cython.int, 200051)


class AckTemplate:
    """Records of the acknowledgements of a pop, in which nothing but the offsets differs."""

    __slots__ = (
        "end",
        "fixed_bytes",
        "group",
        "handle",
        "lowest",
        "one_body",
        "one_code",
        "one_properties",
        "several_body",
        "several_code",
        "several_properties",
        "stored_queue_id",
        "stored_topic",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        group: str,
        handle: PopHandle,
        one: PendingMessage,
        several: PendingMessage,
    ) -> None:
        """`one` acknowledges MARK, `several` does twice. Raises ValueError if they cannot be templates."""
        mark = b"%d" % MARK
        self.topic = topic
        self.group = group
        self.handle = handle
        self.one_body = _around(bytes(one.body), mark)
        self.one_properties = _around(one.properties, mark)
        self.several_body = _around(bytes(several.body), b"%s,%s" % (mark, mark))
        self.several_properties = several.properties
        self.one_code = tags_code(one.properties)
        self.several_code = tags_code(several.properties)
        self.stored_topic = one.topic.encode()
        self.stored_queue_id = one.queue_id
        self.fixed_bytes = max(
            len(one.body) + len(one.properties), len(several.body) + len(several.properties)
        )
        if self.fixed_bytes > MOST_FIXED_BYTES:
            raise ValueError("the names are too long")
        self.lowest = 0
        """The queue offsets that its queue has now."""
        self.end = 0


def _around(text: bytes, mark: bytes) -> tuple[bytes, bytes]:
    if text.count(mark) != 1:
        raise ValueError("the mark is in a name")
    before, _, after = text.partition(mark)
    return before, after


class AckTemplates(Protocol):
    """The rules that decide which pops have templates."""

    def ack_template(self, key: bytes, now: int) -> AckTemplate | None:
        """The template of the pop whose topic, group and handle are in `key`, each with a zero byte behind
        it.
        """
        ...


class HandledAcks(NamedTuple):
    """The result of handling the acknowledgements at the start of a read."""

    end: int
    """Bytes of the read that they were."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    version: int
    """Of the first one's sender."""
    language: str
    pops: list[tuple[AckTemplate, int]]
    """Number of acknowledgements of each pop."""


def handle_acks(
    data: bytes, templates: AckTemplates, host: bytes, writer: LogWriter, answers: bytearray, now: int
) -> HandledAcks | None:
    """Stores the acknowledgements at the start of `data`; None if the first frame is for the general path.

    `host` is the broker's; `answers` is memory to work in that the caller keeps.
    """
    if not cython.compiled:
        return None
    if PyBytes_GET_SIZE(host) not in (8, 20):
        return None
    segment: Py_buffer
    acks: _Acks = _Acks(data, templates, host, writer, answers, now)
    begin_append(writer, cython.address(segment), cython.address(acks.log))
    try:
        while next_frame(cython.address(acks.frames)) and acks.handle(cython.address(acks.frames.header)):
            note_handled(cython.address(acks.frames))
        if not acks.frames.end:
            return None
        done = acks.store()
        end_append(writer, cython.address(acks.log))
    finally:
        PyBuffer_Release(cython.address(segment))
    return acks.result(done)


@cython.final
@cython.cclass
class _PopAcks:
    """The acknowledgements of one pop in a read. Compiled only."""

    template: Any
    queue: Any
    queue_id: cython.longlong
    lowest: cython.longlong
    end: cython.longlong
    offsets: list[int]

    def __init__(self, template: AckTemplate, queue: Any) -> None:
        self.template = template
        self.queue = queue
        self.queue_id = template.handle.queue_id
        self.lowest = template.lowest
        self.end = template.end
        self.offsets = []


@cython.final
@cython.cclass
class _Acks:
    """The acknowledgements of a read, by their pops. Compiled only."""

    frames: Frames
    log: LogEnd
    _templates: Any
    _host: bytes
    _queues: dict[str, Any]
    _dirty: list[Any]
    _now: cython.longlong
    _answers: bytearray
    _out: Writer
    _by_pop: dict[bytes, _PopAcks]
    # The pop of the frame before, for most have the same:
    _pop: _PopAcks
    _topic: Span
    _group: Span
    _handle: Span
    _reserved: cython.Py_ssize_t  # bytes of the records, which are written last

    def __init__(
        self,
        data: bytes,
        templates: AckTemplates,
        host: bytes,
        writer: LogWriter,
        answers: bytearray,
        now: int,
    ) -> None:
        begin_frames(cython.address(self.frames), data)
        self._templates = templates
        self._host = host
        self._queues = writer.queues
        self._dirty = writer.dirty
        self._now = now
        self._answers = answers
        self._out = writer_of(answers)
        self._by_pop = {}
        self._topic = self._group = self._handle = no_span()

    @cython.cfunc
    def handle(self, header: cython.pointer[SendHeader]) -> cython.bint:
        """Notes one acknowledgement and answers it; False if it is for the general path."""
        topic: Span
        group: Span
        handle: Span
        text: Span
        queue_id: cython.longlong = 0
        offset: cython.longlong = 0
        if header.code != _ACK_MESSAGE or is_oneway(cython.address(self.frames)) or self.frames.body.size:
            return False
        if (
            not named(header, b"queueId", cython.address(text))
            or not to_number(text, cython.address(queue_id))
            or not named(header, b"offset", cython.address(text))
            or not to_number(text, cython.address(offset))
            or not named(header, b"topic", cython.address(topic))
            or not named(header, b"consumerGroup", cython.address(group))
            or not named(header, b"extraInfo", cython.address(text))
        ):
            return False
        handle = _pop_of(text)
        if not handle.size:
            return False
        if (
            self._pop is None
            or not is_same(handle, self._handle)
            or not is_same(topic, self._topic)
            or not is_same(group, self._group)
        ) and not self._choose_pop(topic, group, handle):
            return False
        pop: _PopAcks = self._pop
        if queue_id != pop.queue_id or offset < pop.lowest or offset > pop.end or not self._fits(pop):
            return False
        success: bytes = encode_success(header.opaque)
        make_room(self._answers, cython.address(self._out), PyBytes_GET_SIZE(success))
        put_bytes(cython.address(self._out), success)
        pop.offsets.append(offset)
        self._reserved += _OFFSET_BYTES
        return True

    @cython.cfunc
    def _choose_pop(self, topic: Span, group: Span, handle: Span) -> cython.bint:
        """Goes on with another pop; False where the rules decide about its acknowledgements one by one."""
        key: bytes = b"%s\x00%s\x00%s\x00" % (bytes_of(topic), bytes_of(group), bytes_of(handle))
        pop: _PopAcks | None = self._by_pop.get(key)
        if pop is None:
            template = self._templates.ack_template(key, self._now)
            if template is None:
                return False
            queue = (self._queues.get(template.stored_topic.decode()) or {}).get(template.stored_queue_id)
            if queue is None or queue.code_is_special:
                return False
            needed: cython.Py_ssize_t = self._fixed_bytes() + len(template.stored_topic)
            needed += template.fixed_bytes
            if (
                needed + BLANK_BYTES > left_of(cython.address(self.log.out)) - self._reserved
                or needed > self.log.max_record
            ):
                return False
            pop = self._by_pop[key] = _PopAcks(template, queue)
            self._reserved += needed
        self._pop = pop
        self._topic = topic
        self._group = group
        self._handle = handle
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fixed_bytes(self) -> cython.Py_ssize_t:
        """Bytes of a record beside topic, body and properties."""
        crc_bytes: cython.Py_ssize_t = PROPERTY_CRC_BYTES + 1 if self.log.with_crc else 0
        return FIXED_BYTES + 2 * PyBytes_GET_SIZE(self._host) + crc_bytes

    @cython.cfunc
    def _fits(self, pop: _PopAcks) -> cython.bint:
        """True if the record of a pop may have one more offset."""
        count: cython.Py_ssize_t = len(pop.offsets)
        # An upper limit: topics have 255 bytes at most.
        most: cython.Py_ssize_t = _MOST_FIXED_BYTES + self._fixed_bytes() + 300 + _OFFSET_BYTES * count
        return (
            count < _MOST_TOGETHER
            and most <= self.log.max_body
            and most <= self.log.max_record
            and self._reserved + _OFFSET_BYTES + BLANK_BYTES <= left_of(cython.address(self.log.out))
        )

    @cython.cfunc
    def store(self) -> list[tuple[AckTemplate, int]]:
        """Writes a record for each pop, for which space was reserved."""
        done: list[tuple[AckTemplate, int]] = []
        pop: _PopAcks
        for pop in self._by_pop.values():
            if pop.offsets:
                self._store_pop(pop)
                done.append((pop.template, len(pop.offsets)))
        return done

    @cython.cfunc
    def _store_pop(self, pop: _PopAcks) -> cython.int:
        template: Any = pop.template
        # The unchanging part has `MOST_FIXED_BYTES` at most, and there are `_MOST_TOGETHER` offsets at most.
        body_bytes = cython.declare(cython.uchar[16384])
        properties_bytes = cython.declare(cython.uchar[4096])
        body: Writer = writer_over(body_bytes, cython.sizeof(body_bytes))
        properties: Writer = writer_over(properties_bytes, cython.sizeof(properties_bytes))
        record: NewRecord
        tags_code: cython.longlong
        topic: bytes = template.stored_topic
        if len(pop.offsets) == 1:
            _render(cython.address(body), template.one_body, pop.offsets)
            _render(cython.address(properties), template.one_properties, pop.offsets)
            tags_code = template.one_code
        else:
            _render(cython.address(body), template.several_body, pop.offsets)
            put_bytes(cython.address(properties), template.several_properties)
            tags_code = template.several_code
        if body.overflow or properties.overflow:
            raise SystemError("acknowledgements were measured smaller than they are")
        record.queue_id = template.stored_queue_id
        record.flag = record.sys_flag = record.reconsume_times = 0
        record.prepared_transaction_offset = 0
        record.born_timestamp = self._now
        record.born_host = record.store_host = span_of(self._host)
        record.topic = span_of(topic)
        record.body = span_written(cython.address(body))
        record.body_crc = body_crc(record.body, _CRC, crc32)
        record.properties = span_written(cython.address(properties))
        record.own_properties = no_span()
        if not has_space_for(cython.address(self.log), cython.address(record), 0):
            raise SystemError("acknowledgements were measured smaller than they are")
        append_record(
            cython.address(self.log), cython.address(record), pop.queue, self._dirty, tags_code, _CRC, crc32
        )
        return 0

    @cython.cfunc
    def result(self, done: list[tuple[AckTemplate, int]]) -> HandledAcks:
        return HandledAcks(
            self.frames.end,
            bytes_of(span_written(cython.address(self._out))),
            self.frames.handled,
            self.frames.version,
            language_of(cython.address(self.frames)),
            done,
        )


@cython.cfunc
@cython.exceptval(check=False)
def _pop_of(handle: Span) -> Span:
    """The fields of a handle that all handles of a pop share; empty for an unusual handle."""
    at: cython.Py_ssize_t = handle.size
    while at > 0 and byte_of(handle, at - 1) != 32:
        at -= 1
    # The last one is the message's own offset.
    offset: Span = rest_of(handle, at)
    if at == 0 or offset.size > 18 or not is_digits(offset):
        return no_span()
    return part_of(handle, 0, at - 1)


@cython.cfunc
def _render(out: cython.pointer[Writer], template: tuple[bytes, bytes], offsets: list[int]) -> cython.int:
    """Writes a template with offsets in its place for them."""
    before: bytes = template[0]
    after: bytes = template[1]
    offset: cython.longlong
    is_first: cython.bint = True
    put_bytes(out, before)
    for offset in offsets:
        if not is_first:
            put_u8(out, 44)
        is_first = False
        put_decimal(out, offset)
    put_bytes(out, after)
    return 0

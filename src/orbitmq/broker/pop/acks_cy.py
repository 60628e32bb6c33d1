"""Acknowledgements of popped messages straight from the frames of a read to records, units and answers.

Hot: every popped message is acknowledged, by most clients with a request of its own. A header is read to
slots, those of one pop share a record, which is the pop's template with other offsets, and the answers are
put together. A frame that is in any way unusual ends it and goes the general path, which decides everything
that this one does not. Interpreted, all goes that way.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore"
# ruff: noqa: F821
# (Py_buffer and the C structures are names that only the compiler knows.)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.message_cy import CRC_TABLES, crc32
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.protocol.remoting.header_cy import encode_success

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytes import PyBytes_GET_SIZE  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Span,
        Writer,
        byte_of,
        bytes_of,
        is_digits,
        is_same,
        make_room,
        no_span,
        part_of,
        put_bytes,
        put_decimal,
        put_u8,
        rest_of,
        skip,
        span_of,
        span_written,
        text_of,
        writer_of,
        writer_over,
        written,
    )
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.record import put_record  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        named,
        scan_frame,
        to_number,
    )
    from cython.cimports.orbitmq.store.queue.units import put_unit  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.protocol.handles.pop import PopHandle
    from orbitmq.store import PendingMessage
    from orbitmq.store.queue.room import Room

_CRC: bytes = CRC_TABLES
MARK = 923_456_789_012_345_678
"""Stands for an offset while a template is made."""
MOST_FIXED_BYTES = 2048
"""Of a record's body and properties, beside the offsets; names that are longer are for the ordinary way."""
_MOST_TOGETHER = 512
"""Acknowledgements that share a record."""


class UsualPop:
    """A pop in whose acknowledgements nothing but the offsets differs, and the records that hold them."""

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


class UsualPops(Protocol):
    """The owner of the pops."""

    def usual_pop(self, key: bytes, now: int) -> UsualPop | None:
        """The pop whose topic, group and handle are in `key`, each with a zero byte behind it."""
        ...


class TakenAcks(NamedTuple):
    """Result of taking the acknowledgements at the start of a read."""

    end: int
    """Number of bytes of the read that they were."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    version: int
    """Of the first one's sender."""
    language: str
    pops: list[tuple[UsualPop, int]]
    """Whose messages they acknowledge, and how many."""


@cython.final
@cython.cclass
class _Together:
    """The acknowledgements of one pop in a read. Compiled only."""

    pop: Any
    queue_id: cython.longlong
    lowest: cython.longlong
    end: cython.longlong
    offsets: list[int]

    def __init__(self, pop: UsualPop) -> None:
        self.pop = pop
        self.queue_id = pop.handle.queue_id
        self.lowest = pop.lowest
        self.end = pop.end
        self.offsets = []


def take_acks(
    data: bytes, pops: UsualPops, host: bytes, room: Room, answers: bytearray, now: int
) -> TakenAcks | None:
    """Stores the acknowledgements at the start of `data`; None if the first frame is for the ordinary way.

    `host` is the broker's; `answers` is memory to work in that the caller keeps.
    """
    if not cython.compiled:
        return None
    read: Span = span_of(data)
    end: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t
    header: SendHeader
    body: Span
    topic: Span
    group: Span
    own: Span
    last: Span
    text: Span
    last_at: cython.Py_ssize_t
    known_topic: Span = no_span()
    known_group: Span = no_span()
    known_own: Span = no_span()
    queue_id: cython.longlong = 0
    offset: cython.longlong = 0
    known: _Together | None = None
    together: dict[bytes, _Together] = {}
    key: bytes
    fixed: cython.Py_ssize_t
    reserved: cython.Py_ssize_t = 0
    needed: cython.Py_ssize_t
    out: Writer = writer_of(answers)
    answered: cython.Py_ssize_t = 0
    version: cython.int = 0
    language: str = ""
    success: bytes
    by_topic: dict[str, Any] = room.queues
    position: cython.Py_ssize_t = room.position
    limit: cython.Py_ssize_t = room.limit
    max_body: cython.Py_ssize_t = room.max_body_bytes
    max_record: cython.Py_ssize_t = room.max_record_bytes
    if PyBytes_GET_SIZE(host) not in (8, 20):
        return None
    fixed = 75 + 2 * PyBytes_GET_SIZE(host)
    while True:
        length = scan_frame(read, end, cython.address(header), cython.address(body))
        if not length or body.size:
            break
        # Neither an answer nor one-way.
        if (
            header.code != 200051
            or header.flag & 3
            or not named(cython.address(header), b"queueId", cython.address(text))
            or not to_number(text, cython.address(queue_id))
            or not named(cython.address(header), b"offset", cython.address(text))
            or not to_number(text, cython.address(offset))
            or not named(cython.address(header), b"topic", cython.address(topic))
            or not named(cython.address(header), b"consumerGroup", cython.address(group))
            or not named(cython.address(header), b"extraInfo", cython.address(own))
        ):
            break
        # Handles of one pop differ in their last field, the message's own offset.
        last_at = own.size
        while last_at > 0 and byte_of(own, last_at - 1) != 32:
            last_at -= 1
        last = rest_of(own, last_at)
        if last_at == 0 or last.size > 18 or not is_digits(last):
            break
        own = part_of(own, 0, last_at - 1)
        if (
            known is None
            or not is_same(own, known_own)
            or not is_same(topic, known_topic)
            or not is_same(group, known_group)
        ):
            key = b"%s\x00%s\x00%s\x00" % (bytes_of(topic), bytes_of(group), bytes_of(own))
            known = together.get(key)
            if known is None:
                pop = pops.usual_pop(key, now)
                if pop is None:
                    break
                queue = (by_topic.get(pop.stored_topic.decode()) or {}).get(pop.stored_queue_id)
                if queue is None or queue.code_is_special:
                    break
                known = _Together(pop)
                needed = fixed + PyBytes_GET_SIZE(pop.stored_topic) + pop.fixed_bytes
                if needed + 8 > limit - position - reserved or needed > max_record:
                    break
                together[key] = known
                reserved += needed
            known_topic = topic
            known_group = group
            known_own = own
        if queue_id != known.queue_id or offset < known.lowest or offset > known.end:
            break
        # An offset has no more digits than what stands for it, and a comma.
        needed = MOST_FIXED_BYTES + fixed + 300 + 20 * len(known.offsets)
        if (
            len(known.offsets) >= _MOST_TOGETHER
            or needed > max_body
            or needed > max_record
            or reserved + 28 > limit - position
        ):
            break
        success = encode_success(header.opaque)
        make_room(answers, cython.address(out), PyBytes_GET_SIZE(success))
        put_bytes(cython.address(out), success)
        known.offsets.append(offset)
        reserved += 20
        answered += 1
        if not version:
            version = header.version
            language = text_of(header.language.span)
        end += length
    if not answered:
        return None
    done: list[tuple[UsualPop, int]] = []
    target: Py_buffer
    PyObject_GetBuffer(room.view, cython.address(target), PyBUF_WRITABLE)
    log: Writer = writer_over(target.buf, min(limit, target.len))
    skip(cython.address(log), position)
    try:
        for known in together.values():
            if known.offsets:
                _put(cython.address(log), room, known, host, now)
                done.append((known.pop, len(known.offsets)))
    finally:
        PyBuffer_Release(cython.address(target))
    return TakenAcks(
        end,
        bytes_of(span_written(cython.address(out))),
        answered,
        version,
        language,
        done,
    )


@cython.cfunc
def _put(
    log: cython.pointer[Writer], room: Any, together: _Together, host: bytes, now: cython.longlong
) -> Any:
    """Writes the record of acknowledgements of one pop, for which there is room. Compiled only."""
    pop: Any = together.pop
    offsets: list[int] = together.offsets
    # The unchanging part has `MOST_FIXED_BYTES` at most, an offset with its comma 20.
    body_bytes = cython.declare(cython.uchar[16384])
    properties_bytes = cython.declare(cython.uchar[4096])
    body: Writer = writer_over(body_bytes, cython.sizeof(body_bytes))
    properties: Writer = writer_over(properties_bytes, cython.sizeof(properties_bytes))
    content: Span
    position: cython.Py_ssize_t = room.position
    segment_start: cython.longlong = room.segment_start
    stored_topic: bytes = pop.stored_topic
    stored_queue_id: cython.int = pop.stored_queue_id
    size: cython.Py_ssize_t
    code: cython.longlong
    offset: cython.longlong
    crc: cython.uint
    before: bytes
    after: bytes
    is_first: cython.bint = True
    if len(offsets) == 1:
        offset = offsets[0]
        before, after = pop.one_body
        put_bytes(cython.address(body), before)
        put_decimal(cython.address(body), offset)
        put_bytes(cython.address(body), after)
        before, after = pop.one_properties
        put_bytes(cython.address(properties), before)
        put_decimal(cython.address(properties), offset)
        put_bytes(cython.address(properties), after)
        code = pop.one_code
    else:
        before, after = pop.several_body
        put_bytes(cython.address(body), before)
        for offset in offsets:
            if not is_first:
                put_u8(cython.address(body), 44)
            is_first = False
            put_decimal(cython.address(body), offset)
        put_bytes(cython.address(body), after)
        put_bytes(cython.address(properties), pop.several_properties)
        code = pop.several_code
    content = span_written(cython.address(body))
    crc = body_crc(content, _CRC, crc32)
    size = 75 + 2 * PyBytes_GET_SIZE(host) + PyBytes_GET_SIZE(stored_topic)
    size += written(cython.address(properties)) + content.size
    queue: Any = room.queues[stored_topic.decode()][stored_queue_id]
    queue_offset: cython.longlong = queue.max_offset
    if not queue.dirty:
        room.dirty.append(queue)
        queue.dirty = True
    put_record(
        log,
        size,
        crc,
        stored_queue_id,
        0,
        queue_offset,
        segment_start + position,
        0x30 if PyBytes_GET_SIZE(host) == 20 else 0,
        now,
        host,
        room.store_timestamp,
        host,
        0,
        0,
        content,
        stored_topic,
        span_written(cython.address(properties)),
    )
    if body.overflow or properties.overflow or log.overflow:
        raise SystemError("acknowledgements were measured smaller than they are")
    put_unit(queue.tail, segment_start + position, cython.cast(cython.int, size), code)
    queue.max_offset = queue_offset + 1
    room.last_record = segment_start + position
    room.position = position + size

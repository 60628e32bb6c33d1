"""Acknowledgements of popped messages straight from the frames of a read to records, units and answers.

Hot: every popped message is acknowledged, by most clients with a request of its own. A header is read to
slots, those of one pop share a record, which is the pop's template with other offsets, and the answers are
put together. What is in any way unusual ends it and goes the ordinary way, which decides everything that this
one does not. Interpreted, all goes that way.
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

from orbitmq.protocol.header_cy import encode_success
from orbitmq.protocol.message_cy import CRC_TABLES, crc32
from orbitmq.protocol.properties_cy import tags_code

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-not-found]
        PyByteArray_AS_STRING,
        PyByteArray_GET_SIZE,
        PyByteArray_Resize,
    )
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory  # type: ignore[import-not-found]
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8  # type: ignore[import-not-found]
    from cython.cimports.libc.string import memcmp, memcpy  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.big_endian import get_int  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.crc import is_short, short_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.decimal import put_decimal  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.record import put_record  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        Text,
        named,
        scan_send,
        to_number,
    )
    from cython.cimports.orbitmq.store.units import put_unit  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.protocol.pop import PopHandle
    from orbitmq.store import PendingMessage
    from orbitmq.store.room import Room

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
    """Who knows the pops."""

    def usual_pop(self, key: bytes, now: int) -> UsualPop | None:
        """The pop whose topic, group and handle are in `key`, each with a zero byte behind it."""
        ...


class TakenAcks(NamedTuple):
    """What came of the acknowledgements at the start of a read."""

    end: int
    """How many bytes of the read they were."""
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
    end: cython.Py_ssize_t = PyBytes_GET_SIZE(data)
    start: cython.pointer[cython.const[cython.uchar]] = cython.cast(
        cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(data)
    )
    frame: cython.pointer[cython.const[cython.uchar]] = start
    left: cython.Py_ssize_t
    length: cython.Py_ssize_t
    header_length: cython.Py_ssize_t
    header: SendHeader
    topic: Text
    group: Text
    own: Text
    last: Text
    text: Text
    known_topic: Text
    known_group: Text
    known_own: Text
    queue_id: cython.longlong = 0
    offset: cython.longlong = 0
    known: _Together | None = None
    together: dict[bytes, _Together] = {}
    key: bytes
    fixed: cython.Py_ssize_t
    reserved: cython.Py_ssize_t = 0
    needed: cython.Py_ssize_t
    used: cython.Py_ssize_t = 0
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
    known_topic.at = known_group.at = known_own.at = cython.NULL
    known_topic.size = known_group.size = known_own.size = -1
    while True:
        left = start + end - frame
        if left < 8:
            break
        length = get_int(frame)
        header_length = get_int(frame + 4)  # above 24 bits: the kind of header, 0 for JSON
        if length < 4 or length + 4 > left or header_length < 2 or header_length + 4 != length:
            break
        if frame[4] or not scan_send(frame + 8, frame + 8 + header_length, cython.address(header)):
            break
        # Neither an answer nor one-way.
        if (
            header.code != 200051
            or header.flag & 3
            or not named(cython.address(header), b"queueId", 7, cython.address(text))
            or not to_number(text.at, text.size, cython.address(queue_id))
            or not named(cython.address(header), b"offset", 6, cython.address(text))
            or not to_number(text.at, text.size, cython.address(offset))
            or not named(cython.address(header), b"topic", 5, cython.address(topic))
            or not named(cython.address(header), b"consumerGroup", 13, cython.address(group))
            or not named(cython.address(header), b"extraInfo", 9, cython.address(own))
        ):
            break
        # Handles of one pop differ in their last field, the message's own offset.
        last.at = own.at + own.size
        while last.at > own.at and (last.at - 1)[0] != 32:
            last.at -= 1
        last.size = own.at + own.size - last.at
        if last.size == own.size or last.size > 18 or not _is_digits(last.at, last.size):
            break
        own.size -= last.size + 1
        if (
            known is None
            or not _is_same(cython.address(own), cython.address(known_own))
            or not _is_same(cython.address(topic), cython.address(known_topic))
            or not _is_same(cython.address(group), cython.address(known_group))
        ):
            key = b"%s\x00%s\x00%s\x00" % (_bytes(topic), _bytes(group), _bytes(own))
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
        needed = used + PyBytes_GET_SIZE(success)
        if needed > PyByteArray_GET_SIZE(answers):
            PyByteArray_Resize(answers, max(needed, 2 * PyByteArray_GET_SIZE(answers)))
        memcpy(PyByteArray_AS_STRING(answers) + used, PyBytes_AS_STRING(success), PyBytes_GET_SIZE(success))
        used = needed
        known.offsets.append(offset)
        reserved += 20
        answered += 1
        if not version:
            version = header.version
            language = PyUnicode_DecodeUTF8(
                cython.cast(cython.p_char, header.language.at), header.language.size, cython.NULL
            )
        frame += 4 + length
    if not answered:
        return None
    done: list[tuple[UsualPop, int]] = []
    target: Py_buffer
    PyObject_GetBuffer(room.view, cython.address(target), PyBUF_WRITABLE)
    try:
        for known in together.values():
            if known.offsets:
                _put(cython.cast(cython.p_uchar, target.buf), room, known, host, now)
                done.append((known.pop, len(known.offsets)))
    finally:
        PyBuffer_Release(cython.address(target))
    return TakenAcks(
        frame - start,
        PyBytes_FromStringAndSize(PyByteArray_AS_STRING(answers), used),
        answered,
        version,
        language,
        done,
    )


@cython.cfunc
@cython.exceptval(check=False)
def _is_digits(at: cython.pointer[cython.const[cython.uchar]], size: cython.Py_ssize_t) -> cython.bint:
    """Compiled only."""
    i: cython.Py_ssize_t
    for i in range(size):
        if not 48 <= at[i] <= 57:
            return False
    return size > 0


@cython.cfunc
@cython.exceptval(check=False)
def _is_same(one: cython.pointer[Text], other: cython.pointer[Text]) -> cython.bint:
    """Compiled only."""
    return one.size == other.size and memcmp(one.at, other.at, one.size) == 0


@cython.cfunc
def _bytes(text: Text) -> bytes:
    """Compiled only."""
    made: bytes = PyBytes_FromStringAndSize(cython.cast(cython.p_char, text.at), text.size)
    return made


@cython.cfunc
@cython.exceptval(check=False)
def _add(at: cython.p_uchar, part: bytes) -> cython.p_uchar:
    """Copies a part; gives the place behind it. Compiled only."""
    memcpy(at, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
    return at + PyBytes_GET_SIZE(part)


@cython.cfunc
def _put(base: cython.p_uchar, room: Any, together: _Together, host: bytes, now: cython.longlong) -> Any:
    """Writes the record of acknowledgements of one pop, for which there is room. Compiled only."""
    pop: Any = together.pop
    offsets: list[int] = together.offsets
    # What does not change has `MOST_FIXED_BYTES` at most, an offset with its comma 20.
    body = cython.declare(cython.uchar[16384])
    properties = cython.declare(cython.uchar[4096])
    start: cython.p_uchar = cython.cast(cython.p_uchar, body)
    at: cython.p_uchar = start
    own: cython.p_uchar = cython.cast(cython.p_uchar, properties)
    body_length: cython.Py_ssize_t
    properties_length: cython.Py_ssize_t
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
    tables: cython.pointer[cython.const[cython.uint]] = cython.cast(
        cython.pointer[cython.const[cython.uint]], PyBytes_AS_STRING(_CRC)
    )
    if len(offsets) == 1:
        offset = offsets[0]
        before, after = pop.one_body
        at = _add(put_decimal(_add(at, before), offset), after)
        before, after = pop.one_properties
        own = _add(put_decimal(_add(own, before), offset), after)
        code = pop.one_code
    else:
        before, after = pop.several_body
        at = _add(at, before)
        for offset in offsets:
            at = put_decimal(at, offset)
            at[0] = 44
            at += 1
        at = _add(at - 1, after)
        own = _add(own, pop.several_properties)
        code = pop.several_code
    body_length = at - start
    properties_length = own - cython.cast(cython.p_uchar, properties)
    if is_short(body_length):
        crc = short_crc(tables, start, body_length) & 0x7FFFFFFF
    else:
        crc = crc32(PyMemoryView_FromMemory(cython.cast(cython.p_char, start), body_length, 0x100))
    size = 75 + 2 * PyBytes_GET_SIZE(host) + PyBytes_GET_SIZE(stored_topic) + properties_length + body_length
    queue: Any = room.queues[stored_topic.decode()][stored_queue_id]
    queue_offset: cython.longlong = queue.max_offset
    if not queue.dirty:
        room.dirty.append(queue)
        queue.dirty = True
    put_record(
        base + position,
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
        start,
        body_length,
        stored_topic,
        cython.cast(cython.p_uchar, properties),
        properties_length,
    )
    put_unit(queue.tail, segment_start + position, cython.cast(cython.int, size), code)
    queue.max_offset = queue_offset + 1
    room.last_record = segment_start + position
    room.position = position + size

"""Sends and ends of transactions straight from the frames of a read to records, units and answers, without an
object for each.

Hot: nearly every message sent passes here. It is the short way of `send_cy`, gone at once for all the sends
that a read brings: the header is read to slots, the record is written where it stays, and the answer beside
the others. So do messages with a delay level and half messages, and the usual decisions: those about half
messages that came this way not long ago, and have no copy. What they publish is copied within the map, and
one op record at the end names all that a read decides about. What is anything else, or has no place yet (an
unknown queue, a full segment), ends it, and goes the ordinary way, which decides everything that this one
does not. Interpreted, all goes that way.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore"
# ruff: noqa: F821
# (Py_buffer and the C structures are names that only the compiler knows.)

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.header_cy import encode_success
from orbitmq.protocol.message_cy import CRC_TABLES, crc32
from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from orbitmq.store.room import HOT_BYTES

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
    from cython.cimports.orbitmq.broker.aside import (  # type: ignore[import-not-found]
        Aside,
        Half,
        look_aside,
        look_at_half,
    )
    from cython.cimports.orbitmq.broker.plain import Plain, look_through  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.big_endian import (  # type: ignore[import-not-found]
        get_int,
        get_long,
        put_int,
        put_long,
    )
    from cython.cimports.orbitmq.protocol.crc import is_short, short_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.decimal import put_decimal  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.record import put_record  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        Text,
        named,
        scan_send,
        to_number,
        unescape,
    )
    from cython.cimports.orbitmq.store.units import put_unit  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.broker.send_cy import ReplyTemplate
    from orbitmq.broker.stats import BrokerStats
    from orbitmq.store.room import Room

_CRC: bytes = CRC_TABLES
_HEX: bytes = b"0123456789ABCDEF"
_RETRY_PREFIX = "%RETRY%"
_WRITE = 2
_SMALL_BYTES = 1024
"""Larger messages are counted one by one: statistics tell sizes above it apart."""


_HALF_TOPIC: bytes = HALF_TOPIC.encode()
_OP_TOPIC: bytes = OP_HALF_TOPIC.encode()
_SCHEDULE_TOPIC: bytes = SCHEDULE_TOPIC.encode()


_new_tuple: Any = tuple.__new__


class StoredHalf(NamedTuple):
    """A half message that was stored."""

    topic: str
    group: str
    physical_offset: int
    offset: int


class Ended(NamedTuple):
    """A half message that was decided about."""

    topic: str
    group: str
    physical_offset: int
    offset: int
    is_commit: bool
    age_ms: int


class TakenSends(NamedTuple):
    """What came of the sends and decisions at the start of a read."""

    end: int
    """How many bytes of the read they were."""
    answers: bytes
    """The frames of all answers."""
    answered: int
    oneway: int
    version: int
    """Of the first one's sender."""
    language: str
    halves: Sequence[StoredHalf]
    ended: Sequence[Ended]
    op_offset: int
    """The queue offset of the op record that names those."""
    ended_answered: int
    """Of all answers those to decisions."""
    ended_oneway: int


class Waiting:
    """What the messages that wait elsewhere first need, and decisions about them. See `send_cy.set_aside`."""

    __slots__ = (
        "delays_ms",
        "look",
        "most_op_bytes",
        "op_properties",
        "op_tags_code",
        "recent",
        "takes_halves",
    )

    def __init__(self, op_properties: bytes, op_tags_code: int, look: Callable[[Waiting], None]) -> None:
        self.look = look
        """Finds out what follows here, as it is now: asked where a read brings such a message or decision."""
        self.op_properties = op_properties
        self.op_tags_code = op_tags_code
        self.most_op_bytes = 0
        self.delays_ms: dict[int, int] = {}
        """The delay levels; none while no delayed messages are taken."""
        self.takes_halves = False
        self.recent: dict[int, int] | None = None
        """Physical offset -> queue offset of half messages that are open, came this way, and have no copy;
        None while no decisions are taken."""


def take_sends(
    data: bytes,
    topics: dict[str, Any],
    refused: Container[str],
    own: bytes,
    template: ReplyTemplate,
    host: bytes,
    store_host: bytes,
    sync_flush: cython.bint,
    room: Room,
    stats: BrokerStats,
    answers: bytearray,
    waiting: Waiting,
    now: cython.longlong,
) -> TakenSends | None:
    """Stores the sends at the start of `data`, and ends transactions; None if the first frame is neither.

    `topics`, `refused`, `own` and the hosts are as in `send_cy.plain_message`; `answers` is memory to work in
    that the caller keeps. With `sync_flush` nothing is taken that does not wait for the disk.
    """
    if not cython.compiled:
        return None
    end: cython.Py_ssize_t = PyBytes_GET_SIZE(data)
    start: cython.pointer[cython.const[cython.uchar]] = cython.cast(
        cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(data)
    )
    frame: cython.pointer[cython.const[cython.uchar]] = start
    body: cython.pointer[cython.const[cython.uchar]]
    left: cython.Py_ssize_t
    length: cython.Py_ssize_t
    header_length: cython.Py_ssize_t
    body_length: cython.Py_ssize_t
    header: SendHeader
    plain: Plain
    aside: Aside
    is_aside: cython.bint
    delay_ms: cython.longlong
    has_looked: cython.bint = False
    halves: list[StoredHalf] | None = None
    decisions: _Decisions | None = None
    success: bytes
    ended_answered: cython.Py_ssize_t = 0
    ended_oneway: cython.Py_ssize_t = 0
    properties = cython.declare(cython.uchar[65536])
    properties_length: cython.Py_ssize_t
    own_length: cython.Py_ssize_t = PyBytes_GET_SIZE(own)
    queue_id: cython.longlong = 0
    sys_flag: cython.longlong = 0
    born_timestamp: cython.longlong = 0
    flag: cython.longlong = 0
    topic_name: bytes = b""
    topic: str = ""
    topic_size: cython.Py_ssize_t = -1
    most_queues: cython.longlong = 0
    queues: dict[int, Any] | None = None
    queue: Any = None
    known_queue: Any = None
    known_queue_id: cython.longlong = -1
    stored_queue_id: cython.int
    stored_topic: bytes
    tags_code: cython.longlong
    unique_at: cython.Py_ssize_t
    unique_size: cython.Py_ssize_t
    tail: bytearray
    queue_offset: cython.longlong
    size: cython.Py_ssize_t
    fixed: cython.Py_ssize_t = 75 + PyBytes_GET_SIZE(host) + PyBytes_GET_SIZE(store_host)
    host_flags: cython.int = (0x10 if PyBytes_GET_SIZE(host) == 20 else 0) | (
        0x20 if PyBytes_GET_SIZE(store_host) == 20 else 0
    )
    crc: cython.uint
    tables: cython.pointer[cython.const[cython.uint]] = cython.cast(
        cython.pointer[cython.const[cython.uint]], PyBytes_AS_STRING(_CRC)
    )
    position: cython.Py_ssize_t = room.position
    limit: cython.Py_ssize_t = room.limit
    segment_start: cython.longlong = room.segment_start
    store_timestamp: cython.longlong = room.store_timestamp
    max_body: cython.Py_ssize_t = room.max_body_bytes
    max_record: cython.Py_ssize_t = room.max_record_bytes
    by_topic: dict[str, Any] = room.queues
    dirty: list[Any] = room.dirty
    before: bytes = template.before_offset
    after: bytes = template.after_id
    last: bytes = template.end
    used: cython.Py_ssize_t = 0
    needed: cython.Py_ssize_t
    out: cython.p_uchar
    answered: cython.Py_ssize_t = 0
    oneway: cython.Py_ssize_t = 0
    version: cython.int = 0
    language: str = ""
    counted: dict[int, Any] = {}
    halves_count: dict[int, Any] | None = None
    delayed_count: dict[int, Any] | None = None
    count: list[Any] = None  # type: ignore[assignment]
    known_count: list[Any] = None  # type: ignore[assignment]
    target: Py_buffer
    if PyBytes_GET_SIZE(host) not in (8, 20) or PyBytes_GET_SIZE(store_host) not in (8, 20):
        return None
    PyObject_GetBuffer(room.view, cython.address(target), PyBUF_WRITABLE)
    try:
        while True:
            left = start + end - frame
            if left < 8:
                break
            length = get_int(frame)
            header_length = get_int(frame + 4)  # above 24 bits: the kind of header, 0 for JSON
            if length < 4 or length + 4 > left or header_length < 2 or header_length + 4 > length:
                break
            if frame[4] or not scan_send(frame + 8, frame + 8 + header_length, cython.address(header)):
                break
            if header.code != 310 or header.flag & 1:
                if header.code != 37 or header.flag & 1:
                    break
                if not has_looked:
                    waiting.look(waiting)
                    has_looked = True
                if waiting.recent is None:
                    break
                if sync_flush and not header.flag & 2:
                    break  # its answer waits for the disk, with a remark of its own where that is late
                if decisions is None:
                    decisions = _Decisions(waiting, room, store_host, store_timestamp, now)
                size = decisions.take(
                    cython.address(header), cython.cast(cython.p_uchar, target.buf), position, limit
                )
                if size < 0:
                    break
                if header.flag & 2:
                    ended_oneway += 1
                else:
                    ended_answered += 1
                    success = encode_success(header.opaque)
                    needed = used + PyBytes_GET_SIZE(success)
                    if needed > PyByteArray_GET_SIZE(answers):
                        PyByteArray_Resize(answers, max(needed, 2 * PyByteArray_GET_SIZE(answers)))
                    memcpy(
                        PyByteArray_AS_STRING(answers) + used,
                        PyBytes_AS_STRING(success),
                        PyBytes_GET_SIZE(success),
                    )
                    used = needed
                if not version:
                    version = header.version
                    language = PyUnicode_DecodeUTF8(
                        cython.cast(cython.p_char, header.language.at), header.language.size, cython.NULL
                    )
                if size:
                    room.last_record = segment_start + position
                    position += size
                    room.position = position
                frame += 4 + length
                continue
            # b topic, e queue id, f sysFlag, g born time, h flag, i properties, j reconsume times, m batch
            if (
                header.fields[1].at == cython.NULL
                or header.fields[8].at == cython.NULL
                or not to_number(header.fields[4].at, header.fields[4].size, cython.address(queue_id))
                or not to_number(header.fields[5].at, header.fields[5].size, cython.address(sys_flag))
                or not to_number(header.fields[6].at, header.fields[6].size, cython.address(born_timestamp))
                or not to_number(header.fields[7].at, header.fields[7].size, cython.address(flag))
            ):
                break
            if header.fields[9].at != cython.NULL and not (
                header.fields[9].size == 1 and header.fields[9].at[0] == 48
            ):
                break
            if header.fields[12].size == 4 and memcmp(header.fields[12].at, b"true", 4) == 0:
                break
            if sys_flag & 0x80 or not (
                -0x80000000 <= sys_flag <= 0x7FFFFFFF and -0x80000000 <= flag <= 0x7FFFFFFF
            ):
                break
            if header.fields[1].size != topic_size or (
                memcmp(header.fields[1].at, PyBytes_AS_STRING(topic_name), topic_size) != 0
            ):
                if counted:
                    _count(stats, topic, counted)
                topic_size = header.fields[1].size
                if topic_size > 127:
                    break
                topic_name = PyBytes_FromStringAndSize(
                    cython.cast(cython.p_char, header.fields[1].at), topic_size
                )
                topic = PyUnicode_DecodeUTF8(PyBytes_AS_STRING(topic_name), topic_size, cython.NULL)
                config = topics.get(topic)
                if (
                    config is None
                    or topic in refused
                    or topic.startswith(_RETRY_PREFIX)
                    or not config.perm & _WRITE
                ):
                    break
                queues = by_topic.get(topic)
                most_queues = max(config.write_queue_nums, config.read_queue_nums)
                known_queue_id = -1
            if queue_id < 0 or queue_id >= most_queues:
                break
            properties_length = unescape(cython.address(header.fields[8]), properties, 32767)
            if properties_length <= 0:
                break
            # Half messages are no plain sends.
            is_aside = sys_flag & 0xC or not look_through(
                cython.cast(cython.p_char, properties), properties_length, sync_flush, cython.address(plain)
            )
            if properties[properties_length - 1] != 2:
                properties[properties_length] = 2
                properties_length += 1
            if not is_aside:
                if queue_id != known_queue_id:
                    known_queue = None if queues is None else queues.get(queue_id)
                    if known_queue is None or known_queue.code_is_special:
                        break
                    known_queue_id = queue_id
                    known_count = _counter(counted, queue_id)
                queue = known_queue
                count = known_count
                stored_queue_id = cython.cast(cython.int, queue_id)
                stored_topic = topic_name
                tags_code = plain.tags_code
                unique_at = plain.unique_at
                unique_size = plain.unique_size
            else:
                if not look_aside(
                    cython.cast(cython.p_char, properties),
                    properties_length,
                    sync_flush,
                    cython.address(aside),
                ):
                    break
                if not has_looked:
                    waiting.look(waiting)
                    has_looked = True
                unique_at = aside.unique_at
                unique_size = aside.unique_size
                plain.is_ordered = False
                sys_flag &= ~0xC
                if aside.level:
                    delay = waiting.delays_ms.get(aside.level)
                    found = by_topic.get(SCHEDULE_TOPIC)
                    if delay is None or found is None:
                        break
                    delay_ms = delay
                    tags_code = now + delay_ms
                    stored_topic = _SCHEDULE_TOPIC
                    stored_queue_id = aside.level - 1
                    queue = found.get(stored_queue_id)
                    if queue is None:
                        break
                    if delayed_count is None:
                        delayed_count = {}
                    count = _counter(delayed_count, stored_queue_id)
                else:
                    found = by_topic.get(HALF_TOPIC)
                    if not waiting.takes_halves or found is None:
                        break
                    tags_code = aside.tags_code
                    stored_topic = _HALF_TOPIC
                    stored_queue_id = 0
                    queue = found.get(0)
                    if queue is None or queue.code_is_special:
                        break
                    if halves_count is None:
                        halves_count = {}
                    count = _counter(halves_count, 0)
                    memcpy(properties + properties_length, b"__transactionId__\x01", 18)
                    properties_length += 18
                    memcpy(properties + properties_length, properties + unique_at, unique_size)
                    properties_length += unique_size
                    properties[properties_length] = 2
                    properties_length += 1
                memcpy(properties + properties_length, b"REAL_TOPIC\x01", 11)
                properties_length += 11
                memcpy(properties + properties_length, PyBytes_AS_STRING(topic_name), topic_size)
                properties_length += topic_size
                memcpy(properties + properties_length, b"\x02REAL_QID\x01", 10)
                out = put_decimal(properties + properties_length + 10, queue_id)
                out[0] = 2
                properties_length = out + 1 - cython.cast(cython.p_uchar, properties)
            if properties_length + own_length > 32767:
                break
            memcpy(properties + properties_length, PyBytes_AS_STRING(own), own_length)
            properties_length += own_length
            body = frame + 8 + header_length
            body_length = length - 4 - header_length
            size = fixed + PyBytes_GET_SIZE(stored_topic) + properties_length + body_length
            if (
                body_length > max_body
                or size > max_record
                or size + 8 > limit - position - (0 if decisions is None else decisions.reserved)
            ):
                break
            needed = used + 160 + unique_size + PyBytes_GET_SIZE(before)
            needed += PyBytes_GET_SIZE(after) + PyBytes_GET_SIZE(last)
            if needed > PyByteArray_GET_SIZE(answers):
                PyByteArray_Resize(answers, max(needed, 2 * PyByteArray_GET_SIZE(answers)))
            if is_short(body_length):
                crc = short_crc(tables, body, body_length) & 0x7FFFFFFF
            else:
                crc = crc32(PyMemoryView_FromMemory(cython.cast(cython.p_char, body), body_length, 0x100))
            # Nothing was changed so far, and from here on nothing fails but for want of memory.
            if not queue.dirty:
                dirty.append(queue)
                queue.dirty = True
            queue_offset = queue.max_offset
            tail = queue.tail
            put_record(
                cython.cast(cython.p_uchar, target.buf) + position,
                size,
                crc,
                stored_queue_id,
                cython.cast(cython.int, flag),
                queue_offset,
                segment_start + position,
                (cython.cast(cython.int, sys_flag) & ~0x30) | host_flags,
                born_timestamp,
                host,
                store_timestamp,
                store_host,
                0,
                0,
                body,
                body_length,
                stored_topic,
                properties,
                properties_length,
            )
            put_unit(tail, segment_start + position, cython.cast(cython.int, size), tags_code)
            queue.max_offset = queue_offset + 1
            if header.flag & 2:
                oneway += 1
            else:
                answered += 1
                out = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(answers)) + used
                used += _answer(
                    out,
                    before,
                    segment_start + position,
                    queue_id,
                    queue_offset,
                    properties + unique_at,
                    unique_size,
                    after,
                    header.opaque,
                    last,
                )
            if not version:
                version = header.version
                language = PyUnicode_DecodeUTF8(
                    cython.cast(cython.p_char, header.language.at), header.language.size, cython.NULL
                )
            room.last_record = segment_start + position
            position += size
            room.position = position
            frame = body + body_length
            if size <= _SMALL_BYTES:
                count[0] += 1
                count[1] += size
            else:
                stats.put_fresh(
                    PyUnicode_DecodeUTF8(
                        PyBytes_AS_STRING(stored_topic), PyBytes_GET_SIZE(stored_topic), cython.NULL
                    ),
                    stored_queue_id,
                    1,
                    size,
                )
            if not is_aside:
                if plain.is_ordered:
                    stats.put_typed("fifo", topic, size)
                continue
            if aside.is_ordered:
                stats.put_typed("fifo", SCHEDULE_TOPIC if aside.level else HALF_TOPIC, size)
            if not aside.level:
                if halves is None:
                    halves = []
                halves.append(
                    StoredHalf(
                        topic,
                        PyUnicode_DecodeUTF8(
                            cython.cast(cython.p_char, properties) + aside.group_at,
                            aside.group_size,
                            cython.NULL,
                        ),
                        segment_start + position - size,
                        queue_offset,
                    )
                )
        if decisions is not None and decisions.named:
            size = decisions.put_op(cython.cast(cython.p_uchar, target.buf) + position, position)
            room.last_record = segment_start + position
            position += size
            room.position = position
    finally:
        PyBuffer_Release(cython.address(target))
    if counted:
        _count(stats, topic, counted)
    if halves_count:
        _count(stats, HALF_TOPIC, halves_count)
    if delayed_count:
        _count(stats, SCHEDULE_TOPIC, delayed_count)
    if frame == start:
        return None
    ended: Sequence[Ended] = ()
    op_offset: cython.longlong = -1
    if decisions is not None and decisions.ended:
        ended = decisions.ended
        op_offset = decisions.op_offset
        for count in decisions.counted.values():
            stats.put_fresh(count[0], count[1], count[2], count[3], count[2])
            stats.put_typed("transaction", count[0], count[3], count[2])
    # Not its constructor, which is a Python function and takes as long as a good part of a send.
    made: TakenSends = _new_tuple(
        TakenSends,
        (
            frame - start,
            PyBytes_FromStringAndSize(PyByteArray_AS_STRING(answers), used),
            answered + ended_answered,
            oneway + ended_oneway,
            version,
            language,
            halves or (),
            ended,
            op_offset,
            ended_answered,
            ended_oneway,
        ),
    )
    return made


@cython.cfunc
def _counter(counted: dict[int, Any], queue_id: cython.longlong) -> list[Any]:
    """The messages and bytes that a queue got."""
    count: list[Any] | None = counted.get(queue_id)
    if count is None:
        count = counted[queue_id] = [0, 0]
    return count


@cython.final
@cython.cclass
class _Decisions:
    """The decisions of a read. Compiled only."""

    recent: dict[int, int]
    waiting: Waiting
    by_topic: dict[str, Any]
    dirty: list[Any]
    segment_start: cython.longlong
    store_host: bytes
    store_timestamp: cython.longlong
    now: cython.longlong
    max_body: cython.Py_ssize_t
    max_record: cython.Py_ssize_t
    op_queue: Any
    op_properties: bytes
    most_op: cython.Py_ssize_t
    op_offset: cython.longlong
    named: bytearray
    met: set[int]
    ended: list[Ended]
    counted: dict[Any, list[Any]]
    reserved: cython.Py_ssize_t

    def __init__(
        self, waiting: Waiting, room: Room, store_host: bytes, store_timestamp: int, now: int
    ) -> None:
        assert waiting.recent is not None
        self.recent = waiting.recent
        self.waiting = waiting
        self.by_topic = room.queues
        self.dirty = room.dirty
        self.segment_start = room.segment_start
        self.max_body = room.max_body_bytes
        self.max_record = room.max_record_bytes
        self.store_host = store_host
        self.store_timestamp = store_timestamp
        self.now = now
        self.op_queue = (room.queues.get(OP_HALF_TOPIC) or {}).get(0)
        self.op_properties = waiting.op_properties
        self.most_op = waiting.most_op_bytes
        self.op_offset = -1
        self.named = bytearray()
        """The body of the op record."""
        self.met = set()
        self.ended = []
        self.counted = {}
        self.reserved = 0
        """Bytes of the op record."""

    @cython.cfunc
    def take(
        self,
        header: cython.pointer[SendHeader],
        base: cython.p_uchar,
        position: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Takes a decision: gives the bytes of the record it wrote at `position`, 0 for none; -1 if it is not
        for here, and then nothing has changed.
        """
        text: Text
        group: Text
        half: Half
        physical_offset: cython.longlong = 0
        offset: cython.longlong = 0
        decision: cython.longlong = 0
        queue_id: cython.longlong = 0
        size: cython.Py_ssize_t = 0
        reserved: cython.Py_ssize_t
        at: cython.p_uchar
        if self.op_queue is None or self.op_queue.code_is_special:
            return -1
        if (
            not named(header, b"commitLogOffset", 15, cython.address(text))
            or not to_number(text.at, text.size, cython.address(physical_offset))
            or not named(header, b"tranStateTableOffset", 20, cython.address(text))
            or not to_number(text.at, text.size, cython.address(offset))
            or not named(header, b"commitOrRollback", 16, cython.address(text))
            or not to_number(text.at, text.size, cython.address(decision))
            or (decision != 8 and decision != 12)
            or not named(header, b"producerGroup", 13, cython.address(group))
            or not named(header, b"msgId", 5, cython.address(text))
        ):
            return -1
        if named(header, b"fromTransactionCheck", 20, cython.address(text)) and not (
            (text.size == 5 and memcmp(text.at, b"false", 5) == 0)
            or (text.size == 4 and memcmp(text.at, b"true", 4) == 0)
        ):
            return -1
        known = self.recent.get(physical_offset)
        if known is None or known != offset or physical_offset in self.met:
            return -1
        begin: cython.Py_ssize_t = physical_offset - self.segment_start
        if begin < 0 or begin >= position or position - begin > HOT_BYTES:
            return -1
        if not look_at_half(base + begin, position - begin, cython.address(half)):
            return -1
        if group.size != half.group_size or memcmp(group.at, half.group, half.group_size) != 0:
            return -1
        named(header, b"transactionId", 13, cython.address(text))
        if text.size and (
            text.size != half.unique_size or memcmp(text.at, half.unique, half.unique_size) != 0
        ):
            return -1
        if half.topic_size > 127 or not to_number(
            half.queue_id, half.queue_id_size, cython.address(queue_id)
        ):
            return -1
        name: bytes = b"%d," % offset
        reserved = 75 + 2 * PyBytes_GET_SIZE(self.store_host) + PyBytes_GET_SIZE(_OP_TOPIC)
        reserved += PyBytes_GET_SIZE(self.op_properties) + len(self.named) + PyBytes_GET_SIZE(name)
        if self.named and len(self.named) + PyBytes_GET_SIZE(name) > self.most_op:
            return -1
        topic: str = PyUnicode_DecodeUTF8(
            cython.cast(cython.p_char, half.topic), half.topic_size, cython.NULL
        )
        queue: Any = None
        if decision == 8:
            queues = self.by_topic.get(topic)
            queue = None if queues is None else queues.get(queue_id)
            if queue is None or queue.code_is_special:
                return -1
            size = 75 + half.host_size + PyBytes_GET_SIZE(self.store_host) + half.topic_size
            size += half.body_size + half.sent_size + half.own_size
            if half.body_size > self.max_body or size > self.max_record:
                return -1
        if size + reserved + 8 > limit - position:
            return -1
        born: cython.longlong = get_long(base + begin + 40)
        age_ms: cython.longlong = self.now - born
        if age_ms < 0:
            age_ms = self.now - get_long(base + begin + 48 + half.host_size)
        ended = Ended(
            topic,
            PyUnicode_DecodeUTF8(cython.cast(cython.p_char, half.group), half.group_size, cython.NULL),
            physical_offset,
            offset,
            decision == 8,
            age_ms,
        )
        # From here on it counts; what fails for want of memory takes back the whole read.
        self.met.add(physical_offset)
        self.ended.append(ended)
        self.named += name
        self.reserved = reserved
        if decision == 12:
            return 0
        # Statistics tell large ones apart: each counts by itself.
        key = (topic, queue_id, -1 if size <= _SMALL_BYTES else offset)
        count = self.counted.get(key)
        if count is None:
            self.counted[key] = [topic, queue_id, 1, size]
        else:
            count[2] += 1
            count[3] += size
        if not queue.dirty:
            self.dirty.append(queue)
            queue.dirty = True
        queue_offset: cython.longlong = queue.max_offset
        at = base + position
        memcpy(at, base + begin, 48 + half.host_size)
        put_int(at, cython.cast(cython.uint, size))
        put_int(at + 4, 0xDAA320A7)
        put_int(at + 12, cython.cast(cython.uint, queue_id))
        put_long(at + 20, queue_offset)
        put_long(at + 28, self.segment_start + position)
        put_int(
            at + 36,
            (get_int(at + 36) & ~0x20) | 8 | (0x20 if PyBytes_GET_SIZE(self.store_host) == 20 else 0),
        )
        at += 48 + half.host_size
        put_long(at, self.store_timestamp)
        memcpy(at + 8, PyBytes_AS_STRING(self.store_host), PyBytes_GET_SIZE(self.store_host))
        at += 8 + PyBytes_GET_SIZE(self.store_host)
        # How often it was consumed, the offset of what was prepared, and the body.
        put_int(at, get_int(half.body - 16))
        put_long(at + 4, physical_offset)
        memcpy(at + 12, half.body - 4, 4 + half.body_size)
        at += 16 + half.body_size
        at[0] = cython.cast(cython.uchar, half.topic_size)
        memcpy(at + 1, half.topic, half.topic_size)
        at += 1 + half.topic_size
        at[0] = cython.cast(cython.uchar, (half.sent_size + half.own_size) >> 8)
        at[1] = cython.cast(cython.uchar, (half.sent_size + half.own_size) & 0xFF)
        memcpy(at + 2, half.properties, half.sent_size)
        memcpy(at + 2 + half.sent_size, half.own, half.own_size)
        put_unit(queue.tail, self.segment_start + position, cython.cast(cython.int, size), half.tags_code)
        queue.max_offset = queue_offset + 1
        return size

    @cython.cfunc
    def put_op(self, at: cython.p_uchar, position: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Writes the op record, for which there is room; gives its bytes."""
        queue: Any = self.op_queue
        body: bytes = bytes(self.named)
        start: cython.pointer[cython.const[cython.uchar]] = cython.cast(
            cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(body)
        )
        if not queue.dirty:
            self.dirty.append(queue)
            queue.dirty = True
        self.op_offset = queue.max_offset
        put_record(
            at,
            self.reserved,
            crc32(body),
            0,
            0,
            self.op_offset,
            self.segment_start + position,
            0x30 if PyBytes_GET_SIZE(self.store_host) == 20 else 0,
            self.now,
            self.store_host,
            self.store_timestamp,
            self.store_host,
            0,
            0,
            start,
            PyBytes_GET_SIZE(body),
            _OP_TOPIC,
            cython.cast(cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(self.op_properties)),
            PyBytes_GET_SIZE(self.op_properties),
        )
        put_unit(
            queue.tail,
            self.segment_start + position,
            cython.cast(cython.int, self.reserved),
            self.waiting.op_tags_code,
        )
        queue.max_offset = self.op_offset + 1
        return self.reserved


@cython.cfunc
def _count(stats: Any, topic: str, counted: dict[int, Any]) -> Any:
    """Tells the statistics of what the queues of a topic got."""
    for queue_id, count in counted.items():
        if count[0]:
            stats.put_fresh(topic, queue_id, count[0], count[1], count[0])
    counted.clear()


@cython.cfunc
@cython.exceptval(check=False)
def _answer(
    out: cython.p_uchar,
    before: bytes,
    physical_offset: cython.longlong,
    queue_id: cython.longlong,
    queue_offset: cython.longlong,
    unique: cython.p_uchar,
    unique_size: cython.Py_ssize_t,
    after: bytes,
    opaque: cython.int,
    last: bytes,
) -> cython.Py_ssize_t:
    """The frame that `ReplyTemplate.frame` makes, written where it goes; gives its length. Compiled only."""
    at: cython.p_uchar = out + 8
    digits: cython.p_char = PyBytes_AS_STRING(_HEX)
    i: cython.int
    memcpy(at, PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before))
    at += PyBytes_GET_SIZE(before)
    for i in range(16):
        at[15 - i] = digits[physical_offset & 0xF]
        physical_offset >>= 4
    memcpy(at + 16, b'","queueId":"', 13)
    at = put_decimal(at + 29, queue_id)
    memcpy(at, b'","queueOffset":"', 17)
    at = put_decimal(at + 17, queue_offset)
    memcpy(at, b'","transactionId":"', 19)
    memcpy(at + 19, unique, unique_size)
    at += 19 + unique_size
    memcpy(at, PyBytes_AS_STRING(after), PyBytes_GET_SIZE(after))
    at = put_decimal(at + PyBytes_GET_SIZE(after), opaque)
    memcpy(at, PyBytes_AS_STRING(last), PyBytes_GET_SIZE(last))
    at += PyBytes_GET_SIZE(last)
    put_int(out, cython.cast(cython.uint, at - out - 4))
    put_int(out + 4, cython.cast(cython.uint, at - out - 8))
    return at - out

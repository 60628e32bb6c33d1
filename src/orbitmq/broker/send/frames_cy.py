"""Sends and ends of transactions straight from the frames of a read to records, units and answers, without an
object for each.

Hot: nearly every message sent passes here. Sends have two lanes: this one, and that of `handlers` and
`rules`, which takes whatever this one leaves. This one takes a send if its topic exists and may be written
to, it is a single message, and none of its properties means anything to the broker. It reads the header to
slots, writes the record where it stays, and the answer beside the others. It also takes messages with a delay
level, half messages, and the usual decisions: those about half messages that it took not long ago, and that
have no copy. A commit copies its message within the map, and one op record at the end names all that a read
decides about. It ends at anything else, and at a message that has no place yet (an unknown queue, a full
segment). Interpreted, it takes nothing.
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

from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from orbitmq.protocol.records.message_cy import CRC_TABLES, crc32
from orbitmq.protocol.remoting.header_cy import encode_success
from orbitmq.store.queue.room import HOT_BYTES

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytes import PyBytes_GET_SIZE  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.delay.rerouting import (  # type: ignore[import-not-found]
        Half,
        Rerouting,
        classify_rerouted,
        look_at_half,
    )
    from cython.cimports.orbitmq.broker.send.plain import (  # type: ignore[import-not-found]
        Plain,
        has_entry,
        look_through,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Span,
        Writer,
        byte_of,
        bytes_of,
        i32_of,
        i64_of,
        is_literal,
        is_same,
        is_there,
        make_room,
        part_of,
        put_bytes,
        put_decimal,
        put_hex,
        put_literal,
        put_span,
        put_u8,
        put_u16,
        put_u32,
        put_u64,
        rest_of,
        set_u32,
        skip,
        span_of,
        span_written,
        text_of,
        writer_of,
        writer_over,
        written,
    )
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.record import (  # type: ignore[import-not-found]
        PROPERTY_CRC_BYTES,
        put_place_for_crc,
        put_property_crc,
        put_record,
    )
    from cython.cimports.orbitmq.protocol.remoting.send_header import (  # type: ignore[import-not-found]
        SendHeader,
        has_needed_fields,
        named,
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
    """Result of taking the sends and decisions at the start of a read."""

    end: int
    """Number of bytes of the read that they were."""
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
    """Tables for messages that wait elsewhere first, and for decisions about them. See `rerouting.pxd`."""

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
    template: AnswerTemplate,
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

    `topics` are the configs by name, `refused` names of topics that nobody may send to, `own` the properties
    that the broker adds to every message; `answers` is memory to work in that the caller keeps. With
    `sync_flush` it takes nothing that does not wait for the disk.
    """
    if not cython.compiled:
        return None
    read: Span = span_of(data)
    end: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t
    body: Span
    header: SendHeader
    plain: Plain
    rerouted: Rerouting
    is_rerouted: cython.bint
    delay_ms: cython.longlong
    has_looked: cython.bint = False
    halves: list[StoredHalf] | None = None
    decisions: _Decisions | None = None
    success: bytes
    ended_answered: cython.Py_ssize_t = 0
    ended_oneway: cython.Py_ssize_t = 0
    properties = cython.declare(cython.uchar[32767])
    stored: Span
    unique: Span
    queue_id: cython.longlong = 0
    sys_flag: cython.longlong = 0
    born_timestamp: cython.longlong = 0
    flag: cython.longlong = 0
    topic_name: bytes = None  # type: ignore[assignment]
    topic: str = ""
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
    position: cython.Py_ssize_t = room.position
    limit: cython.Py_ssize_t = room.limit
    property_crc: cython.bint = room.property_crc
    record: Span
    segment_start: cython.longlong = room.segment_start
    store_timestamp: cython.longlong = room.store_timestamp
    max_body: cython.Py_ssize_t = room.max_body_bytes
    max_record: cython.Py_ssize_t = room.max_record_bytes
    by_topic: dict[str, Any] = room.queues
    dirty: list[Any] = room.dirty
    before: bytes = template.before_offset
    after: bytes = template.after_id
    last: bytes = template.end
    needed: cython.Py_ssize_t
    out: Writer = writer_of(answers)
    laid: Writer  # the properties as they are stored
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
    log: Writer = writer_over(target.buf, min(limit, target.len))
    skip(cython.address(log), position)
    try:
        while True:
            length = scan_frame(read, end, cython.address(header), cython.address(body))
            if not length:
                break
            if header.code != 310 or header.flag & 1:
                if header.code != 37 or header.flag & 1:
                    break
                if not has_looked:
                    waiting.look(waiting)
                    has_looked = True
                # Copies with a checksum of their own are for the general path.
                if waiting.recent is None or property_crc:
                    break
                if sync_flush and not header.flag & 2:
                    break  # its answer waits for the disk, with a remark of its own where that is late
                if decisions is None:
                    decisions = _Decisions(waiting, room, store_host, store_timestamp, now)
                size = decisions.take(cython.address(header), cython.address(log), position, limit)
                if size < 0:
                    break
                if header.flag & 2:
                    ended_oneway += 1
                else:
                    ended_answered += 1
                    success = encode_success(header.opaque)
                    make_room(answers, cython.address(out), PyBytes_GET_SIZE(success))
                    put_bytes(cython.address(out), success)
                if not version:
                    version = header.version
                    language = text_of(header.language.span)
                if size:
                    room.last_record = segment_start + position
                    position += size
                    room.position = position
                end += length
                continue
            # b topic, e queue id, f sysFlag, g born time, h flag, i properties, j reconsume times, m batch
            if (
                not has_needed_fields(cython.address(header))
                or not is_there(header.fields[1].span)
                or not is_there(header.fields[8].span)
                or not to_number(header.fields[4].span, cython.address(queue_id))
                or not to_number(header.fields[5].span, cython.address(sys_flag))
                or not to_number(header.fields[6].span, cython.address(born_timestamp))
                or not to_number(header.fields[7].span, cython.address(flag))
            ):
                break
            if is_there(header.fields[9].span) and not is_literal(header.fields[9].span, b"0"):
                break
            if is_literal(header.fields[12].span, b"true"):
                break
            if sys_flag & 0x80 or not (
                -0x80000000 <= sys_flag <= 0x7FFFFFFF and -0x80000000 <= flag <= 0x7FFFFFFF
            ):
                break
            if topic_name is None or not is_same(header.fields[1].span, span_of(topic_name)):
                if counted:
                    _count(stats, topic, counted)
                if header.fields[1].span.size > 127:
                    break
                topic_name = bytes_of(header.fields[1].span)
                topic = text_of(header.fields[1].span)
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
            laid = writer_over(properties, cython.sizeof(properties))
            if not unescape(header.fields[8].span, header.fields[8].escaped, cython.address(laid)):
                break
            stored = span_written(cython.address(laid))
            if stored.size == 0:
                break
            # Half messages are no plain sends.
            is_rerouted = sys_flag & 0xC or not look_through(stored, sync_flush, cython.address(plain))
            if byte_of(stored, stored.size - 1) != 2:
                put_u8(cython.address(laid), 2)
            if not is_rerouted:
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
                if not classify_rerouted(
                    span_written(cython.address(laid)), sync_flush, cython.address(rerouted)
                ):
                    break
                if not has_looked:
                    waiting.look(waiting)
                    has_looked = True
                unique_at = rerouted.unique_at
                unique_size = rerouted.unique_size
                plain.is_ordered = False
                sys_flag &= ~0xC
                if rerouted.level:
                    delay = waiting.delays_ms.get(rerouted.level)
                    found = by_topic.get(SCHEDULE_TOPIC)
                    if delay is None or found is None:
                        break
                    delay_ms = delay
                    tags_code = now + delay_ms
                    stored_topic = _SCHEDULE_TOPIC
                    stored_queue_id = rerouted.level - 1
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
                    tags_code = rerouted.tags_code
                    stored_topic = _HALF_TOPIC
                    stored_queue_id = 0
                    queue = found.get(0)
                    if queue is None or queue.code_is_special:
                        break
                    if halves_count is None:
                        halves_count = {}
                    count = _counter(halves_count, 0)
                    put_literal(cython.address(laid), b"__transactionId__\x01")
                    put_span(
                        cython.address(laid),
                        part_of(span_written(cython.address(laid)), unique_at, unique_size),
                    )
                    put_u8(cython.address(laid), 2)
                put_literal(cython.address(laid), b"REAL_TOPIC\x01")
                put_bytes(cython.address(laid), topic_name)
                put_literal(cython.address(laid), b"\x02REAL_QID\x01")
                put_decimal(cython.address(laid), queue_id)
                put_u8(cython.address(laid), 2)
            put_bytes(cython.address(laid), own)
            if property_crc:
                if has_entry(span_written(cython.address(laid)), b"__CRC32#\x01"):
                    break
                put_place_for_crc(cython.address(laid))
            if laid.overflow:
                break
            stored = span_written(cython.address(laid))
            unique = part_of(stored, unique_at, unique_size)
            size = fixed + PyBytes_GET_SIZE(stored_topic) + stored.size + body.size
            if (
                body.size > max_body
                or size + (1 if property_crc else 0) > max_record  # as `record_size` has it
                or size + 8 > limit - position - (0 if decisions is None else decisions.reserved)
            ):
                break
            needed = 160 + unique.size + PyBytes_GET_SIZE(before)
            needed += PyBytes_GET_SIZE(after) + PyBytes_GET_SIZE(last)
            make_room(answers, cython.address(out), needed)
            crc = body_crc(body, _CRC, crc32)
            # Nothing was changed so far, and from here on nothing fails but for want of memory.
            if not queue.dirty:
                dirty.append(queue)
                queue.dirty = True
            queue_offset = queue.max_offset
            tail = queue.tail
            put_record(
                cython.address(log),
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
                stored_topic,
                stored,
            )
            if property_crc:
                record = part_of(span_written(cython.address(log), position), 0, size - PROPERTY_CRC_BYTES)
                put_property_crc(cython.address(log), body_crc(record, _CRC, crc32))
            put_unit(tail, segment_start + position, cython.cast(cython.int, size), tags_code)
            queue.max_offset = queue_offset + 1
            if header.flag & 2:
                oneway += 1
            else:
                answered += 1
                _answer(
                    cython.address(out),
                    before,
                    segment_start + position,
                    queue_id,
                    queue_offset,
                    unique,
                    after,
                    header.opaque,
                    last,
                )
            if log.overflow or out.overflow:
                raise SystemError("a message was measured smaller than it is")
            if not version:
                version = header.version
                language = text_of(header.language.span)
            room.last_record = segment_start + position
            position += size
            room.position = position
            end += length
            if size <= _SMALL_BYTES:
                count[0] += 1
                count[1] += size
            else:
                stats.put_fresh(stored_topic.decode(), stored_queue_id, 1, size)
            if not is_rerouted:
                if plain.is_ordered:
                    stats.put_typed("fifo", topic, size)
                continue
            if rerouted.is_ordered:
                stats.put_typed("fifo", SCHEDULE_TOPIC if rerouted.level else HALF_TOPIC, size)
            if not rerouted.level:
                if halves is None:
                    halves = []
                halves.append(
                    StoredHalf(
                        topic,
                        text_of(part_of(stored, rerouted.group_at, rerouted.group_size)),
                        segment_start + position - size,
                        queue_offset,
                    )
                )
        if decisions is not None and decisions.named:
            size = decisions.put_op(cython.address(log), position)
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
    if not end:
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
            end,
            bytes_of(span_written(cython.address(out))),
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
        log: cython.pointer[Writer],
        position: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Takes a decision: gives the bytes of the record it wrote at `position`, 0 for none; -1 if it is not
        for here, and then nothing has changed.
        """
        text: Span
        group: Span
        half: Half
        physical_offset: cython.longlong = 0
        offset: cython.longlong = 0
        decision: cython.longlong = 0
        queue_id: cython.longlong = 0
        size: cython.Py_ssize_t = 0
        reserved: cython.Py_ssize_t
        if self.op_queue is None or self.op_queue.code_is_special:
            return -1
        if (
            not named(header, b"commitLogOffset", cython.address(text))
            or not to_number(text, cython.address(physical_offset))
            or not named(header, b"tranStateTableOffset", cython.address(text))
            or not to_number(text, cython.address(offset))
            or not named(header, b"commitOrRollback", cython.address(text))
            or not to_number(text, cython.address(decision))
            or (decision != 8 and decision != 12)
            or not named(header, b"producerGroup", cython.address(group))
            or not named(header, b"msgId", cython.address(text))
        ):
            return -1
        if named(header, b"fromTransactionCheck", cython.address(text)) and not (
            is_literal(text, b"false") or is_literal(text, b"true")
        ):
            return -1
        known = self.recent.get(physical_offset)
        if known is None or known != offset or physical_offset in self.met:
            return -1
        begin: cython.Py_ssize_t = physical_offset - self.segment_start
        if begin < 0 or begin >= position or position - begin > HOT_BYTES:
            return -1
        if not look_at_half(rest_of(span_written(log), begin), cython.address(half)):
            return -1
        if not is_same(group, half.group):
            return -1
        named(header, b"transactionId", cython.address(text))
        if text.size and not is_same(text, half.unique):
            return -1
        # Access is controlled by the topic that a decision names.
        if named(header, b"topic", cython.address(text)) and not is_same(text, half.topic):
            return -1
        if half.topic.size > 127 or not to_number(half.queue_id, cython.address(queue_id)):
            return -1
        name: bytes = b"%d," % offset
        reserved = 75 + 2 * PyBytes_GET_SIZE(self.store_host) + PyBytes_GET_SIZE(_OP_TOPIC)
        reserved += PyBytes_GET_SIZE(self.op_properties) + len(self.named) + PyBytes_GET_SIZE(name)
        if self.named and len(self.named) + PyBytes_GET_SIZE(name) > self.most_op:
            return -1
        topic: str = text_of(half.topic)
        queue: Any = None
        if decision == 8:
            queues = self.by_topic.get(topic)
            queue = None if queues is None else queues.get(queue_id)
            if queue is None or queue.code_is_special:
                return -1
            size = 75 + half.host_size + PyBytes_GET_SIZE(self.store_host) + half.topic.size
            size += half.body.size + half.sent.size + half.own.size
            if half.body.size > self.max_body or size > self.max_record:
                return -1
        if size + reserved + 8 > limit - position:
            return -1
        age_ms: cython.longlong = self.now - i64_of(half.record, 40)
        if age_ms < 0:
            age_ms = self.now - i64_of(half.record, 48 + half.host_size)
        ended = Ended(topic, text_of(half.group), physical_offset, offset, decision == 8, age_ms)
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
        self.put_half(
            log,
            cython.address(half),
            size,
            queue_id,
            queue_offset,
            self.segment_start + position,
            physical_offset,
        )
        if log.overflow:
            raise SystemError("a half message was measured smaller than it is")
        put_unit(queue.tail, self.segment_start + position, cython.cast(cython.int, size), half.tags_code)
        queue.max_offset = queue_offset + 1
        return size

    @cython.cfunc
    @cython.exceptval(check=False)
    def put_half(
        self,
        log: cython.pointer[Writer],
        half: cython.pointer[Half],
        size: cython.Py_ssize_t,
        queue_id: cython.longlong,
        queue_offset: cython.longlong,
        physical_offset: cython.longlong,
        prepared_offset: cython.longlong,
    ) -> cython.void:
        """Writes the message that a commit publishes: its half message with another place and topic."""
        sys_flag: cython.int = (i32_of(half.record, 36) & ~0x20) | 8
        if PyBytes_GET_SIZE(self.store_host) == 20:
            sys_flag |= 0x20
        put_u32(log, cython.cast(cython.uint, size))
        put_u32(log, 0xDAA320A7)
        put_u32(log, cython.cast(cython.uint, i32_of(half.record, 8)))  # the body's checksum
        put_u32(log, cython.cast(cython.uint, queue_id))
        put_u32(log, cython.cast(cython.uint, i32_of(half.record, 16)))  # flag
        put_u64(log, queue_offset)
        put_u64(log, physical_offset)
        put_u32(log, cython.cast(cython.uint, sys_flag))
        put_span(log, part_of(half.record, 40, 8 + half.host_size))  # born time and host
        put_u64(log, self.store_timestamp)
        put_bytes(log, self.store_host)
        put_u32(log, cython.cast(cython.uint, i32_of(half.record, half.body_at - 16)))  # reconsume times
        put_u64(log, prepared_offset)
        put_u32(log, cython.cast(cython.uint, half.body.size))
        put_span(log, half.body)
        put_u8(log, cython.cast(cython.uchar, half.topic.size))
        put_span(log, half.topic)
        put_u16(log, cython.cast(cython.uint, half.sent.size + half.own.size))
        put_span(log, half.sent)
        put_span(log, half.own)

    @cython.cfunc
    def put_op(self, log: cython.pointer[Writer], position: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Writes the op record, for which there is room; gives its bytes."""
        queue: Any = self.op_queue
        body: bytes = bytes(self.named)
        if not queue.dirty:
            self.dirty.append(queue)
            queue.dirty = True
        self.op_offset = queue.max_offset
        put_record(
            log,
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
            span_of(body),
            _OP_TOPIC,
            span_of(self.op_properties),
        )
        if log.overflow:
            raise SystemError("an op record was measured smaller than it is")
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
    out: cython.pointer[Writer],
    before: bytes,
    physical_offset: cython.longlong,
    queue_id: cython.longlong,
    queue_offset: cython.longlong,
    unique: Span,
    after: bytes,
    opaque: cython.int,
    last: bytes,
) -> cython.void:
    """Writes the frame that `AnswerTemplate` makes. Compiled only."""
    here: Writer = out[0]  # see `put_record`
    start: cython.Py_ssize_t = written(out)
    skip(cython.address(here), 8)
    put_bytes(cython.address(here), before)
    put_hex(cython.address(here), physical_offset)
    put_literal(cython.address(here), b'","queueId":"')
    put_decimal(cython.address(here), queue_id)
    put_literal(cython.address(here), b'","queueOffset":"')
    put_decimal(cython.address(here), queue_offset)
    put_literal(cython.address(here), b'","transactionId":"')
    put_span(cython.address(here), unique)
    put_bytes(cython.address(here), after)
    put_decimal(cython.address(here), opaque)
    put_bytes(cython.address(here), last)
    set_u32(cython.address(here), start, cython.cast(cython.uint, written(cython.address(here)) - start - 4))
    set_u32(
        cython.address(here), start + 4, cython.cast(cython.uint, written(cython.address(here)) - start - 8)
    )
    out[0] = here

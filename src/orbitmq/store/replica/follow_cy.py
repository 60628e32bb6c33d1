"""The inner loops of a slave: where its master's plain records end, and their units in the tails of queues.

Hot: every record that a slave takes over passes here twice. Before it is written, `end_of_plain` says how
many of the bytes that came are whole records; behind that, `put_plain_units` gives these records the units
that the master has for them. A plain record is the one that comes next: in the log at its physical offset,
and in its queue at its queue offset. A topic that was made anew, a gap, a queue that does not exist yet or an
extension needs a decision. Both loops stop at the first such record; `scan_records` and the rules in
`raw_append` decide about it. Interpreted, they decide about all records.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.message import INNER_BATCH

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.located import Parts  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.parts import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.tags import find_tags  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.queue.units import put_unit  # type: ignore[import-not-found]

_IN_NO_QUEUE = cython.declare(cython.int, 0x4)
"""In the flags of half messages, and of what takes them back."""
_INNER_BATCH = cython.declare(cython.int, INNER_BATCH)


def end_of_plain(
    data: Any,
    physical_offset: cython.longlong,
    segment_room: cython.Py_ssize_t,
    most_record_bytes: cython.Py_ssize_t,
) -> int:
    """The place in `data` where its plain records end, whole and sound but for checksums.

    `data` begins at a physical offset; `segment_room` bytes are left in the segment there, a blank record
    needs 8 of them. Plain are records with a short topic of ASCII.
    """
    position: cython.Py_ssize_t = 0
    if not cython.compiled:
        return 0
    log: Span
    parts: Parts
    buffer: Py_buffer
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        log = span_over(buffer.buf, buffer.len)
        while (
            find_usual(log, position, log.size, cython.address(parts))
            and parts.size <= most_record_bytes
            and parts.size + 8 <= segment_room - position
            and i64_of(log, position + 28) == physical_offset + position
            and find_byte(properties_of_record(log, cython.address(parts)), 0) < 0
        ):
            position += parts.size
    finally:
        PyBuffer_Release(cython.address(buffer))
    return position


def put_plain_units(
    data: Any,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base_physical_offset: cython.longlong,
    tables: dict[str, dict[int, Any]],
    batch_topics: frozenset[str],
    dirty: list[Any],
) -> tuple[int, int, int]:
    """Gives the sound records in `data[start:end]` their units, as long as each is plain, and the next of its
    queue or one that needs none.

    Byte 0 of `data` is at a physical offset. Queues are looked up in `tables` by topic and queue id, and
    those that get something new are listed in `dirty`. Gives where it ended, the physical offset of the last
    record (-1 for none), and the latest store time.
    """
    last_record: cython.longlong = -1
    latest_ms: cython.longlong = 0
    if not cython.compiled:
        return start, last_record, latest_ms
    log: Span
    parts: Parts
    topic: Span
    last_topic: Span = no_span()
    last_id: cython.int = -1
    queues: dict[int, Any] | None = None
    queue: Any = None
    buffer: Py_buffer
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        log = span_over(buffer.buf, buffer.len)
        end = min(end, log.size)
        while find_usual(log, start, end, cython.address(parts)):
            sys_flag: cython.int = i32_of(log, start + 36)
            if sys_flag & _INNER_BATCH:
                break
            if not sys_flag & _IN_NO_QUEUE:
                # Neighbours mostly have the same topic, and often the same queue.
                topic = topic_of(log, cython.address(parts))
                if not is_there(last_topic) or not is_same(topic, last_topic):
                    last_topic = topic
                    name: str = text_of(topic)
                    queues = None if name in batch_topics else tables.get(name)
                    queue = None
                if queue is None or i32_of(log, start + 12) != last_id:
                    last_id = i32_of(log, start + 12)
                    queue = None if queues is None else queues.get(last_id)
                    if queue is None or queue.code_is_special:
                        break
                if not _put_unit(log, cython.address(parts), base_physical_offset, queue, dirty):
                    break
            last_record = base_physical_offset + start
            latest_ms = max(latest_ms, i64_of(log, parts.store_time))
            start += parts.size
    finally:
        PyBuffer_Release(cython.address(buffer))
    return start, last_record, latest_ms


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _has_lmqs(properties: Span) -> cython.bint:
    """True if a record may be in light message queues, too. Compiled only."""
    name: Span = span_of_literal(b"INNER_MULTI_QUEUE_OFFSET\x01")
    at: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    while at < properties.size:
        stop = find_end(properties, 2, at)
        if starts_with_span(part_of(properties, at, stop - at), name):
            return True
        at = stop + 1
    return False


@cython.cfunc
@cython.inline
def _put_unit(
    log: Span,
    parts: cython.pointer[Parts],
    base_physical_offset: cython.longlong,
    queue: Any,
    dirty: list[Any],
) -> cython.bint:
    """Puts the unit of a record at the end of its queue; False if it is not the next one, or belongs to light
    message queues as well. Compiled only.
    """
    physical_offset: cython.longlong = base_physical_offset + parts.record
    queue_offset: cython.longlong = i64_of(log, parts.record + 20)
    code: cython.longlong = 0
    # No queue has more messages than records fit before this one: the number is damaged, and has no checksum.
    if (
        queue_offset != cython.cast(cython.longlong, queue.max_offset)
        or queue_offset > physical_offset // 91
        or not find_tags(properties_of_record(log, parts), cython.address(code))
        or _has_lmqs(properties_of_record(log, parts))
    ):
        return False
    if not queue.dirty:
        dirty.append(queue)
        queue.dirty = True
    put_unit(queue.tail, physical_offset, cython.cast(cython.int, parts.size), code)
    queue.max_offset = queue_offset + 1
    return True

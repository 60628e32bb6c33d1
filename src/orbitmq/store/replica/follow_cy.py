"""The inner loops of a slave: where its master's plain records end, and their units in the tails of queues.

Hot: every record that a slave takes over passes here twice, before it is written and behind that. Both loops
stop at the first record that is not plain; for that one `scan_records` and the rules in `raw_append` decide.
Interpreted they take none.
"""
# mypy: disable-error-code="name-defined"
# ruff: noqa: F821
# (Py_buffer is a name that only the compiler knows.)

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
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Span,
        byte_of,
        find_byte,
        i16_of,
        i32_of,
        i64_of,
        is_ascii,
        is_same,
        is_there,
        no_span,
        part_of,
        rest_of,
        span_over,
        text_of,
    )
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
    size: cython.Py_ssize_t
    topic: Span
    properties: Span
    buffer: Py_buffer
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        log = span_over(buffer.buf, buffer.len)
        while log.size - position >= 91:
            size = i32_of(log, position)
            if (
                not 91 <= size <= most_record_bytes
                or size > log.size - position
                or size + 8 > segment_room - position
                or i64_of(log, position + 28) != physical_offset + position
            ):
                break
            _find_texts(part_of(log, position, size), cython.address(topic), cython.address(properties))
            if not is_there(topic) or not is_ascii(topic) or find_byte(properties, 0) >= 0:
                break
            position += size
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
    record: Span
    topic: Span
    properties: Span
    last_topic: Span = no_span()
    size: cython.Py_ssize_t
    sys_flag: cython.int
    queue_id: cython.int
    queue_offset: cython.longlong
    code: cython.longlong
    queues: dict[int, Any] | None = None
    queue: Any = None
    last_id: cython.int = -1
    buffer: Py_buffer
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        log = span_over(buffer.buf, buffer.len)
        end = min(end, log.size)
        while start >= 0 and end - start >= 91:
            size = i32_of(log, start)
            if not 91 <= size <= end - start:
                break
            record = part_of(log, start, size)
            _find_texts(record, cython.address(topic), cython.address(properties))
            if not is_there(topic) or not is_ascii(topic):
                break
            sys_flag = i32_of(record, 36)
            if sys_flag & _INNER_BATCH:
                break
            if not sys_flag & _IN_NO_QUEUE:
                queue_id = i32_of(record, 12)
                if not is_there(last_topic) or not is_same(topic, last_topic):
                    last_topic = topic
                    name: str = text_of(topic)
                    queues = None if name in batch_topics else tables.get(name)
                    queue = None
                if queue is None or queue_id != last_id:
                    queue = None if queues is None else queues.get(queue_id)
                    last_id = queue_id
                    if queue is None or queue.code_is_special:
                        break
                queue_offset = i64_of(record, 20)
                if (
                    queue_offset != cython.cast(cython.longlong, queue.max_offset)
                    or queue_offset > (base_physical_offset + start) // 91
                    or not find_tags(properties, cython.address(code))
                ):
                    break
                if not queue.dirty:
                    dirty.append(queue)
                    queue.dirty = True
                put_unit(queue.tail, base_physical_offset + start, cython.cast(cython.int, size), code)
                queue.max_offset = queue_offset + 1
            last_record = base_physical_offset + start
            latest_ms = max(latest_ms, i64_of(record, 68 if sys_flag & 0x10 else 56))
            start += size
    finally:
        PyBuffer_Release(cython.address(buffer))
    return start, last_record, latest_ms


@cython.cfunc
@cython.exceptval(check=False)
def _find_texts(record: Span, topic: cython.pointer[Span], properties: cython.pointer[Span]) -> cython.void:
    """Finds topic and properties of a record; nothing where its parts are not those of a plain one. Compiled
    only.
    """
    at: cython.Py_ssize_t = 88
    length: cython.Py_ssize_t
    topic[0] = no_span()
    properties[0] = no_span()
    if i32_of(record, 4) != -626843481:
        return
    if i32_of(record, 36) & 0x10:
        at += 12
    if i32_of(record, 36) & 0x20:
        at += 12
    length = i32_of(record, at - 4)
    if at + 3 > record.size or length < 0 or length > record.size - at - 3:
        return
    at += length
    length = byte_of(record, at)
    at += 1
    if length > 127 or length > record.size - at - 2:
        return
    if i16_of(record, at + length) != record.size - at - length - 2:
        return
    topic[0] = part_of(record, at, length)
    properties[0] = rest_of(record, at + length + 2)

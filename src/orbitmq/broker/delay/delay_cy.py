"""Delayed messages whose time has come, delivered by copies within the map.

Hot: every delayed message passes here. A delivered message is the waiting one with another topic, queue,
offsets and store time, so its fields are read from the waiting record where that lies in the log, and
written behind the last record. The messages of a level are due in the order of their units.

The first message that is not sound, not near the end of the log, or has no place yet (an unknown queue, a
full segment) is left to the rules of `level_delivery`, with all behind it. Interpreted code leaves all
messages to them. Each message is checked before any part of it is written.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32
from orbitmq.store.log.log_writer import NEAR_BYTES

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBuffer_Release  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.delay.rerouting import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.record import (  # type: ignore[import-not-found]
        without_property_crc,
    )
    from cython.cimports.orbitmq.protocol.remoting.send_header import to_number  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.log.append import *  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.store.log.log_writer import LogWriter

_CRC: bytes = CRC_TABLES
_NEAR_BYTES = cython.declare(cython.longlong, NEAR_BYTES)
_SMALL_BYTES = cython.declare(cython.Py_ssize_t, 1024)
"""Larger messages are counted one by one: statistics tell sizes above it apart."""


class Copied(NamedTuple):
    """Result of a delivery."""

    messages: int
    """Number of messages delivered, from the first on."""
    counted: list[tuple[str, int, int, int]]
    """Topic, queue id, messages and their bytes."""


def copy_due(
    units: bytes,
    now: cython.longlong,
    writer: LogWriter,
    refused: Container[str],
    topics: Mapping[str, Any] | None = None,
    deleted: Container[str] = (),
) -> Copied | None:
    """Delivers messages by their units in a delay queue, as far as they are due and plain; none go to the
    `refused` topics. None where not even the first is delivered.

    `topics` are the configs by name: of a topic that is not there, or does not have the queue, the rules
    decide, and so they do of `deleted` ones, whose messages may be for a topic of before.
    """
    if not cython.compiled:
        return None
    source: Reader = reader_over(span_of(units))
    log: LogEnd
    record: Record
    done: cython.Py_ssize_t = 0
    counts: dict[Any, list[Any]] = {}
    segment: Py_buffer
    begin_append(writer, cython.address(segment), cython.address(log))
    try:
        while unread(cython.address(source)) >= 20:
            physical_offset: cython.longlong = get_i64(cython.address(source))
            size: cython.Py_ssize_t = get_i32(cython.address(source))
            due: cython.longlong = get_i64(cython.address(source))
            if due > now:
                break
            waiting: Span = record_at(
                span_written(cython.address(log.out)), log.segment_start, physical_offset, size, _NEAR_BYTES
            )
            if not parse_record(waiting, cython.address(record)) or not _deliver(
                cython.address(record), cython.address(log), writer, refused, topics, deleted, counts, done
            ):
                break
            done += 1
        end_append(writer, cython.address(log))
    finally:
        PyBuffer_Release(cython.address(segment))
    if not done:
        return None
    return Copied(done, [(key[0], key[1], count[0], count[1]) for key, count in counts.items()])


@cython.cfunc
@cython.inline
def _deliver(
    record: cython.pointer[Record],
    log: cython.pointer[LogEnd],
    writer: Any,
    refused: Any,
    topics: Any,
    deleted: Any,
    counts: dict[Any, list[Any]],
    done: cython.Py_ssize_t,
) -> cython.bint:
    """Delivers a waiting record; False, with nothing changed, if that is for the rules. Compiled only."""
    copy: NewRecord
    delayed: Delayed
    queue_id: cython.longlong = 0
    if (
        not parse_delayed(record, cython.address(delayed))
        or not has_checksums(record, log.with_crc, _CRC, crc32)
        or not to_number(delayed.queue_id, cython.address(queue_id))
    ):
        return False
    topic: str = text_of(delayed.topic)
    queues = writer.queues.get(topic)
    queue: Any = None if queues is None else queues.get(queue_id)
    if queue is None or queue.code_is_special or topic in refused or topic in deleted:
        return False
    if topics is not None:
        config = topics.get(topic)
        if config is None or queue_id >= config.read_queue_nums:
            return False
    _as_delivered(cython.address(copy), record)
    copy.queue_id = cython.cast(cython.int, queue_id)
    copy.topic = delayed.topic
    if log.with_crc:
        # The checksum of the waiting record is not the copy's.
        copy.properties = without_property_crc(copy.properties)
    if not has_space_for(log, cython.address(copy), 0):
        return False
    append_record(log, cython.address(copy), queue, writer.dirty, delayed.tags_code, _CRC, crc32)
    # Statistics tell large ones apart: each counts by itself.
    _count(counts, (topic, queue_id, -1 if copy.size <= _SMALL_BYTES else done), copy.size)
    return True


@cython.cfunc
@cython.inline
def _count(counts: dict[Any, list[Any]], key: tuple[Any, ...], size: cython.Py_ssize_t) -> cython.int:
    count = counts.get(key)
    if count is None:
        count = counts[key] = [0, 0]
    count[0] += 1
    count[1] += size
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _as_delivered(copy: cython.pointer[NewRecord], record: cython.pointer[Record]) -> cython.void:
    """Fills in what a delivered message has of the waiting one: all but queue, topic, offsets and store
    time.
    """
    whole: Span = record.whole
    store_host_at: cython.Py_ssize_t = record.store_time + 8
    reconsume_at: cython.Py_ssize_t = record.body_at - 16
    copy.flag = i32_of(whole, 16)
    copy.sys_flag = i32_of(whole, 36)
    copy.born_timestamp = i64_of(whole, 40)
    copy.born_host = part_of(whole, 48, record.store_time - 48)
    copy.store_host = part_of(whole, store_host_at, reconsume_at - store_host_at)
    copy.reconsume_times = i32_of(whole, reconsume_at)
    copy.prepared_transaction_offset = i64_of(whole, reconsume_at + 4)
    copy.body = record.body
    copy.body_crc = cython.cast(cython.uint, i32_of(whole, 8))
    copy.properties = record.properties
    copy.own_properties = no_span()

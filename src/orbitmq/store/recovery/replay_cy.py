"""The inner loop of recovery: records that were read from the log become units in the tails of their queues.

Hot: after a crash every record since the last queue checkpoint passes here before the first message is taken.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.names import INNER_MULTI_QUEUE_OFFSET
from orbitmq.protocol.records.message import INNER_BATCH
from orbitmq.protocol.records.queue_units import UNIT
from orbitmq.protocol.records.scans import ScannedRecord

if cython.compiled:
    from cython.cimports.orbitmq.store.queue.units import put_unit  # type: ignore[import-not-found]

_IN_NO_QUEUE = 0x4
"""In the flags of half messages, and of what takes them back."""
_LMQ_MARK = INNER_MULTI_QUEUE_OFFSET.encode()


def put_next_units(
    records: list[ScannedRecord],
    first: cython.Py_ssize_t,
    tables: dict[str, dict[int, Any]],
    batch_topics: frozenset[str],
) -> tuple[int, int]:
    """Gives records from `records[first]` on their units, as long as each is the next of its queue, or needs
    none. Gives which record is the first that is neither, or is in light message queues as well, and how many
    units were put.

    Queues are looked up in `tables` by topic and queue id; topics of the batch kind have none.
    """
    count: cython.Py_ssize_t = len(records)
    i: cython.Py_ssize_t = first
    put: cython.Py_ssize_t = 0
    physical_offset: cython.longlong
    queue_offset: cython.longlong
    next_offset: cython.longlong
    size: cython.longlong
    code: cython.longlong
    sys_flag: cython.longlong
    no_queue: cython.longlong = _IN_NO_QUEUE | INNER_BATCH
    last_topic: Any = None
    has_queues: cython.bint = True
    queues: dict[int, Any] | None = None
    while i < count:
        physical_offset, size, queue_id, queue_offset, _, sys_flag, topic, code, properties = records[i]
        if topic is not last_topic:
            last_topic = topic
            has_queues = topic not in batch_topics
            queues = tables.get(topic)
        if has_queues and not sys_flag & no_queue:
            queue = None if queues is None else queues.get(queue_id)
            if queue is None or queue.is_schedule or _LMQ_MARK in properties:
                break
            next_offset = queue.max_offset
            if queue_offset > next_offset or queue_offset < queue.min_offset:
                break
            if (queue_offset == next_offset) != (physical_offset >= queue.last_unit_end):
                break  # the topic was deleted and made anew
            if queue_offset == next_offset:
                if cython.compiled:
                    put_unit(queue.tail, physical_offset, cython.cast(cython.int, size), code)
                else:
                    queue.tail += UNIT.pack(physical_offset, size, code)
                queue.max_offset = queue.visible = queue.announced = queue_offset + 1
                queue.last_unit_end = physical_offset + size
                put += 1
        i += 1
    return i, put

"""The inner loop of appends on the general path: messages become records in the map and units in the tails
of queues.

Hot: every message that no fast path stores passes here (see `append.pxd` for those). The caller has made
sure that blocks are reserved up to `limit`, and calls again with more space when a message does not fit;
nothing here waits. A message is stored or refused by itself; a batch is stored as a whole. So a message, or a
batch, is measured first, and written only where all of it fits. Its unit, the end of its queue and the result
follow when it is in the map.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.lite_topics import with_offsets
from orbitmq.protocol.records.batch_cy import measure_batch
from orbitmq.protocol.records.encoding_cy import encode_batch_records, encode_record, record_size
from orbitmq.protocol.records.message import INNER_BATCH, BadRecord, RecordTooLarge
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.protocol.records.queue_units import UNIT
from orbitmq.store.log.messages import Appended, PendingMessage, PutStatus

if cython.compiled:
    from cython.cimports.orbitmq.store.queue.units import put_unit  # type: ignore[import-not-found]

_BLANK_BYTES = 8

_OK = PutStatus.PUT_OK
_ILLEGAL = PutStatus.MESSAGE_ILLEGAL
_PROPERTIES_SIZE_EXCEEDED = PutStatus.PROPERTIES_SIZE_EXCEEDED
_TOO_MANY_LMQS = PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED


class Limits:
    """Limits of messages; see the options of the same names."""

    __slots__ = ("append_property_crc", "max_batch_bytes", "max_body_bytes", "max_record_bytes")

    def __init__(self, append_property_crc: bool) -> None:
        self.append_property_crc = append_property_crc
        self.max_body_bytes = 0
        self.max_record_bytes = 0
        self.max_batch_bytes = 0


def append_messages(
    messages: list[PendingMessage],
    index: cython.Py_ssize_t,
    out: Any,
    position: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    segment_start: cython.longlong,
    store_timestamp: cython.longlong,
    tables: dict[str, dict[int, Any]],
    make_queue: Any,
    special_code: Any,
    limits: Limits,
    results: list[Appended],
    dirty: list[Any],
) -> tuple[int, int, int]:
    """Appends from `messages[index]` on into `out[position:limit]`, where byte 0 is physical `segment_start`.

    Gives (index, position, needed): where it ended, and how many bytes the message at `index` (its whole
    batch, if it is one) needs, 0 when all are done. One result per message or batch is added to `results`:
    what cannot be stored has a status that says so and costs the others nothing.

    `make_queue(topic, queue_id)` gives a queue that is not in `tables`, which has none of the light queues,
    None if its name is impossible;
    `special_code(message, store_timestamp)` what stands in the unit of a message whose queue says that it is
    more than the hash of its tag: when it is due, or where its extension is.
    Queues that were not listed yet as having something new are added to `dirty`.
    """
    count: cython.Py_ssize_t = len(messages)
    size: cython.Py_ssize_t
    queue_id: cython.int = 0
    topic: str | None = None
    queue: Any = None
    append: _Append = _Append()
    append.out, append.position, append.limit = out, position, limit
    append.segment_start, append.store_timestamp = segment_start, store_timestamp
    append.special_code, append.limits = special_code, limits
    append.make_queue = make_queue
    append.results, append.dirty = results, dirty
    while index < count:
        message = messages[index]
        # Neighbours mostly go to the same queue.
        if topic is None or message.queue_id != queue_id or message.topic != topic:
            queue = _queue_of(message, tables, make_queue)
            topic = None if queue is None else message.topic
            queue_id = message.queue_id if queue is not None else 0
        if queue is None:
            size = _refuse(results, _ILLEGAL)
        elif message.batch:
            size = append.put_batch(message, queue)
        else:
            size = append.put_message(message, queue)
        if size < 0:
            return index, append.position, -size
        append.position += size
        index += 1
    return index, append.position, 0


@cython.cfunc
def _queue_of(message: Any, tables: dict[str, dict[int, Any]], make_queue: Any) -> Any:
    """The queue of a message, made where it is the first one; None if no queue can have that name."""
    queues = tables.get(message.topic)
    queue: Any = None if queues is None else queues.get(message.queue_id)
    return make_queue(message.topic, message.queue_id) if queue is None else queue


@cython.cfunc
def _refuse(results: list[Appended], status: PutStatus) -> cython.Py_ssize_t:
    results.append(Appended(status))
    return 0


@cython.final
@cython.cclass
class _Append:
    """The place behind the last record, and what an append needs besides a message; see `append_messages`.

    Both `put` give the bytes that they have appended; 0 for a refusal, -n if n bytes are needed and not
    there.
    """

    out: Any
    position: cython.Py_ssize_t
    limit: cython.Py_ssize_t
    segment_start: cython.longlong
    store_timestamp: cython.longlong
    special_code: Any
    limits: Any
    make_queue: Any
    results: list[Appended]
    dirty: list[Any]

    @cython.cfunc
    def put_message(self, message: Any, queue: Any) -> cython.Py_ssize_t:
        """Appends a message."""
        limits: Any = self.limits
        body = message.body
        properties: bytes = message.properties
        if b"\x00" in properties or message.sys_flag & INNER_BATCH or not queue.topic_bytes:
            return _refuse(self.results, _ILLEGAL)
        lmqs: Any = None
        if message.lmqs:
            lmqs = self._lmqs_of(message)
            if lmqs is None:
                return _refuse(self.results, _TOO_MANY_LMQS)
            properties = with_offsets(properties, [lmq.max_offset for lmq in lmqs])
        if len(body) > limits.max_body_bytes and message.copy_of is None:
            return _refuse(self.results, _ILLEGAL)
        if len(properties) > 32767:
            return _refuse(self.results, _PROPERTIES_SIZE_EXCEEDED)
        size: cython.Py_ssize_t = record_size(
            len(body),
            len(queue.topic_bytes),
            len(properties),
            len(message.born_host),
            len(message.store_host),
            limits.append_property_crc,
        )
        if size > limits.max_record_bytes and (message.copy_of is None or size > limits.max_batch_bytes):
            return _refuse(self.results, _ILLEGAL)
        if size + _BLANK_BYTES > self.limit - self.position:
            return -size
        # Half messages and what takes them back are in no consume queue.
        in_queue: cython.bint = (message.sys_flag & 0xC) in (0, 8)
        queue_offset: cython.longlong = queue.max_offset if in_queue else 0
        try:
            size = self._write(message, body, properties, queue, queue_offset)
        except RecordTooLarge:
            return _refuse(self.results, _PROPERTIES_SIZE_EXCEEDED)
        except (OverflowError, ValueError, TypeError):
            return _refuse(self.results, _ILLEGAL)
        physical_offset: cython.longlong = self.segment_start + self.position
        if in_queue:
            code = _unit_code(message, queue, self.store_timestamp, self.special_code)
            _add_unit(queue, physical_offset, size, code)
            queue.max_offset = queue_offset + 1
            _list_as_dirty(queue, self.dirty)
        if lmqs is not None:
            for lmq in lmqs:
                _add_unit(lmq, physical_offset, size, tags_code(properties))
                lmq.max_offset += 1
                _list_as_dirty(lmq, self.dirty)
        self.results.append(Appended(_OK, physical_offset, size, queue_offset, self.store_timestamp))
        return size

    @cython.cfunc
    def _lmqs_of(self, message: Any) -> Any:
        """The light queues of a message, made where it is the first one; None if one may not be made."""
        found: list[Any] = []
        for name in message.lmqs:
            queue: Any = self.make_queue(name, 0)
            if queue is None:
                return None
            found.append(queue)
        return found

    @cython.cfunc
    @cython.inline
    def _write(
        self, message: Any, body: Any, properties: bytes, queue: Any, queue_offset: cython.longlong
    ) -> cython.Py_ssize_t:
        """Writes the record of a message; gives its size."""
        size: cython.Py_ssize_t = encode_record(
            self.out, self.position, message.queue_id, message.flag, queue_offset,
            self.segment_start + self.position, message.sys_flag, message.born_timestamp, message.born_host,
            self.store_timestamp, message.store_host, message.reconsume_times,
            message.prepared_transaction_offset, body, queue.topic_bytes, properties, None,
            self.limits.append_property_crc,
        )  # fmt: skip
        return size

    @cython.cfunc
    def put_batch(self, message: Any, queue: Any) -> cython.Py_ssize_t:
        """Appends all messages of a batch. It is measured as a whole: all of it is stored, or nothing."""
        size: cython.Py_ssize_t
        refusal, size = _batch_size(message, len(queue.topic_bytes), self.limits)
        if refusal is not None:
            return _refuse(self.results, refusal)
        if size + _BLANK_BYTES > self.limit - self.position:
            return -size
        physical_offset: cython.longlong = self.segment_start + self.position
        first_offset: cython.longlong = queue.max_offset
        try:
            units: bytes = encode_batch_records(
                self.out, self.position, message.queue_id, first_offset, physical_offset, message.sys_flag,
                message.born_timestamp, message.born_host, self.store_timestamp, message.store_host,
                message.reconsume_times, message.batch, queue.topic_bytes, self.limits.append_property_crc,
            )  # fmt: skip
        except (RecordTooLarge, OverflowError, ValueError, TypeError):
            return _refuse(self.results, _ILLEGAL)
        queue.tail += units
        queue.max_offset = first_offset + len(units) // 20
        _list_as_dirty(queue, self.dirty)
        end, last_size, _ = UNIT.unpack_from(units, len(units) - 20)
        size = end + last_size - physical_offset
        self.results.append(Appended(_OK, physical_offset, size, first_offset, self.store_timestamp, units))
        return size


@cython.cfunc
@cython.inline
def _unit_code(message: Any, queue: Any, store_timestamp: cython.longlong, special_code: Any) -> Any:
    """The tags code in the unit of a message."""
    code = message.tags_code
    if code is not None:
        return code
    return special_code(message, store_timestamp) if queue.code_is_special else tags_code(message.properties)


@cython.cfunc
def _list_as_dirty(queue: Any, dirty: list[Any]) -> cython.int:
    if not queue.dirty:
        dirty.append(queue)
        queue.dirty = True
    return 0


@cython.cfunc
def _add_unit(
    queue: Any, physical_offset: cython.longlong, size: cython.Py_ssize_t, code: cython.longlong
) -> cython.int:
    if cython.compiled:
        put_unit(queue.tail, physical_offset, cython.cast(cython.int, size), code)
    else:
        queue.tail += UNIT.pack(physical_offset, size, code)
    return 0


def _batch_size(message: PendingMessage, topic_bytes: int, limits: Limits) -> tuple[PutStatus | None, int]:
    """The reason why a batch cannot be stored, if there is one, and its size in bytes."""
    if message.sys_flag & INNER_BATCH:
        return _ILLEGAL, 0
    try:
        count, content, longest_body, longest = measure_batch(message.batch)
    except BadRecord:
        return _ILLEGAL, 0
    fixed = record_size(
        0, topic_bytes, 0, len(message.born_host), len(message.store_host), limits.append_property_crc
    )
    total = count * fixed + content
    if longest_body > limits.max_body_bytes or fixed + longest > limits.max_record_bytes:
        return _ILLEGAL, 0
    return (_ILLEGAL, 0) if total > limits.max_batch_bytes else (None, total)

"""Decisions about half messages straight from the frames of a read: the part of `frames_cy` for
END_TRANSACTION.

Hot: every transaction ends with one. A commit writes the message that its half message holds under its own
topic: fields, body and properties are read from the half message's record where that lies in the log,
without its last properties `REAL_TOPIC` and `REAL_QID`, and behind it nothing but place, times and hosts
differ. One op record behind all of them names the half messages that a read has decided. Space for it is
reserved with every decision, so that it always fits.

Only the plain case is handled: the half message is open, has no copy, and was stored a moment ago, so that
it is in memory; the decision comes from its own group. Everything else is left to the general path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.broker.transaction.events import EndedHalf
from orbitmq.protocol.names import OP_HALF_TOPIC
from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32
from orbitmq.store.log.log_writer import HOT_BYTES

if cython.compiled:
    from cython.cimports.orbitmq.broker.delay.rerouting import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.record import (  # type: ignore[import-not-found]
        FIXED_BYTES,
        PROPERTY_CRC_BYTES,
        without_property_crc,
    )
    from cython.cimports.orbitmq.protocol.remoting.send_header import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.log.append import *  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.broker.transaction.rerouting import ReroutingRules
    from orbitmq.store.log.log_writer import LogWriter

_CRC: bytes = CRC_TABLES
_HOT_BYTES = cython.declare(cython.longlong, HOT_BYTES)
_OP_TOPIC: bytes = OP_HALF_TOPIC.encode()
_COMMIT = cython.declare(cython.int, 8)
_ROLLBACK = cython.declare(cython.int, 12)
_COMMITTED = cython.declare(cython.int, 8)  # in sysFlag
_SMALL_BYTES = cython.declare(cython.Py_ssize_t, 1024)
"""Larger messages are counted one by one: statistics tell sizes above it apart."""


@cython.final
@cython.cclass
class Decisions:
    """The decisions of one read. Compiled only; see `decisions_cy.pxd` for its fields."""

    def __init__(self, rules: ReroutingRules, writer: LogWriter, store_host: bytes, now: int) -> None:
        self._rules = rules
        assert rules.open_halves is not None
        self._open_halves = rules.open_halves
        self._queues = writer.queues
        self._dirty = writer.dirty
        self._op_queue = (writer.queues.get(OP_HALF_TOPIC) or {}).get(0)
        self._store_host = store_host
        self._now = now
        self._named = bytearray()  # the body of the op record
        self._decided: set[int] = set()  # physical offsets
        self._counts: dict[tuple[str, int, int], list[int]] = {}
        self.op_offset = -1
        self.ended: list[EndedHalf] = []
        self.reserved = 0  # bytes behind all records, for the op record

    def handle(self, header: cython.pointer[SendHeader], log: cython.pointer[LogEnd]) -> cython.bint:
        """Handles a decision; False if it is for the general path, and then nothing has changed."""
        decision: Decision
        half: Half
        if self._op_queue is None or self._op_queue.code_is_special:
            return False
        if not _read_decision(header, cython.address(decision)):
            return False
        if not self._find_half(cython.address(decision), log, cython.address(half)):
            return False
        if not _is_about(header, cython.address(half)):
            return False
        reserved: cython.Py_ssize_t = self._op_bytes(log, len(b"%d," % decision.offset))
        if reserved == 0 or reserved + BLANK_BYTES > left_of(cython.address(log.out)):
            return False
        if decision.is_commit and not self._commit(
            cython.address(decision), cython.address(half), log, reserved
        ):
            return False
        self._note(cython.address(decision), cython.address(half), reserved)
        return True

    def _find_half(
        self,
        decision: cython.pointer[Decision],
        log: cython.pointer[cython.const[LogEnd]],
        half: cython.pointer[Half],
    ) -> cython.bint:
        """Reads the half message of a decision; False if it was decided before, or is not near the end of
        the log.
        """
        known = self._open_halves.get(decision.physical_offset)
        if known is None or known != decision.offset or decision.physical_offset in self._decided:
            return False
        begin: cython.longlong = decision.physical_offset - log.segment_start
        end: cython.longlong = written(cython.address(log.out))
        if begin < 0 or begin >= end or end - begin > _HOT_BYTES:
            return False
        if not parse_half(rest_of(span_written(cython.address(log.out)), begin), half):
            return False
        return half.topic.size <= 127 and to_number(half.queue_id, cython.address(decision.queue_id))

    def _commit(
        self,
        decision: cython.pointer[cython.const[Decision]],
        half: cython.pointer[cython.const[Half]],
        log: cython.pointer[LogEnd],
        reserved: cython.Py_ssize_t,
    ) -> cython.bint:
        """Stores the message of a half message; False if it has no place yet, or is not plain."""
        record: NewRecord
        topic: str = text_of(half.topic)
        queues = self._queues.get(topic)
        queue: Any = None if queues is None else queues.get(decision.queue_id)
        if queue is None or queue.code_is_special:
            return False
        record.queue_id = cython.cast(cython.int, decision.queue_id)
        record.flag = i32_of(half.record, 16)
        record.sys_flag = i32_of(half.record, 36) | _COMMITTED
        record.born_timestamp = i64_of(half.record, 40)
        record.born_host = part_of(half.record, 48, half.host_size)
        record.store_host = span_of(self._store_host)
        record.reconsume_times = i32_of(half.record, half.body_at - 16)
        record.prepared_transaction_offset = decision.physical_offset
        record.body = half.body
        record.body_crc = cython.cast(cython.uint, i32_of(half.record, 8))
        record.topic = half.topic
        record.properties = half.sent
        # The checksum of the half message's record is not this one's.
        record.own_properties = without_property_crc(half.own) if log.with_crc else half.own
        if not has_space_for(log, cython.address(record), reserved):
            return False
        append_record(log, cython.address(record), queue, self._dirty, half.tags_code, _CRC, crc32)
        self._count(topic, record.queue_id, decision.offset, record.size)
        return True

    def _op_bytes(
        self, log: cython.pointer[cython.const[LogEnd]], body: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Bytes of the op record with one more name, of `body` bytes; 0 if that would make it too long."""
        whole: cython.Py_ssize_t = len(self._named) + body
        if whole > log.max_body or (self._named and whole > self._rules.max_op_bytes):
            return 0
        size: cython.Py_ssize_t = FIXED_BYTES + 2 * len(self._store_host) + len(_OP_TOPIC) + whole
        size += len(self._rules.op_properties) + (PROPERTY_CRC_BYTES + 1 if log.with_crc else 0)
        return 0 if size > log.max_record else size

    def _note(
        self,
        decision: cython.pointer[cython.const[Decision]],
        half: cython.pointer[cython.const[Half]],
        reserved: cython.Py_ssize_t,
    ) -> cython.int:
        """Notes a decision that counts: what fails from here on, for want of memory, rolls back the whole
        read.
        """
        age_ms: cython.longlong = self._now - i64_of(half.record, 40)
        if age_ms < 0:  # the producer's clock is ahead: by the broker's
            age_ms = self._now - i64_of(half.record, 48 + half.host_size)
        self._decided.add(decision.physical_offset)
        self._named += b"%d," % decision.offset
        self.reserved = reserved
        self.ended.append(
            EndedHalf(
                text_of(half.topic),
                text_of(half.group),
                decision.physical_offset,
                decision.offset,
                decision.is_commit,
                age_ms,
            )
        )
        return 0

    def _count(
        self, topic: str, queue_id: cython.int, offset: cython.longlong, size: cython.Py_ssize_t
    ) -> cython.int:
        # Statistics tell large ones apart: each counts by itself.
        key = (topic, queue_id, -1 if size <= _SMALL_BYTES else offset)
        count = self._counts.get(key)
        if count is None:
            self._counts[key] = [1, size]
        else:
            count[0] += 1
            count[1] += size
        return 0

    def end(self, log: cython.pointer[LogEnd], stats: object) -> cython.int:
        """Writes the op record, for which space was reserved, and reports what was published."""
        record: NewRecord
        if not self._named:
            return 0
        host: Span = span_of(self._store_host)
        body: bytes = bytes(self._named)
        record.queue_id = record.flag = record.sys_flag = record.reconsume_times = 0
        record.born_timestamp = self._now
        record.born_host = record.store_host = host
        record.prepared_transaction_offset = 0
        record.body = span_of(body)
        record.body_crc = crc32(body)
        record.topic = span_of(_OP_TOPIC)
        record.properties = span_of(self._rules.op_properties)
        record.own_properties = no_span()
        if not has_space_for(log, cython.address(record), 0):
            raise SystemError("an op record was measured smaller than it is")
        append_record(
            log, cython.address(record), self._op_queue, self._dirty, self._rules.op_tags_code, _CRC, crc32
        )
        self.op_offset = record.queue_offset
        for (topic, queue_id, _), (messages, size_bytes) in self._counts.items():
            stats.put_fresh(topic, queue_id, messages, size_bytes, messages)
            stats.put_typed("transaction", topic, size_bytes, messages)
        return 0


@cython.cfunc
@cython.exceptval(check=False)
def _read_decision(header: cython.pointer[SendHeader], decision: cython.pointer[Decision]) -> cython.bint:
    """Reads the header of a commit or a rollback; False for one that lacks something, or is neither."""
    text: Span
    number: cython.longlong = 0
    if (
        not named(header, b"commitLogOffset", cython.address(text))
        or not to_number(text, cython.address(decision.physical_offset))
        or not named(header, b"tranStateTableOffset", cython.address(text))
        or not to_number(text, cython.address(decision.offset))
        or not named(header, b"commitOrRollback", cython.address(text))
        or not to_number(text, cython.address(number))
        or (number != _COMMIT and number != _ROLLBACK)
        or not named(header, b"msgId", cython.address(text))
    ):
        return False
    decision.is_commit = number == _COMMIT
    if named(header, b"fromTransactionCheck", cython.address(text)):
        return is_literal(text, b"false") or is_literal(text, b"true")
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _is_about(header: cython.pointer[SendHeader], half: cython.pointer[Half]) -> cython.bint:
    """True if group, transaction and topic that a decision names are those of its half message."""
    text: Span
    if not named(header, b"producerGroup", cython.address(text)) or not is_same(text, half.group):
        return False
    named(header, b"transactionId", cython.address(text))
    if text.size and not is_same(text, half.unique):
        return False
    # Access was checked for the topic that a decision names.
    return not named(header, b"topic", cython.address(text)) or is_same(text, half.topic)

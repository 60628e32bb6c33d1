"""Appending: records at the end of the log, and their units at the ends of queues.

An append is whole or it is undone: without memory for instance, log and queues end where they ended before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from orbitmq import failpoints
from orbitmq.protocol.delay_levels import delays_ms
from orbitmq.protocol.lite_topics import MAX_LMQ_BYTES, is_lmq_name
from orbitmq.protocol.names import LMQ_PREFIX
from orbitmq.protocol.records.message import BLANK_BYTES
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.store.acceptance import Acceptance
from orbitmq.store.errors import DiskStalled
from orbitmq.store.log.append_cy import Limits, append_messages
from orbitmq.store.log.log_writer import RECORD_OVERHEAD_BYTES, LogWriter
from orbitmq.store.log.messages import Appended, PendingMessage, PutStatus
from orbitmq.store.log.segment import Segment
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.consume_queue import UNIT, UNIT_BYTES, ConsumeQueue, due_time
from orbitmq.store.queue.writer import TRIMMED_PER_CALL
from orbitmq.store.structures import Structures

log = logging.getLogger(__name__)

_OUT_OF_MEMORY = MemoryError("an append ended halfway")
_LONGEST_RETRY_TOPIC = 255
_LONGEST_TOPIC_OF_VERSION_1 = 127
_LARGEST_QUEUE_ID = 0x7FFFFFFF


class Appending:
    """Belongs to the owner of the store."""

    def __init__(self, options: StoreOptions, structures: Structures, acceptance: Acceptance) -> None:
        self._options = options
        self._log = structures.log
        self._newest = structures.newest
        self._queues = structures.queues
        self._queue_writer = structures.queue_writer
        self._extension = structures.extension
        self._arrivals = structures.arrivals
        self._acceptance = acceptance
        self._delays = delays_ms(options.message_delay_level)
        self._limits = Limits(options.enabled_append_prop_crc)
        self._set_limits()
        self._writer = LogWriter(self._queues.by_topic)
        self._disk_full = ""

    # Messages.

    def append_many(
        self, messages: list[PendingMessage], now_ms: int, results: list[Appended]
    ) -> list[Appended]:
        """See `MessageStore.append_many`; answers go into `results`."""
        refused = self._refused(len(messages))
        if refused is not None:
            results += _answers(refused, len(messages))
            return results
        if self._queue_writer.written:
            self._queue_writer.trim_tails(TRIMMED_PER_CALL)
        newest = self._newest
        if now_ms > newest.timestamp_ms:
            newest.timestamp_ms = now_ms
        if self._options.max_message_size != self._limits.max_body_bytes:
            self._set_limits()
        index = 0
        segment = self._log.segments[-1]
        while True:
            index, needed = self._append_to(segment, messages, index, newest.timestamp_ms, results)
            if not needed:
                break
            try:
                segment = self._log.ensure_space(needed)
            except DiskStalled:
                self._acceptance.busy_refusals += len(messages) - index
                results += _answers(PutStatus.OS_PAGE_CACHE_BUSY, len(messages) - index)
                break
            except OSError as error:
                self._note_no_room(error)
                results += _answers(PutStatus.SERVICE_NOT_AVAILABLE, len(messages) - index)
                break
            self._disk_full = ""
        if failpoints.armed:
            failpoints.hit("commitlog.after_append")
        self._note_newest(results)
        return results

    def _refused(self, count: int) -> PutStatus | None:
        """The answer to messages that are not taken now; None where they are."""
        acceptance = self._acceptance
        if acceptance.takes_nothing:
            return PutStatus.SERVICE_NOT_AVAILABLE
        if acceptance.is_page_cache_busy:
            acceptance.busy_refusals += count
            return PutStatus.OS_PAGE_CACHE_BUSY
        return None

    def _set_limits(self) -> None:
        limits, most = self._limits, self._options.max_message_size
        limits.max_body_bytes = most
        limits.max_batch_bytes = self._log.segment_bytes - BLANK_BYTES
        limits.max_record_bytes = min(most + RECORD_OVERHEAD_BYTES, limits.max_batch_bytes)

    def _append_to(
        self,
        segment: Segment,
        messages: list[PendingMessage],
        index: int,
        store_timestamp: int,
        results: list[Appended],
    ) -> tuple[int, int]:
        """Appends from `index` on to a segment; gives the index of the first message that did not fit, and
        the bytes that it needs: 0 if all did.
        """
        answered = len(results)
        try:
            index, segment.wrote, needed = append_messages(
                messages,
                index,
                segment.view,
                segment.wrote,
                segment.reserved,
                segment.start,
                store_timestamp,
                self._queues.by_topic,
                self._make_queue,
                self._special_code,
                self._limits,
                results,
                self._arrivals.dirty,
            )
        except BaseException as error:
            self._acceptance.half_done = error
            del results[answered:]
            self._roll_back(self._queues_of(messages), segment)
            self._acceptance.half_done = None
            raise
        return index, needed

    def _note_no_room(self, error: OSError) -> None:
        """Logs it once: when there is room again, the next append finds it."""
        if self._disk_full != str(error):
            log.error("the commit log cannot grow: %s", error)
        self._disk_full = str(error)

    def _note_newest(self, results: Sequence[Appended]) -> None:
        for appended in reversed(results):
            if appended.status is PutStatus.PUT_OK:
                units = appended.units
                last = UNIT.unpack_from(units, -UNIT_BYTES)[0] if units else appended.physical_offset
                self._newest.physical_offset = last
                return

    def _make_queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue, made for a first message; None if it can have none: its topic becomes a folder."""
        known = self._queues.find(topic, queue_id)
        if known is not None:
            return known
        length = len(topic.encode("utf-8", "replace"))
        longest = self._options.max_topic_length
        if topic.startswith("%RETRY%"):
            longest = _LONGEST_RETRY_TOPIC
        if not self._options.auto_message_version_on_topic_len:
            longest = min(longest, _LONGEST_TOPIC_OF_VERSION_1)
        if topic.startswith(LMQ_PREFIX):
            if not is_lmq_name(topic) or self._has_too_many_lmqs:
                return None
            longest = MAX_LMQ_BYTES
        if not 0 < length <= longest or not 0 <= queue_id <= _LARGEST_QUEUE_ID:
            return None
        if "/" in topic or "\x00" in topic or topic in (".", "..") or topic in self._queues.batch_topics:
            return None
        return self._queues.make(topic, queue_id)

    @property
    def _has_too_many_lmqs(self) -> bool:
        options = self._options
        return options.enable_lmq_quota and len(self._queues.light) >= options.max_lmq_consume_queue_num

    def _special_code(self, message: PendingMessage, store_timestamp_ms: int) -> int:
        """The tags code of a delayed message, or of one whose queue has extensions."""
        topic, properties = message.topic, message.properties
        queue = self._queues.by_topic[topic][message.queue_id]
        if queue.is_schedule:
            return due_time(properties, store_timestamp_ms, self._delays)
        bits = self._extension.bits_of(topic, properties)
        return self._extension.append(queue, tags_code(properties), store_timestamp_ms, bits)

    # Records that fast paths write themselves.

    def reserve(self, now_ms: int) -> LogWriter | None:
        """The end of the log, to write records there; None if `append_many` has to decide."""
        if failpoints.armed:
            return None
        acceptance = self._acceptance
        if acceptance.takes_nothing or acceptance.is_page_cache_busy:
            return None
        if self._queue_writer.written:
            self._queue_writer.trim_tails(TRIMMED_PER_CALL)
        newest = self._newest
        if now_ms > newest.timestamp_ms:
            newest.timestamp_ms = now_ms
        segment = self._log.segments[-1]
        writer = self._writer
        writer.view = segment.view
        writer.position = segment.wrote
        writer.limit = segment.reserved
        writer.segment_start = segment.start
        writer.store_timestamp = newest.timestamp_ms
        writer.dirty = self._arrivals.dirty
        writer.property_crc = self._options.enabled_append_prop_crc
        most = self._options.max_message_size
        if most != writer.max_body_bytes:
            writer.max_body_bytes = most
            writer.max_record_bytes = min(most + RECORD_OVERHEAD_BYTES, self._log.segment_bytes - BLANK_BYTES)
        return writer

    def commit(self, writer: LogWriter) -> None:
        """Makes the records that were written part of the log."""
        self._log.segments[-1].wrote = writer.position
        self._newest.physical_offset = writer.last_record

    def rollback(self, writer: LogWriter) -> None:
        """Undoes what was written and not committed."""
        self._acceptance.half_done = _OUT_OF_MEMORY  # made before: there may be no memory for it now
        self._roll_back(list(writer.dirty), self._log.segments[-1])
        self._acceptance.half_done = None

    def close(self) -> None:
        """Lets go of the log's memory."""
        self._writer.view = memoryview(b"")

    # Undoing.

    def _queues_of(self, messages: Iterable[PendingMessage]) -> Iterator[ConsumeQueue]:
        for message in messages:
            queue = self._queues.find(message.topic, message.queue_id)
            if queue is not None:
                yield queue
            for name in message.lmqs:
                lmq = self._queues.find(name, 0)
                if lmq is not None:
                    yield lmq

    def _roll_back(self, queues: Iterable[ConsumeQueue], segment: Segment) -> None:
        """Undoes an append that ended halfway, without memory for instance: the log ends where it ended
        before, and so do the queues. No reader was notified of what is rolled back.
        """
        end = segment.start + segment.wrote
        with self._queue_writer.busy:
            for queue in queues:
                tail = queue.tail
                while tail and UNIT.unpack_from(tail, len(tail) - UNIT_BYTES)[0] >= end:
                    del tail[-UNIT_BYTES:]
                queue.max_offset = queue.tail_start + len(tail) // UNIT_BYTES
                self._queue_writer.roll_back(queue)
                if queue.dirty and queue not in self._arrivals.dirty:
                    self._arrivals.dirty.append(queue)
        # A record that was whole would be found by recovery, between those that come now.
        segment.clear_ahead()


def _answers(status: PutStatus, count: int) -> list[Appended]:
    return [Appended(status) for _ in range(count)]

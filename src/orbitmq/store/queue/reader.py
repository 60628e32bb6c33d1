"""Reading a queue: as many messages as one answer may hold, checked, as views into the log.

Bytes that this process wrote a moment ago are in memory. Of everything else it is asked first: touching a
mapped page that is not there would stop the whole process until the disk has answered. Such a read ends with
what has to be brought in.

Everything here belongs to the owner of the store, but for `read_cold`: reading threads run it, several at a
time. They change nothing that the owner looks through; what they have read they append to `_read`, which the
owner alone empties.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.log_writer import HOT_BYTES
from orbitmq.store.log.messages import Cold, GetResult, GetStatus
from orbitmq.store.log.segment import Segment
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.arrivals import Arrivals
from orbitmq.store.queue.consume_queue import UNIT_BYTES, ConsumeQueue, QueueTable
from orbitmq.store.queue.extension import LARGEST_ADDRESS, ExtensionFiles
from orbitmq.store.queue.filtering import Accept, MessageFilter
from orbitmq.store.queue.scan_cy import UNITS_PER_READ, Picked, QueueCursor

log = logging.getLogger(__name__)

MAX_PULL_BYTES = 128 << 20
COLD_READ_BYTES = 256 << 10
"""Bytes per read from the disk for a reader of old messages."""
COLD_UNITS = 3200
"""Units of a queue that are read from the disk at a time: 64,000 bytes."""
RESIDENCE_BYTES = 1 << 20
"""Bytes ahead of a reader that are checked for being in memory."""
RESIDENT_SECONDS = 1.0
"""For how long what was in memory, or was brought in, is taken to be there still."""
MAX_READ_KEPT = 4096
"""Cold reads that have ended and were not looked at yet: more than there are requests at a time."""
WARM_KEPT = 64
"""Ranges of which it is known that they were brought in: more than readers come to the end of in one turn."""
MAX_BAD_RECORDS_KEPT = 1000
MAX_BULK_COUNT = 8192
"""Messages in one answer to a reader of a whole topic."""
READERS_REMEMBERED = 64
"""Queues of which units are kept that were read ahead: 5 KB each."""
_READ_STEP_BYTES = 1 << 20

# Values that every read uses, by names of their own: Python 3.11 takes 0.2 µs to find a member of an enum.
_FOUND = GetStatus.FOUND
_AT_THE_END = GetStatus.OFFSET_OVERFLOW_ONE


@dataclass(eq=False, repr=False)
class QueueReader:
    """Reads for the owner of the store; `read_cold` is for threads."""

    _options: StoreOptions
    _log: CommitLog
    _table: QueueTable
    _arrivals: Arrivals
    _extension: ExtensionFiles

    def __post_init__(self) -> None:
        self._units_per_file = self._table.file_bytes // UNIT_BYTES
        self.memory_bytes = memory_bytes() * self._options.access_message_in_memory_max_ratio // 100
        """Messages within this distance of the end of the log count as in memory."""
        self.opened_end = 0
        """End of the log when this process opened it."""
        self._read: deque[tuple[ConsumeQueue | None, int, int, float]] = deque(maxlen=MAX_READ_KEPT)
        """Ranges that threads have brought into memory, of a queue or else of the log, and until when that
        counts. It is never iterated over: threads append, the owner takes from the other end."""
        self._warm: deque[tuple[int, int, float]] = deque(maxlen=WARM_KEPT)
        """Ranges of the log that were brought into memory. The owner's, as the next two."""
        self._warm_units: deque[tuple[ConsumeQueue, int, int, float]] = deque(maxlen=WARM_KEPT)
        self._resident: deque[tuple[int, int, float]] = deque(maxlen=16)
        """Ranges of the log that were in memory, and until when that counts."""
        self._units_ahead: OrderedDict[ConsumeQueue, tuple[int, bytes]] = OrderedDict()
        """Units out of files, read further than they were asked for, and the offset of the first of them.

        Units in a file do not change; those of a deleted topic go with their queue."""
        self.bad_records: dict[int, tuple[str, int, int]] = {}
        """Damaged records that were met: physical offset -> topic, queue id, queue offset. The first 1000."""
        self.bad_record_count = 0

    def cursor(
        self,
        topic: str,
        queue_id: int,
        max_count: int,
        max_bytes: int,
        accept: Accept,
        room: int | None = None,
        *,
        bulk: bool = False,
    ) -> QueueCursor | None:
        """A cursor of a queue for `read`; None if there is no such queue. See `MessageStore.get`.

        `room`: the bytes of the memory into which it copies, where it does. It holds as long as the queue is
        not removed and the options stay as they are.
        """
        queue = self._table.find(topic, queue_id)
        if queue is None:
            return None
        options = self._options
        max_count = max(max_count, 1)
        if bulk:
            max_count = min(max_count, MAX_BULK_COUNT)
        if not 0 < max_bytes < MAX_PULL_BYTES:
            max_bytes = MAX_PULL_BYTES
        picks = accept
        may_extend = queue.code_is_special and not queue.is_schedule
        if accept is not None and (may_extend or queue.topic in self._extension.topics):
            picks = self._by_extension(queue, accept)
        return QueueCursor(
            self,
            self._table,
            queue,
            accept,
            picks,
            accept.matches if isinstance(accept, MessageFilter) else None,
            max_count,
            max_bytes,
            self._bulk_limits(max_count, room) if bulk else self._limits(),
            whole=options.enabled_append_prop_crc,
            memory_bytes=self.memory_bytes,
            units_per_file=self._units_per_file,
            files=options.travel_cq_file_num_when_get_message,
            most_units=options.max_filter_message_size // UNIT_BYTES,
        )

    def _limits(self) -> tuple[int, int, int, int]:
        """The most bytes and messages of recent messages, and of old ones, in one answer."""
        options = self._options
        return (
            options.max_transfer_bytes_on_message_in_memory,
            options.max_transfer_count_on_message_in_memory,
            options.max_transfer_bytes_on_message_in_disk,
            options.max_transfer_count_on_message_in_disk,
        )

    def _bulk_limits(self, max_count: int, room: int | None) -> tuple[int, int, int, int]:
        most = self._options.max_transfer_bytes_on_message_in_memory
        if room is not None:
            most = min(most, room)
        return most, max_count, most, max_count

    def read(self, cursor: QueueCursor, queue_offset: int, into: bytearray | None = None) -> GetResult | None:
        """The messages from a queue offset on; with `into` None where not all has room there."""
        queue: ConsumeQueue = cursor.queue
        end = self._arrivals.end(queue)
        low = queue.min_offset
        if not low <= queue_offset < end:
            return _outside(queue_offset, low, end)
        units = b""
        if queue_offset < queue.tail_start:
            accept, max_count = cursor.accept, cursor.max_count
            units = self._units_in_memory(
                queue, queue_offset, max_count if accept is None else UNITS_PER_READ
            )
            cold = None if units else self._cold_units(queue, queue_offset, max_count, accept)
            if cold is not None:
                result = GetResult(GetStatus.NO_MATCHED_MESSAGE, queue_offset, low, end)
                result.cold = cold
                return result
        max_physical = self._log.max_physical
        hot_from = max(self.opened_end, max_physical - HOT_BYTES)
        picked = cursor.pick(units, queue_offset, end, max_physical, hot_from, into)
        if picked.is_large:
            return None
        if picked.bad:
            for bad_offset, physical_offset in picked.bad:
                self.note_bad(physical_offset, queue.topic, queue.queue_id, bad_offset)
        if picked.count:
            return GetResult(
                _FOUND,
                picked.next_offset,
                low,
                end,
                picked.records,
                picked.count,
                picked.size_bytes,
                picked.is_old,
            )
        return self._nothing(picked, queue_offset, low, end)

    def _nothing(self, picked: Picked, queue_offset: int, low: int, end: int) -> GetResult:
        """The answer where no message came of what the queue holds."""
        if picked.cold is not None:
            physical_offset, size = picked.cold
            result = GetResult(GetStatus.NO_MATCHED_MESSAGE, picked.next_offset, low, end)
            result.cold = Cold(physical_offset, max(size, COLD_READ_BYTES))
            return result
        if picked.next_offset == queue_offset:
            # No unit could be read in this file.
            following = queue_offset - queue_offset % self._units_per_file + self._units_per_file
            return GetResult(GetStatus.OFFSET_FOUND_NULL, min(end, following), low, end)
        status = GetStatus.MESSAGE_WAS_REMOVING if picked.removed else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, picked.next_offset, low, end)

    def _by_extension(
        self, queue: ConsumeQueue, accept: frozenset[int] | Callable[[int], bool]
    ) -> Callable[[int], bool]:
        """`accept` for a queue whose tags codes may be addresses of extensions.

        Where an extension is gone its message counts as wanted: clients and filters look again.
        """
        wants = accept.__contains__ if isinstance(accept, frozenset) else accept
        wants_extension = accept.by_extension if isinstance(accept, MessageFilter) else None
        extension = self._extension

        def accepts(tags_code: int) -> bool:
            if tags_code > LARGEST_ADDRESS:
                return wants(tags_code)
            found = extension.unit(queue, tags_code)
            if found is None:
                return True
            return wants(found.tags_code) if wants_extension is None else wants_extension(found)

        return accepts

    # Called by a cursor.

    def find(self, physical_offset: int) -> Segment | None:
        """The segment of the log that holds a byte."""
        return self._log.find(physical_offset)

    def next_segment_start(self, physical_offset: int) -> int:
        return self._log.next_segment_start(physical_offset)

    def resident_to(self, physical_offset: int, size: int) -> int:
        """Up to which physical offset the log surely is in memory from another one on.

        Looks a little further than `size`, for the messages that come next.
        """
        end = physical_offset + size
        self._note_read()
        now = monotonic()
        for start, stop, until in self._warm:
            if start <= physical_offset and end <= stop and now < until:
                return stop
        for start, stop, until in self._resident:
            if start <= physical_offset and end <= stop and now < until:
                return stop
        segment = self._log.find(physical_offset)
        if segment is None:
            return end
        position = physical_offset - segment.start
        length = min(max(size, RESIDENCE_BYTES), segment.size - position)
        stop = physical_offset + segment.file.resident_bytes(position, length)
        self._resident.appendleft((physical_offset, stop, now + RESIDENT_SECONDS))
        return stop

    def is_resident(self, physical_offset: int, size: int) -> bool:
        """True if a range of the log can be read without waiting for the disk."""
        return self.resident_to(physical_offset, size) >= physical_offset + size

    def _units_in_memory(self, queue: ConsumeQueue, queue_offset: int, count: int) -> bytes:
        """Units of a file from a queue offset on, read ahead of time or now without waiting for the disk.

        Not more than `count`, and none where that many are not in memory.
        """
        count = min(count, UNITS_PER_READ, queue.tail_start - queue_offset)
        start, units = self._units_ahead.get(queue, (0, b""))
        first = (queue_offset - start) * UNIT_BYTES
        if first < 0 or first + count * UNIT_BYTES > len(units):
            ahead = min(UNITS_PER_READ, queue.tail_start - queue_offset)
            if not self._table.is_resident(queue, queue_offset, ahead):
                return b""
            units = self._table.read(queue, queue_offset, ahead)
            if len(units) < count * UNIT_BYTES:
                return b""
            first = 0
            self._units_ahead[queue] = queue_offset, units
            if len(self._units_ahead) > READERS_REMEMBERED:
                self._units_ahead.popitem(last=False)
        return units[first : first + count * UNIT_BYTES]

    def _cold_units(
        self, queue: ConsumeQueue, queue_offset: int, max_count: int, accept: Accept
    ) -> Cold | None:
        """The units that a read begins with, where they are neither in memory nor just brought in."""
        self._note_read()
        now = monotonic()
        for warm_queue, start, stop, until in self._warm_units:
            if warm_queue is queue and start <= queue_offset < stop and now < until:
                return None
        count = max(max_count, 1) if accept is None else UNITS_PER_READ
        if self._table.is_resident(queue, queue_offset, min(count, UNITS_PER_READ)):
            return None
        return Cold(queue_offset, COLD_UNITS * UNIT_BYTES, queue)

    def cold_unit(self, topic: str, queue_id: int, queue_offset: int) -> Cold | None:
        """The range that reading a unit would wait for; None where the unit is in memory or missing."""
        queue = self._table.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < min(queue.tail_start, queue.max_offset):
            return None
        return self._cold_units(queue, queue_offset, 1, None)

    def cold_record(self, physical_offset: int) -> Cold | None:
        """The range that reading a record would wait for; None where the record is in memory or missing."""
        if physical_offset >= max(self.opened_end, self._log.max_physical - HOT_BYTES):
            return None
        size = 4
        if self.resident_to(physical_offset, size) >= physical_offset + size:
            size = int.from_bytes(self._log.read(physical_offset, size), "big", signed=True)
            if size <= 0 or self.resident_to(physical_offset, size) >= physical_offset + size:
                return None
        return Cold(physical_offset, max(size, COLD_READ_BYTES))

    def read_cold(self, physical_offset: int, size: int, queue: object | None = None) -> None:
        """Brings what `read` named as cold into memory. Blocks, without the GIL: for a thread."""
        if isinstance(queue, ConsumeQueue):
            count = size // UNIT_BYTES
            self._table.read_file(self._table.open_files(1), queue, physical_offset, count)
            self._read.append(
                (queue, physical_offset, physical_offset + count, monotonic() + RESIDENT_SECONDS)
            )
            return
        segment = self._log.find(physical_offset)
        if segment is not None:
            position = physical_offset - segment.start
            end = min(position + size, segment.size)
            while position < end:
                segment.file.read(position, min(_READ_STEP_BYTES, end - position))
                position += _READ_STEP_BYTES
        # Served next time even if memory is so short that it is gone again: a reader has to get on.
        self._read.append((None, physical_offset, physical_offset + size, monotonic() + RESIDENT_SECONDS))

    def _note_read(self) -> None:
        """Takes over what threads have read since the last call."""
        while self._read:
            queue, start, stop, until = self._read.popleft()
            if queue is None:
                self._warm.append((start, stop, until))
            else:
                self._warm_units.append((queue, start, stop, until))

    def forget(self, queue: ConsumeQueue) -> None:
        """Lets go of units that were read ahead, of a queue that was cut."""
        self._units_ahead.pop(queue, None)

    def note_bad(self, physical_offset: int, topic: str, queue_id: int, queue_offset: int) -> None:
        """Counts a damaged record, once, and says where it is. Beyond a thousand of them they are only
        counted.
        """
        if physical_offset in self.bad_records:
            return
        self.bad_record_count += 1
        if len(self.bad_records) < MAX_BAD_RECORDS_KEPT:
            self.bad_records[physical_offset] = (topic, queue_id, queue_offset)
            log.error(
                "the record at %d (%s, queue %d, offset %d) is damaged: it is not served",
                physical_offset,
                topic,
                queue_id,
                queue_offset,
            )


def _outside(queue_offset: int, low: int, end: int) -> GetResult:
    """The answer to a read outside of what the queue holds."""
    if end == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, end)
    if queue_offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, end)
    if queue_offset == end:
        return GetResult(_AT_THE_END, queue_offset, low, end)
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, end, low, end)


def memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

"""Units that queues lack, put back from the records of the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.protocol.lite_topics import lmq_places
from orbitmq.protocol.records.message import FIXED_BYTES, INNER_BATCH
from orbitmq.protocol.records.scans import ScannedRecord
from orbitmq.store.files import segment_name
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queue.consume_queue import (
    BLANK_UNIT,
    UNIT,
    ConsumeQueue,
    QueueTable,
    due_time,
    queue_folder,
)
from orbitmq.store.queue.loading import set_end
from orbitmq.store.queue.writer import QueueWriter
from orbitmq.store.recovery.queue_checkpoint import QueueCheckpoint
from orbitmq.store.recovery.recovered import Recovered
from orbitmq.store.recovery.replay_cy import put_next_units

log = logging.getLogger(__name__)

PENDING_UNITS = 500_000
"""Units put back in memory before they are written to their files."""


@dataclass(eq=False, repr=False)
class MissingUnits:
    """Takes the records of the log in their order; once more, after `read_again`, for queues with `gaps`."""

    _log: CommitLog
    _table: QueueTable
    _queue_writer: QueueWriter
    _queue_checkpoint: QueueCheckpoint | None
    _found: Recovered
    _delays: tuple[int, ...]
    _deleted: Mapping[str, int]

    def __post_init__(self) -> None:
        self._last_deletion = max(self._deleted.values(), default=0)
        self._pending = 0
        self._only: set[ConsumeQueue] | None = None
        self._fills_gaps = False
        self.gaps: set[ConsumeQueue] = set()
        """Queues in whose middle units are missing: they are read once more, from where they end."""
        self._begun_anew: dict[ConsumeQueue, tuple[int, int]] = {}
        """Queues that have started over, with the end of before and the first record."""
        self._goes_on: set[ConsumeQueue] = set()
        """Queues that only a damaged queue offset had start over."""

    def read_again(self) -> None:
        """Gives units to the queues with gaps alone from here on, and blank ones for what the log lacks."""
        self._only, self.gaps, self._fills_gaps = self.gaps, set(), True

    def put(self, records: list[ScannedRecord]) -> None:
        """Gives records their units. Nearly all are the next of their queue."""
        if self._only is None and records:
            self._found.last_record = records[-1][0]
            newest = max(record[4] for record in records)
            self._found.last_timestamp_ms = max(self._found.last_timestamp_ms, newest)
        if records and records[0][0] < self._last_deletion:
            records = [record for record in records if record[0] >= self._deleted.get(record[6], 0)]
        at = 0
        while at < len(records):
            if self._only is None and not self.gaps:
                at, put = put_next_units(records, at, self._table.by_topic, self._table.batch_topics)
                self._found.rebuilt_units += put
                self._pending += put
            if at < len(records):
                self._put(records[at])
                for place in _in_lmqs(records[at]):
                    self._put(place)
                at += 1
        if self._pending > PENDING_UNITS:
            self._queue_writer.run()
            self._queue_writer.trim_tails()
            self._pending = 0

    def _put(self, record: ScannedRecord) -> None:
        """Gives a record its unit, unless its queue has it."""
        physical_offset, size, queue_id, queue_offset, stored_ms, sys_flag, topic, code, properties = record
        if sys_flag & 0xC in (0x4, 0xC) or sys_flag & INNER_BATCH or topic in self._table.batch_topics:
            return
        queue = self._queue_without(physical_offset, topic, queue_id, queue_offset)
        if queue is None or (self._only is not None and queue not in self._only):
            return
        if queue_offset > queue.max_offset and not self._reach(queue, physical_offset, queue_offset):
            return
        if queue.is_schedule:
            code = due_time(properties, stored_ms, self._delays)
        queue.tail += UNIT.pack(physical_offset, size, code)
        queue.max_offset = queue.visible = queue.announced = queue_offset + 1
        queue.last_unit_end = physical_offset + size
        self._found.rebuilt_units += 1
        self._pending += 1

    def _queue_without(
        self, physical_offset: int, topic: str, queue_id: int, queue_offset: int
    ) -> ConsumeQueue | None:
        """The queue of a record whose unit it lacks; None where it has it, or is not to get it now."""
        queue = self._table.find(topic, queue_id)
        if queue is None:
            queue_checkpoint = self._queue_checkpoint
            if (
                queue_checkpoint is not None
                and physical_offset < queue_checkpoint.durable
                and queue_checkpoint.replay_from >= self._deleted.get(topic, -1)
                and queue_id not in queue_checkpoint.queues.get(topic, ())
            ):
                # The queue checkpoint names every queue of that time: its topic was deleted, or the record is
                # damaged.
                return None
            return self._table.make(topic, queue_id, queue_offset)
        if queue in self.gaps:
            return None  # it is read once more
        if queue_offset >= queue.max_offset:
            # A record before the first one of the queue is of a topic that was deleted.
            return None if self._is_before(queue, physical_offset) else queue
        if not queue_offset and physical_offset >= queue.last_unit_end > 0 and queue not in self._goes_on:
            # Its topic was deleted and made again, or a light queue expired: what it had before is gone.
            self._begun_anew[queue] = queue.max_offset, physical_offset
            self._start_over(queue)
            return queue
        if queue_offset < queue.min_offset and self._lacks_its_first(queue, physical_offset):
            log.warning("%s lacks its first units: they are taken from the log", queue)
            self._start_over(queue)
            self.gaps.add(queue)
        return None

    def _is_before(self, queue: ConsumeQueue, physical_offset: int) -> bool:
        if physical_offset >= queue.last_unit_end or queue.max_offset <= queue.min_offset:
            return False
        unit = self._table.unit(queue, queue.min_offset)
        return unit is not None and physical_offset < unit[0]

    def _start_over(self, queue: ConsumeQueue) -> None:
        self._queue_writer.files.forget(queue)
        start_over(self._table, queue)

    def _reach(self, queue: ConsumeQueue, physical_offset: int, queue_offset: int) -> bool:
        """Makes a queue end at the offset of a record further on. False if the record gets no unit now: its
        offset is damaged, or the queue is read once more.
        """
        end_before, first = self._begun_anew.pop(queue, (-1, -1))
        is_written = not queue.tail and queue.written_to == queue.max_offset
        if is_written and queue.max_offset == queue.min_offset:
            # Only later messages of the queue are left: it begins here.
            self._begin_at(queue, queue_offset)
        elif queue_offset == end_before + 1:
            # It continues behind the record that seemed to start it over: the offset of that one is damaged.
            self._found.note_damage(first, "the queue offset 0 cannot be")
            self._goes_on.add(queue)
            self._start_over(queue)
            self.gaps.add(queue)
            return False
        elif not self._may_be_lost(queue, physical_offset, queue_offset):
            self._found.note_damage(physical_offset, f"the queue offset {queue_offset} cannot be")
            return False
        elif not self._fills_gaps:
            self.gaps.add(queue)
            return False
        elif is_written and queue.last_unit_end <= self._log.min_physical:
            # Retention has taken all that its files know of, and a power cut the files behind.
            start_over(self._table, queue)
            self._begin_at(queue, queue_offset)
        else:
            missing = queue_offset - queue.max_offset
            log.error("%s: the log lacks %d of its messages", queue, missing)
            queue.tail += BLANK_UNIT * missing
            queue.max_offset += missing
            self._found.lost_units += missing
        return True

    def _begin_at(self, queue: ConsumeQueue, queue_offset: int) -> None:
        set_end(queue, queue_offset)
        queue.min_offset = queue.base = queue_offset

    def _lacks_its_first(self, queue: ConsumeQueue, physical_offset: int) -> bool:
        """True if a message of the log comes before all units in the files of its queue.

        Retention takes files of a queue only behind the log; a power cut may keep that and not this.
        """
        if self._only is not None:
            return False
        if queue.max_offset == queue.min_offset:
            return True
        unit = self._table.unit(queue, queue.min_offset)
        return unit is not None and physical_offset < unit[0]

    def _may_be_lost(self, queue: ConsumeQueue, physical_offset: int, queue_offset: int) -> bool:
        """True if the log can have lost all messages of a queue before a record: a queue offset that is
        damaged, for which nothing else in the record has a checksum, would make up more than there ever were.
        """
        if physical_offset < queue.last_unit_end:
            return False  # Later messages have their units.
        # Segments that retention took may have been among them.
        room = physical_offset - min(self._log.min_physical, queue.last_unit_end)
        return queue_offset - queue.max_offset <= room // FIXED_BYTES


def _in_lmqs(record: ScannedRecord) -> list[ScannedRecord]:
    """The record as the light message queues that it is in, too, have it."""
    physical_offset, size, _, _, stored_ms, sys_flag, topic, code, properties = record
    if sys_flag & 0xC in (0x4, 0xC) or sys_flag & INNER_BATCH:
        return []
    return [
        (physical_offset, size, 0, queue_offset, stored_ms, 0, name, code, b"")
        for name, queue_offset in lmq_places(topic, properties)
    ]


def start_over(table: QueueTable, queue: ConsumeQueue) -> None:
    """Removes all units of a queue, with their files."""
    folder = queue_folder(table.folder, queue)
    for start in table.file_starts(queue):
        table.disk.remove(folder / segment_name(start))
    table.reading.forget(queue)
    queue.min_offset = queue.last_unit_end = 0
    set_end(queue, 0)

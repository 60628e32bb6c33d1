"""Opening a store: where the log ends, and queues that say the same as the log.

The log is the only truth. After a clean stop its end is where the files say. After a crash queues go back to
where the queue checkpoint says that they are on the disk, everything since is read from the log again, the
first record that is not sound ends it, and what queues lack is put back. Without a queue checkpoint that can
be relied on, reading begins with the segment that the checkpoint names. A queue checkpoint of another log
shows that queues and index are not of this one, either: they are made again.

Before the last sync point an unsound record is no torn end but damage: it is stepped over and counted, so
that the sound messages behind it stay.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from orbitmq.protocol.delay_levels import delays_ms
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.records.scans import ScannedRecord, Stop
from orbitmq.store.errors import StoreCorrupt
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segment import Segment
from orbitmq.store.log.sound_records import next_record_in, record_checksum, record_in
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.consume_queue import ConsumeQueue, QueueTable
from orbitmq.store.queue.loading import drop_units_from, set_end, wipe_behind
from orbitmq.store.queue.writer import QueueWriter
from orbitmq.store.recovery.checkpoint import Checkpoint
from orbitmq.store.recovery.missing_units import MissingUnits, start_over
from orbitmq.store.recovery.queue_checkpoint import QueueCheckpoint
from orbitmq.store.recovery.recovered import Recovered

log = logging.getLogger(__name__)

CHUNK_BYTES = 4 << 20
"""Bytes of the log that are read at a time; larger records are read on their own."""


class Recovery:
    """One opening of a store."""

    def __init__(
        self,
        options: StoreOptions,
        commit_log: CommitLog,
        table: QueueTable,
        queue_writer: QueueWriter,
        checkpoint: Checkpoint,
        queue_checkpoint: QueueCheckpoint | None,
        clean: bool,
        deleted: Mapping[str, int],
    ) -> None:
        """`deleted` has topics that were deleted, with the end of the log then."""
        self._options = options
        self._log = commit_log
        self._table = table
        self._queue_writer = queue_writer
        self._checkpoint = checkpoint
        self.queue_checkpoint = queue_checkpoint
        """None where they do not count."""
        self.is_other_log = False
        """The folder's log is not the one that its other files were made of."""
        self._clean = clean
        self._deleted = deleted
        self.found = Recovered()

    def run(self) -> Recovered:
        """Finds the end of the log and makes the queues agree with it. Raises StoreCorrupt, OSError."""
        self._check_nothing_is_missing()
        if not self._log.segments:
            # Without a log there is nothing that these queues could point to.
            self._forget_queues()
            return self.found
        if self.queue_checkpoint is not None and not self.queue_checkpoint.are_of(self._log):
            log.warning(
                "%s is another log than that of queues and index: they are made anew", self._log.folder
            )
            self.is_other_log, self.queue_checkpoint = True, None
            self._forget_queues()
            self._queue_writer.run()  # Their files go before new ones of the same names are opened.
        begins = self._forget_deleted_topics()
        damaged = self._damaged_queues()
        if self._clean and not damaged and not self._table.is_damaged and self._ends_as_marked():
            return self.found
        self.found.scanned = True
        queue_checkpoint = self.queue_checkpoint
        marked = None if queue_checkpoint is None else self._marked_start(queue_checkpoint)
        if queue_checkpoint is not None and marked is not None and not self._clean:
            self._go_back_to(queue_checkpoint)
        begin = min([self._begin(marked), *begins, *map(self._segment_start, damaged)])
        self.found.read_from = begin
        units = MissingUnits(
            self._log,
            self._table,
            self._queue_writer,
            queue_checkpoint,
            self.found,
            delays_ms(self._options.message_delay_level),
            self._deleted,
        )
        end, torn = self._replay(begin, units)
        if units.gaps:
            again_from = min(map(self._segment_start, units.gaps))
            units.read_again()
            self._replay(again_from, units)
        self._end_log(begin, end, torn)
        return self.found

    def _forget_queues(self) -> None:
        for queue in self._table.all():
            self._queue_writer.mark_deleted(self._table.remove_topic(queue.topic))

    def _forget_deleted_topics(self) -> list[int]:
        """Lets go of the queues of deleted topics whose files are still there, and of what the queue
        checkpoint says of them; gives the places from which the log has the messages of topics that were made
        anew under these names.
        """
        queue_checkpoint, begins = self.queue_checkpoint, []
        for topic, log_end in self._deleted.items():
            queues = self._table.of(topic).values()
            old = [queue for queue in queues if 0 < queue.last_unit_end <= log_end]
            for queue in old:
                self._table.remove(queue)
            self._queue_writer.mark_deleted(old)
            is_named = (
                queue_checkpoint is not None
                and queue_checkpoint.replay_from < log_end
                and queue_checkpoint.queues.pop(topic, None) is not None
            )
            if old or is_named:
                begins.append(log_end)
        if begins:
            self._queue_writer.run()  # Their files go before new ones of the same names are opened.
        return begins

    def _check_nothing_is_missing(self) -> None:
        """Refuses a log that ends before what was on the disk: a segment was removed, or a disk is not there.

        To continue would be to throw away what was acknowledged, and its queues with it.
        """
        queue_checkpoint, segments = self.queue_checkpoint, self._log.segments
        end = segments[-1].end if segments else 0
        if queue_checkpoint is not None and end < queue_checkpoint.durable:
            raise StoreCorrupt(
                self._log.folder,
                f"the segments from {end} on are missing: the log had {queue_checkpoint.durable} bytes",
                "restore them (is the disk mounted?), or remove queuemarks.json to go on without them",
            )

    def _segment_start(self, queue: ConsumeQueue) -> int:
        """The start of the segment with the first message that the files of a queue do not know."""
        segments = self._log.segments
        segment = self._log.find(queue.last_unit_end)
        if segment is not None:
            return segment.start
        return segments[0 if queue.last_unit_end < segments[0].start else -1].start

    def _damaged_queues(self) -> list[ConsumeQueue]:
        """Queues that had more units at the last checkpoint than their files have now."""
        if self.queue_checkpoint is None:
            return []
        damaged = []
        for topic, queues in self.queue_checkpoint.queues.items():
            for queue_id, (first, after) in queues.items():
                queue = self._table.find(topic, queue_id)
                if queue is None:
                    if after > first:
                        damaged.append(self._table.make(topic, queue_id))
                elif queue.max_offset < after or queue.min_offset > first:
                    if queue.min_offset > first and queue.max_offset > queue.min_offset:
                        start_over(self._table, queue)
                    damaged.append(queue)
        for queue in damaged:
            log.warning("%s lacks units: they are taken from the log", queue)
        return damaged

    def _ends_as_marked(self) -> bool:
        """True if the log ends with the record that was noted at the clean stop."""
        queue_checkpoint = self.queue_checkpoint
        if queue_checkpoint is None or queue_checkpoint.last_record < 0:
            return False
        segment = self._log.find(queue_checkpoint.last_record)
        if segment is None:
            return False
        position = queue_checkpoint.last_record - segment.start
        try:
            record = decode_record(
                segment.file.read(position, queue_checkpoint.end - queue_checkpoint.last_record)
            )
        except BadRecord:
            return False
        if (
            record.physical_offset != queue_checkpoint.last_record
            or record.physical_offset + record.size != queue_checkpoint.end
        ):
            return False
        behind = segment.file.read(position + record.size, 8)
        following = self._log.segments[-1].start
        if any(behind) or (following > segment.start and self._log.segments[-1].file.read(0, 8).strip(b"\0")):
            return False
        self.found.last_record = queue_checkpoint.last_record
        self.found.last_timestamp_ms = record.store_timestamp
        self._log.end_at(queue_checkpoint.end)
        self._log.durable = queue_checkpoint.end
        return True

    def _begin(self, marked: int | None) -> int:
        """First position to read: the latest one before which everything is in the queues for sure."""
        segments = self._log.segments
        if self._table.is_damaged:
            return segments[0].start
        return segments[self._start_segment()].start if marked is None else marked

    def _marked_start(self, queue_checkpoint: QueueCheckpoint) -> int | None:
        """The position from which the queue checkpoint leaves the log to be read; None where the record that
        they name is not in it: another log may have been restored.
        """
        start = queue_checkpoint.replay_from
        first = self._log.min_physical
        if 0 <= start < first:
            return first  # Retention has taken that record since; what is left has to be read.
        checksum = record_checksum(self._log, start)
        return None if checksum is None or checksum != queue_checkpoint.known.get(start) else start

    def _go_back_to(self, queue_checkpoint: QueueCheckpoint) -> None:
        """Has queues end with what was on the disk for sure: of units that came later a power cut may have
        kept a half, or the second without the first. A queue that the queue checkpoint does not name came
        later.
        """
        for queue in self._table.all():
            _, after = queue_checkpoint.queues.get(queue.topic, {}).get(queue.queue_id, (0, 0))
            end = max(after, queue.min_offset)
            if end < queue.max_offset:
                set_end(queue, end)
                last = self._table.unit(queue, end - 1) if end > queue.min_offset else None
                queue.last_unit_end = 0 if last is None else last[0] + last[1]

    def _start_segment(self) -> int:
        """The newest segment whose first record surely is in the queues, as far as the checkpoint says."""
        segments = self._log.segments
        dispatch_from = max((queue.last_unit_end for queue in self._table.all()), default=-1)
        oldest = max(0, len(segments) - self._options.commit_log_recover_max_num)
        if not self._table.count:
            # Without any queue all that is in the log has to be found again.
            return 0
        for index in range(len(segments) - 1, oldest - 1, -1):
            record = record_in(segments[index], 0)
            if record is None or record[4] <= 0:
                continue
            if self._clean:
                if record[0] <= dispatch_from:
                    return index
            elif record[4] <= self._checkpoint.dispatch_time_ms:
                return index
        return oldest

    # Reading the log.

    def _replay(self, begin: int, units: MissingUnits) -> tuple[int, bool]:
        """Reads from a record on; gives the end of the log, and whether anything unsound is behind it."""
        end = begin
        for segment in self._log.segments:
            if segment.end <= begin:
                continue
            position, torn = self._replay_segment(segment, max(0, begin - segment.start), units)
            end = segment.start + position
            if position < segment.size:
                following = self._log.find(segment.end)
                return end, torn or (following is not None and any(following.file.read(0, 8)))
        return end, False

    def _replay_segment(self, segment: Segment, position: int, units: MissingUnits) -> tuple[int, bool]:
        """Reads a segment from a position on; gives the one behind its last record (its size if the log goes
        on behind it).
        """
        chunk_bytes = CHUNK_BYTES
        while position < segment.size:
            chunk = segment.file.read(position, min(chunk_bytes, segment.size - position))
            scan = scan_records(
                chunk,
                0,
                len(chunk),
                segment.start + position,
                self._options.check_crc_on_recover,
                self._options.force_verify_prop_crc,
            )
            units.put(scan.records)
            moved = scan.position
            position += moved
            chunk_bytes = CHUNK_BYTES
            if scan.stop is Stop.BLANK:
                return segment.size, False
            if scan.stop is Stop.END and moved:
                continue
            if scan.stop is Stop.BAD and self._is_cut_by_chunk(segment, position, len(chunk) - moved):
                # A record that reaches beyond what was read: again from its beginning, with more if need be.
                if not moved:
                    chunk_bytes = self._options.max_message_size * 2 + (1 << 20)
                continue
            following = self._sound_record_behind(segment, position)
            if following < 0:
                # Bytes that were on the disk once are never cut off, whatever became of them.
                following = min(self._synced_to - segment.start, segment.size)
            if following <= position:
                return position, scan.stop is Stop.BAD
            self.found.note_damage(segment.start + position, scan.reason)
            position = following
        return segment.size, False

    @property
    def _synced_to(self) -> int:
        """The log was on the disk up to here at the last checkpoint for sure; 0 if unknown."""
        return self.queue_checkpoint.durable if self.queue_checkpoint is not None else 0

    def _is_cut_by_chunk(self, segment: Segment, position: int, left: int) -> bool:
        """True if the record at a position is unsound only because its rest was not read."""
        if position + left >= segment.size:
            return False
        head = segment.file.read(position, 8)
        size = int.from_bytes(head[:4], "big", signed=True)
        return left < 8 or left < size <= min(
            self._options.max_message_size * 2 + (1 << 20), segment.size - position
        )

    def _sound_record_behind(self, segment: Segment, position: int) -> int:
        """Position at which the log continues behind a damaged record, -1 if it does not.

        It does if what follows was synced once: it is older than the checkpoint, or below the durable mark.
        """
        synced_at = self._checkpoint.physical_timestamp_ms
        if segment.start + position >= self._synced_to and synced_at <= self.found.last_timestamp_ms:
            return -1
        found = next_record_in(segment, position + 1)
        if found is not None:
            return found[0] if self._was_synced(found[1]) else -1
        following = self._log.find(segment.end)
        if following is not None:
            record = record_in(following, 0)
            if record is not None and self._was_synced(record):
                return segment.size
        return -1

    def _was_synced(self, record: ScannedRecord) -> bool:
        """True if a record was on the disk at the last checkpoint for sure."""
        return record[0] < self._synced_to or record[4] < self._checkpoint.physical_timestamp_ms

    def _end_log(self, begin: int, end: int, torn: bool) -> None:
        """Sets the end of the log, and takes everything behind it away: records, segments and units."""
        behind = self._log.max_physical - end
        if torn or not self._clean:
            self._log.truncate(end)
        else:
            self._log.end_at(end)
        if torn:
            self.found.cut_bytes = behind
            log.warning("the log ends at %d: what stood behind it was no sound record", end)
        # Pages that a dead process has left in memory are not on the disk yet.
        self._log.durable = min(begin, end)
        for segment in self._log.segments:
            if segment.end > begin:
                segment.synced = -1
        self._log.flush_again()
        for queue in self._table.all():
            drop_units_from(self._table, queue, end)
            self._queue_writer.note_unsynced(queue, wipe_behind(self._table, queue))
        # A power cut would bring back what was wiped, among the units that come now.
        self._queue_writer.sync_all()

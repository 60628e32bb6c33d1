"""The store of a broker: one folder, one owner.

The owner's thread appends and reads. `periodic_tasks()`, `flush_now` and `read_cold` may run in other
threads beside it; they change nothing that the owner reads halfway. See ARCHITECTURE.md for who changes what.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

from orbitmq.protocol.delay_levels import delays_ms
from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.protocol.records.message import BLANK_BYTES, StoredMessage
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.store import failpoints
from orbitmq.store.checkpointing import Checkpointing
from orbitmq.store.errors import CannotTruncate, DiskStalled, FlushFailed, StoreCorrupt, StoreUnavailable
from orbitmq.store.files import NO_SPACE, Disk, NoFile, RealDisk, replace_file
from orbitmq.store.index.index_table import Index
from orbitmq.store.lock import StoreLock
from orbitmq.store.log.append_cy import Limits, append_messages
from orbitmq.store.log.commit_log import CommitLog, Segment
from orbitmq.store.log.confirm import Confirm
from orbitmq.store.log.log_writer import LogWriter
from orbitmq.store.log.messages import (
    Appended,
    Cold,
    GetResult,
    GetStatus,
    PendingMessage,
    PutStatus,
    QueryResult,
)
from orbitmq.store.log.retention import Retention
from orbitmq.store.metrics import StoreFigures
from orbitmq.store.options import StoreOptions
from orbitmq.store.periodic import PeriodicTask
from orbitmq.store.queue.arrivals import Arrival, Arrivals
from orbitmq.store.queue.consume_queue import UNIT, UNIT_BYTES, ConsumeQueue, QueueTable, due_time
from orbitmq.store.queue.extension import ExtensionFiles
from orbitmq.store.queue.filtering import Accept, MessageFilter
from orbitmq.store.queue.loading import load_queues
from orbitmq.store.queue.lookup import Lookup
from orbitmq.store.queue.reader import QueueReader, memory_bytes
from orbitmq.store.queue.records_cy import properties_of
from orbitmq.store.queue.scan_cy import QueueCursor
from orbitmq.store.queue.writer import QueueWriter
from orbitmq.store.recovery.checkpoint import Checkpoint
from orbitmq.store.recovery.log_recovery import Recovered, Recovery
from orbitmq.store.recovery.queue_checkpoint import QueueCheckpoint
from orbitmq.store.replica.raw_append import QueueFollower, RawAppend
from orbitmq.store.replica.truncation import boundary, completed, intend, intended, truncate
from orbitmq.store.timer.check_point import TimerMark
from orbitmq.store.timer.files import TimerFiles

log = logging.getLogger(__name__)

RECORD_OVERHEAD_BYTES = 64 << 10
"""A whole record may be this much longer than the longest body."""
PAGE_BYTES = 4096
BUSY_SHARE_OF_MEMORY = 10
"""A tenth of memory that waits for the disk is much: at a fifth Linux stops who writes (vm.dirty_ratio)."""
TRIMMED_PER_CALL = 1_000
"""Queues whose units in files are dropped from memory in one call: some ms."""
INDEX_SLICES_AT_CLOSE = 512
INDEX_SLICES_AT_QUERY = 8
INDEX_INTERVAL_MS = 100
FAR_AHEAD_MS = 366 * 24 * 3600_000
"""Store times do not go back where the clock was set back, by up to so much."""
_OUT_OF_MEMORY = MemoryError("an append ended halfway")


def _no_bits(topic: str, properties: bytes) -> bytes:
    """No filter is known."""
    return b""


class MessageStore:
    """Messages by queue, by physical offset and by key. Made by `open`, ended by `close`."""

    def __init__(self, options: StoreOptions, disk: Disk, lock: StoreLock) -> None:
        self.options = options
        self._disk = disk
        self._lock = lock
        root = options.root
        self._sync = options.sync_flush
        self._delays = delays_ms(options.message_delay_level)
        self._checkpoint = Checkpoint.load(disk, root / "checkpoint")
        self._cut = intended(disk, root)
        """Target end of a truncation that the last process did not complete."""
        self._log = CommitLog.load(disk, root / "commitlog", options.mapped_file_size_commit_log, self._cut)
        self._queues = QueueTable(
            disk, root / "consumequeue", options.mapped_file_size_consume_queue, self._sync
        )
        self._queues.extended = options.enable_consume_queue_ext
        self._extension = ExtensionFiles(
            disk, root / "consumequeue_ext", options.mapped_file_size_consume_queue_ext, self._queues
        )
        self._queue_writer = QueueWriter(
            disk, self._queues, self._extension, options.flush_consume_queue_least_pages
        )
        self.filter_bits: Callable[[str, bytes], bytes] = _no_bits
        """(topic, properties) -> the bit map of a unit's extension; set by whoever knows the filters."""
        self._index = Index(
            disk,
            root / "index",
            self._log,
            self._checkpoint,
            options.max_hash_slot_num,
            options.max_index_num,
            options.message_index_enable and options.index_file_write_enable,
        )
        self._retention = Retention(options, disk, self._log, self._follow_log)
        self._limits = Limits(options.enabled_append_prop_crc)
        self._confirm = Confirm(self._log, self._sync)
        self._arrivals = Arrivals(self._log, self._queues, self._extension, self._confirm)
        self._lookup = Lookup(
            self._log, self._queues, self._arrivals, self._extension, options.enabled_append_prop_crc
        )
        self._reader = QueueReader(options, self._log, self._queues, self._arrivals, self._extension)
        self._raw = RawAppend(self._log, options.max_message_size + RECORD_OVERHEAD_BYTES)
        self._follower = QueueFollower(self._queues, self._extension, self._delays, self._arrivals.dirty)
        self._writer = LogWriter(self._queues.by_topic)
        self.takes_messages = True
        """True if anything but a master's log is stored: only while this broker is master itself."""
        self._last_timestamp = 0
        self._last_record = -1
        self._unfinished_cut: int | None = None
        """The end of a truncation that failed on its way, for want of room for instance."""
        self._half_done: BaseException | None = None
        """The error that ended an append or a truncation halfway; the store then accepts nothing more."""
        self._checkpointing = Checkpointing(
            options,
            disk,
            self._log,
            self._queues,
            self._queue_writer,
            self._index,
            self._arrivals,
            self._checkpoint,
            lambda: (self._last_timestamp, self._last_record),
        )
        self._last_thorough = 0
        self._closed = False
        self._disk_full = ""
        self._busy_bytes = memory_bytes() // BUSY_SHARE_OF_MEMORY
        self.busy_refusals = 0
        """Messages that were not taken since the disk had stalled."""
        self.recovered = Recovered()
        self.timers: TimerFiles | None = None
        """The files of timer messages; None where they are switched off."""
        self.timer_mark: TimerMark | None = None
        """State of the timers when their owner stopped; `close` writes it."""

    # Opening and closing.

    @classmethod
    def open(cls, options: StoreOptions, now_ms: int, disk: Disk | None = None) -> MessageStore:
        """Locks the folder, reads what is there and brings it in order.

        Raises StoreLocked, StoreCorrupt; OSError where the disk fails.
        """
        root = options.root
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreCorrupt(
                root, f"cannot be made a data folder ({error.strerror})", "choose another one"
            ) from None
        lock = StoreLock.acquire(root)
        try:
            store = cls(options, disk or RealDisk(), lock)
            store._start(now_ms)
        except FileExistsError as error:
            lock.release()
            path = Path(error.filename or root)
            raise StoreCorrupt(path, "is a file where a folder has to be", "move it away") from None
        except NoFile as error:
            lock.release()
            raise StoreCorrupt(Path(error.filename), "is no regular file", "move it away") from None
        except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
            lock.release()
            path = Path(error.filename or root)
            raise StoreCorrupt(
                path, f"cannot be used ({error.strerror})", "make it readable and writable for this user"
            ) from None
        except BaseException:
            lock.release()
            raise
        return store

    def _start(self, now_ms: int) -> None:
        root = self.options.root
        disk = self._disk
        disk.make_folder(root / "consumequeue")
        disk.make_folder(root / "config")
        cut = self._cut
        clean = "abort" not in disk.names(root) and cut is None
        self._write_abort()
        if cut is not None:
            log.warning("%s: a truncation of the log to %d had not ended: it is carried out now", root, cut)
            self._log.truncate(cut)
            self._checkpoint.index_timestamp_ms = 0  # the newest index file may be half cut
        self._queues.batch_topics = frozenset(disk.names(root / "batchconsumequeue"))
        if self._queues.batch_topics:
            log.warning(
                "batch queues are not supported: topics %s can be neither read nor written",
                ", ".join(sorted(self._queues.batch_topics)),
            )
        load_queues(self._queues)
        queue_checkpoint = QueueCheckpoint.load(disk, root, self._checkpoint.mark) if cut is None else None
        recovery = Recovery(
            self.options,
            self._log,
            self._queues,
            self._queue_writer,
            self._checkpoint,
            queue_checkpoint,
            clean,
        )
        self.recovered = found = recovery.run()
        try:
            self._queue_writer.run()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            log.error("rebuilt consume queues cannot be written: %s; no messages are taken", error)
        self._queue_writer.trim_tails()
        if found.scanned:
            log.info(
                "%s: recovered%s; the log was read from %d on and ends at %d, %d queue entries were put "
                "back, %d bytes cut off",
                *(root, "" if clean else " after an end that was not in order", found.read_from),
                *(self._log.max_physical, found.rebuilt_units, found.cut_bytes),
            )
        self._last_record = found.last_record
        # No checksum is over a time: one that far ahead is damaged, and must not become that of new records.
        is_time = found.last_timestamp_ms < now_ms + FAR_AHEAD_MS
        self._last_timestamp = found.last_timestamp_ms if is_time else now_ms
        for physical_offset in found.bad_records:
            self._reader.note_bad(physical_offset, "", -1, -1)
        self._queue_writer.raise_min_offsets(self._log.min_physical)
        self._index.load(clean, recovery.queue_checkpoint, anew=recovery.is_other_log)
        self._reader.opened_end = self._log.max_physical
        self._arrivals.begin()
        self._last_thorough = now_ms
        self._checkpointing.begin(now_ms, self._log.max_physical if clean else self._log.min_physical)
        if not self._log.segments:
            self._log.ensure_space(0)
        self._log.reserve_ahead()
        if self.options.timer_wheel_enable:
            self._open_timers(clean, now_ms)
            if cut is not None:
                self._cut_timers(now_ms)
        if cut is not None:
            self._checkpointing.save_all()
            completed(disk, root)

    def _open_timers(self, clean: bool, now_ms: int) -> None:
        first = max(0, self.min_offset(TIMER_TOPIC, 0))

        def physical_of(queue_offset: int) -> int:
            queue = self._queues.find(TIMER_TOPIC, 0)
            unit = None if queue is None else self._queues.unit(queue, max(first, queue_offset))
            return self._log.max_physical if unit is None else unit[0]

        self.timers = TimerFiles.open(
            self.options,
            self._disk,
            self._log,
            # A replica has messages that its readers do not see yet, and they wait like the others.
            queue_range=(first, self.queue_end(TIMER_TOPIC, 0)),
            physical_of=physical_of,
            clean=clean,
            now_ms=now_ms,
        )

    def _write_abort(self) -> None:
        """Marks the folder as in use. At no moment is a mark that was there missing: it tells of a crash."""
        replace_file(self._disk, self.options.root / "abort", str(os.getpid()).encode())

    def close(self) -> None:
        """Writes and flushes everything and lets go of the folder. Blocks; may be called twice.

        The mark of an orderly end is left only where everything got to the disk.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._log.flush()
            # Units go to their files, whatever replicas have: what is in the log counts at the next start.
            self.replicas_reached(None)
            self._arrivals.show_confirmed()
            self._queue_writer.run()
            self._queue_writer.trim_tails()
            self._index.build(self._log.max_physical, self._last_timestamp, INDEX_SLICES_AT_CLOSE)
            if self._half_done is None:
                self._checkpointing.save_all()
            if self.timers is not None:
                self.timers.close(self.timer_mark)
            if self._log.flush_error is None and self._index.sync_error is None and self._half_done is None:
                self._disk.remove(self.options.root / "abort")
        except (OSError, FlushFailed) as error:
            log.error("the store could not be closed in order: %s", error)
        finally:
            self._writer.view = memoryview(b"")
            self._queue_writer.close()
            self._queues.close()
            self._extension.close()
            self._index.close()
            if self.timers is not None:
                self.timers.close(None)
            self._log.close()
            self._lock.release()

    # Appending.

    def append(self, message: PendingMessage, now_ms: int) -> Appended:
        """Stores one message."""
        return self.append_many([message], now_ms)[0]

    def append_many(
        self, messages: Sequence[PendingMessage], now_ms: int, answers: list[Appended] | None = None
    ) -> list[Appended]:
        """Stores messages and batches in order; one answer each, for those that cannot be stored as well.

        Answers go into `answers`, if given, an empty list. Where this raises, for want of memory for
        instance, that list holds those of the first messages, and none of the others is stored: so who
        has to know what is in the log does not depend on this call's coming back.
        """
        if not isinstance(messages, list):
            messages = list(messages)
        results: list[Appended] = [] if answers is None else answers
        if not messages:
            return results
        if not self.takes_messages or self._refusal():
            results += [Appended(PutStatus.SERVICE_NOT_AVAILABLE) for _ in messages]
            return results
        if self.is_page_cache_busy:
            self.busy_refusals += len(messages)
            results += [Appended(PutStatus.OS_PAGE_CACHE_BUSY) for _ in messages]
            return results
        if self._queue_writer.written:
            self._queue_writer.trim_tails(TRIMMED_PER_CALL)
        if now_ms > self._last_timestamp:
            self._last_timestamp = now_ms
        commit_log = self._log
        limits = self._limits
        limits.max_body_bytes = self.options.max_message_size
        limits.max_batch_bytes = commit_log.segment_bytes - BLANK_BYTES
        limits.max_record_bytes = min(
            self.options.max_message_size + RECORD_OVERHEAD_BYTES, limits.max_batch_bytes
        )
        index = 0
        segment = commit_log.segments[-1]
        while True:
            answered = len(results)
            try:
                index, segment.wrote, needed = append_messages(
                    messages,
                    index,
                    segment.view,
                    segment.wrote,
                    segment.reserved,
                    segment.start,
                    self._last_timestamp,
                    self._queues.by_topic,
                    self._make_queue,
                    self._special_code,
                    limits,
                    results,
                    self._arrivals.dirty,
                )
            except BaseException as error:
                self._half_done = error
                del results[answered:]
                self._roll_back(self._queues_of(messages), segment)
                self._half_done = None
                raise
            if not needed:
                break
            try:
                segment = commit_log.ensure_space(needed)
            except DiskStalled:
                self.busy_refusals += len(messages) - index
                results += [Appended(PutStatus.OS_PAGE_CACHE_BUSY) for _ in messages[index:]]
                break
            except OSError as error:
                results += self._no_room(error, len(messages) - index)
                break
            self._disk_full = ""
        if failpoints.armed:
            failpoints.hit("commitlog.after_append")
        for appended in reversed(results):
            if appended.status is PutStatus.PUT_OK:
                units = appended.units
                self._last_record = UNIT.unpack_from(units, -20)[0] if units else appended.physical_offset
                break
        return results

    def reserve(self, now_ms: int) -> LogWriter | None:
        """The end of the log, to write records there; None if `append_many` has to decide."""
        if failpoints.armed:
            return None
        if not self.takes_messages or self._refusal() or self.is_page_cache_busy:
            return None
        if self._queue_writer.written:
            self._queue_writer.trim_tails(TRIMMED_PER_CALL)
        if now_ms > self._last_timestamp:
            self._last_timestamp = now_ms
        segment = self._log.segments[-1]
        writer = self._writer
        writer.view = segment.view
        writer.position = segment.wrote
        writer.limit = segment.reserved
        writer.segment_start = segment.start
        writer.store_timestamp = self._last_timestamp
        writer.dirty = self._arrivals.dirty
        writer.property_crc = self.options.enabled_append_prop_crc
        most = self.options.max_message_size
        if most != writer.max_body_bytes:
            writer.max_body_bytes = most
            writer.max_record_bytes = min(most + RECORD_OVERHEAD_BYTES, self._log.segment_bytes - BLANK_BYTES)
        return writer

    def commit(self, writer: LogWriter) -> None:
        """Makes the records that were written part of the log."""
        self._log.segments[-1].wrote = writer.position
        self._last_record = writer.last_record

    def rollback(self, writer: LogWriter) -> None:
        """Undoes what was written and not committed."""
        self._half_done = _OUT_OF_MEMORY  # made before: there may be no memory for it now
        self._roll_back(list(writer.dirty), self._log.segments[-1])
        self._half_done = None

    # Following a master.

    @property
    def replica_end(self) -> int:
        """The physical offset behind everything received of a master's log, a record that is not whole
        too.
        """
        return self._raw.end

    def drop_partial_record(self) -> None:
        """Forgets the beginning of a record whose rest has not come from the master."""
        self._raw.drop_partial()

    def append_raw(self, physical_offset: int, data: bytes) -> None:
        """Appends bytes of a master's log, cut anywhere; queues follow from whole records at once.

        Raises NotTheMasters for bytes that do not continue this log, StoreUnavailable where nothing is
        taken now, OSError where the disk has no room. Records that are whole by then are stored.
        """
        refused = self._refusal()
        if refused:
            raise StoreUnavailable(refused)
        if self._queue_writer.written:
            self._queue_writer.trim_tails(TRIMMED_PER_CALL)
        records = self._raw.append(physical_offset, data)
        if failpoints.armed:
            failpoints.hit("commitlog.after_append")
        if not records:
            return
        self._last_record = records[-1][0]
        self._last_timestamp = max(self._last_timestamp, records[-1][4])
        follower = self._follower
        follower.dirty = self._arrivals.dirty
        follower.bits_of = self.filter_bits
        done = follower.follow(records)
        while done < len(records):
            # The topic was deleted at the master and made anew, and this is its first message there.
            self.delete_queues(records[done][6])
            records = records[done:]
            done = follower.follow(records)

    def truncate_to(self, physical_offset: int, now_ms: int) -> int:
        """Makes the log end at a physical offset, now and after any crash; gives where it ends.

        Records behind the offset are taken away, acknowledged or not: the caller has decided that another
        broker's log counts, and says so to its operators. An offset within a record counts as the beginning
        of that record; one at or behind the end of the log takes away nothing but a partial record.

        Queues, index, timer files, checkpoint and the confirm offset are then those of a store that never had
        more. For the owner's thread, of a broker that is not master: rules that hold state of their own begin
        anew when it becomes one (timers from `timers`, which is another object afterwards). Views that were
        given out of what is cut off see zeros, so answers that are still being sent are to be ended before.
        Other threads may go on flushing, writing queues, indexing and reading. It blocks as long as the
        disk does, some ms where the tail is short.

        Raises CannotTruncate for an offset before the beginning of the log, StoreUnavailable where the store
        is closed or has failed, OSError or FlushFailed where the disk does. After the latter two the store
        takes nothing, and the next call or the next start completes the truncation.
        """
        is_resumed = self._unfinished_cut is not None
        if (
            self._closed
            or self._log.flush_error is not None
            or (self._half_done is not None and not is_resumed)
        ):
            raise StoreUnavailable(self._refusal())
        if physical_offset < self._log.min_physical:
            raise CannotTruncate(
                f"the log begins at {self._log.min_physical}, and was to end at {physical_offset}: "
                "start with an empty store"
            )
        self._raw.drop_partial()
        before = self._log.max_physical
        end = boundary(self._log, min(physical_offset, before))
        if end == before and not is_resumed:
            return end
        with self._checkpointing.lock:
            self._intend(end)
            try:
                self._truncate(end, now_ms)
            except BaseException as error:
                self._half_done, self._unfinished_cut = error, end
                raise
        self._half_done = self._unfinished_cut = None
        log.warning("%s: the log was cut from %d to %d, as it was told to", self.options.root, before, end)
        return end

    def _intend(self, end: int) -> None:
        try:
            intend(self._disk, self.options.root, end)
        except OSError as error:
            if self._unfinished_cut is None:
                # Nothing was cut yet, and nothing is to be cut by the next start.
                try:
                    completed(self._disk, self.options.root)
                except OSError:
                    self._half_done, self._unfinished_cut = error, end
            raise

    def _truncate(self, end: int, now_ms: int) -> None:
        changed = truncate(self._log, self._queue_writer, self._index, end)
        # What failed before has changed other queues, too.
        for queue in changed if self._unfinished_cut is None else self._queues.all():
            self._reader.forget(queue)
        self._log.reserve_ahead()
        last = self._log.last_record_before(end)
        self._last_record = -1 if last is None else last[0]
        self._last_timestamp = 0 if last is None else last[4]
        self._arrivals.cut_to(end)
        self._reader.opened_end = min(self._reader.opened_end, end)
        self._checkpointing.cut_to(end)
        if self.timers is not None:
            self._cut_timers(now_ms)
        if failpoints.armed:
            failpoints.hit("truncation.timers")
        self._checkpoint.index_timestamp_ms = min(self._checkpoint.index_timestamp_ms, self._last_timestamp)
        self._queue_writer.run()
        self._queue_writer.trim_tails()
        self._checkpointing.write_all()
        completed(self._disk, self.options.root)

    def reopen_timers(self, now_ms: int, mark: TimerMark | None = None) -> None:
        """Closes the files of timers, at the mark where their owner stopped if it tells one, and opens them
        again: their owner goes on from `timers.start`. Blocks; while nobody else uses them. Raises OSError.
        """
        if self.timers is not None:
            self.timers.close(mark)
            self._open_timers(mark is not None, now_ms)

    def _cut_timers(self, now_ms: int) -> None:
        """Opens the files of timers anew, without what they know of messages that are not in the log."""
        timers = self.timers
        assert timers is not None
        timers.go_back(self._log, self.queue_end(TIMER_TOPIC, 0))
        timers.close(None)
        self._open_timers(False, now_ms)

    def read_log(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the log for a slave, up to the end of their segment; fewer where retention has taken
        them.
        """
        return self._log.read(physical_offset, size)

    @property
    def segment_bytes(self) -> int:
        """The size of the log's segments."""
        return self._log.segment_bytes

    def _queues_of(self, messages: Iterable[PendingMessage]) -> Iterator[ConsumeQueue]:
        for message in messages:
            queue = self._queues.find(message.topic, message.queue_id)
            if queue is not None:
                yield queue

    def _roll_back(self, queues: Iterable[ConsumeQueue], segment: Segment) -> None:
        """Undoes an append that ended halfway, without memory for instance: the log ends where it ended
        before, and so do the queues. Nobody was told of what is taken back.
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

    def _no_room(self, error: OSError, count: int) -> list[Appended]:
        """Once there is room again, the next append finds it."""
        if self._disk_full != str(error):
            log.error("the commit log cannot grow: %s", error)
        self._disk_full = str(error)
        return [Appended(PutStatus.SERVICE_NOT_AVAILABLE) for _ in range(count)]

    def _refusal(self) -> str:
        """Why nothing can be stored now; empty if it can."""
        if self._closed:
            return "the store is closed"
        if self._half_done is not None:
            return f"an append or a truncation ended halfway: {self._half_done!r}"
        if self._log.flush_error is not None:
            return f"a flush of the commit log failed: {self._log.flush_error}"
        if self._retention.disk_is_full:
            return "the disk is too full"
        if self._queue_writer.sync_error is not None:
            return f"a flush of consume queues failed: {self._queue_writer.sync_error}"
        if self._queue_writer.error is not None:
            return f"consume queues cannot be written: {self._queue_writer.error}"
        return ""

    @property
    def is_page_cache_busy(self) -> bool:
        """True if the disk has stalled: a flush takes too long, and much memory is dirty.

        The kernel stops a process that writes on then sooner or later, and everybody with it. So senders are
        told to go elsewhere before.
        """
        flushing_ms = self._log.flushing_ms
        return (
            flushing_ms > self.options.os_page_cache_busy_time_out_mills
            and self._log.max_physical - self._log.durable > self._busy_bytes
        )

    @property
    def is_closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    @property
    def is_writable(self) -> bool:
        """True if messages are accepted now; `figures().refusal` gives the reason if not."""
        return not self._refusal()

    def _make_queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue for a first message, None if it can have none: its topic becomes the name of a folder."""
        length = len(topic.encode("utf-8", "replace"))
        longest = self.options.max_topic_length
        if topic.startswith("%RETRY%"):
            longest = 255
        if not self.options.auto_message_version_on_topic_len:
            longest = min(longest, 127)
        if not 0 < length <= longest or queue_id < 0 or queue_id > 0x7FFFFFFF:
            return None
        if "/" in topic or "\x00" in topic or topic in (".", "..") or topic in self._queues.batch_topics:
            return None
        return self._queues.make(topic, queue_id)

    def _special_code(self, message: PendingMessage, store_timestamp_ms: int) -> int:
        """The tags code of a delayed message, or of one whose queue has extensions."""
        topic, properties = message.topic, message.properties
        queue = self._queues.by_topic[topic][message.queue_id]
        if queue.is_schedule:
            return due_time(properties, store_timestamp_ms, self._delays)
        bits = self.filter_bits(topic, properties)
        return self._extension.append(queue, tags_code(properties), store_timestamp_ms, bits)

    # Reading.

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int = 0,
        accept: Accept = None,
        *,
        bulk: bool = False,
    ) -> GetResult:
        """Messages of a queue from an offset on, as many as one answer may hold.

        `accept` is a set of tags codes, a function of one, or a filter; None takes all. `max_bytes` 0: no
        limit but the store's. With `bulk` old messages have the limit of bytes of recent ones, and their
        number has none. A damaged record is stepped over and counted, never served.
        """
        if self._queue_writer.written:
            self._queue_writer.trim_tails(TRIMMED_PER_CALL)
        cursor = self._reader.cursor(topic, queue_id, max_count, max_bytes, accept, bulk=bulk)
        if cursor is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        result = self._reader.read(cursor, queue_offset)
        assert result is not None
        return result

    def cursor(
        self,
        topic: str,
        queue_id: int,
        max_count: int,
        max_bytes: int,
        accept: Accept,
        room: int,
        *,
        bulk: bool = False,
    ) -> QueueCursor | None:
        """A cursor with which `copy` reads a queue, as `get` would, into memory of `room` bytes.

        None where there is no such queue. Worth keeping by who reads on and on, until options change.
        """
        return self._reader.cursor(topic, queue_id, max_count, max_bytes, accept, room, bulk=bulk)

    def copy(self, cursor: QueueCursor, queue_offset: int, into: bytearray) -> GetResult | None:
        """The result of `get`, but with the records in `into`, one behind the other from its start.

        None where they have no room there (of a cursor for bulk: where the first one has none), and where the
        queue was removed.
        """
        if self._queue_writer.written:
            self._queue_writer.trim_tails(TRIMMED_PER_CALL)
        return None if cursor.queue.removed else self._reader.read(cursor, queue_offset, into)

    def read_cold(self, offset: int, size: int, queue: object | None = None) -> None:
        """Brings what `get` named as cold into memory. Blocks, without the GIL: for a thread."""
        self._reader.read_cold(offset, size, queue)

    def cold_unit(self, topic: str, queue_id: int, queue_offset: int) -> Cold | None:
        """The range that `physical_offset_of` would wait for; None where the unit is in memory or missing."""
        return self._reader.cold_unit(topic, queue_id, queue_offset)

    def cold_record(self, physical_offset: int) -> Cold | None:
        """The range that `record_at` would wait for; None where the record is in memory or missing."""
        return self._reader.cold_record(physical_offset)

    def is_resident(self, physical_offset: int, size: int) -> bool:
        """True if a range of the log can be read without waiting for the disk."""
        return self._reader.resident_to(physical_offset, size) >= physical_offset + size

    @property
    def bad_records(self) -> dict[int, tuple[str, int, int]]:
        """Damaged records that were met: physical offset -> topic, queue id, queue offset. The first 1000."""
        return self._reader.bad_records

    @property
    def bad_record_count(self) -> int:
        """Number of damaged records met since the start."""
        return self._reader.bad_record_count

    def search(self, queues: Iterable[tuple[str, int]] = ()) -> Lookup:
        """A search for a thread beside the owner: it sees these queues as they are now."""
        return self._lookup.frozen(self._queues, queues)

    def record_at(self, physical_offset: int) -> memoryview | None:
        """The record that begins at a physical offset; None if none does, or if it is damaged."""
        return self._lookup.record_at(physical_offset)

    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None:
        """The message of so many bytes at a physical offset; None if there is none, or if it is damaged."""
        return self._lookup.message_at(physical_offset, size)

    def records_from(self, physical_offset: int) -> Iterator[StoredMessage]:
        """The records of the log from a physical offset on. Reads the disk: for the start."""
        return self._log.records(physical_offset)

    def segment_before(self, time_ms: int) -> int:
        """The start of the last segment whose first record was stored before a time; of the first one if
        none was. Everything stored at that time or later stands behind it.
        """
        return self._log.segment_before(time_ms)

    def physical_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code) of a message, None if the queue does not have it."""
        return self._lookup.unit(topic, queue_id, queue_offset)

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> bytes:
        """The units of some messages of a queue from an offset on, as the queue holds them: `count` at most,
        none where the first is not there.
        """
        return self._lookup.units(topic, queue_id, queue_offset, count)

    def matches_at(self, topic: str, queue_id: int, queue_offset: int, wanted: MessageFilter) -> bool:
        """True if a filter wants a message of a queue; false for a message that is not there."""
        unit = self._lookup.unit(topic, queue_id, queue_offset)
        record = None if unit is None else self.record_at(unit[0])
        return record is not None and wanted.matches(properties_of(record, 0, len(record)))

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first queue offset that is still there; -1 for a queue that does not exist."""
        return self._lookup.min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message that readers see; 0 for a queue that does not exist."""
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else self._arrivals.end(queue)

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message, though readers may not see it; 0 for a queue that does
        not exist.
        """
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When a message was stored, in ms; -1 if it is not there."""
        return self._lookup.store_time(topic, queue_id, queue_offset)

    def store_time_at(self, physical_offset: int, size: int) -> int:
        """When a record was stored, in ms; -1 if none is there. May be called in a thread; may block."""
        return self._lookup.store_time_at(physical_offset, size)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """When the first message of a queue was stored, in ms; -1 without one."""
        return self._lookup.earliest_time(topic, queue_id)

    def store_time_from(self, physical_offset: int) -> int:
        """When the first record from a physical offset on was stored, in ms; -1 if none begins there."""
        return self._lookup.store_time_from(physical_offset)

    def earliest_store_time(self) -> int:
        """When the first message in the log was stored, in ms; -1 without one."""
        return self._lookup.earliest_store_time()

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, upper: bool = False) -> int:
        """The queue offset for a store time: of the first message stored then or later.

        With `upper` of the last message stored then or earlier. 0 for a queue that does not exist.
        """
        return self._lookup.offset_by_time(topic, queue_id, time_ms, upper)

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """True if a message is recent enough to count as in memory; false if it is not there."""
        unit = self._lookup.unit(topic, queue_id, queue_offset)
        return unit is not None and self._log.max_physical - unit[0] <= self._reader.memory_bytes

    def topics(self) -> list[str]:
        """The topics that have queues."""
        return list(self._queues.by_topic)

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic."""
        return sorted(self._queues.by_topic.get(topic, ()))

    # New records, and records on the disk.

    def drain_arrivals(self, wanted: Container[tuple[str, int]] | None = None) -> list[Arrival]:
        """(topic, queue id, queue offset behind it, tags code) of every message readers see since the last
        call.

        Only of the `wanted` queues (topic, queue id), if given; what came to others counts as told.
        """
        return self._arrivals.drain(wanted)

    @property
    def min_physical(self) -> int:
        """Physical offset of the first byte of the log."""
        return self._log.min_physical

    @property
    def max_physical(self) -> int:
        """Physical offset behind the last byte of the log."""
        return self._log.max_physical

    @property
    def last_record(self) -> int:
        """The physical offset of the newest record; -1 without one."""
        return self._last_record

    @property
    def last_timestamp_ms(self) -> int:
        """The store time of the newest record; the machine's clock may have been set back since."""
        return self._last_timestamp

    @property
    def durable_offset(self) -> int:
        """Everything below this physical offset is on the disk."""
        return self._log.durable

    @property
    def confirm_offset(self) -> int:
        """Everything below this physical offset is as safe as the broker promises: on the disk, at
        replicas.
        """
        return self._confirm.offset

    def replicas_reached(self, replicated: int | None) -> None:
        """Takes over the physical offset up to which enough replicas hold the log; None: none has to."""
        if replicated is not None or self._confirm.replicated is not None:
            self._arrivals.replicas_reached(replicated)

    def hide_all(self) -> None:
        """Takes back that all of the log counts as confirmed at the start. Readers see nothing of it until
        `replicas_reached` tells how much of it is; call it first with 0.
        """
        self._arrivals.hide_all()

    @property
    def visible_physical(self) -> int:
        """The physical offset up to which readers see the log."""
        return self._arrivals.end_of_log

    @property
    def wants_flush(self) -> bool:
        """True if readers wait for a flush: something was stored under SYNC_FLUSH and is not on the disk."""
        return self._sync and self.unflushed_bytes > 0 and self._log.flush_error is None

    def reserve_in(self, reserver: Executor) -> None:
        """Has this thread, and no other, reserve room in front of the writer. Without one the owner does."""
        self._log.reserve_in(reserver)

    def reserve_soon(self) -> None:
        """Has the thread that reserves begin now, where half of what was reserved is used up."""
        if self._log.wants_room and not self._log.is_without_room:
            self._log.reserve_soon()

    @property
    def unflushed_bytes(self) -> int:
        """Bytes that were stored and are not on the disk."""
        return max(0, self._log.max_physical - self._log.durable)

    def unflushed(self, now_ms: int) -> tuple[int, int]:
        """Bytes that were stored and are not on the disk, and the age of the oldest in ms."""
        since = self._unflushed_since()
        waiting = self.unflushed_bytes
        return waiting, max(0, now_ms - since) if waiting and since >= 0 else 0

    def _unflushed_since(self) -> int:
        """When the oldest message was stored that is not on the disk, in ms; -1 if all are.

        The log itself says so: a time noted beside it would be wrong while a flush is under way.
        """
        return self._lookup.store_time_from(self._log.durable) if self.unflushed_bytes else -1

    def flush_now(self) -> int:
        """Brings the log to the disk: the shared flush of all who wait. Blocks, without the GIL: for a
        thread.

        Gives the physical offset up to which all is on the disk. Raises FlushFailed; the store takes no
        messages from then on, and nothing that was written since the last good flush is ever acknowledged.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        timestamp = self._last_timestamp
        durable = self._log.flush()
        if self._sync:
            self._checkpoint.physical_timestamp_ms = timestamp
        return durable

    # Periodic tasks.

    def periodic_tasks(self) -> list[PeriodicTask]:
        """The periodic tasks of this store."""
        options = self.options
        flush_timers = (
            []
            if self.timers is None
            else [
                PeriodicTask(
                    "flush timers",
                    options.timer_flush_interval_ms,
                    self._flush_timers_task,
                    in_thread=True,
                )
            ]
        )
        return [
            *flush_timers,
            PeriodicTask(
                "flush",
                options.flush_interval_commit_log,
                self._flush_task,
                in_thread=True,
                thread="flush",
            ),
            PeriodicTask(
                "reserve",
                100,
                self._reserve_task,
                in_thread=True,
                thread="reserve",
                is_wanted=lambda: self._log.wants_room or self._log.is_without_room,
            ),
            PeriodicTask(
                "write queues", options.flush_interval_consume_queue, self._write_queues, in_thread=True
            ),
            PeriodicTask(
                "index",
                INDEX_INTERVAL_MS,
                self._index_task,
                in_thread=True,
                is_wanted=lambda: self._index.behind(self._arrivals.end_of_log) > 0,
            ),
            PeriodicTask("retention", options.clean_resource_interval, self._retention_task, in_thread=True),
        ]

    def _flush_task(self, now_ms: int) -> None:
        if self._closed:
            return
        waiting = self.unflushed_bytes
        thorough = now_ms - self._last_thorough >= self.options.flush_commit_log_thorough_interval
        enough = max(1, self.options.flush_commit_log_least_pages * PAGE_BYTES)
        if waiting and (thorough or waiting >= enough or self._sync):
            timestamp = self._last_timestamp
            self.flush_now()
            self._checkpoint.physical_timestamp_ms = timestamp
        if thorough:
            self._last_thorough = now_ms

    def _flush_timers_task(self, now_ms: int) -> None:
        timers = self.timers
        if timers is not None:
            timers.flush()

    def _reserve_task(self, now_ms: int) -> None:
        if not self._closed:
            self._log.reserve_ahead()

    def _write_queues(self, now_ms: int) -> None:
        if self._closed:
            return
        self._checkpointing.run(now_ms)

    def _index_task(self, now_ms: int) -> None:
        if not self._closed:
            self._index.build(self._arrivals.end_of_log, now_ms)

    def _retention_task(self, now_ms: int) -> None:
        if not self._closed:
            self._retention.run(now_ms)

    def _follow_log(self, min_physical: int) -> None:
        """Queues and index let go of what is not in the log any more."""
        self._queue_writer.raise_min_offsets(min_physical)
        self._index.remove_before(min_physical)
        # A queue checkpoint that names what is gone would have the next start after a crash look for it in
        # all of the log.
        self._checkpointing.run_soon()

    # Administration.

    def delete_queues(self, topic: str) -> int:
        """Deletes the queues of a topic, their files with the next write of queues; returns their number."""
        queues = self._queues.remove_topic(topic)
        self._queue_writer.mark_deleted(queues)
        for queue in queues:
            self._extension.forget(queue)
        self._checkpointing.run_soon()
        return len(queues)

    def clean_queues(self) -> None:
        """Has the next round of retention look for queue and index files whose messages are gone."""
        self._retention.follow_again()

    @property
    def is_pressed(self) -> bool:
        """True if the disk is so full that waiting messages may be deleted: accept no more of them."""
        return self._retention.is_pressed

    def keep_from(self, physical_offset: int | None) -> None:
        """Keeps the log from there on, whatever its age: None where no message waits for anything."""
        self._retention.keep_from = physical_offset

    def delete_expired(self, now_ms: int) -> None:
        """Has the next rounds of retention delete segments past their time, whatever the hour."""
        self._retention.ask()

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str = "K"
    ) -> QueryResult:
        """All of `find_by_key` at once: for whoever may block."""
        steps = self.find_by_key(topic, key, max_count, begin_ms, end_ms, index_type)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                found: QueryResult = done.value
                return found

    def find_by_key(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str = "K"
    ) -> Generator[None, None, QueryResult]:
        """Messages of a topic by key (K), unique id (U) or tag (T), stored within a range of times, oldest
        first. It is work for a thread, in steps: chains of the index may be long, and on the disk.

        The index finds hashes: whoever needs certainty compares the key of each message.
        """
        end, timestamp, search = self._arrivals.end_of_log, self._last_timestamp, self.search()
        text = f"{topic}#T#{key}" if index_type == "T" else f"{topic}#{key}"
        most = max(1, min(max_count, self.options.max_msgs_num_batch))

        def steps() -> Generator[None, None, QueryResult]:
            if not self.options.index_file_read_enable:
                return QueryResult([], 0, 0)
            # Records stored a moment ago are found too, as long as they are few.
            self._index.build(end, timestamp, INDEX_SLICES_AT_QUERY)
            records: list[memoryview] = []
            found = yield from self._index.find(text, begin_ms, end_ms, most)
            for physical_offset in found:
                yield
                record = search.record_at(physical_offset)
                if record is not None:
                    records.append(record)
            return QueryResult(records, *self._index.last)

        return steps()

    def figures(self) -> StoreFigures:
        """Plain numbers about the store now."""
        commit_log = self._log
        total, free = self._disk.space(self.options.root)
        ratio = 1 - free / total if total else 0.0
        return StoreFigures(
            min_physical_offset=commit_log.min_physical,
            max_physical_offset=commit_log.max_physical,
            durable_offset=commit_log.durable,
            dispatch_behind_bytes=max(0, commit_log.max_physical - self._confirm.offset),
            index_behind_bytes=self._index.behind(commit_log.max_physical),
            unflushed_bytes=self.unflushed_bytes,
            unflushed_since_ms=self._unflushed_since(),
            earliest_store_time_ms=self.earliest_store_time(),
            commit_log_disk_ratios={str(commit_log.folder): ratio},
            consume_queue_disk_ratio=ratio,
            disk_total_bytes=total,
            disk_free_bytes=free,
            bad_records=self.bad_record_count,
            open_queue_files=len(self._queues.reading) + len(self._queue_writer.files),
            queues=sum(map(len, self._queues.by_topic.values())),
            writable=self.is_writable,
            refusal=self._refusal(),
            flushing_ms=commit_log.flushing_ms,
            busy_refusals=self.busy_refusals,
        )

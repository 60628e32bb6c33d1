"""The store of a broker: one folder, one owner. This module is its interface; each subject has its own.

The owner's thread appends and reads. `periodic_tasks()`, `flush_now` and `read_cold` may run in other
threads beside it; they change nothing that the owner reads halfway. See ARCHITECTURE.md for who changes what.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor

from orbitmq.protocol.records.message import StoredMessage
from orbitmq.store.acceptance import Acceptance
from orbitmq.store.appending import Appending
from orbitmq.store.errors import FlushFailed
from orbitmq.store.figures import StoreFigures, figures
from orbitmq.store.files import Disk, RealDisk
from orbitmq.store.flushing import Flushing
from orbitmq.store.key_search import KeySearch
from orbitmq.store.lifecycle import finish, locked, start
from orbitmq.store.lock import StoreLock
from orbitmq.store.log.log_writer import LogWriter
from orbitmq.store.log.messages import Appended, Cold, GetResult, GetStatus, PendingMessage, QueryResult
from orbitmq.store.options import StoreOptions
from orbitmq.store.periodic import PeriodicTask
from orbitmq.store.queue.arrivals import Arrival
from orbitmq.store.queue.filtering import Accept, MessageFilter
from orbitmq.store.queue.lookup import Lookup
from orbitmq.store.queue.scan_cy import QueueCursor
from orbitmq.store.queue.writer import TRIMMED_PER_CALL
from orbitmq.store.replica.following import Following
from orbitmq.store.replica.truncation import Truncation, intended
from orbitmq.store.structures import Structures
from orbitmq.store.tasks import periodic_tasks
from orbitmq.store.timer.check_point import TimerMark
from orbitmq.store.timer.current import CurrentTimers
from orbitmq.store.timer.files import TimerFiles

log = logging.getLogger(__name__)


class MessageStore:
    """Messages by queue, by physical offset and by key. Made by `open`, ended by `close`."""

    def __init__(self, options: StoreOptions, disk: Disk, lock: StoreLock, now_ms: int) -> None:
        self.options = options
        self._lock = lock
        cut = intended(disk, options.root)
        self.structures = structures = Structures(options, disk, cut)
        """The log and what is derived from it. Rules use the methods of the store instead."""
        self._log = structures.log
        self._newest = structures.newest
        self._queues = structures.queues
        self._queue_writer = structures.queue_writer
        self._index = structures.index
        self._arrivals = structures.arrivals
        self._lookup = structures.lookup
        self._reader = structures.reader
        self._retention = structures.retention
        self._acceptance = Acceptance(options, self._log, self._queue_writer, self._retention)
        self._appending = Appending(options, structures, self._acceptance)
        self._flushing = Flushing(options, structures, self._acceptance)
        self._timers = CurrentTimers(options, disk, self._log, self._queues)
        self._following = Following(options, structures, self._acceptance)
        self._truncation = Truncation(
            options, structures, self._timers, self._following.raw, self._acceptance
        )
        self._key_search = KeySearch(options, structures)
        self.timer_mark: TimerMark | None = None
        """State of the timers when their owner stopped; `close` writes it."""
        self.recovered = start(options, structures, self._timers, cut, now_ms)
        self._flushing.begin(now_ms)

    # Opening and closing.

    @classmethod
    def open(cls, options: StoreOptions, now_ms: int, disk: Disk | None = None) -> MessageStore:
        """Locks the folder, reads what is there and brings it in order.

        Raises StoreLocked, StoreCorrupt; OSError where the disk fails.
        """
        with locked(options.root) as lock:
            return cls(options, disk or RealDisk(), lock, now_ms)

    def close(self) -> None:
        """Writes and flushes everything and lets go of the folder. Blocks; may be called twice.

        The mark of an orderly end is left only where everything got to the disk.
        """
        if self._acceptance.is_closed:
            return
        self._acceptance.is_closed = True
        try:
            finish(self.options, self.structures, self._timers, self.timer_mark, self._acceptance)
        except (OSError, FlushFailed) as error:
            log.error("the store could not be closed in order: %s", error)
        finally:
            self._appending.close()
            self.structures.close()
            self._timers.close(None)
            self._log.close()
            self._lock.release()

    def abandon(self) -> None:
        """Releases the folder, as the end of the process does; nothing more is written."""
        self._acceptance.is_closed = True
        self._lock.release()

    @property
    def timers(self) -> TimerFiles | None:
        """The files of timer messages; None where they are switched off."""
        return self._timers.files

    @property
    def takes_messages(self) -> bool:
        """True if anything but a master's log is stored: only while this broker is master itself."""
        return self._acceptance.takes_messages

    @takes_messages.setter
    def takes_messages(self, takes_messages: bool) -> None:
        self._acceptance.takes_messages = takes_messages

    def filter_with(self, bits_of: Callable[[str, bytes], bytes]) -> None:
        """Takes over what gives the bit map of a unit's extension, of topic and properties."""
        self.structures.extension.bits_of = bits_of

    # Appending.

    def append(self, message: PendingMessage, now_ms: int) -> Appended:
        """Stores one message."""
        return self.append_many([message], now_ms)[0]

    def append_many(
        self, messages: Sequence[PendingMessage], now_ms: int, answers: list[Appended] | None = None
    ) -> list[Appended]:
        """Stores messages and batches in order; one answer each, for those that cannot be stored as well.

        Answers go into `answers`, if given, an empty list. If this raises, for want of memory for
        instance, that list holds those of the first messages, and none of the others is stored: so who
        has to know what is in the log does not depend on this call's coming back.
        """
        if not isinstance(messages, list):
            messages = list(messages)
        results: list[Appended] = [] if answers is None else answers
        return self._appending.append_many(messages, now_ms, results) if messages else results

    def reserve(self, now_ms: int) -> LogWriter | None:
        """The end of the log, to write records there; None if `append_many` has to decide."""
        return self._appending.reserve(now_ms)

    def commit(self, writer: LogWriter) -> None:
        """Makes the records that were written part of the log."""
        self._appending.commit(writer)

    def rollback(self, writer: LogWriter) -> None:
        """Undoes what was written and not committed."""
        self._appending.rollback(writer)

    # Following a master.

    @property
    def replica_end(self) -> int:
        """The physical offset behind everything received of a master's log, even of a partial record."""
        return self._following.raw.end

    def drop_partial_record(self) -> None:
        """Forgets the beginning of a record whose rest has not come from the master."""
        self._following.raw.drop_partial()

    def append_raw(self, physical_offset: int, data: bytes | memoryview) -> None:
        """Appends bytes of a master's log, cut anywhere; queues follow from whole records at once.

        Raises NotTheMasters for bytes that do not continue this log, StoreUnavailable where nothing is
        taken now, OSError where the disk has no room. Records that are whole by then are stored.
        """
        self._following.append(physical_offset, data)

    def truncate_to(self, physical_offset: int, now_ms: int) -> int:
        """Makes the log end at a physical offset, now and after any crash; gives where it ends.

        Records behind it are taken away, acknowledged or not. See `Truncation.run` for the effects, the
        errors, and what the caller has to do before and afterwards.
        """
        return self._truncation.run(physical_offset, now_ms)

    def reopen_timers(self, now_ms: int, mark: TimerMark | None = None) -> None:
        """Closes the files of timers, at the mark where their owner stopped if it gives one, and opens them
        again: their owner goes on from `timers.start`. Blocks; while nobody else uses them. Raises OSError.
        """
        self._timers.reopen(now_ms, mark)

    def read_log(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the log for a slave, of one segment; fewer where retention has taken them."""
        return self._log.read(physical_offset, size)

    @property
    def segment_bytes(self) -> int:
        """The size of the log's segments."""
        return self._log.segment_bytes

    @property
    def is_closed(self) -> bool:
        """True once `close` was called."""
        return self._acceptance.is_closed

    @property
    def is_writable(self) -> bool:
        """True if messages are accepted now; `figures().refusal` gives the reason if not."""
        return not self._acceptance.refusal()

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
        """The units of up to `count` messages of a queue from an offset on; none if the first is missing."""
        return self._lookup.units(topic, queue_id, queue_offset, count)

    def matches_at(self, topic: str, queue_id: int, queue_offset: int, wanted: MessageFilter) -> bool:
        """True if a filter wants a message of a queue; false for a message that is not there."""
        return self._lookup.matches_at(topic, queue_id, queue_offset, wanted)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first queue offset that is still there; -1 for a queue that does not exist."""
        return self._lookup.min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message that readers see; 0 for a queue that does not exist."""
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else self._arrivals.end(queue)

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message, visible or not; 0 for a queue that does not exist."""
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Store time of a message, in ms; -1 if it is not there."""
        return self._lookup.store_time(topic, queue_id, queue_offset)

    def store_time_at(self, physical_offset: int, size: int) -> int:
        """Store time of a record, in ms; -1 if none is there. May be called in a thread; may block."""
        return self._lookup.store_time_at(physical_offset, size)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Store time of the first message of a queue, in ms; -1 without one."""
        return self._lookup.earliest_time(topic, queue_id)

    def store_time_from(self, physical_offset: int) -> int:
        """Store time of the first record from a physical offset on, in ms; -1 if none begins there."""
        return self._lookup.store_time_from(physical_offset)

    def earliest_store_time(self) -> int:
        """Store time of the first message in the log, in ms; -1 without one."""
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

        Only of the `wanted` queues (topic, queue id), if given; what came to others counts as notified.
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
        return self._newest.physical_offset

    @property
    def last_timestamp_ms(self) -> int:
        """The store time of the newest record; the machine's clock may have been set back since."""
        return self._newest.timestamp_ms

    @property
    def durable_offset(self) -> int:
        """Everything below this physical offset is on the disk."""
        return self._log.durable

    @property
    def confirm_offset(self) -> int:
        """Everything below this physical offset is as safe as promised: on the disk, at replicas."""
        return self.structures.confirm.offset

    def replicas_reached(self, replicated: int | None) -> None:
        """Takes over the physical offset up to which enough replicas hold the log; None: none has to."""
        if replicated != self.structures.confirm.replicated:
            self._arrivals.replicas_reached(replicated)

    def hide_all(self) -> None:
        """Takes back that all of the log counts as confirmed at the start: readers see nothing of it until
        `replicas_reached` says how much of it is. Call that first with 0.
        """
        self._arrivals.hide_all()

    @property
    def visible_physical(self) -> int:
        """The physical offset up to which readers see the log."""
        return self._arrivals.end_of_log

    @property
    def wants_flush(self) -> bool:
        """True if readers wait for a flush: something was stored under SYNC_FLUSH and is not on the disk."""
        return self._flushing.is_wanted

    def reserve_in(self, reserver: Executor) -> None:
        """Has this thread, and no other, reserve room in front of the writer. Without one the owner does."""
        self._log.reserving.use_thread(reserver)

    def reserve_soon(self) -> None:
        """Has the thread that reserves begin now, where half of what was reserved is used up."""
        self._log.reserving.begin_soon()

    @property
    def unflushed_bytes(self) -> int:
        """Bytes that were stored and are not on the disk."""
        return self._flushing.unflushed_bytes

    def unflushed(self, now_ms: int) -> tuple[int, int]:
        """Bytes that were stored and are not on the disk, and the age of the oldest in ms."""
        return self._flushing.unflushed(now_ms)

    def flush_now(self) -> int:
        """Brings the log to the disk: the shared flush of all who wait. Blocks, without the GIL: for a
        thread.

        Gives the physical offset up to which all is on the disk. Raises FlushFailed; the store takes no
        messages from then on, and nothing that was written since the last good flush is ever acknowledged.
        """
        return self._flushing.flush_now()

    # Periodic tasks.

    def periodic_tasks(self) -> list[PeriodicTask]:
        """The periodic tasks of this store."""
        return periodic_tasks(self.options, self.structures, self._flushing, self._timers, self._acceptance)

    # Administration.

    def delete_queues(self, topic: str) -> int:
        """Deletes the queues of a topic, their files with the next write of queues; returns their number."""
        return self.structures.delete_queues(topic)

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

    def find_by_key(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str = "K"
    ) -> Generator[None, None, QueryResult]:
        """Messages of a topic by key (K), unique id (U) or tag (T), stored within a range of times, oldest
        first. It is work for a thread, in steps: chains of the index may be long, and on the disk.

        The index finds hashes: whoever needs certainty compares the key of each message.
        """
        return self._key_search.begin(topic, key, max_count, begin_ms, end_ms, index_type)

    def figures(self) -> StoreFigures:
        """Plain numbers about the store now."""
        return figures(self.options.root, self.structures, self._flushing, self._acceptance)

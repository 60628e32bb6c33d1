"""The store of a broker: one folder, one owner. Its parts are its interface, each with a module of its own.

The owner's thread appends and reads. `periodic_tasks()`, `flushing.flush_now` and `reader.read_cold` may run
in other threads beside it; they change nothing that the owner reads halfway. See ARCHITECTURE.md for who
changes what.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from orbitmq.protocol.names import LMQ_PREFIX
from orbitmq.store.acceptance import Acceptance
from orbitmq.store.appending import Appending
from orbitmq.store.errors import FlushFailed
from orbitmq.store.figures import StoreFigures, figures
from orbitmq.store.files import Disk, RealDisk
from orbitmq.store.flushing import Flushing
from orbitmq.store.key_search import KeySearch
from orbitmq.store.lifecycle import finish, locked, start
from orbitmq.store.lock import StoreLock
from orbitmq.store.log.messages import Appended, GetResult, GetStatus, PendingMessage
from orbitmq.store.options import StoreOptions
from orbitmq.store.periodic import PeriodicTask
from orbitmq.store.queue.filtering import Accept
from orbitmq.store.queue.lookup import Lookup
from orbitmq.store.queue.scan_cy import QueueCursor
from orbitmq.store.queue.writer import TRIMMED_PER_CALL
from orbitmq.store.recovery.deleted_topics import Deletion, LogEnd, log_end_at, of_this_log
from orbitmq.store.replica.replica_log import ReplicaLog
from orbitmq.store.replica.truncation import Truncation, intended
from orbitmq.store.structures import Structures
from orbitmq.store.tasks import periodic_tasks
from orbitmq.store.timer.check_point import TimerMark
from orbitmq.store.timer.current import CurrentTimers
from orbitmq.store.timer.files import TimerFiles

log = logging.getLogger(__name__)


class MessageStore:
    """Messages by queue, by physical offset and by key. Made by `open`, ended by `close`.

    The methods here are those that need several parts, or that nearly every rule uses.
    """

    def __init__(self, options: StoreOptions, disk: Disk, lock: StoreLock, now_ms: int) -> None:
        self.options = options
        self._lock = lock
        cut = intended(disk, options.root)
        self.structures = structures = Structures(options, disk, cut)
        """The files of the folder, and what reads and writes them. Rules use the parts below."""
        self.log = structures.log
        self.newest = structures.newest
        self._queues = structures.queues
        self._queue_writer = structures.queue_writer
        self._index = structures.index
        self.arrivals = structures.arrivals
        self.lookup = structures.lookup
        self.reader = structures.reader
        self.retention = structures.retention
        self._acceptance = Acceptance(options, self.log, self._queue_writer, self.retention)
        self.appending = Appending(options, structures, self._acceptance)
        self.flushing = Flushing(options, structures, self._acceptance)
        self.current_timers = CurrentTimers(options, disk, self.log, self._queues)
        self.replica = ReplicaLog(options, structures, self._acceptance)
        self.truncation = Truncation(
            options, structures, self.current_timers, self.replica.raw, self._acceptance
        )
        self.key_search = KeySearch(options, structures)
        self.timer_mark: TimerMark | None = None
        """State of the timers when their owner stopped; `close` writes it."""
        self.recovered = start(options, structures, self.current_timers, cut, now_ms)
        self.flushing.begin(now_ms)

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
            finish(self.options, self.structures, self.current_timers, self.timer_mark, self._acceptance)
        except (OSError, FlushFailed) as error:
            log.error("the store could not be closed in order: %s", error)
        finally:
            self.appending.close()
            self.structures.close()
            self.current_timers.close(None)
            self.log.close()
            self._lock.release()

    def abandon(self) -> None:
        """Releases the folder, as the end of the process does; nothing more is written."""
        self._acceptance.is_closed = True
        self._lock.release()

    @property
    def timers(self) -> TimerFiles | None:
        """The files of timer messages; None where they are switched off."""
        return self.current_timers.files

    @property
    def takes_messages(self) -> bool:
        """True if anything but a master's log is stored: only while this broker is master itself."""
        return self._acceptance.takes_messages

    @takes_messages.setter
    def takes_messages(self, takes_messages: bool) -> None:
        self._acceptance.takes_messages = takes_messages

    @property
    def is_paused(self) -> bool:
        """True while a master stores nothing of its own, as it could confirm none of it."""
        return self._acceptance.is_paused

    @is_paused.setter
    def is_paused(self, is_paused: bool) -> None:
        self._acceptance.is_paused = is_paused

    # Appending.

    def append(self, message: PendingMessage, now_ms: int) -> Appended:
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
        return self.appending.append_many(messages, now_ms, results) if messages else results

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
        cursor = self.reader.cursor(topic, queue_id, max_count, max_bytes, accept, bulk=bulk)
        if cursor is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        result = self.reader.read(cursor, queue_offset)
        assert result is not None
        return result

    def copy(self, cursor: QueueCursor, queue_offset: int, into: bytearray) -> GetResult | None:
        """The result of `get`, but with the records in `into`, one behind the other from its start.

        None where they have no room there (of a cursor for bulk: where the first one has none), and where the
        queue was removed.
        """
        if self._queue_writer.written:
            self._queue_writer.trim_tails(TRIMMED_PER_CALL)
        return None if cursor.queue.removed else self.reader.read(cursor, queue_offset, into)

    def search(self, queues: Iterable[tuple[str, int]] = ()) -> Lookup:
        """A search for a thread beside the owner: it sees these queues as they are now."""
        return self.lookup.frozen(self._queues, queues)

    def record_at(self, physical_offset: int) -> memoryview | None:
        """The record that begins at a physical offset; None if none does, or if it is damaged."""
        return self.lookup.record_at(physical_offset)

    def physical_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code) of a message, None if the queue does not have it."""
        return self.lookup.unit(topic, queue_id, queue_offset)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first queue offset that is still there; -1 for a queue that does not exist."""
        return self.lookup.min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message that readers see; 0 for a queue that does not exist."""
        return self.lookup.max_offset(topic, queue_id)

    def ends(self, topic: str) -> dict[int, int]:
        """The queue offset behind the last message that readers see, for each queue that there is."""
        return {queue_id: self.arrivals.end(queue) for queue_id, queue in self._queues.of(topic).items()}

    def newest_queues(self, topic: str, most: int) -> tuple[list[int], int]:
        """The queues of a topic with the newest messages, the newest first, and the number of the others that
        have messages.
        """
        return self._queues.newest(topic, most)

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message, visible or not; 0 for a queue that does not exist."""
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """True if a message is recent enough to count as in memory; false if it is not there."""
        unit = self.lookup.unit(topic, queue_id, queue_offset)
        return unit is not None and self.log.max_physical - unit[0] <= self.reader.memory_bytes

    def topics(self) -> list[str]:
        """The topics that have queues; light message queues are none."""
        return [topic for topic in self._queues.by_topic if not topic.startswith(LMQ_PREFIX)]

    @property
    def has_lmqs(self) -> bool:
        """True if messages get places in the light message queues that they name."""
        return self.options.enable_lmq and self.options.enable_multi_dispatch

    @property
    def lmq_count(self) -> int:
        """Number of light message queues."""
        return len(self._queues.light)

    @property
    def queue_name_count(self) -> int:
        """Number of topics and light message queues."""
        return len(self._queues.by_topic) + len(self._queues.light)

    def lmqs(self, begin: str = LMQ_PREFIX) -> list[str]:
        """Light message queues whose names begin so. Looks at the names of all queues: 10 ms for 100,000."""
        return [name for name in self._queues.light if name.startswith(begin)]

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(self._queues.of(topic))

    @property
    def min_physical(self) -> int:
        """Physical offset of the first byte of the log."""
        return self.log.min_physical

    @property
    def max_physical(self) -> int:
        """Physical offset behind the last byte of the log."""
        return self.log.max_physical

    def log_end(self, physical_offset: int | None = None) -> LogEnd:
        """The end of the log, now or when it went to a physical offset, as a deletion of a topic notes it."""
        end = self.log.max_physical if physical_offset is None else physical_offset
        return log_end_at(self.log, end, self.newest.physical_offset)

    def of_this_log(self, deletions: Mapping[str, Deletion]) -> dict[str, Deletion]:
        """The deletions of topics, by name, that were noted in this very log, and concern what it holds."""
        return of_this_log(deletions, self.log)

    @property
    def durable_offset(self) -> int:
        """Everything below this physical offset is on the disk."""
        return self.log.durable

    @property
    def confirm_offset(self) -> int:
        """Everything below this physical offset is as safe as promised: on the disk, at replicas."""
        return self.structures.confirm.offset

    def periodic_tasks(self) -> list[PeriodicTask]:
        return periodic_tasks(
            self.options, self.structures, self.flushing, self.current_timers, self._acceptance
        )

    # Administration.

    def figures(self) -> StoreFigures:
        """Plain numbers about the store now."""
        return figures(self.options.root, self.structures, self.flushing, self._acceptance)

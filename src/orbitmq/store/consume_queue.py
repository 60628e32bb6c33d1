"""Consume queues: per topic and queue id, one unit of 20 bytes per message, found by its queue offset.

    physical offset i64 | size i32 | tags code i64

There is no map and no open file per queue, so that 100,000 of them cost a few hundred bytes each. New units
wait in memory (`tail`), are written in bulk by a sweep in a thread, and are read back from there with
`pread`.

Who changes what: the owner of the store appends units and takes swept ones out of the tail; the sweep copies
a tail and writes files; both at once are safe because a tail only grows while a sweep runs.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.protocol.consume_queue import BLANK_SIZE as BLANK_SIZE
from orbitmq.protocol.consume_queue import BLANK_UNIT as BLANK_UNIT
from orbitmq.protocol.consume_queue import UNIT as UNIT
from orbitmq.protocol.consume_queue import UNIT_BYTES as UNIT_BYTES
from orbitmq.protocol.properties_cy import find_property, tags_code
from orbitmq.store.files import Disk, StoreFile, segment_name, segment_starts

if TYPE_CHECKING:
    from orbitmq.store.extension import ExtensionTail

log = logging.getLogger(__name__)

MAX_OPEN_FILES = 256
"""Files of queues that are kept open, for reading and for writing each."""


class ConsumeQueue:
    """What is known of one queue without a look at its files. Offsets are queue offsets."""

    __slots__ = (
        "announced",
        "base",
        "code_is_special",
        "dirty",
        "extension",
        "is_schedule",
        "last_unit_end",
        "max_offset",
        "min_offset",
        "queue_id",
        "removed",
        "stirred",
        "swept_to",
        "tail",
        "tail_start",
        "topic",
        "topic_bytes",
        "unsynced_bytes",
        "visible",
    )

    def __init__(self, topic: str, queue_id: int, start: int = 0, extended: bool = False) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.min_offset = start
        """The first message that is still in the log."""
        self.max_offset = start
        """The offset of the next message."""
        self.visible = start
        """The end of what readers see: `max_offset`, under SYNC_FLUSH the part of it that is on the disk."""
        self.announced = start
        """Up to where arrivals were told."""
        self.tail = bytearray()
        """Units that are in no file yet, from `tail_start` on."""
        self.tail_start = start
        self.swept_to = start
        """Up to where units are in files; the sweep's own figure."""
        self.base = start
        """Where the queue began in this process; units before it, in its first file, are blank."""
        self.last_unit_end = 0
        """End of the last message in the log, as recovery has found it."""
        self.unsynced_bytes = 0
        """Written to files and not flushed to the disk; the sweep's own figure."""
        self.dirty = False
        """Listed among the queues that have something new since arrivals were last told."""
        self.stirred = False
        """Listed among the queues that the next sweep looks at."""
        self.removed = False
        self.is_schedule = topic == "SCHEDULE_TOPIC_XXXX"
        self.code_is_special = self.is_schedule or extended
        """What stands in a unit beside place and size is not just the hash of the tag."""
        self.extension: ExtensionTail | None = None

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}@{self.queue_id} {self.min_offset}..{self.max_offset}>"


class OpenFiles:
    """Files of queues, the least recently used closed first. One per thread: it has no lock."""

    def __init__(self, disk: Disk, folder: Path, file_bytes: int, most: int = MAX_OPEN_FILES) -> None:
        self._disk = disk
        self._folder = folder
        self._file_bytes = file_bytes
        self._most = most
        self._files: OrderedDict[tuple[ConsumeQueue, int], StoreFile] = OrderedDict()

    def get(self, queue: ConsumeQueue, start: int, create: bool = False) -> StoreFile | None:
        """The file of a queue that begins at byte `start`, None if there is none and none is to be made."""
        key = (queue, start)
        file = self._files.get(key)
        if file is not None:
            self._files.move_to_end(key)
            return file
        folder = queue_folder(self._folder, queue)
        try:
            if create:
                self._disk.make_folder(folder)
            file = self._disk.open(folder / segment_name(start), self._file_bytes if create else None)
        except FileNotFoundError:
            return None
        self._files[key] = file
        if len(self._files) > self._most:
            # Closed when nobody reads from it any more: the reference is what keeps it open.
            self._files.popitem(last=False)
        return file

    def forget(self, queue: ConsumeQueue) -> None:
        """Lets go of the files of a queue."""
        for key in [key for key in self._files if key[0] is queue]:
            del self._files[key]

    def clear(self) -> None:
        """Lets go of all files."""
        self._files.clear()

    def __len__(self) -> int:
        return len(self._files)


def queue_folder(folder: Path, queue: ConsumeQueue) -> Path:
    """Where the files of a queue are."""
    return folder / queue.topic / str(queue.queue_id)


class QueueTable:
    """All queues, by topic and queue id."""

    def __init__(self, disk: Disk, folder: Path, file_bytes: int, sync_flush: bool = False) -> None:
        self.disk = disk
        self.folder = folder
        self.file_bytes = file_bytes
        self.sync_flush = sync_flush
        self.by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        self.extended = False
        """Whether units of new messages point to extensions."""
        self.batch_topics: frozenset[str] = frozenset()
        """Topics whose queues are of the batch kind, which this store does not have."""
        self.reading = OpenFiles(disk, folder, file_bytes)
        self.is_damaged = False
        """Files of a queue were not what they have to be: all of the log has to be read."""

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue that exists."""
        queues = self.by_topic.get(topic)
        return None if queues is None else queues.get(queue_id)

    def make(self, topic: str, queue_id: int, start: int = 0) -> ConsumeQueue:
        """A queue, made if it does not exist; `start` is then its first offset."""
        queues = self.by_topic.setdefault(topic, {})
        queue = queues.get(queue_id)
        if queue is None:
            queue = queues[queue_id] = ConsumeQueue(topic, queue_id, start, self.extended)
        return queue

    def all(self) -> list[ConsumeQueue]:
        """Every queue there is at this moment."""
        return [queue for queues in list(self.by_topic.values()) for queue in list(queues.values())]

    def remove_topic(self, topic: str) -> list[ConsumeQueue]:
        """Forgets the queues of a topic; their files are the sweep's to delete."""
        queues = list(self.by_topic.pop(topic, {}).values())
        for queue in queues:
            queue.removed = True
            queue.tail = bytearray()
            self.reading.forget(queue)
        return queues

    def end(self, queue: ConsumeQueue) -> int:
        """The queue offset behind what readers may see."""
        return queue.visible if self.sync_flush else queue.max_offset

    def read(
        self, queue: ConsumeQueue, queue_offset: int, count: int, files: OpenFiles | None = None
    ) -> bytes:
        """Units from a queue offset on: of one file, or of those in memory. Never empty where there is one.

        A thread other than the owner's gives its own open `files`.
        """
        tail_start = queue.tail_start
        if queue_offset >= tail_start:
            first = (queue_offset - tail_start) * UNIT_BYTES
            return bytes(queue.tail[first : first + count * UNIT_BYTES])
        count = min(count, tail_start - queue_offset)
        return self.read_file(files or self.reading, queue, queue_offset, count)

    def read_file(self, files: OpenFiles, queue: ConsumeQueue, queue_offset: int, count: int) -> bytes:
        """Units out of the file that holds the first of them; none if it is not there."""
        position = queue_offset * UNIT_BYTES
        start = position - position % self.file_bytes
        file = files.get(queue, start)
        if file is None:
            return b""
        length = min(count * UNIT_BYTES, start + self.file_bytes - position)
        data = file.read(position - start, length)
        return data[: len(data) - len(data) % UNIT_BYTES]

    def open_files(self, most: int) -> OpenFiles:
        """Open files for another thread than the owner's."""
        return OpenFiles(self.disk, self.folder, self.file_bytes, most)

    def is_resident(self, queue: ConsumeQueue, queue_offset: int, count: int) -> bool:
        """Whether units can be read without waiting for the disk; those in a file that is not there can."""
        position = queue_offset * UNIT_BYTES
        start = position - position % self.file_bytes
        file = self.reading.get(queue, start)
        if file is None:
            return True
        length = min(count * UNIT_BYTES, start + self.file_bytes - position)
        return file.resident_bytes(position - start, length) >= length

    def unit(
        self, queue: ConsumeQueue, queue_offset: int, files: OpenFiles | None = None
    ) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code) at a queue offset; None for a blank or missing unit."""
        data = self.read(queue, queue_offset, 1, files)
        if len(data) < UNIT_BYTES:
            return None
        physical_offset, size, tags_code = UNIT.unpack(data)
        if physical_offset < 0 or size <= 0 or size == BLANK_SIZE:
            return None
        return physical_offset, size, tags_code

    def first_from(self, queue: ConsumeQueue, physical_offset: int, files: OpenFiles | None = None) -> int:
        """The first queue offset whose message begins at a physical offset or later, or the queue's end."""
        low = queue.min_offset
        high = queue.max_offset
        while low < high:
            middle = (low + high) // 2
            unit = self.unit(queue, middle, files)
            if unit is None or unit[0] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def file_starts(self, queue: ConsumeQueue) -> list[int]:
        """Where the files of a queue begin, in bytes, sorted."""
        return segment_starts(self.disk.names(queue_folder(self.folder, queue)))

    def close(self) -> None:
        """Lets go of all files."""
        self.reading.clear()


def due_time(properties: bytes, store_timestamp_ms: int, delays_ms: tuple[int, ...]) -> int:
    """The tags code of a message in the topic of delayed ones: when it is due, in ms.

    A level beyond the last one counts as the last; without a level it is the hash of the tag, as elsewhere.
    """
    text = find_property(properties, b"DELAY")
    if text is None or not text.isdigit() or int(text) <= 0:
        return tags_code(properties)
    level = min(int(text), len(delays_ms))
    return store_timestamp_ms + (delays_ms[level - 1] if level else 1000)

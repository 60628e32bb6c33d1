"""Consume queues: per topic and queue id, one unit of 20 bytes per message, found by its queue offset.

    physical offset i64 | size i32 | tags code i64

There is no map and no open file per queue, so that 100,000 of them cost a few hundred bytes each. New units
wait in memory (`tail`), are written in bulk in a thread (`writer.py`), and are read back from there with
`pread`.

The owner of the store appends units and trims written ones from the tail; the queue writer copies a tail and
writes files. Both may run together because a tail only grows while the writer runs.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from heapq import nlargest
from pathlib import Path

from orbitmq.protocol.names import LMQ_PREFIX, SCHEDULE_TOPIC
from orbitmq.protocol.records.properties import find_property, tags_code, whole_number
from orbitmq.protocol.records.queue_units import BLANK_SIZE as BLANK_SIZE
from orbitmq.protocol.records.queue_units import BLANK_UNIT as BLANK_UNIT
from orbitmq.protocol.records.queue_units import UNIT as UNIT
from orbitmq.protocol.records.queue_units import UNIT_BYTES as UNIT_BYTES
from orbitmq.store.files import Disk, StoreFile, segment_name, segment_starts

log = logging.getLogger(__name__)

LIGHT_QUEUE_ID = 0
"""The queue id of every light message queue."""
MAX_OPEN_FILES = 256
"""Files of queues that are kept open, for reading and for writing each."""


class ExtensionTail:
    """Extension units of one queue that are in no file yet, as bytes from a position on."""

    __slots__ = ("data", "start", "written_to")

    def __init__(self, start: int) -> None:
        self.start = start
        self.data = bytearray()
        self.written_to = start
        """Units before this offset are in files; changed by the queue writer alone."""


class ConsumeQueue:
    """State of one queue in memory. Offsets are queue offsets."""

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
        "newest_at",
        "queue_id",
        "removed",
        "tail",
        "tail_start",
        "topic",
        "topic_bytes",
        "unsynced_bytes",
        "unwritten",
        "visible",
        "written_to",
    )

    def __init__(self, topic: str, queue_id: int, start: int = 0, extended: bool = False) -> None:
        self.topic = topic
        self.topic_bytes = b"" if topic.startswith(LMQ_PREFIX) else topic.encode()
        """The topic in the records; empty for a light message queue: its records have their own."""
        self.queue_id = queue_id
        self.min_offset = start
        """The first message that is still in the log."""
        self.max_offset = start
        """The offset of the next message."""
        self.visible = start
        """The end of what readers see: `max_offset`, under SYNC_FLUSH the part of it that is on the disk."""
        self.announced = start
        """Queue offset up to which arrivals were notified."""
        self.tail = bytearray()
        """Units that are in no file yet, from `tail_start` on."""
        self.tail_start = start
        self.written_to = start
        """Units before this offset are in files; changed by the queue writer alone."""
        self.base = start
        """First offset in this process; units before it, in the first file, are blank."""
        self.last_unit_end = 0
        """End of the last message in the log, as recovery has found it."""
        self.newest_at = 0
        """Physical offset of the last message whose unit has left the tail in this process; 0 without one. To
        compare queues: if the queue was cut since, it is too high."""
        self.unsynced_bytes = 0
        """Bytes in files and not yet flushed to the disk; changed by the queue writer alone."""
        self.dirty = False
        """Listed among the queues that have something new since arrivals were last notified."""
        self.unwritten = False
        """True if the queue is listed for the next run of the queue writer."""
        self.removed = False
        self.is_schedule = topic == SCHEDULE_TOPIC
        self.code_is_special = self.is_schedule or (extended and bool(self.topic_bytes))
        """True if the tags code of units may be more than the hash of the tag."""
        self.extension: ExtensionTail | None = None

    @property
    def is_light(self) -> bool:
        """True for a light message queue."""
        return not self.topic_bytes and self.queue_id == LIGHT_QUEUE_ID

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}@{self.queue_id} {self.min_offset}..{self.max_offset}>"


class OpenFiles:
    """Files of queues, the least recently used closed first. One per thread: it has no lock."""

    def __init__(self, disk: Disk, folder: Path, file_bytes: int, most: int = MAX_OPEN_FILES) -> None:
        self._disk = disk
        self._folder = folder
        self._file_bytes = file_bytes
        self.most = most
        """Number of files that stay open."""
        self._files: OrderedDict[tuple[ConsumeQueue, int], StoreFile] = OrderedDict()

    def get(self, queue: ConsumeQueue, start: int, create: bool = False) -> StoreFile | None:
        """The file of a queue that begins at byte `start`, None if there is none and none is to be made."""
        key = (queue, start)
        file = self._files.get(key)
        if file is not None:
            self._files.move_to_end(key)
            return file
        path = queue_file(self._folder, queue, start)
        size = self._file_bytes if create else None
        try:
            file = self._disk.open(path, size)
        except FileNotFoundError:
            if not create:
                return None
            self._disk.make_folder(path.parent)
            file = self._disk.open(path, size)
        self._files[key] = file
        if len(self._files) > self.most:
            # Closed after the last read from it: the reference is what keeps it open.
            self._files.popitem(last=False)
        return file

    def opened(self, queue: ConsumeQueue, start: int) -> StoreFile | None:
        return self._files.get((queue, start))

    def forget(self, queue: ConsumeQueue) -> None:
        for key in [key for key in self._files if key[0] is queue]:
            del self._files[key]

    def clear(self) -> None:
        self._files.clear()

    def __len__(self) -> int:
        return len(self._files)


def queue_folder(folder: Path, queue: ConsumeQueue) -> Path:
    """The folder of a queue's files."""
    return folder.joinpath(queue.topic, str(queue.queue_id))


def queue_file(folder: Path, queue: ConsumeQueue, start: int) -> Path:
    """The file of a queue that begins at byte `start`."""
    return folder.joinpath(queue.topic, str(queue.queue_id), segment_name(start))


class QueueTable:
    """All queues, by topic and queue id."""

    def __init__(self, disk: Disk, folder: Path, file_bytes: int, sync_flush: bool = False) -> None:
        self.disk = disk
        self.folder = folder
        self.file_bytes = file_bytes
        self.sync_flush = sync_flush
        self.is_held = sync_flush
        """True if readers may see less of a queue than there is."""
        self.by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        self.light: dict[str, ConsumeQueue] = {}
        """Light message queues by name: each is the only one of its name. A table for each would cost more
        than the queue."""
        self.extended = False
        """True if units of new messages point to extensions."""
        self.batch_topics: frozenset[str] = frozenset()
        """Topics whose queues are of the batch kind, which this store does not have."""
        self.reading = OpenFiles(disk, folder, file_bytes)
        self.is_damaged = False
        """Files of a queue were not what they have to be: all of the log has to be read."""

    @property
    def count(self) -> int:
        """Number of queues."""
        return sum(map(len, list(self.by_topic.values()))) + len(self.light)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.by_topic.get(topic)
        queue = None if queues is None else queues.get(queue_id)
        return self.light.get(topic) if queue is None and queue_id == LIGHT_QUEUE_ID else queue

    def of(self, topic: str) -> Mapping[int, ConsumeQueue]:
        """The queues of a topic by queue id, or the light queue of a name."""
        queues, light = self.by_topic.get(topic, {}), self.light.get(topic)
        return queues if light is None else {**queues, LIGHT_QUEUE_ID: light}

    def newest(self, topic: str, most: int) -> tuple[list[int], int]:
        """The queues of a topic with the newest messages, the newest first, and the number of the others that
        have messages. No file is read: 100,000 queues take 0.1 s.
        """
        places = {
            # The last unit begins with the place of its message in the log, which is in the order of time.
            queue.queue_id: int.from_bytes(queue.tail[-UNIT_BYTES:][:8])
            or queue.newest_at
            or queue.last_unit_end
            for queue in self.of(topic).values()
            if self.end(queue) > queue.min_offset
        }
        chosen = nlargest(most, places, key=places.__getitem__)
        return chosen, len(places) - len(chosen)

    def make(self, topic: str, queue_id: int, start: int = 0) -> ConsumeQueue:
        """A queue, made if it does not exist; `start` is then its first offset."""
        queue = self.find(topic, queue_id)
        if queue is None:
            queue = ConsumeQueue(topic, queue_id, start, self.extended)
            if queue.is_light:
                self.light[topic] = queue
            else:
                self.by_topic.setdefault(topic, {})[queue_id] = queue
        return queue

    def all(self) -> list[ConsumeQueue]:
        """Every queue there is at this moment."""
        ordinary = [queue for queues in list(self.by_topic.values()) for queue in list(queues.values())]
        return ordinary + list(self.light.values())

    def remove_topic(self, topic: str) -> list[ConsumeQueue]:
        """Forgets the queues of a topic; the queue writer deletes their files."""
        queues = list(self.of(topic).values())
        for queue in queues:
            self.remove(queue)
        return queues

    def remove_older(self, topic: str, physical_offset: int) -> list[ConsumeQueue]:
        """The same for the queues alone that have begun before a physical offset, or that are empty."""
        older = [
            queue
            for queue in self.of(topic).values()
            if queue.max_offset <= queue.min_offset
            or self.end_before(queue, physical_offset) > queue.min_offset
        ]
        for queue in older:
            self.remove(queue)
        return older

    def remove(self, queue: ConsumeQueue) -> None:
        """Forgets one queue, and its topic with the last one; its files are the queue writer's to delete."""
        if queue.is_light:
            del self.light[queue.topic]
        else:
            queues = self.by_topic[queue.topic]
            del queues[queue.queue_id]
            if not queues:
                del self.by_topic[queue.topic]
        queue.removed = True
        queue.tail = bytearray()
        self.reading.forget(queue)

    def end_before(self, queue: ConsumeQueue, physical_offset: int) -> int:
        """The queue offset behind the last message that begins before a physical offset."""
        if queue.max_offset <= queue.min_offset:
            return queue.max_offset
        newest = self.unit(queue, queue.max_offset - 1)
        if newest is not None and newest[0] < physical_offset:
            return queue.max_offset
        end = self.first_from(queue, physical_offset)
        while end > queue.min_offset:
            unit = self.unit(queue, end - 1)
            # A blank unit came with the message behind it.
            if unit is not None and unit[0] < physical_offset:
                break
            end -= 1
        return end

    def cut(self, queue: ConsumeQueue, end: int) -> None:
        """Makes a queue end at a queue offset, in memory; its files are the queue writer's to cut."""
        if end >= queue.tail_start:
            del queue.tail[(end - queue.tail_start) * UNIT_BYTES :]
        else:
            queue.tail = bytearray()
            queue.tail_start = end
        queue.max_offset = end
        queue.visible = min(queue.visible, end)
        queue.announced = min(queue.announced, end)
        self.reading.forget(queue)

    def end(self, queue: ConsumeQueue) -> int:
        """The queue offset behind what readers may see."""
        return queue.visible if self.is_held else queue.max_offset

    def writable_end(self, queue: ConsumeQueue) -> int:
        """The queue offset up to which units may go to files: under SYNC_FLUSH not before their messages."""
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
        """True if units can be read without waiting for the disk, which opening their file may do as well."""
        position = queue_offset * UNIT_BYTES
        start = position - position % self.file_bytes
        file = self.reading.opened(queue, start)
        if file is None:
            return False
        length = min(count * UNIT_BYTES, start + self.file_bytes - position)
        return file.resident_bytes(position - start, length) >= length

    def unit(
        self, queue: ConsumeQueue, queue_offset: int, files: OpenFiles | None = None
    ) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code) at a queue offset; None for a blank or missing unit."""
        return unit_in(self.read(queue, queue_offset, 1, files))

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
        """Start positions of a queue's files in bytes, sorted."""
        return segment_starts(self.disk.names(queue_folder(self.folder, queue)))

    def close(self) -> None:
        """Lets go of all files."""
        self.reading.clear()


def unit_in(data: bytes) -> tuple[int, int, int] | None:
    """(physical offset, size, tags code) of a unit; None for a blank one, or where there is none."""
    if len(data) < UNIT_BYTES:
        return None
    physical_offset, size, tags_code = UNIT.unpack(data)
    if physical_offset < 0 or size <= 0 or size == BLANK_SIZE:
        return None
    return physical_offset, size, tags_code


def due_time(properties: bytes, store_timestamp_ms: int, delays_ms: tuple[int, ...]) -> int:
    """The tags code of a message in the topic of delayed ones: when it is due, in ms.

    A level beyond the last one counts as the last; without a level it is the hash of the tag, as elsewhere.
    """
    number = whole_number(find_property(properties, b"DELAY"))
    if not number:
        return tags_code(properties)
    level = min(number, len(delays_ms))
    return store_timestamp_ms + (delays_ms[level - 1] if level else 1000)

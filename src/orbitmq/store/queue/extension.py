"""Extension files of consume queues (enableConsumeQueueExt): more about a message than a unit can hold.

The tags code of a unit is then an address: the position of an extension unit, counted from the smallest i64.

    size i16 | tags code i64 | store time i64 | size of the bit map i16 | bit map

No unit crosses the end of a file; where the next one does not fit stands -1 for a size. Files belong to one
queue. New units wait in memory, and the queue writer writes them before the units that point to them; a unit
whose extension is gone, after a power cut for example, counts as one without.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from struct import Struct

from orbitmq.store.files import Disk, StoreFile, segment_name, segment_starts
from orbitmq.store.queue.consume_queue import ConsumeQueue, ExtensionTail, OpenFiles, QueueTable, queue_folder
from orbitmq.store.queue.filtering import ExtensionUnit

LARGEST_ADDRESS = -2147483649
"""Tags codes up to this one are addresses, for no hash is as small."""
MAX_UNIT_BYTES = 32767

_UNIT = Struct(">hqqh")
_BASE = 1 << 63
_END = b"\xff\xff"
_END_BYTES = 4
"""Bytes that stay free behind the last unit of a file."""
_LOOKED_BACK = 1024
"""Units without an extension that are passed over in search of the last one with one."""
_MAX_OPEN = 64


def _no_bits(topic: str, properties: bytes) -> bytes:
    return b""


class ExtensionFiles:
    """The folder `consumequeue_ext`. Methods are the owner's, except those of the queue writer below."""

    def __init__(self, disk: Disk, folder: Path, file_bytes: int, table: QueueTable) -> None:
        self._disk = disk
        self._folder = folder
        self._file_bytes = file_bytes
        self._table = table
        self.topics = set(disk.names(folder))
        """Topics whose units may point to extensions."""
        self._reading = OpenFiles(disk, folder, file_bytes, _MAX_OPEN)
        self._writing = OpenFiles(disk, folder, file_bytes, _MAX_OPEN)
        self._unsynced: set[tuple[ConsumeQueue, int]] = set()
        self.bits_of: Callable[[str, bytes], bytes] = _no_bits
        """(topic, properties) -> the bit map of a unit; set by whoever knows the filters."""

    # Adding.

    def append(self, queue: ConsumeQueue, tags_code: int, store_time_ms: int, bit_map: bytes) -> int:
        """Adds an extension unit; returns its address, which takes the place of the tags code.

        The code itself where the bit map is too long.
        """
        size = _UNIT.size + len(bit_map)
        if size > MAX_UNIT_BYTES:
            return tags_code
        tail = queue.extension
        if tail is None:
            tail = queue.extension = ExtensionTail(self._end(queue))
            self.topics.add(queue.topic)
        position = tail.start + len(tail.data)
        left = self._file_bytes - position % self._file_bytes
        if size + _END_BYTES > left:
            tail.data += _END + bytes(left - len(_END))
            position += left
        tail.data += _UNIT.pack(size, tags_code, store_time_ms, len(bit_map)) + bit_map
        return position - _BASE

    def _end(self, queue: ConsumeQueue) -> int:
        """The position behind the last extension unit of a queue: where its last address leads."""
        offset = queue.max_offset
        for _ in range(min(_LOOKED_BACK, offset - queue.min_offset)):
            offset -= 1
            unit = self._table.unit(queue, offset)
            if unit is not None and unit[2] <= LARGEST_ADDRESS:
                position = unit[2] + _BASE
                file, start = self._file_at(queue, position)
                if file is not None and file.size == self._file_bytes:
                    size = int.from_bytes(file.read(position - start, 2), "big", signed=True)
                    if size >= _UNIT.size:
                        return position + size
                break
        starts = self._starts(queue)
        if not starts:
            return 0
        # No unit points there any more, or files had another size: a new one, behind them.
        last = self._reading.get(queue, starts[-1])
        end = starts[-1] + (last.size if last is not None else self._file_bytes)
        return -(-end // self._file_bytes) * self._file_bytes

    # Reading.

    def unit(self, queue: ConsumeQueue, code: int) -> ExtensionUnit | None:
        """The extension that a unit points to by its code; None if it is gone."""
        position = code + _BASE
        head = self._read(queue, position, _UNIT.size)
        if len(head) < _UNIT.size:
            return None
        size, tags_code, store_time_ms, map_bytes = _UNIT.unpack(head)
        if size < _UNIT.size or map_bytes < 0 or map_bytes != size - _UNIT.size:
            return None
        bit_map = self._read(queue, position + _UNIT.size, map_bytes) if map_bytes else b""
        return ExtensionUnit(tags_code, store_time_ms, bit_map) if len(bit_map) == map_bytes else None

    def tags_code(self, queue: ConsumeQueue, code: int) -> int | None:
        """The hash of the tag for what stands in a unit; None if its extension is gone."""
        if code > LARGEST_ADDRESS:
            return code
        found = self.unit(queue, code)
        return None if found is None else found.tags_code

    def _read(self, queue: ConsumeQueue, position: int, length: int) -> bytes:
        tail = queue.extension
        if tail is not None and position >= tail.start:
            first = position - tail.start
            return bytes(tail.data[first : first + length])
        file, start = self._file_at(queue, position)
        return b"" if file is None else file.read(position - start, length)

    def _file_at(self, queue: ConsumeQueue, position: int) -> tuple[StoreFile | None, int]:
        start = position - position % self._file_bytes
        file = self._reading.get(queue, start)
        if file is None:
            # Files of another size, from other options.
            start = max((start for start in self._starts(queue) if start <= position), default=-1)
            file = self._reading.get(queue, start) if start >= 0 else None
        return file, start

    def _starts(self, queue: ConsumeQueue) -> list[int]:
        return segment_starts(self._disk.names(queue_folder(self._folder, queue)))

    # Called by the queue writer.

    def write(self, queue: ConsumeQueue) -> None:
        """Writes the new units of a queue. Raises OSError."""
        tail = queue.extension
        if tail is None:
            return
        position = tail.written_to
        view = memoryview(bytes(tail.data))[position - tail.start :]
        while view:
            start = position - position % self._file_bytes
            file = self._writing.get(queue, start, create=True)
            assert file is not None
            part = view[: start + self._file_bytes - position]
            file.write(position - start, part)
            self._unsynced.add((queue, start))
            view = view[len(part) :]
            position += len(part)
        tail.written_to = position

    def sync(self) -> None:
        """Flushes written units to the disk. Raises OSError."""
        for key in list(self._unsynced):
            file = None if key[0].removed else self._writing.get(*key)
            if file is not None:
                file.sync()
            self._unsynced.discard(key)

    def trim_tail(self, queue: ConsumeQueue) -> None:
        """Drops units that are in files. The owner calls it while the queue writer does not run."""
        tail = queue.extension
        if tail is not None and tail.written_to > tail.start:
            del tail.data[: tail.written_to - tail.start]
            tail.start = tail.written_to

    def remove(self, queue: ConsumeQueue) -> None:
        if queue.topic not in self.topics:
            return
        self._writing.forget(queue)
        self._unsynced = {key for key in self._unsynced if key[0] is not queue}
        folder = queue_folder(self._folder, queue)
        for start in self._starts(queue):
            self._disk.remove(folder / segment_name(start))
        self._disk.remove_folder(folder)
        self._disk.remove_folder(folder.parent)

    def remove_before(self, queue: ConsumeQueue, code: int) -> None:
        if code > LARGEST_ADDRESS or queue.topic not in self.topics:
            return
        folder = queue_folder(self._folder, queue)
        starts = self._starts(queue)
        for start, following in pairwise(starts):
            if following <= code + _BASE:
                self._disk.remove(folder / segment_name(start))

    def forget(self, queue: ConsumeQueue) -> None:
        """Lets go of the files of a queue that was deleted."""
        self._reading.forget(queue)

    def close(self) -> None:
        self._reading.clear()
        self._writing.clear()

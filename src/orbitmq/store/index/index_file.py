"""One index file: messages by the hash of a key, newest first. Derived from the log, and rebuilt from it at
need.

Header, 40 bytes: time of the first message i64 | of the last i64 | physical offset of the first i64 | of the
last i64 | slots in use i32 | next free entry i32 (entry 0 is never used). Then slots and entries: see
`index_cy`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from struct import Struct

from orbitmq.store.files import Disk, StoreFile
from orbitmq.store.index.index_cy import (
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT_BYTES,
    find_entries,
    first_entry,
    link_slots,
    put_entries,
    put_records,
)

_HEADER = Struct(">qqqqii")
_ENTRY = Struct(">iqii")
ENTRIES_PER_STEP = 50_000
"""Entries of a chain that are followed at a time: some ms where they are in memory."""
_RESERVE_BYTES = 4 << 20
"""Blocks for entries are reserved in steps of this size; those for slots when the file is made."""


def file_name(now_ms: int) -> str:
    """The name of a file made now: local time with milliseconds, as Apache names them."""
    made = datetime.fromtimestamp(now_ms / 1000)
    return f"{made:%Y%m%d%H%M%S}{now_ms % 1000:03d}"


def is_file_name(name: str) -> bool:
    """True for names of index files."""
    return len(name) == 17 and name.isdigit() and name.isascii()


def end_timestamp_of(header: bytes) -> int:
    """The store time of the last message that a file has, in ms; 0 where it is cut off."""
    return int(_HEADER.unpack_from(header)[1]) if len(header) >= HEADER_BYTES else 0


def file_bytes(slot_count: int, entry_count: int) -> int:
    """The size of a file."""
    return HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry_count


class Chain:
    """The entries of one slot of a file, newest first, followed a part at a time."""

    __slots__ = ("_at", "_count", "_hash", "_slots", "_times", "_view")

    def __init__(
        self, view: memoryview, slots: int, count: int, key_hash: int, earliest: int, latest: int
    ) -> None:
        self._view = view
        self._slots = slots
        self._count = count
        self._hash = key_hash
        self._times = earliest, latest
        self._at = first_entry(view, slots, key_hash)

    @property
    def is_at_end(self) -> bool:
        return not 0 < self._at < self._count

    def step(self, most: int) -> list[int]:
        """Physical offsets of the next messages, `most` of them at most; none may be among a long part."""
        found, self._at = find_entries(
            self._view, self._slots, self._count, self._hash, *self._times, most, self._at, ENTRIES_PER_STEP
        )
        return found


class IndexFile:
    """An open index file. Its header is kept here and written with every bulk of entries."""

    __slots__ = (
        "_reserved",
        "_slots",
        "_view",
        "begin_physical",
        "begin_timestamp_ms",
        "count",
        "end_physical",
        "end_timestamp_ms",
        "file",
        "most",
        "slots_used",
    )

    def __init__(self, file: StoreFile, slots: int, most: int) -> None:
        self.file = file
        self._view = file.view()
        self._slots = slots
        self.most = most
        header: tuple[int, ...] = _HEADER.unpack_from(self._view)
        self.begin_timestamp_ms, self.end_timestamp_ms, self.begin_physical, self.end_physical = header[:4]
        self.slots_used = header[4]
        self.count = max(1, header[5])
        self._reserved = self._entry_position(self.count)

    @classmethod
    def open(cls, disk: Disk, path: Path, slots: int, most: int) -> IndexFile | None:
        """An existing file, None if it is not of the right size or its header makes no sense."""
        file = disk.open(path)
        if file.size != file_bytes(slots, most):
            file.close()
            return None
        index = cls(file, slots, most)
        if index.count > most or index.slots_used < 0 or index.begin_timestamp_ms > index.end_timestamp_ms:
            index.close()
            return None
        return index

    @classmethod
    def create(
        cls, disk: Disk, path: Path, slots: int, most: int, before: IndexFile | None = None
    ) -> IndexFile:
        """A new file; its header continues where the one `before` it ends. Raises OSError without room."""
        file = disk.open(path, file_bytes(slots, most))
        try:
            file.reserve(0, HEADER_BYTES + SLOT_BYTES * slots + ENTRY_BYTES)
            disk.sync_folder(path.parent)
        except OSError:
            file.close()
            disk.remove(path)
            raise
        index = cls(file, slots, most)
        if before is not None:
            index.begin_timestamp_ms = index.end_timestamp_ms = before.end_timestamp_ms
            index.begin_physical = index.end_physical = before.end_physical
        index.write_header()
        return index

    def _entry_position(self, entry: int) -> int:
        return HEADER_BYTES + SLOT_BYTES * self._slots + ENTRY_BYTES * entry

    @property
    def is_full(self) -> bool:
        """True if no entry fits any more."""
        return self.count >= self.most

    def reserve(self, entries: int) -> None:
        """Reserves blocks for so many entries more, as far as they fit into the file. Raises OSError."""
        needed = min(self._entry_position(self.count + entries), self.file.size)
        if needed > self._reserved:
            target = min(self.file.size, max(needed, self._reserved + _RESERVE_BYTES))
            try:
                self.file.reserve(self._reserved, target - self._reserved)
            except OSError:
                target = needed
                self.file.reserve(self._reserved, target - self._reserved)
            self._reserved = target

    def put(self, hashes: list[int], physical_offset: int, store_timestamp_ms: int) -> int:
        """Adds a message under each of some key hashes; gives how many of them fitted.

        Blocks have to be reserved. The header is written by `write_header`, once per bulk.
        """
        hashes = hashes[: self.most - self.count]
        if not hashes:
            return 0
        if self.count == 1:
            self.begin_physical = physical_offset
            self.begin_timestamp_ms = store_timestamp_ms
        seconds = (store_timestamp_ms - self.begin_timestamp_ms) // 1000 if self.begin_timestamp_ms > 0 else 0
        self.slots_used += put_entries(self._view, self._slots, self.count, hashes, physical_offset, seconds)
        self.count += len(hashes)
        self.end_physical = physical_offset
        self.end_timestamp_ms = store_timestamp_ms
        return len(hashes)

    def put_records(self, data: bytes, physical_offset: int, max_entries: int, max_records: int) -> int:
        """Adds the plain records at the start of a piece of the log; gives how many bytes of it they are.

        Blocks have to be reserved for `max_entries`. Records that it leaves are for `put`.
        """
        begin_ms = -1 if self.count == 1 else self.begin_timestamp_ms
        limit = min(self.most, self.count + max_entries)
        end: int
        end, entries, used, first, last = put_records(
            self._view, self._slots, self.count, limit, begin_ms, data, physical_offset, max_records
        )
        if entries:
            if self.count == 1:
                self.begin_physical, self.begin_timestamp_ms = first
            self.slots_used += used
            self.count += entries
            self.end_physical, self.end_timestamp_ms = last
        return end

    def write_header(self) -> None:
        _HEADER.pack_into(
            self._view,
            0,
            self.begin_timestamp_ms,
            self.end_timestamp_ms,
            self.begin_physical,
            self.end_physical,
            self.slots_used,
            self.count,
        )

    def chain(self, key_hash: int, begin_ms: int, end_ms: int) -> Chain | None:
        """The messages under a hash that were stored within a range of times; None where none can be.

        Entries that come later are not among them: a chain can be followed while others write.
        """
        if self.count <= 1 or end_ms < self.begin_timestamp_ms or begin_ms > self.end_timestamp_ms:
            return None
        if not len(self._view):
            return None  # it was removed meanwhile
        # An entry's time is known to the second it lies in: rounded down, as Apache compares it.
        earliest = -((self.begin_timestamp_ms - begin_ms) // 1000)
        latest = (end_ms - self.begin_timestamp_ms) // 1000
        return Chain(self._view, self._slots, self.count, key_hash, earliest, latest)

    def count_before(self, physical_offset: int) -> int:
        """The number of the first entry of a message from a physical offset on; `count` where none is."""
        low, high = 1, self.count
        while low < high:
            middle = (low + high) // 2
            if _ENTRY.unpack_from(self._view, self._entry_position(middle))[1] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def go_back_to(self, count: int) -> None:
        """Keeps entries below `count` and makes the slots again from them: what is behind them is of no known
        age.
        """
        self.file.reserve(0, self._entry_position(count))
        at = HEADER_BYTES
        while at < HEADER_BYTES + SLOT_BYTES * self._slots:
            step = min(1 << 20, HEADER_BYTES + SLOT_BYTES * self._slots - at)
            self._view[at : at + step] = bytes(step)
            at += step
        self.count = count
        self.slots_used = link_slots(self._view, self._slots, count)
        last = self._entry_position(count - 1)
        _, self.end_physical, seconds, _ = _ENTRY.unpack_from(self._view, last)
        self.end_timestamp_ms = self.begin_timestamp_ms + 1000 * seconds + 999
        self._reserved = self._entry_position(count)
        self.write_header()

    def sync(self) -> None:
        """Brings the file to the disk. Raises OSError."""
        self.file.sync()

    def close(self) -> None:
        self._view = memoryview(b"")
        self.file.close()

"""The index: messages by unique id, key and tag. Built in bulk from the log, behind the appends and off the
loop.

The part of the log that the index lacks is bounded: it is caught up several times a second, a slice at a
time. Reading by key waits at most for one slice. After a crash the newest file goes back to its last sync,
and what is missing is read from the log once more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from orbitmq.protocol.records.hashing import index_hash
from orbitmq.protocol.records.properties_cy import index_hashes
from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.records.scans import Stop
from orbitmq.store.files import SCARCE, Disk
from orbitmq.store.index.index_file import IndexFile, file_name, is_file_name
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.sound_records import next_record_in
from orbitmq.store.recovery.checkpoint import Checkpoint
from orbitmq.store.recovery.queue_checkpoint import QueueCheckpoint

log = logging.getLogger(__name__)

SLICE_BYTES = 256 << 10
SLICE_MESSAGES = 512
"""Messages indexed while the lock is held once."""
MOST_ENTRIES_PER_MESSAGE = 2000
"""Room that is reserved in front of a slice, and how many keys of one message are indexed."""
ROLLBACK = 0xC


@dataclass(eq=False, repr=False)
class Index:
    """All index files of a folder, and how far the log is indexed."""

    _disk: Disk
    _folder: Path
    _log: CommitLog
    _checkpoint: Checkpoint
    _slots: int
    _most: int
    _may_write: bool = True

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._error = ""
        self.sync_error: OSError | None = None
        """The error of a sync that failed. No further sync is tried; the next start rebuilds the index."""
        self._synced = ("", 0, 0)
        """At the last sync: the newest file, its entries, and the end of the indexed part of the log."""
        self._last_name = ""
        self.files: list[IndexFile] = []
        self.position = 0
        """Physical offset up to which the log is indexed."""

    # Opening.

    def load(self, clean: bool, queue_checkpoint: QueueCheckpoint | None, anew: bool = False) -> None:
        """Opens the files and finds out from where the log has to be indexed.

        `queue_checkpoint` is the one written beside the present checkpoint, else None. A file that is of the
        wrong size, torn, or newer than what was synced is removed or goes back; all files behind it go with
        it. All of them do where the index is to be made `anew`.
        """
        self._disk.make_folder(self._folder)
        names = [name for name in self._disk.names(self._folder) if is_file_name(name)]
        if anew:
            self._remove(names)
            names = []
        for name in names:
            index = IndexFile.open(self._disk, self._folder / name, self._slots, self._most)
            kept = index is not None and self._is_usable(index, name, clean, queue_checkpoint)
            if index is None or not kept:
                if index is not None:
                    index.close()
                log.warning("%s cannot be relied on: it is made anew from the log", self._folder / name)
                self._remove(names[names.index(name) :])
                break
            self.files.append(index)
            if not clean and queue_checkpoint is not None and name == queue_checkpoint.index_file:
                # It continues from the queue checkpoint: the files behind it do not hold what it gained
                # later.
                self._remove(names[names.index(name) + 1 :])
                break
        self._last_name = names[-1] if names else ""
        self.position = self._first_position(queue_checkpoint)
        if queue_checkpoint is not None:
            self._synced = (
                queue_checkpoint.index_file,
                queue_checkpoint.index_count,
                queue_checkpoint.index_position,
            )

    def _remove(self, names: list[str]) -> None:
        if names:
            for name in names:
                self._disk.remove(self._folder / name)
            # Would a power cut bring them back, the log may have grown by then to where they seem right.
            self._disk.sync_folder(self._folder)

    def _is_usable(
        self, index: IndexFile, name: str, clean: bool, queue_checkpoint: QueueCheckpoint | None
    ) -> bool:
        if index.end_physical >= self._log.max_physical and index.count > 1:
            return False  # It knows messages that the log does not have any more.
        if clean:
            return True
        if queue_checkpoint is not None and name == queue_checkpoint.index_file:
            if not 1 < queue_checkpoint.index_count <= index.count:
                return index.count == queue_checkpoint.index_count
            index.go_back_to(queue_checkpoint.index_count)
            return True
        return index.end_timestamp_ms <= self._checkpoint.index_timestamp_ms

    def _first_position(self, queue_checkpoint: QueueCheckpoint | None) -> int:
        first = self._log.min_physical
        if not self.files:
            return first
        newest = self.files[-1]
        if (
            queue_checkpoint is not None
            and newest.file.path.name == queue_checkpoint.index_file
            and newest.count == queue_checkpoint.index_count
            and queue_checkpoint.index_position <= self._log.max_physical
        ):
            return max(first, queue_checkpoint.index_position)
        if newest.count <= 1:
            return max(first, newest.end_physical)
        size = int.from_bytes(self._log.read(newest.end_physical, 4), "big", signed=True)
        return max(first, newest.end_physical + max(0, size))

    # Building.

    def behind(self, up_to: int) -> int:
        """Number of bytes of the log that are not indexed."""
        return max(0, up_to - self.position)

    def build(self, up_to: int, now_ms: int, max_slices: int = 1 << 62) -> None:
        """Indexes the log up to a physical offset, a slice at a time. A full disk is logged and tried again
        later.
        """
        if not self._may_write:
            self.position = max(self.position, up_to)
            return
        while self.position < up_to and max_slices > 0:
            max_slices -= 1
            with self._lock:
                # The log may have been cut since it ended there.
                up_to = min(up_to, self._log.max_physical)
                try:
                    self._build_slice(up_to, now_ms)
                except OSError as error:
                    if error.errno not in SCARCE:
                        raise
                    if self._error != str(error):
                        log.error("the index cannot grow: %s", error)
                    self._error = str(error)
                    return
                self._error = ""

    def _build_slice(self, up_to: int, now_ms: int) -> None:
        position = max(self.position, self._log.min_physical)
        segment = self._log.find(position)
        if segment is None:
            self.position = up_to
            return
        data = self._log.read(position, min(SLICE_BYTES, up_to - position))
        if len(data) >= 4:
            size = int.from_bytes(data[:4], "big", signed=True)
            if len(data) < size <= up_to - position:
                data = self._log.read(position, size)
        done = self._put_plain(data, position)
        if done:
            self.position = position + done
            return
        scan = scan_records(data, 0, len(data), position, False, False, SLICE_MESSAGES)
        if scan.records:
            self._put(scan.records, now_ms)
            self.position = position + scan.position
        elif scan.stop is Stop.BAD:
            following = next_record_in(segment, position - segment.start + 1)
            self.position = segment.start + (segment.size if following is None else following[0])
        else:
            self.position = segment.end if segment.end <= up_to else up_to

    def _put_plain(self, data: bytes, position: int) -> int:
        """Indexes the plain records at the start of a slice, which nearly all are; gives how many bytes."""
        index = self.files[-1] if self.files else None
        if index is None or index.is_full:
            return 0
        entries = 4 * SLICE_MESSAGES
        index.reserve(entries)
        done = index.put_records(data, position, entries, SLICE_MESSAGES)
        if done:
            index.write_header()
        return done

    def _put(self, records: list[tuple[int, int, int, int, int, int, str, int, bytes]], now_ms: int) -> None:
        index = self.files[-1] if self.files else self._add_file(now_ms)
        index.reserve(4 * len(records) + MOST_ENTRIES_PER_MESSAGE)
        left = 4 * len(records) + MOST_ENTRIES_PER_MESSAGE
        for physical_offset, _, _, _, store_timestamp, sys_flag, topic, _, properties in records:
            if sys_flag & 0xC == ROLLBACK:
                continue
            hashes = index_hashes(topic, properties)[:MOST_ENTRIES_PER_MESSAGE]
            while hashes:
                if index.is_full:
                    index.write_header()
                    index = self._add_file(now_ms)
                    left = 0
                if len(hashes) > left:
                    left = len(hashes) + MOST_ENTRIES_PER_MESSAGE
                    index.reserve(left)
                put = index.put(hashes, physical_offset, store_timestamp)
                left -= put
                hashes = hashes[put:]
        index.write_header()

    def _add_file(self, now_ms: int) -> IndexFile:
        before = self.files[-1] if self.files else None
        if before is not None and self._is_synced(before):
            self._checkpoint.index_timestamp_ms = before.end_timestamp_ms
        name = file_name(now_ms)
        while name <= self._last_name:
            # Two files within a millisecond, or a clock set back: order is by name.
            name = f"{int(self._last_name) + 1:017d}"
        index = IndexFile.create(self._disk, self._folder / name, self._slots, self._most, before)
        self._last_name = name
        self.files = [*self.files, index]
        return index

    def cut_to(self, physical_offset: int) -> None:
        """Forgets messages from a physical offset on. Raises OSError.

        A reader that follows a chain meanwhile may miss messages, or find others than it looks for: he
        compares keys.
        """
        with self._lock:
            self.position = min(self.position, physical_offset)
            self._synced = ("", 0, 0)
            gone = []
            while self.files and self.files[-1].end_physical >= physical_offset:
                count = self.files[-1].count_before(physical_offset)
                if count > 1:
                    self.files[-1].go_back_to(count)
                    break
                *self.files, index = self.files
                gone.append(index)
            for index in gone:
                self._disk.remove(index.file.path)
                index.close()
            if gone:
                self._disk.sync_folder(self._folder)

    # Asking.

    def find(self, text: str, begin_ms: int, end_ms: int, most: int) -> Generator[None, None, list[int]]:
        """Physical offsets of messages under `topic#key`, oldest first, the newest `most` of them.

        The hash decides, so others may be among them. It goes in steps of some ms, without the lock: nothing
        that a chain leads to changes any more.
        """
        key_hash = index_hash(text)
        found: list[int] = []
        for index in reversed(self.files):
            with self._lock:
                chain = index.chain(key_hash, begin_ms, end_ms)
            while chain is not None and len(found) < most and not chain.is_at_end:
                for physical_offset in chain.step(most - len(found)):
                    if physical_offset not in found:
                        found.append(physical_offset)
                yield
            if len(found) >= most or index.begin_timestamp_ms < begin_ms:
                break
        return sorted(found)

    @property
    def last(self) -> tuple[int, int]:
        """Store time in ms and physical offset of the newest message in the index; zeros without one."""
        files = self.files
        return (files[-1].end_timestamp_ms, files[-1].end_physical) if files else (0, 0)

    # Keeping.

    def sync(self) -> None:
        """Brings the newest file to the disk."""
        with self._lock:
            position = self.position
            if not self.files:
                return
            index = self.files[-1]
            count = index.count
            timestamp = index.end_timestamp_ms
        if self._is_synced(index):
            self._synced = (index.file.path.name, count, position)
            self._checkpoint.index_timestamp_ms = timestamp

    def note_in(self, queue_checkpoint: QueueCheckpoint) -> None:
        """Notes how far the last sync has brought the index; nothing where one has failed."""
        if self.sync_error is None:
            queue_checkpoint.index_file, queue_checkpoint.index_count, queue_checkpoint.index_position = (
                self._synced
            )

    def _is_synced(self, index: IndexFile) -> bool:
        """Brings a file to the disk. True if it and all before are there. A failed sync is never repeated."""
        if self.sync_error is None:
            try:
                index.sync()
            except OSError as error:
                log.error("%s cannot be flushed: %s; the next start makes it anew", index.file.path, error)
                self.sync_error = error
        return self.sync_error is None

    def remove_before(self, min_physical: int) -> None:
        """Removes files, but the newest, all of whose messages are gone from the log."""
        with self._lock:
            while len(self.files) > 1 and self.files[0].end_physical < min_physical:
                index, *self.files = self.files
                self._disk.remove(index.file.path)
                index.close()

    def close(self) -> None:
        """Lets go of all files."""
        with self._lock:
            for index in self.files:
                index.close()
            self.files = []

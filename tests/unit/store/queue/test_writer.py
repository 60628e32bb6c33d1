"""Units of all queues move from memory to files: nothing is lost, nobody waits, few files are open."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq import failpoints
from orbitmq.store import MessageStore, StoreOptions
from orbitmq.store.queue.consume_queue import UNIT, QueueTable
from orbitmq.store.queue.loading import load_queues
from orbitmq.store.queue.writer import MANY_FILES, QueueWriter
from tests.kit.store import NOW, QUEUE_FILE_BYTES, add_units, message


def test_units_move_from_memory_to_files(table: QueueTable, writer: QueueWriter) -> None:
    queue = table.make("T", 0)
    add_units(queue, 250)
    writer.run()
    assert len(queue.tail) == 250 * 20  # until the owner takes them out
    writer.trim_tails()
    assert len(queue.tail) == 0
    assert queue.tail_start == 250
    assert table.file_starts(queue) == [0, QUEUE_FILE_BYTES, 2 * QUEUE_FILE_BYTES]
    assert all(table.unit(queue, n) == (n * 100, 100, n) for n in (0, 99, 100, 249))
    assert table.unit(queue, 250) is None
    assert len(table.read(queue, 90, 50)) == 10 * 20  # to the end of the file
    add_units(queue, 1)
    assert table.unit(queue, 250) == (25_000, 100, 250)


def test_the_queues_with_the_newest_messages_are_known_without_their_files(
    table: QueueTable, writer: QueueWriter
) -> None:
    for queue_id, units in enumerate((3, 5, 2, 0)):
        add_units(table.make("T", queue_id), units)
    assert table.newest("T", 2) == ([1, 0], 1)
    writer.run()
    writer.trim_tails()
    assert table.newest("T", 2) == ([1, 0], 1)
    opened = QueueTable(table.disk, table.folder, table.file_bytes)
    load_queues(opened)
    assert opened.newest("T", 2) == ([1, 0], 1)
    add_units(table.make("T", 2), 9)
    assert table.newest("T", 1) == ([2], 2)


def test_units_added_while_the_writer_runs_wait_for_its_next_run(
    table: QueueTable, writer: QueueWriter
) -> None:
    queue = table.make("T", 0)
    add_units(queue, 10)
    with failpoints.armed_point("consumequeue.write", lambda: add_units(queue, 5)):
        writer.run()
    writer.trim_tails()
    assert queue.tail_start == 10
    assert len(queue.tail) == 5 * 20
    assert [table.unit(queue, n) for n in (9, 10, 14)] == [(n * 100, 100, n) for n in (9, 10, 14)]


def test_the_owner_does_not_wait_for_the_writer(table: QueueTable, writer: QueueWriter) -> None:
    queue = table.make("T", 0)
    add_units(queue, 10)
    writer.run()
    with writer.busy:
        writer.trim_tails()
        assert queue.tail_start == 0
    writer.trim_tails()
    assert queue.tail_start == 10


def test_a_write_that_fails_loses_nothing(table: QueueTable, writer: QueueWriter) -> None:
    queue = table.make("T", 0)
    add_units(queue, 10)

    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with failpoints.armed_point("consumequeue.write", fail), pytest.raises(OSError, match="No space"):
        writer.run()
    assert writer.error is not None
    writer.run()
    assert writer.error is None
    writer.trim_tails()
    assert table.unit(queue, 9) == (900, 100, 9)


def test_deleted_and_made_again_between_two_writes(table: QueueTable, writer: QueueWriter) -> None:
    queue = table.make("T", 0)
    add_units(queue, 10)
    writer.run()
    writer.mark_deleted(table.remove_topic("T"))
    again = table.make("T", 0)
    add_units(again, 3)
    writer.run()
    writer.trim_tails()
    assert again.tail_start == 3
    assert table.unit(again, 2) == (200, 100, 2)
    assert table.read_file(table.reading, again, 3, 1) == bytes(20)
    writer.mark_deleted(table.remove_topic("T"))
    writer.run()
    assert table.disk.names(table.folder) == []


def test_deleted_while_the_writer_runs(table: QueueTable, writer: QueueWriter) -> None:
    add_units(table.make("A", 0), 10)
    add_units(table.make("T", 0), 10)
    writer.run()
    for topic in ("A", "T"):
        queue = table.find(topic, 0)
        assert queue is not None
        add_units(queue, 1)

    def delete_and_make() -> None:
        if table.by_topic["T"][0].max_offset == 11:
            writer.mark_deleted(table.remove_topic("T"))
            add_units(table.make("T", 0), 2)

    with failpoints.armed_point("consumequeue.write", delete_and_make):
        writer.run()
    writer.run()
    writer.trim_tails()
    again = table.by_topic["T"][0]
    assert [table.unit(again, n) for n in range(3)] == [(0, 100, 0), (100, 100, 1), None]


def test_unsynced_files_are_not_held_open(
    table: QueueTable, writer: QueueWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.files, "most", 10)
    for number in range(60):
        add_units(table.make("T", number), 3)
    before = len(os.listdir("/proc/self/fd"))
    writer.run()
    assert len(os.listdir("/proc/self/fd")) <= before + 11
    writer.sync_all()
    assert len(os.listdir("/proc/self/fd")) <= before + 11


def test_a_run_over_new_units_misses_nothing(tmp_path: Path) -> None:
    """Whatever comes between two of them, told of or not, before one or behind it."""
    store = MessageStore.open(StoreOptions(root=tmp_path, max_index_num=1000, max_hash_slot_num=100), NOW)
    writer, arrivals = store.structures.queue_writer, store.structures.arrivals
    store.append(message(queue_id=1), NOW)
    store.arrivals.drain()
    store.append(message(queue_id=2), NOW)
    writer.run(arrivals.drain_unwritten)
    assert [store.structures.queues.find("T", n).written_to for n in (1, 2)] == [1, 1]
    store.arrivals.drain()
    store.append(message(queue_id=1), NOW)
    store.arrivals.drain()
    store.append(message(queue_id=1), NOW)
    writer.run(arrivals.drain_unwritten)
    writer.trim_tails()
    assert store.structures.queues.find("T", 1).written_to == 3
    assert store.max_offset("T", 1) == 3
    writer.run(arrivals.drain_unwritten)
    assert not writer.written, "nothing is written twice"
    store.close()


class WatchedFileSystem:
    """A file system that may fail, or not know of failures; it counts how often it was written out."""

    def __init__(self, is_written: bool, reports_errors: bool) -> None:
        self.reports_errors = reports_errors
        self._is_written = is_written
        self.count = 0

    def write_out(self) -> bool:
        self.count += 1
        return self._is_written

    def close(self) -> None:
        """Nothing to let go of."""


@pytest.mark.parametrize(
    ("is_written", "reports_errors", "files", "folders"),
    [(True, True, 0, 0), (True, False, MANY_FILES, 0), (False, True, MANY_FILES, 2 + MANY_FILES)],
)
def test_very_many_files_are_synced_together(
    tmp_path: Path,
    table: QueueTable,
    writer: QueueWriter,
    monkeypatch: pytest.MonkeyPatch,
    is_written: bool,
    reports_errors: bool,
    files: int,
    folders: int,
) -> None:
    """One by one only where the whole file system has failed, or cannot say so."""
    file_system = WatchedFileSystem(is_written, reports_errors)
    monkeypatch.setattr(table.disk, "file_system", lambda folder: file_system)
    synced: list[str] = []

    def counted(kind: str) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            # What an earlier test has left may sync files of its own, when it is collected at the latest.
            if Path(os.readlink(f"/proc/self/fd/{fd}")).is_relative_to(tmp_path):
                synced.append(kind)

        return sync

    monkeypatch.setattr(os, "fdatasync", counted("file"))
    monkeypatch.setattr(os, "fsync", counted("folder"))
    for number in range(MANY_FILES):
        add_units(table.make("T", number), 1)
    writer.run()
    writer.sync_all()
    assert (file_system.count, synced.count("file"), synced.count("folder")) == (1, files, folders)
    synced.clear()
    writer.sync_all()
    add_units(table.make("T", 0), 1)
    writer.run()
    writer.sync_all()
    assert (file_system.count, synced) == (1, ["file"]), "not for a few"


def test_a_file_system_that_fails_fails_for_good(
    table: QueueTable, writer: QueueWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_system = WatchedFileSystem(True, True)
    monkeypatch.setattr(table.disk, "file_system", lambda folder: file_system)
    for number in range(MANY_FILES):
        add_units(table.make("T", number), 1)
    writer.run()

    def fail() -> bool:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(file_system, "write_out", fail)
        with pytest.raises(OSError, match="the disk is gone"):
            writer.sync_all()
    with pytest.raises(OSError, match="an earlier sync failed"):
        writer.sync_all()


def test_tails_are_trimmed_in_steps(table: QueueTable, writer: QueueWriter) -> None:
    queues = [table.make("T", number) for number in range(5)]
    for queue in queues:
        add_units(queue, 1)
    writer.run()
    writer.trim_tails(2)
    assert [len(queue.tail) for queue in queues] == [0, 0, 20, 20, 20]
    add_units(queues[4], 1)
    writer.run()
    assert table.read(queues[4], 0, 2) == UNIT.pack(0, 100, 0) + UNIT.pack(100, 100, 1)
    writer.trim_tails()
    assert [len(queue.tail) for queue in queues] == [0] * 5

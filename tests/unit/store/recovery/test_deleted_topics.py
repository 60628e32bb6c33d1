"""A topic that was deleted and made anew, and a crash: its queues hold its own messages, all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.store import MessageStore
from orbitmq.store.config_files import backup_path, write_text
from tests.kit.store import NOW, crash, flip, message, opened, read_queue, run_task


def fill(store: MessageStore, first: int, count: int, topic: str = "T") -> list[int]:
    for number in range(first, first + count):
        store.append(message(number, topic), NOW + number)
    return list(range(first, first + count))


def numbers(store: MessageStore, topic: str = "T") -> list[int]:
    return [one.flag for one in read_queue(store, topic)]


def note(store: MessageStore, root: Path, deletions: Deletions, topic: str = "T") -> None:
    """Notes a deletion and saves it, as the broker does before it answers."""
    deletions.note(topic, store.log_end(), NOW)
    store.flushing.flush_now()
    write_text(root / "config" / Deletions.FILE, deletions.snapshot()())


def delete(store: MessageStore, root: Path, topic: str = "T") -> None:
    note(store, root, Deletions(DirtyTables()), topic)
    store.structures.delete_queues(topic)


@pytest.mark.parametrize("new", [0, 3, 25])
@pytest.mark.parametrize("checkpoint", ["none", "before", "after"])
@pytest.mark.parametrize("files_are_gone", [False, True])
def test_records_of_the_deleted_topic_come_into_no_queue_of_the_new_one(
    tmp_path: Path, new: int, checkpoint: str, files_are_gone: bool
) -> None:
    store = opened(tmp_path)
    fill(store, 0, 10)
    if checkpoint == "before":
        run_task(store, "write queues", NOW + 60_000)
    delete(store, tmp_path)
    if files_are_gone:
        store.structures.queue_writer.run()
    own = fill(store, 10, new)
    if checkpoint == "after":
        run_task(store, "write queues", NOW + 60_100)
    own += fill(store, 100, 2)
    crash(store)
    for _ in range(2):
        store = opened(tmp_path)
        assert numbers(store) == own
        crash(store)
    store = opened(tmp_path)
    own += fill(store, 200, 1)
    store.close()
    store = opened(tmp_path)
    assert numbers(store) == own
    store.close()


@pytest.mark.parametrize("checkpoint", ["none", "before", "after"])
@pytest.mark.parametrize("files", ["old", "gone", "new"])
def test_a_deletion_that_no_file_tells_of_costs_the_new_topic_nothing(
    tmp_path: Path, checkpoint: str, files: str
) -> None:
    """A slave follows the log of its master alone, or is killed before it has noted the deletion."""
    store = opened(tmp_path)
    fill(store, 0, 10)
    if checkpoint == "before":
        run_task(store, "write queues", NOW + 60_000)
    store.structures.delete_queues("T")
    if files == "gone":
        store.structures.queue_writer.run()
    own = fill(store, 10, 3)
    if files == "new":
        store.structures.queue_writer.run()
    if checkpoint == "after":
        run_task(store, "write queues", NOW + 60_100)
    own += fill(store, 100, 12)
    crash(store)
    for _ in range(2):
        store = opened(tmp_path)
        assert numbers(store) == own
        crash(store)


@pytest.mark.parametrize(("damaged", "bit"), [(1, 1), (2, 2), (8, 8)])
def test_a_damaged_queue_offset_does_not_begin_a_queue_anew(tmp_path: Path, damaged: int, bit: int) -> None:
    store = opened(tmp_path)
    places = [store.append(message(number), NOW + number).physical_offset for number in range(12)]
    crash(store)
    flip(tmp_path, places[damaged] + 27, bit)
    store = opened(tmp_path)
    assert numbers(store) == [number for number in range(12) if number != damaged]
    store.close()


def test_messages_count_where_a_segment_ended_and_another_master_wrote_on(tmp_path: Path) -> None:
    """The slave was cut in the segment before, and killed before it had noted that."""
    store = opened(tmp_path)
    fill(store, 0, 10)
    cut_at = store.max_physical
    store.structures.log.end_segment()
    delete(store, tmp_path)
    stale = (tmp_path / "config" / Deletions.FILE).read_text()
    store.truncation.run(cut_at, NOW)
    own = fill(store, 100, 3)
    (tmp_path / "config" / Deletions.FILE).write_text(stale)
    crash(store)
    store = opened(tmp_path)
    assert numbers(store) == own
    store.close()


def test_a_topic_that_is_not_made_anew_has_no_queues(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, 0, 10)
    run_task(store, "write queues", NOW + 60_000)
    delete(store, tmp_path)
    fill(store, 20, 5, "Other")
    crash(store)
    store = opened(tmp_path)
    assert store.topics() == ["Other"]
    assert numbers(store, "Other") == [20, 21, 22, 23, 24]
    store.close()


def test_messages_where_the_log_was_cut_are_the_new_topics_whatever_a_stale_file_says(tmp_path: Path) -> None:
    """A slave is cut behind its master's log, and is killed before it has noted that."""
    store = opened(tmp_path)
    fill(store, 0, 10)
    cut_at = store.max_physical
    fill(store, 20, 5, "Other")
    delete(store, tmp_path)
    stale = (tmp_path / "config" / Deletions.FILE).read_text()
    store.truncation.run(cut_at, NOW)
    own = fill(store, 100, 40)
    assert store.max_physical > store.log_end(cut_at).physical_offset
    (tmp_path / "config" / Deletions.FILE).write_text(stale)
    crash(store)
    store = opened(tmp_path)
    assert set(own) <= set(numbers(store))
    read = Deletions(DirtyTables())
    read.load_text(stale)
    read.keep(store.of_this_log)
    assert read.by_topic == {}, "timers and delays of the new topic stay, too"
    store.close()


def test_a_deletion_that_followed_a_cut_counts(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, 0, 10)
    cut_at = store.max_physical
    fill(store, 20, 5, "Other")
    deletions = Deletions(DirtyTables())
    note(store, tmp_path, deletions)
    store.structures.delete_queues("T")
    store.truncation.run(cut_at, NOW)
    deletions.cut_to(store.log_end())
    write_text(tmp_path / "config" / Deletions.FILE, deletions.snapshot()())
    own = fill(store, 100, 3)
    crash(store)
    store = opened(tmp_path)
    assert numbers(store) == own
    store.close()


def test_the_end_of_the_log_of_before_is_known_by_its_last_record(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, 0, 3)
    then = store.log_end()
    fill(store, 3, 3)
    assert store.log_end(then.physical_offset) == then
    assert store.log_end().last_record == store.newest.physical_offset > then.last_record
    store.close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"deletions": 3}'])
def test_a_torn_file_gives_way_to_the_one_before_or_counts_for_nothing(tmp_path: Path, content: str) -> None:
    store = opened(tmp_path)
    fill(store, 0, 10)
    delete(store, tmp_path)
    path = tmp_path / "config" / Deletions.FILE
    path.rename(backup_path(path))
    path.write_text(content)
    own = fill(store, 10, 3)
    crash(store)
    store = opened(tmp_path)
    assert numbers(store) == own
    crash(store)
    for one in (path, backup_path(path)):
        one.write_text(content)
    store = opened(tmp_path)  # the broker refuses the file, with its name
    assert set(numbers(store)) <= set(range(13))
    store.close()

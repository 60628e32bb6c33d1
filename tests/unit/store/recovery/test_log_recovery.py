"""Opening stores in every state they may be left in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orbitmq.store import Appended, MessageStore, StoreCorrupt, StoreLocked
from orbitmq.store.files import RealDisk, StoreFile
from tests.kit.store import (
    NOW,
    SEGMENT,
    bodies,
    crash,
    filled,
    flip,
    message,
    opened,
    query,
    read_queue,
    run_task,
    segments,
    write_queues,
)


def numbers(store: MessageStore, queue_id: int = 0) -> list[int]:
    records = read_queue(store, "T", queue_id)
    first = records[0].queue_offset if records else 0
    assert [record.queue_offset for record in records] == list(range(first, first + len(records)))
    return [record.flag for record in records]


def folder_of(root: Path, queue_id: int = 0) -> Path:
    return root / "consumequeue" / "T" / str(queue_id)


def test_a_new_folder_is_laid_out(tmp_path: Path) -> None:
    root = tmp_path / "new" / "store"
    store = opened(root)
    assert (root / "lock").read_bytes() == b"lock"
    assert (root / "abort").read_text().isdigit()
    assert (root / "commitlog" / f"{0:020d}").stat().st_size == SEGMENT
    store.close()
    assert not (root / "abort").exists()
    assert (root / "checkpoint").stat().st_size == 4096


def test_an_empty_store_opens_again(tmp_path: Path) -> None:
    for _ in range(3):
        store = opened(tmp_path)
        assert (store.min_physical, store.max_physical) == (0, 0)
        store.close()


def test_after_a_clean_stop_the_log_is_not_read(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 100)
    end = store.max_physical
    store.close()
    store = opened(tmp_path)
    assert not store.recovered.scanned
    assert store.max_physical == end == store.durable_offset
    assert numbers(store) == list(range(100))
    assert store.append(message(100), NOW).queue_offset == 100
    assert store.append(message(100), NOW - 5000).store_timestamp >= NOW + 99


@pytest.mark.parametrize("written", [False, True])
def test_after_a_crash_all_is_there(tmp_path: Path, written: bool) -> None:
    store = opened(tmp_path)
    filled(store, 250, body=bytes(500))
    if written:
        run_task(store, "write queues", NOW + 1)
    crash(store)
    store = opened(tmp_path)
    assert store.recovered.scanned
    assert numbers(store) == list(range(250))
    assert store.arrivals.drain() == []
    assert store.append(message(250), NOW).queue_offset == 250
    crash(store)
    assert numbers(opened(tmp_path)) == list(range(251))


def test_half_messages_get_no_units_in_recovery(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for sys_flag in (0, 0x4, 0x8, 0xC, 0):
        store.append(message(sys_flag=sys_flag), NOW)
    crash(store)
    store = opened(tmp_path)
    assert store.max_offset("T", 0) == 3


def test_a_torn_record_ends_the_log(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 20)
    torn = appended[15].physical_offset + 50
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(torn)
        log.write(bytes(appended[-1].end_offset - torn))
    run_task(store, "write queues", NOW)
    crash(store)
    store = opened(tmp_path)
    assert numbers(store) == list(range(15))
    assert store.max_physical == appended[15].physical_offset
    assert store.append(message(99), NOW + 100).queue_offset == 15
    crash(store)
    assert numbers(opened(tmp_path)) == [*range(15), 99]


def test_what_stood_behind_a_torn_record_never_comes_back(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 10)
    flip(tmp_path, appended[5].physical_offset + 90)
    crash(store)
    store = opened(tmp_path)
    assert numbers(store) == list(range(5))
    # The same size as the torn one: were the next one still there, it would fit on.
    store.append(message(5), NOW)
    crash(store)
    assert numbers(opened(tmp_path)) == list(range(6))


def test_a_damaged_record_that_was_synced_is_stepped_over(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 10)
    run_task(store, "write queues", NOW + 120_000)
    store.append(message(10), NOW + 20)
    flip(tmp_path, appended[5].physical_offset + 90)
    crash(store)
    store = opened(tmp_path)
    assert numbers_with_gap(store) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert store.figures().bad_records == 1
    assert appended[5].physical_offset in store.reader.bad_records
    crash(store)


def numbers_with_gap(store: MessageStore) -> list[int]:
    return [record.flag for record in read_queue(store)]


def test_a_damaged_store_time_is_not_that_of_new_messages(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 5)
    last = store.physical_offset_of("T", 0, 4)
    assert last is not None
    crash(store)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(last[0] + 56)
        log.write(b"\x30")
    store = opened(tmp_path)
    store.append(message(5, keys="k"), NOW + 1000)
    assert [record.store_timestamp for record in read_queue(store, "T")][5:] == [NOW + 1000]
    store.close()


def test_damage_does_not_cut_a_log_that_was_closed_in_order(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 10)
    store.close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[appended[9].physical_offset + 90] ^= 1  # the last one: the noted end does not hold any more
    data[appended[3].physical_offset] = 0x7F  # nor can this one's size be believed
    path.write_bytes(data)
    store = opened(tmp_path)
    assert numbers_with_gap(store) == [0, 1, 2, 4, 5, 6, 7, 8]
    store.close()


def test_segments_behind_the_end_go(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 60, body=bytes(3000))
    assert len(segments(store)) > 2
    flip(tmp_path, appended[2].physical_offset + 90)
    crash(store)
    store = opened(tmp_path)
    assert numbers(store) == [0, 1]
    assert len(store.structures.log.segments) == 1
    crash(store)


@pytest.mark.parametrize("content", [b"", b"x" * 20, bytes(5), b"9" * 30, b"70000"])
def test_whatever_an_earlier_process_says_it_could_not_flush_the_log_is_whole(
    tmp_path: Path, content: bytes
) -> None:
    store = opened(tmp_path)
    filled(store, 60, body=bytes(3000))
    crash(store)
    (tmp_path / "unflushed").write_bytes(content)
    store = opened(tmp_path)
    assert numbers(store) == list(range(60))
    assert store.durable_offset == store.max_physical
    assert not (tmp_path / "unflushed").exists(), "it is done"
    crash(store)
    (tmp_path / "unflushed").mkdir()
    with pytest.raises(StoreCorrupt, match="unflushed: cannot be used"):
        opened(tmp_path)


# The place at which reading begins.


def test_after_a_crash_the_log_is_read_from_the_last_marks_on(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 30)
    run_task(store, "write queues", NOW + 60_000)
    filled(store, 20)
    last = store.append(message(7, sys_flag=4), NOW)
    run_task(store, "write queues", NOW + 120_000)
    filled(store, 10)
    filled(store, 10, queue_id=1)
    crash(store)
    store = opened(tmp_path)
    assert store.recovered.read_from == last.physical_offset
    assert store.recovered.rebuilt_units == 20
    assert numbers_with_gap(store) == [*range(30), *range(20), *range(10)]
    assert numbers(store, 1) == list(range(10))
    crash(store)
    assert len(read_queue(opened(tmp_path))) == 60


def crashed_behind_the_queue_checkpoint(tmp_path: Path) -> list[Appended]:
    """A store that crashed with five messages behind its queue checkpoint; returns the twenty before."""
    store = opened(tmp_path)
    appended = filled(store, 20)
    run_task(store, "write queues", NOW + 120_000)
    filled(store, 5)
    crash(store)
    return appended


def test_marks_of_a_record_that_is_not_in_the_log_are_no_place_to_begin(tmp_path: Path) -> None:
    appended = crashed_behind_the_queue_checkpoint(tmp_path)
    flip(tmp_path, appended[19].physical_offset + 90)
    flip(tmp_path, appended[3].physical_offset + 90)
    store = opened(tmp_path)
    assert store.recovered.read_from == 0
    assert store.figures().bad_records == 2
    assert numbers_with_gap(store) == [n for n in range(20) if n not in (3, 19)] + list(range(5))
    store.close()


def test_damage_before_where_reading_begins_is_not_served_either(tmp_path: Path) -> None:
    appended = crashed_behind_the_queue_checkpoint(tmp_path)
    flip(tmp_path, appended[3].physical_offset + 90)
    store = opened(tmp_path)
    assert store.recovered.read_from == appended[19].physical_offset
    assert numbers_with_gap(store) == [n for n in range(20) if n != 3] + list(range(5))
    assert list(store.reader.bad_records) == [appended[3].physical_offset]
    store.close()


def test_queue_entries_behind_the_marks_are_taken_from_the_log(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10, tag="A")
    run_task(store, "write queues", NOW + 120_000)
    filled(store, 10, tag="B")
    run_task(store, "write queues", NOW + 121_000)
    crash(store)
    path = folder_of(tmp_path) / f"{0:020d}"
    expected = path.read_bytes()
    data = bytearray(expected)
    # A page that was lost in a power cut may hold one half of a unit: valid, with another tag.
    data[15 * 20 + 12 : 400] = bytes(400 - 15 * 20 - 12)
    path.write_bytes(data)
    store = opened(tmp_path)
    assert numbers_with_gap(store) == [*range(10), *range(10)]
    assert path.read_bytes() == expected
    store.close()


def test_what_nobody_sees_yet_is_not_before_where_reading_begins(tmp_path: Path) -> None:
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    appended = filled(store, 5)
    store.flushing.flush_now()
    store.arrivals.drain()
    filled(store, 5, queue_id=1)
    run_task(store, "write queues", NOW + 120_000)  # flushes what came last, and it is shown after that
    crash(store)
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    assert store.recovered.read_from == appended[4].physical_offset
    assert (numbers(store), numbers(store, 1)) == (list(range(5)), list(range(5)))
    store.close()


def test_marks_count_though_a_flush_ended_while_they_were_written(tmp_path: Path) -> None:
    class FlushedMeanwhile(RealDisk):
        def open(self, path: Path, size: int | None = None, mode: int = 0o644) -> StoreFile:
            if path.name == "checkpoint" and size is not None:
                store.append(message(9), NOW + 120_000)
                store.flushing.flush_now()
            return super().open(path, size, mode)

    store = opened(tmp_path, disk=FlushedMeanwhile(), flush_disk_type="SYNC_FLUSH")
    appended = filled(store, 5)
    store.flushing.flush_now()
    store.arrivals.drain()
    run_task(store, "write queues", NOW + 60_000)
    crash(store)
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    assert store.recovered.read_from == appended[4].physical_offset
    assert numbers(store) == [*range(5), 9]
    store.close()


def test_entries_of_a_queue_that_is_younger_than_the_marks_are_taken_from_the_log(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10)
    run_task(store, "write queues", NOW + 120_000)
    filled(store, 10, queue_id=1, tag="B")
    run_task(store, "write queues", NOW + 121_000)
    crash(store)
    path = folder_of(tmp_path, 1) / f"{0:020d}"
    expected = path.read_bytes()
    path.write_bytes(expected[: 5 * 20 + 12].ljust(len(expected), b"\0"))
    store = opened(tmp_path)
    assert numbers(store, 1) == list(range(10))
    assert path.read_bytes() == expected
    store.close()


def test_where_the_record_of_the_marks_has_left_the_log_all_of_it_is_read(tmp_path: Path) -> None:
    store = opened(tmp_path, commit_log_recover_max_num=2)
    filled(store, 5, queue_id=1)
    run_task(store, "write queues", NOW + 60_000)
    filled(store, 100, body=bytes(3000), tag="B")
    store.structures.queue_writer.run()
    assert store.structures.log.remove_first()
    first = store.min_physical
    crash(store)
    path = folder_of(tmp_path) / f"{0:020d}"
    expected = path.read_bytes()
    path.write_bytes(expected[: 99 * 20 + 12].ljust(len(expected), b"\0"))
    store = opened(tmp_path, commit_log_recover_max_num=2)
    assert store.recovered.read_from == first
    assert path.read_bytes()[50 * 20 :] == expected[50 * 20 :]
    store.close()


def other_log(tmp_path: Path, clean: bool) -> dict[str, bytes]:
    """A store whose log is now one of other messages at the same places. Gives the queue files of that."""
    for name, tag, queue_ids in (("kept", "A", (0, 1)), ("given", "B", (0, 2))):
        store = opened(tmp_path / name)
        for queue_id in queue_ids:
            filled(store, 20, tag=tag, keys=tag, queue_id=queue_id)
        run_task(store, "index", NOW)
        run_task(store, "write queues", NOW + 120_000)
        if clean:
            store.close()
        else:
            filled(store, 5, tag=tag, keys=tag)
            run_task(store, "write queues", NOW + 121_000)
            crash(store)
    shutil.rmtree(tmp_path / "kept" / "commitlog")
    shutil.copytree(tmp_path / "given" / "commitlog", tmp_path / "kept" / "commitlog")
    return {
        str(path.relative_to(tmp_path / "given")): path.read_bytes()
        for path in (tmp_path / "given" / "consumequeue").rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("clean", [True, False])
def test_marks_of_another_log_do_not_count_though_it_has_the_same_places(tmp_path: Path, clean: bool) -> None:
    expected = other_log(tmp_path, clean)
    for _ in range(2):
        store = opened(tmp_path / "kept")
        assert numbers_with_gap(store) == [*range(20), *([] if clean else range(5))]
        assert numbers(store, 2) == list(range(20))
        assert store.max_offset("T", 1) == 0, "it has no messages in this log"
        run_task(store, "index", NOW)
        assert len(query(store, "T", "B", 64, 0, 1 << 60).records) == len(read_queue(store)) + 20
        assert query(store, "T", "A", 64, 0, 1 << 60).records == []
        store.close()
    for name, content in expected.items():
        assert (tmp_path / "kept" / name).read_bytes() == content
    assert not (tmp_path / "kept" / "consumequeue" / "T" / "1").exists()


def test_a_bit_that_nothing_covers_does_not_make_it_another_log(tmp_path: Path) -> None:
    appended = crashed_behind_the_queue_checkpoint(tmp_path)
    flip(tmp_path, appended[19].physical_offset + 47)  # of the born time
    store = opened(tmp_path)
    assert store.recovered.read_from == 0
    assert not store.recovered.lost_units
    assert numbers_with_gap(store) == [*range(20), *range(5)]
    store.close()


def test_marks_that_know_no_record_are_no_place_to_begin(tmp_path: Path) -> None:
    """As they were written before they named any."""
    crashed_behind_the_queue_checkpoint(tmp_path)
    path = tmp_path / "queuemarks.json"
    values = json.loads(path.read_text())
    del values["known"]
    path.write_text(json.dumps(values))
    store = opened(tmp_path)
    assert store.recovered.read_from == 0
    assert numbers_with_gap(store) == [*range(20), *range(5)]
    store.close()


def test_a_topic_deleted_while_marks_are_written_is_not_in_the_next_ones(tmp_path: Path) -> None:
    class DeletedMeanwhile(RealDisk):
        def rename(self, path: Path, new_path: Path) -> None:
            super().rename(path, new_path)
            if new_path.name == "queuemarks.json":
                store.structures.delete_queues("T")

    store = opened(tmp_path, disk=DeletedMeanwhile())
    filled(store, 10)
    run_task(store, "write queues", NOW + 60_000)
    run_task(store, "write queues", NOW + 60_100)
    crash(store)
    assert opened(tmp_path).topics() == []


def test_the_log_is_not_read_as_a_whole_since_retention_took_queue_files(tmp_path: Path) -> None:
    small = {"mapped_file_size_consume_queue": 20 * 10}
    store = opened(tmp_path, **small)
    appended = filled(store, 100, body=bytes(3000))
    run_task(store, "write queues", NOW + 60_000)
    store.structures.log.remove_first()
    store.structures.follow_log(store.min_physical)
    run_task(store, "write queues", NOW + 60_100)
    crash(store)
    store = opened(tmp_path, **small)
    assert store.recovered.read_from == appended[99].physical_offset
    store.close()


# Consume queues.


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "what", ["queue", "topic", "all", "last file", "first file", "middle file", "cut", "zeros"]
)
def test_lost_queue_files_are_made_anew(tmp_path: Path, what: str, clean: bool) -> None:
    store = opened(tmp_path)
    for number in range(350):
        store.append(message(number, queue_id=number % 2 if number < 20 else 0), NOW + number)
    expected = numbers(store), numbers(store, 1)
    run_task(store, "write queues", NOW + 120_000)
    if clean:
        store.close()
    else:
        crash(store)
    queue = folder_of(tmp_path)
    files = sorted(queue.iterdir())
    assert len(files) == 4
    match what:
        case "queue":
            shutil.rmtree(queue)
        case "topic":
            shutil.rmtree(queue.parent)
        case "all":
            shutil.rmtree(queue.parent.parent)
        case "last file":
            files[-1].unlink()
        case "first file":
            files[0].unlink()
        case "middle file":
            files[1].unlink()
        case "cut":
            files[-1].write_bytes(files[-1].read_bytes()[:333])
        case "zeros":
            files[-2].write_bytes(bytes(2000))
    store = opened(tmp_path)
    assert (numbers(store), numbers(store, 1)) == expected
    assert store.append(message(350), NOW + 400).queue_offset == len(expected[0])
    store.close()
    store = opened(tmp_path)
    assert numbers(store) == [*expected[0], 350]
    assert sum(path.stat().st_size == 2000 for path in queue.iterdir()) == 4
    store.close()


def test_units_beyond_the_log_go(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 120)
    write_queues(store)
    crash(store)
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    end = appended[80].physical_offset
    path.write_bytes(data[:end] + bytes(len(data) - end))
    store = opened(tmp_path)
    assert numbers(store) == list(range(80))
    store.close()
    assert not any((folder_of(tmp_path) / f"{0:020d}").read_bytes()[80 * 20 :])
    assert not (folder_of(tmp_path) / f"{2000:020d}").exists()


def test_a_log_that_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10)
    store.close()
    shutil.rmtree(tmp_path / "commitlog")
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="the segments from 0 on are missing"):
            opened(tmp_path)
    assert (folder_of(tmp_path) / f"{0:020d}").exists()
    (tmp_path / "queuemarks.json").unlink()  # as the line says
    store = opened(tmp_path)
    assert store.topics() == []
    assert store.append(message(1), NOW).queue_offset == 0
    assert bodies(store) == [b"body 1"]
    store.close()
    assert bodies(opened(tmp_path)) == [b"body 1"]


@pytest.mark.parametrize("clean", [True, False])
def test_newest_segments_that_are_gone_are_asked_for(tmp_path: Path, clean: bool) -> None:
    store = opened(tmp_path)
    filled(store, 60, body=bytes(3000))
    run_task(store, "write queues", NOW + 120_000)
    if clean:
        store.close()
    else:
        crash(store)
    segments = sorted((tmp_path / "commitlog").iterdir())
    written = [path for path in segments if any(path.read_bytes())]
    for path in segments[segments.index(written[-1]) :]:
        path.unlink()
    with pytest.raises(
        StoreCorrupt, match=f"the segments from {SEGMENT * (len(written) - 1)} on are missing"
    ):
        opened(tmp_path)


def test_a_queue_whose_beginning_left_the_log_begins_with_blank_units(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 60, body=bytes(3000))
    crash(store)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    shutil.rmtree(tmp_path / "consumequeue")
    store = opened(tmp_path)
    first = next(one.queue_offset for one in appended if one.physical_offset >= SEGMENT)
    assert store.min_offset("T", 0) == first
    assert numbers(store) == list(range(first, 60))
    store.close()
    units = (folder_of(tmp_path) / f"{0:020d}").read_bytes()
    assert units[: 20 * first] == bytes.fromhex("00000000000000007fffffff0000000000000000") * first
    store = opened(tmp_path)
    assert store.min_offset("T", 0) == first
    assert numbers(store) == list(range(first, 60))
    store.close()


def test_what_the_log_lost_in_the_middle_leaves_places_right(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 10)
    run_task(store, "write queues", NOW + 120_000)
    store.append(message(10), NOW + 50)
    crash(store)
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[appended[4].physical_offset : appended[6].physical_offset] = b"\xff" * (2 * appended[4].size)
    path.write_bytes(data)
    shutil.rmtree(tmp_path / "consumequeue")
    store = opened(tmp_path)
    assert [(record.queue_offset, record.flag) for record in read_queue(store)] == [
        (n, n) for n in (0, 1, 2, 3, 6, 7, 8, 9, 10)
    ]
    assert store.recovered.lost_units == 2
    store.close()


# Foreign and damaged files.


def test_apaches_other_files_are_left_alone(tmp_path: Path) -> None:
    names = ["abort.bak", "compaction/x/0", "rocksdbstore/CURRENT"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "README").write_text("hello")
    (tmp_path / "consumequeue" / "T" / "notes").mkdir(parents=True)
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "stray").write_text("x")
    store = opened(tmp_path)
    filled(store, 3)
    store.close()
    store = opened(tmp_path)
    assert numbers(store) == [0, 1, 2]
    store.close()
    assert all((tmp_path / name).read_text() == "x" for name in names)


def test_segments_of_another_size_say_what_to_set(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 3)
    store.close()
    with pytest.raises(StoreCorrupt, match="set mappedFileSizeCommitLog=65536 if the store was made so"):
        opened(tmp_path, mapped_file_size_commit_log=1 << 20)
    assert numbers(opened(tmp_path)) == [0, 1, 2]


def test_an_empty_last_segment_is_removed(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 3)
    store.close()
    (tmp_path / "commitlog" / f"{SEGMENT:020d}").touch()
    store = opened(tmp_path)
    assert numbers(store) == [0, 1, 2]
    store.close()


def test_a_second_segment_made_ahead_is_no_harm(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 3)
    store.close()
    (tmp_path / "commitlog" / f"{SEGMENT:020d}").write_bytes(bytes(SEGMENT))
    store = opened(tmp_path)
    assert filled(store, 1)[0].queue_offset == 3
    store.close()
    assert numbers(opened(tmp_path)) == [0, 1, 2, 0]


def test_a_gap_between_segments_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 80, body=bytes(3000))
    store.close()
    (tmp_path / "commitlog" / f"{SEGMENT:020d}").unlink()
    with pytest.raises(StoreCorrupt, match="there is no segment from 65536 to 131072"):
        opened(tmp_path)


def test_queue_files_of_another_size_say_what_to_set(tmp_path: Path) -> None:
    store = opened(tmp_path, mapped_file_size_consume_queue=4000)
    filled(store, 300)
    store.close()
    with pytest.raises(StoreCorrupt, match="mappedFileSizeConsumeQueue"):
        opened(tmp_path)
    assert len(numbers(opened(tmp_path, mapped_file_size_consume_queue=4000))) == 300


def test_batch_queues_are_neither_read_nor_written(tmp_path: Path) -> None:
    (tmp_path / "batchconsumequeue" / "B" / "0").mkdir(parents=True)
    store = opened(tmp_path)
    assert store.append(message(topic="B"), NOW).status.name == "MESSAGE_ILLEGAL"
    store.close()
    assert not (tmp_path / "consumequeue" / "B").exists()


def test_one_folder_one_store(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(StoreLocked):
        opened(tmp_path)
    store.close()
    store.close()
    opened(tmp_path).close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreCorrupt, match="cannot be made a data folder"):
        opened(tmp_path / "file" / "store")


def test_a_failed_start_lets_go_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(b"x" * 10)
    for _ in range(2):
        with pytest.raises(StoreCorrupt):
            opened(tmp_path)


def test_marks_written_beside_another_checkpoint_do_not_count(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10)
    store.close()
    # Apache's broker was here: it deleted the topic, and left a checkpoint of its own.
    shutil.rmtree(tmp_path / "consumequeue" / "T")
    store = opened(tmp_path)
    filled(store, 1, topic="S")
    store.close()
    data = bytearray((tmp_path / "checkpoint").read_bytes())
    data[7] ^= 1
    (tmp_path / "checkpoint").write_bytes(data)
    shutil.rmtree(tmp_path / "consumequeue" / "T")
    (tmp_path / "queuemarks.json").write_text((tmp_path / "queuemarks.json").read_text())
    store = opened(tmp_path)
    assert store.topics() == ["S", "T"]  # read again from the log, as Apache's would
    store.close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"queues": 3}', '{"queues": {"T": {"x": [0]}}}'])
def test_torn_marks_do_not_count(tmp_path: Path, content: str) -> None:
    store = opened(tmp_path)
    filled(store, 10)
    store.close()
    (tmp_path / "queuemarks.json").write_text(content)
    store = opened(tmp_path)
    assert numbers(store) == list(range(10))
    store.close()


def test_a_folder_where_a_file_has_to_be_says_so(tmp_path: Path) -> None:
    (tmp_path / "commitlog" / f"{0:020d}").mkdir(parents=True)
    with pytest.raises(StoreCorrupt, match="cannot be used"):
        opened(tmp_path)


@pytest.mark.parametrize("chunk", [100, 700, 5000])
def test_records_longer_than_what_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("orbitmq.store.recovery.log_recovery.CHUNK_BYTES", chunk)
    monkeypatch.setattr("orbitmq.store.index.index_table.SLICE_BYTES", chunk)
    monkeypatch.setattr("orbitmq.store.log.sound_records._SEARCH_BYTES", chunk)
    store = opened(tmp_path)
    appended = [store.append(message(n, body=bytes(n * 997 % 6000)), NOW + n) for n in range(60)]
    run_task(store, "write queues", NOW + 120_000)
    store.append(message(60), NOW + 100)
    flip(tmp_path, appended[3].physical_offset + 90)
    flip(tmp_path, appended[7].physical_offset, 0x40)
    shutil.rmtree(tmp_path / "consumequeue")
    crash(store)
    store = opened(tmp_path)
    assert numbers_with_gap(store) == [n for n in range(61) if n not in (3, 7)]
    assert store.figures().bad_records == 2
    run_task(store, "index", NOW)
    for number in (0, 2, 4, 60):
        assert len(query(store, "T", f"ID{number:08d}", 1, 0, 1 << 60, "U").records) == 1
    store.close()

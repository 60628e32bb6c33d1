"""Messages by key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.store import MessageStore
from orbitmq.store.files import RealDisk
from orbitmq.store.index.index_file import IndexFile, file_bytes, file_name, is_file_name
from tests.fault.recorded_disk import RecordedDisk
from tests.kit.store import NOW, crash, filled, message, opened, options, query, run_task

ALWAYS = (0, 1 << 60)


def found(store: MessageStore, key: str, kind: str = "K", topic: str = "T", most: int = 64) -> list[int]:
    """The numbers of the messages under a key."""
    return [decode_record(record).flag for record in query(store, topic, key, most, *ALWAYS, kind).records]


def test_unique_ids_keys_and_tags(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append_many(
        [
            message(1, keys="k1 k2", tag="a"),
            message(2, keys="k2  k3"),
            message(3, topic="S", keys="k2"),
            message(4, keys="k4", sys_flag=0xC),
            message(5, keys="k5", sys_flag=0x4),
        ],
        NOW,
    )
    assert found(store, "k1") == [1]
    assert found(store, "k2") == [1, 2]
    assert found(store, "k3") == [2]
    assert found(store, "k2", topic="S") == [3]
    assert found(store, "ID00000002", "U") == [2]
    assert found(store, "a", "T") == [1]
    assert found(store, "k4") == []  # taken back
    assert found(store, "k5") == [5]
    assert found(store, "") == []


def test_the_newest_come_first_when_there_are_too_many(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(20):
        store.append(message(number, keys="k"), NOW + 1000 * number)
    assert found(store, "k", most=5) == [15, 16, 17, 18, 19]
    in_range = query(store, "T", "k", 64, NOW + 3000, NOW + 6000)
    assert [decode_record(record).flag for record in in_range.records] == [3, 4, 5, 6]
    assert in_range.last_timestamp == NOW + 19_000
    assert in_range.last_physical_offset > 0


def test_full_files_are_followed_by_new_ones(tmp_path: Path) -> None:
    store = opened(tmp_path, max_index_num=50)
    filled(store, 120, keys="k")
    assert found(store, "k")[-1] == 119
    names = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert len(names) == 5
    for number in (0, 60, 119):
        assert found(store, f"ID{number:08d}", "U") == [number]
    store.close()
    store = opened(tmp_path, max_index_num=50)
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == names
    store.append(message(200, keys="k"), NOW + 500)
    assert found(store, "ID00000060", "U") == [60]
    assert found(store, "k")[-1] == 200


def test_nothing_is_indexed_twice_after_a_clean_stop(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10, keys="k")
    store.close()
    for _ in range(3):
        store = opened(tmp_path)
        assert found(store, "k") == list(range(10))
        store.close()
        [index] = (tmp_path / "index").iterdir()
        assert int.from_bytes(index.read_bytes()[36:40], "big") == 1 + 20


def test_after_a_crash_the_index_goes_back_to_its_last_sync(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10, keys="k")
    run_task(store, "index", NOW)
    run_task(store, "write queues", NOW + 120_000)
    for number in range(10, 20):
        store.append(message(number, keys="k"), NOW + number)
    run_task(store, "index", NOW)
    (path,) = (tmp_path / "index").iterdir()
    crash(store)
    # Pages that the kernel wrote after the sync are of any age: wipe some of it, as a power cut would.
    data = bytearray(path.read_bytes())
    data[40 : 40 + 400] = bytes(400)
    data[440 + 20 * 25 :] = bytes(len(data) - 440 - 20 * 25)
    path.write_bytes(data)
    store = opened(tmp_path)
    assert found(store, "k") == list(range(20))
    assert [found(store, f"ID{number:08d}", "U") for number in range(20)] == [[n] for n in range(20)]
    assert list((tmp_path / "index").iterdir()) == [path]
    crash(store)


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\xff" * file_bytes(100, 400)])
def test_a_torn_index_file_is_made_anew(tmp_path: Path, content: bytes) -> None:
    store = opened(tmp_path)
    filled(store, 10, keys="k")
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    path.write_bytes(content)
    store = opened(tmp_path)
    assert found(store, "k") == list(range(10))
    store.close()
    assert all(file.stat().st_size == file_bytes(100, 400) for file in (tmp_path / "index").iterdir())


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_an_index_that_was_lost_is_made_anew(tmp_path: Path, end: str) -> None:
    store = opened(tmp_path, max_index_num=50)
    filled(store, 60, keys="k")
    run_task(store, "index", NOW)
    if end == "stop":
        store.close()
    else:
        crash(store)
    shutil.rmtree(tmp_path / "index")
    store = opened(tmp_path, max_index_num=50)
    assert found(store, "k") == list(range(60))
    store.close()


def test_an_index_newer_than_the_log_is_made_anew(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10, keys="k")
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    index = IndexFile.open(RealDisk(), path, 100, 400)
    assert index is not None
    index.put([1], 60_000, NOW + 10**6)
    index.write_header()
    index.close()
    store = opened(tmp_path)
    assert found(store, "k") == list(range(10))
    store.close()


def test_without_an_index_nothing_is_found_and_nothing_written(tmp_path: Path) -> None:
    store = opened(tmp_path, message_index_enable=False)
    filled(store, 3, keys="k")
    assert found(store, "k") == []
    assert store.figures().index_behind_bytes == 0
    store.close()
    assert list((tmp_path / "index").iterdir()) == []


def test_damage_in_the_log_stops_only_what_is_damaged(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 5, keys="k")
    at = appended[2].physical_offset
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(at)
        log.write(b"\xff" * 8)
    assert found(store, "k") == [0, 1, 3, 4]


def test_names_are_local_time_with_milliseconds() -> None:
    name = file_name(NOW + 42)
    assert len(name) == 17
    assert name.endswith("042")


def test_a_message_with_more_keys_than_a_file_holds(tmp_path: Path) -> None:
    store = opened(tmp_path, max_index_num=50)
    store.append(message(1, keys=" ".join(f"k{n}" for n in range(120))), NOW)
    assert found(store, "k0") == found(store, "k119") == [1]


def test_a_file_that_a_start_removed_does_not_come_back_with_a_power_cut(tmp_path: Path) -> None:
    disk = RecordedDisk(tmp_path)
    store = MessageStore.open(options(tmp_path), NOW, disk)
    for number in range(5):
        store.append(message(number, keys="k"), NOW)
    store.close()
    (index,) = (data for path, data in disk.files() if path.parent.name == "index")
    index[:40] = b"\xff" * 40
    disk.open(tmp_path / "abort", 1).write(0, b"1")
    before = len(disk.journal)
    store = MessageStore.open(options(tmp_path), NOW, disk)
    steps = [(step.kind, Path(step.path).name) for step in disk.journal[before:]]
    (removed,) = (at for at, (kind, name) in enumerate(steps) if kind == "unname" and is_file_name(name))
    assert ("sync folder", "index") in steps[removed:]
    assert len(query(store, "T", "k", 9, 0, 1 << 60).records) == 5, "it is made anew"
    crash(store)


def test_records_in_bulk_become_the_entries_that_they_become_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def indexed(name: str) -> list[bytes]:
        store = opened(tmp_path / name, max_index_num=500)
        for number in range(300):
            topic = "T" if number % 5 else "Grüße"
            keys = " ".join(f"k{key}" for key in range(number % 90)) if number % 3 else " a  b "
            tag = ("", "a", "ä", "TagB")[number % 4]
            sys_flag = (0, 4, 8, 0xC)[number % 7 % 4]
            store.append(
                message(number, topic=topic, keys=keys, tag=tag, sys_flag=sys_flag), NOW + 700 * number
            )
            if number % 50 == 0:
                found(store, "a")
        store.close()
        return [path.read_bytes() for path in sorted((tmp_path / name / "index").iterdir())]

    in_bulk = indexed("bulk")
    assert len(in_bulk) > 5
    monkeypatch.setattr(IndexFile, "put_records", lambda *args: 0)
    assert indexed("one_by_one") == in_bulk


def test_marks_that_leave_the_index_out_tell_how_far_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.store.checkpointing.EVERY_BYTES", 1000)
    store = opened(tmp_path)
    filled(store, 20)
    run_task(store, "index", NOW)
    run_task(store, "write queues", NOW + 60_000)
    indexed_to = store.max_physical
    for number in range(20, 150):
        store.append(message(number), NOW + number)
    run_task(store, "index", NOW)
    run_task(store, "write queues", NOW + 61_000)
    crash(store)
    for _ in range(2):
        store = opened(tmp_path)
        assert store.recovered.read_from > indexed_to
        assert store.figures().index_behind_bytes == store.max_physical - indexed_to
        crash(store)
    store = opened(tmp_path)
    run_task(store, "index", NOW)
    for number in range(150):
        assert len(query(store, "T", f"ID{number:08d}", 9, 0, 1 << 60, "U").records) == 1
    store.close()


def test_files_begun_since_the_index_was_synced_leave_no_hole_behind_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.store.checkpointing.EVERY_BYTES", 1000)
    store = opened(tmp_path, max_index_num=50)
    filled(store, 20, keys="k")
    run_task(store, "index", NOW)
    run_task(store, "write queues", NOW + 60_000)
    for number in range(20, 100):
        store.append(message(number, keys="k"), NOW + 20)  # within a millisecond
    run_task(store, "index", NOW)
    run_task(store, "write queues", NOW + 61_000)
    assert len(list((tmp_path / "index").iterdir())) > 1
    crash(store)
    store = opened(tmp_path, max_index_num=50)
    assert [found(store, f"ID{number:08d}", "U") for number in range(100)] == [[n] for n in range(100)]
    store.close()

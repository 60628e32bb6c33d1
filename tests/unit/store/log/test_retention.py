"""Segments that go, and the tables that follow them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbitmq.store import GetStatus, MessageStore, PutStatus
from orbitmq.store.files import RealDisk
from orbitmq.store.log.retention import HOUR_MS
from tests.kit.store import (
    NOW,
    SEGMENT,
    bodies,
    filled,
    get_warm,
    message,
    opened,
    query,
    run_task,
    write_queues,
)


class FullDisk(RealDisk):
    """A disk that is as full as a test says."""

    used = 0.1

    def space(self, folder: Path) -> tuple[int, int]:
        return 1000, round(1000 * (1 - self.used))


def age(root: Path, hours: int, now: int = NOW) -> None:
    """Makes all segments that old."""
    for path in (root / "commitlog").iterdir():
        os.utime(path, (now / 1000 - hours * 3600,) * 2)


@pytest.fixture
def disk() -> FullDisk:
    return FullDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FullDisk) -> MessageStore:
    from tests.kit.store import options

    store = MessageStore.open(
        options(tmp_path, delete_when="", delete_commit_log_files_interval=0), NOW, disk
    )
    filled(store, 100, body=bytes(3000))
    write_queues(store)
    return store


def segments(root: Path) -> int:
    return len(list((root / "commitlog").iterdir()))


def test_young_segments_stay(store: MessageStore, tmp_path: Path) -> None:
    age(tmp_path, 71)
    store.retention.ask()
    run_task(store, "retention", NOW)
    assert store.min_physical == 0


def test_what_was_written_after_the_clock_was_set_back_goes_no_earlier(tmp_path: Path) -> None:
    """Files tell the machine's time, and rounds are told one that nobody sets."""
    store = opened(tmp_path, delete_when="")
    run_task(store, "retention", NOW)
    filled(store, 100, body=bytes(3000))
    run_task(store, "retention", NOW)
    age(tmp_path, 1)
    for hours, goes in ((71.5, False), (72.5, True)):
        store.retention.ask()
        run_task(store, "retention", NOW + round(hours * HOUR_MS))
        assert (store.min_physical > 0) is goes
    store.close()


def test_old_segments_go_when_asked_but_never_the_newest(store: MessageStore, tmp_path: Path) -> None:
    age(tmp_path, 73)
    run_task(store, "retention", NOW)
    assert store.min_physical == 0
    store.retention.ask()
    run_task(store, "retention", NOW)
    assert store.min_physical > 0
    [newest] = (tmp_path / "commitlog").iterdir()
    assert newest.name == f"{store.min_physical:020d}"


def test_messages_that_wait_to_be_delivered_stay_whatever_their_age(
    store: MessageStore, tmp_path: Path, disk: FullDisk
) -> None:
    age(tmp_path, 73)
    store.retention.keep_from = SEGMENT + 10
    store.retention.ask()
    run_task(store, "retention", NOW)
    assert store.min_physical == SEGMENT
    store.retention.keep_from = None
    run_task(store, "retention", NOW)
    assert store.min_physical > SEGMENT


def test_only_a_full_disk_makes_waiting_messages_go_and_that_is_an_error(
    store: MessageStore, disk: FullDisk, caplog: pytest.LogCaptureFixture
) -> None:
    store.retention.keep_from = 0
    disk.used = 0.88
    run_task(store, "retention", NOW)
    assert store.min_physical > 0
    assert f"{0:020d} holds messages that still wait to be delivered" in caplog.text


def test_queues_and_index_follow_the_log(store: MessageStore, tmp_path: Path) -> None:
    run_task(store, "index", NOW)
    age(tmp_path, 73)
    store.retention.ask()
    run_task(store, "retention", NOW)
    low = store.min_offset("T", 0)
    assert 0 < low < 100
    assert store.get("T", 0, 0, 32).status is GetStatus.OFFSET_TOO_SMALL
    assert store.get("T", 0, 0, 32).next_offset == low
    assert len(bodies(store)) == 100 - low
    assert store.record_at(0) is None
    assert query(store, "T", "ID00000000", 1, 0, 1 << 60, "U").records == []
    assert len(query(store, "T", f"ID{low:08d}", 1, 0, 1 << 60, "U").records) == 1
    store.close()
    store = opened(tmp_path)
    assert store.min_offset("T", 0) == low
    assert len(bodies(store)) == 100 - low


def test_queue_files_before_the_first_message_go(tmp_path: Path) -> None:
    store = opened(tmp_path, mapped_file_size_consume_queue=20 * 10, delete_when="")
    filled(store, 100, body=bytes(3000))
    write_queues(store)
    assert len(list((tmp_path / "consumequeue" / "T" / "0").iterdir())) == 10
    age(tmp_path, 73)
    store.retention.ask()
    run_task(store, "retention", NOW)
    low = store.min_offset("T", 0)
    names = sorted(int(path.name) for path in (tmp_path / "consumequeue" / "T" / "0").iterdir())
    assert names[0] == low // 10 * 200
    store.close()
    store = opened(tmp_path, mapped_file_size_consume_queue=20 * 10)
    assert store.min_offset("T", 0) == low
    assert len(bodies(store)) == 100 - low


def test_the_hour_of_deletion(tmp_path: Path, disk: FullDisk) -> None:
    from datetime import datetime

    hour = datetime.fromtimestamp(NOW / 1000).hour
    store = opened(tmp_path, disk=disk, delete_when=f"{(hour + 5) % 24:02d}; {(hour + 1) % 24}")
    filled(store, 100, body=bytes(3000))
    age(tmp_path, 73)
    run_task(store, "retention", NOW)
    assert store.min_physical == 0
    run_task(store, "retention", NOW + HOUR_MS)
    assert store.min_physical > 0


def test_a_fairly_full_disk_deletes_what_has_expired(
    store: MessageStore, tmp_path: Path, disk: FullDisk
) -> None:
    age(tmp_path, 73)
    disk.used = 0.76
    run_task(store, "retention", NOW)
    assert store.min_physical > 0


def test_a_full_disk_deletes_young_segments_too(store: MessageStore, disk: FullDisk) -> None:
    disk.used = 0.86
    run_task(store, "retention", NOW)
    assert store.min_physical > 0
    assert store.is_writable
    assert store.retention.is_pressed, "messages that wait may be lost"
    disk.used = 0.84
    run_task(store, "retention", NOW)
    assert not store.retention.is_pressed


def test_nothing_that_waits_is_in_danger_while_there_is_one_segment(tmp_path: Path, disk: FullDisk) -> None:
    store = opened(tmp_path, disk=disk)
    filled(store, 3)
    disk.used = 0.89
    run_task(store, "retention", NOW)
    assert not store.retention.is_pressed
    store.close()


def test_a_full_disk_deletes_no_young_segments_where_that_is_forbidden(
    store: MessageStore, disk: FullDisk
) -> None:
    store.options.clean_file_forcibly_enable = False
    disk.used = 0.86
    run_task(store, "retention", NOW)
    assert store.min_physical == 0


def test_above_the_warning_level_nothing_is_taken_until_there_is_room(
    store: MessageStore, disk: FullDisk
) -> None:
    disk.used = 0.95
    run_task(store, "retention", NOW)
    assert store.append(message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.figures().refusal == "the disk is too full"
    disk.used = 0.5
    run_task(store, "retention", NOW)
    assert store.append(message(), NOW).status is PutStatus.PUT_OK


def test_only_so_many_segments_go_in_one_round(tmp_path: Path) -> None:
    store = opened(tmp_path, delete_when="", delete_file_batch_max=2, delete_commit_log_files_interval=0)
    filled(store, 100, body=bytes(3000))
    before = segments(tmp_path)
    assert before >= 5
    age(tmp_path, 73)
    store.retention.ask()
    run_task(store, "retention", NOW)
    assert segments(tmp_path) == before - 2
    run_task(store, "retention", NOW)
    assert segments(tmp_path) == max(1, before - 4)


def test_a_deleted_segment_lives_as_long_as_its_last_reader(store: MessageStore, tmp_path: Path) -> None:
    result = get_warm(store, "T", 0, 0, 1)
    before = bytes(result.records[0])
    age(tmp_path, 73)
    store.retention.ask()
    run_task(store, "retention", NOW)
    assert not (tmp_path / "commitlog" / f"{0:020d}").exists()
    assert bytes(result.records[0]) == before
    assert store.min_physical >= SEGMENT


def test_deleted_queues_are_gone_and_begin_anew(store: MessageStore, tmp_path: Path) -> None:
    assert store.structures.delete_queues("T") == 1
    assert store.topics() == []
    assert store.get("T", 0, 0, 1).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    store.append(message(7), NOW)
    run_task(store, "write queues", NOW)
    assert bodies(store) == [b"body 7"]
    store.structures.delete_queues("T")
    run_task(store, "write queues", NOW)
    assert not (tmp_path / "consumequeue" / "T").exists()
    store.close()
    assert opened(tmp_path).max_offset("T", 0) == 0

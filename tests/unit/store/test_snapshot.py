"""Copies of a folder that a store works in, opened by another store."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store import MessageStore
from orbitmq.store.snapshot import SnapshotFailed, take_snapshot
from tests.kit.store import NOW, SEGMENT, crash, filled, message, opened, read_queue


@pytest.fixture
def live(tmp_path: Path) -> Iterator[MessageStore]:
    store = opened(tmp_path / "live")
    yield store
    store.close()


def tend(store: MessageStore) -> None:
    for task in store.periodic_tasks():
        if task.name in ("flush", "write queues", "index", "reserve"):
            task.run(NOW + 200_000)


def numbers(store: MessageStore, topic: str = "T") -> list[int]:
    return [record.flag for record in read_queue(store, topic)]


def test_a_copy_of_a_live_store_has_all_that_was_stored_before(live: MessageStore, tmp_path: Path) -> None:
    filled(live, 1500)
    tend(live)
    filled(live, 1)  # in memory and in the log only
    figures = take_snapshot(tmp_path / "live", tmp_path / "copy")
    assert figures.linked_files > 3
    assert figures.copied_bytes < 10 * SEGMENT
    live_numbers = numbers(live)
    copy = opened(tmp_path / "copy")
    assert numbers(copy) == live_numbers
    assert copy.max_offset("T", 0) == 1501
    copy.close()


def test_what_is_done_in_a_copy_does_not_reach_the_original(live: MessageStore, tmp_path: Path) -> None:
    filled(live, 1500)
    tend(live)
    take_snapshot(tmp_path / "live", tmp_path / "copy")
    copy = opened(tmp_path / "copy")
    filled(copy, 700, now=NOW + 10_000, body=b"only in the copy")
    copy.structures.delete_queues("T")
    tend(copy)
    copy.close()
    filled(live, 700, now=NOW + 10_000)
    live.close()
    again = opened(tmp_path / "live")
    assert numbers(again) == [*range(1500), *range(700)]
    assert all(b"copy" not in record.body for record in read_queue(again))
    again.close()


def test_a_copy_while_messages_come_is_whole_up_to_some_message(tmp_path: Path) -> None:
    store = opened(tmp_path / "live")
    filled(store, 300)
    stop = threading.Event()
    stored = [300]

    def send() -> None:
        # The owner of the store: appends, and does its tasks in between, as a broker does.
        while not stop.is_set():
            number = stored[0]
            store.append(message(number), NOW + number)
            stored[0] = number + 1
            if number % 97 == 0:
                tend(store)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for attempt in range(5):
            before = stored[0]
            take_snapshot(tmp_path / "live", tmp_path / f"copy{attempt}")
            copy = opened(tmp_path / f"copy{attempt}")
            found = numbers(copy)
            assert found == list(range(len(found)))
            assert len(found) >= before
            copy.append(message(9), NOW + 1_000_000)
            assert numbers(copy)[-1] == 9
            copy.close()
    finally:
        stop.set()
        sender.join()
        store.close()


def test_a_segment_made_ahead_is_no_reason_to_link_the_one_in_use(live: MessageStore, tmp_path: Path) -> None:
    filled(live, 10)
    folder = tmp_path / "live" / "commitlog"
    in_use = min(folder.iterdir())
    ahead = folder / f"{SEGMENT:020d}"
    if not ahead.exists():
        ahead.touch()
        os.truncate(ahead, SEGMENT)
    take_snapshot(tmp_path / "live", tmp_path / "copy")
    assert not in_use.samefile(tmp_path / "copy" / "commitlog" / in_use.name)


def test_holes_stay_holes(live: MessageStore, tmp_path: Path) -> None:
    sparse = tmp_path / "live" / "consumequeue" / "T" / "0" / f"{0:020d}"
    sparse.parent.mkdir(parents=True)
    with sparse.open("wb") as file:
        file.truncate(8 << 20)
        file.seek(4 << 20)
        file.write(b"in the middle")
    take_snapshot(tmp_path / "live", tmp_path / "copy")
    copied = tmp_path / "copy" / sparse.relative_to(tmp_path / "live")
    assert copied.read_bytes() == sparse.read_bytes()
    assert copied.stat().st_blocks * 512 < 1 << 20


def test_a_stopped_store_is_copied_too(tmp_path: Path) -> None:
    store = opened(tmp_path / "live")
    filled(store, 20)
    store.close()
    take_snapshot(tmp_path / "live", tmp_path / "copy")
    copy = opened(tmp_path / "copy")
    assert numbers(copy) == list(range(20))
    copy.close()


def test_a_store_that_crashed_is_copied_too(tmp_path: Path) -> None:
    store = opened(tmp_path / "live")
    filled(store, 20)
    crash(store)
    take_snapshot(tmp_path / "live", tmp_path / "copy")
    copy = opened(tmp_path / "copy")
    assert numbers(copy) == list(range(20))
    copy.close()


def test_a_copy_may_be_within_the_folder_and_is_not_copied_itself(live: MessageStore, tmp_path: Path) -> None:
    filled(live, 20)
    root = tmp_path / "live"
    take_snapshot(root, root / "first")
    take_snapshot(root, root / "copies" / "second")
    assert not (root / "copies" / "second" / "first").exists()
    assert not (root / "copies" / "second" / "copies").exists()
    copy = opened(root / "copies" / "second")
    assert numbers(copy) == list(range(20))
    copy.close()


def test_other_files_of_the_folder_come_along_but_for_those_of_the_process(
    live: MessageStore, tmp_path: Path
) -> None:
    filled(live, 1)
    (tmp_path / "live" / "namesrv").mkdir()
    (tmp_path / "live" / "namesrv" / "kvConfig.json").write_text("{}")
    secret = tmp_path / "live" / "config" / "users.json"
    secret.write_text("{}")
    secret.chmod(0o600)
    (tmp_path / "live" / "config" / "auth.key").write_text("opens secrets")
    take_snapshot(tmp_path / "live", tmp_path / "copy")
    copy = tmp_path / "copy"
    assert not (copy / "config" / "auth.key").exists()
    assert (copy / "namesrv" / "kvConfig.json").read_text() == "{}"
    assert (copy / "config" / "users.json").stat().st_mode & 0o777 == 0o600
    assert (copy / "abort").exists()
    assert not (copy / "lock").exists()


def test_where_no_links_can_be_made_everything_is_copied(
    live: MessageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(live, 1500)

    def refused(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    figures = take_snapshot(tmp_path / "live", tmp_path / "copy")
    assert figures.linked_files == 0
    copy = opened(tmp_path / "copy")
    assert numbers(copy) == list(range(1500))
    copy.close()


@pytest.mark.parametrize("refused", ["no data folder", "target there", "interrupted"])
def test_nothing_is_overwritten(live: MessageStore, tmp_path: Path, refused: str) -> None:
    source, target = tmp_path / "live", tmp_path / "copy"
    if refused == "no data folder":
        source = tmp_path
    elif refused == "target there":
        target.mkdir()
    else:
        (tmp_path / "copy.partial").mkdir()
    with pytest.raises(SnapshotFailed):
        take_snapshot(source, target)


def test_a_copy_that_fails_leaves_nothing(
    live: MessageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(live, 1)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(SnapshotFailed, match="No space left"):
        take_snapshot(tmp_path / "live", tmp_path / "copy")
    assert not list(tmp_path.glob("copy*"))

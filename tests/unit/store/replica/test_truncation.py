"""A log cut at run time: the store is then one that never had more, and every crash in between leaves one."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbitmq import failpoints
from orbitmq.store import GetStatus, MessageStore, StoreUnavailable
from orbitmq.store.errors import CannotTruncate, StoreCorrupt
from orbitmq.store.replica.truncation import FILE_NAME
from tests.fault.recorded_disk import RecordedDisk
from tests.kit.store import NOW, SEGMENT, bodies, crash, filled, message, opened, options, query

QUEUES = [("T", 0), ("T", 1), ("U", 0)]


def put(store: MessageStore, number: int, seed: int) -> int:
    """Appends a message whose size and queue follow from its number; gives where it ends."""
    chance = random.Random(f"{seed} {number}")
    body = b"%d " % number + bytes(chance.choice([10, 500, 6000]))
    topic, queue_id = chance.choice(QUEUES)
    sent = message(number, topic, queue_id, body=body, keys=f"k{number % 5}")
    return store.append(sent, NOW + number * 10).end_offset


def content(store: MessageStore) -> dict[object, object]:
    """Everything that readers can tell of a store."""
    end = store.max_physical
    found: dict[object, object] = {
        "end": end,
        "last": store.newest.physical_offset,
        "topics": sorted(store.topics()),
    }
    log = bytearray()
    while len(log) < end:
        log += store.log.read(len(log), SEGMENT)
    found["log"] = bytes(log)
    for topic, queue_id in QUEUES:
        first, behind = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        found[topic, queue_id] = (
            first,
            behind,
            b"".join(store.lookup.units(topic, queue_id, at, 1) for at in range(behind)),
        )
        found[topic, queue_id, "bodies"] = bodies(store, topic, queue_id)
    for number in range(5):
        for topic in ("T", "U"):
            records = query(store, topic, f"k{number}", 64, 0, 1 << 60).records
            found[topic, f"k{number}"] = sorted(map(bytes, records))
    return found


def run_tasks(store: MessageStore, now: int) -> None:
    for task in store.periodic_tasks():
        if task.name != "retention":
            task.run(now)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 30),
    kept=st.integers(0, 60),
    cut_off=st.integers(1, 40),
    inside=st.booleans(),
    tasks=st.sets(st.sampled_from(["before", "between", "after"])),
    restart=st.sampled_from(["no", "close", "crash"]),
)
def test_a_cut_store_is_one_that_never_had_the_tail(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    kept: int,
    cut_off: int,
    inside: bool,
    tasks: set[str],
    restart: str,
) -> None:
    root = tmp_path_factory.mktemp("cut")
    cut, never = opened(root / "cut"), opened(root / "never")
    for number in range(kept):
        assert put(cut, number, seed) == put(never, number, seed)
    if "before" in tasks:
        run_tasks(cut, NOW + 70_000)
    end = cut.max_physical
    for number in range(kept, kept + cut_off):
        put(cut, number, seed)
    if "between" in tasks:
        run_tasks(cut, NOW + 140_000)
    cut.arrivals.drain()
    assert cut.truncation.run(end + (50 if inside else 0), NOW + 200_000) == end
    assert content(cut) == content(never)
    # Other messages take the places of those that were cut off.
    for number in range(kept + cut_off, kept + cut_off + 30):
        assert put(cut, number, seed) == put(never, number, seed)
    if "after" in tasks:
        run_tasks(cut, NOW + 280_000)
    if restart == "close":
        cut.close()
    elif restart == "crash":
        crash(cut)
    if restart != "no":
        cut = opened(root / "cut", NOW + 300_000)
    assert content(cut) == content(never)
    cut.close()
    never.close()


def test_every_crash_amid_a_truncation_leaves_all_of_the_log_or_the_cut_one(tmp_path: Path) -> None:
    disk = RecordedDisk(tmp_path / "store")
    store = opened(tmp_path / "store", NOW, disk)
    wanted = opened(tmp_path / "wanted")
    for number in range(40):
        put(store, number, 3)
        put(wanted, number, 3)
    run_tasks(store, NOW + 70_000)
    end = store.max_physical
    for number in range(40, 70):
        put(store, number, 3)
    run_tasks(store, NOW + 140_000)
    whole, cut = content(store), content(wanted)
    before = len(disk.journal)
    store.truncation.run(end, NOW + 150_000)
    assert content(store) == cut
    crash(store)
    playback = disk.playback()
    seen = set()
    for step in range(before, len(disk.journal) + 1):
        playback.go_to(step)
        for left in (playback.killed(), playback.power_cut(random.Random(step))):
            again = opened(tmp_path / "store", NOW + 200_000, left)
            found = content(again)
            assert found in (whole, cut)
            seen.add(found == cut)
            crash(again)
    assert seen == {False, True}
    wanted.close()


@pytest.mark.parametrize("point", ["intended", "log", "queues", "index", "timers"])
def test_a_truncation_that_failed_halfway_is_completed_by_the_next_start(tmp_path: Path, point: str) -> None:
    store = opened(tmp_path)
    end = filled(store, 20)[11].end_offset

    def fail() -> None:
        raise OSError(5, "the disk is gone")

    with (
        failpoints.armed_point(f"truncation.{point}", fail),
        pytest.raises(OSError, match="the disk is gone"),
    ):
        store.truncation.run(end, NOW + 100)
    assert not store.is_writable
    with pytest.raises(StoreUnavailable, match="ended halfway"):
        store.replica.append(store.max_physical, b"")
    store.close()
    assert (tmp_path / FILE_NAME).exists()
    again = opened(tmp_path)
    assert (again.max_physical, len(bodies(again))) == (end, 12)
    assert not (tmp_path / FILE_NAME).exists()
    filled(again, 3)
    again.close()


@pytest.mark.parametrize("point", ["intended", "log", "queues", "index", "timers"])
def test_a_truncation_that_failed_halfway_is_completed_by_another_call(tmp_path: Path, point: str) -> None:
    """A disk that was full for some seconds: the broker could take no role until it was started anew."""
    store = opened(tmp_path)
    end = filled(store, 20)[11].end_offset

    def fail() -> None:
        raise OSError(28, "No space left on device")

    with failpoints.armed_point(f"truncation.{point}", fail), pytest.raises(OSError, match="No space"):
        store.truncation.run(end, NOW + 100)
    assert store.truncation.run(end, NOW + 200) == end
    assert store.is_writable
    assert not (tmp_path / FILE_NAME).exists()
    filled(store, 3)
    found = bodies(store)
    assert len(found) == 15
    store.close()
    again = opened(tmp_path)
    assert bodies(again) == found
    again.close()


def test_a_truncation_that_could_not_be_noted_has_cut_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    end = filled(store, 20)[11].end_offset
    (tmp_path / "truncation.tmp").mkdir()
    (tmp_path / "truncation.tmp" / "in the way").touch()
    with pytest.raises(OSError, match=r"directory|empty|permitted"):
        store.truncation.run(end, NOW + 100)
    assert store.is_writable
    assert len(bodies(store)) == 20
    store.close()


def test_readers_are_sent_back_to_the_end_and_views_of_what_is_kept_stay(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 30)
    run_tasks(store, NOW + 70_000)
    before = store.get("T", 0, 0, 5)
    kept = [bytes(record) for record in before.records]
    into = bytearray(64 << 10)
    cursor = store.reader.cursor("T", 0, 32, 0, None, len(into))
    assert cursor is not None
    store.truncation.run(appended[9].end_offset, NOW + 100)
    assert [bytes(record) for record in before.records] == kept
    result = store.copy(cursor, 15, into)
    assert result is not None
    assert (result.status, result.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 10)
    store.append(message(77), NOW + 200)
    assert bodies(store)[-1] == b"body 77"
    assert store.arrivals.drain({("T", 0)})[-1][2] == 11
    store.close()


def test_segments_behind_the_end_go_as_a_whole(tmp_path: Path) -> None:
    store = opened(tmp_path)
    ends = [put(store, number, 9) for number in range(120)]
    assert store.max_physical > 3 * SEGMENT
    held = store.record_at(max(end for end in ends[:-1]))
    assert held is not None
    seen = bytes(held)
    end = max(end for end in ends if end < SEGMENT)
    assert store.truncation.run(end, NOW + 5_000) == end
    assert bytes(held) == seen
    assert not (tmp_path / "commitlog" / f"{2 * SEGMENT:020d}").exists()
    store.close()


def test_a_cut_at_the_start_of_a_segment_leaves_the_one_before_full(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(60):
        put(store, number, 4)
    assert store.truncation.run(SEGMENT, NOW + 5_000) == SEGMENT
    assert store.max_physical == SEGMENT
    last = store.newest.physical_offset
    store.close()
    again = opened(tmp_path)
    assert (again.max_physical, again.newest.physical_offset) == (SEGMENT, last)
    assert again.append(message(1), NOW + 6_000).physical_offset == SEGMENT
    again.close()


def test_what_is_confirmed_goes_back_with_the_log(tmp_path: Path) -> None:
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    appended = filled(store, 10)
    store.flushing.flush_now()
    assert store.confirm_offset == appended[-1].end_offset
    end = appended[4].end_offset
    store.truncation.run(end, NOW + 100)
    assert (store.confirm_offset, store.durable_offset, store.confirm_offset) == (end, end, end)
    store.append(message(5), NOW + 200)
    assert store.max_offset("T", 0) == 5  # not on the disk yet
    store.flushing.flush_now()
    assert store.max_offset("T", 0) == 6
    store.close()


def test_an_offset_that_cuts_nothing_changes_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    end = filled(store, 3)[-1].end_offset
    assert store.truncation.run(end, NOW) == end
    assert store.truncation.run(end + 1000, NOW) == end
    store.close()


def test_an_offset_before_the_log_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path, file_reserved_time=0)
    for number in range(120):
        put(store, number, 9)
    store.retention.ask()
    tomorrow = int(time.time() * 1000) + 86_400_000
    next(task for task in store.periodic_tasks() if task.name == "retention").run(tomorrow)
    assert store.min_physical > 0
    with pytest.raises(CannotTruncate, match="start with an empty store"):
        store.truncation.run(10, NOW)
    store.close()


def test_a_closed_store_is_not_cut(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 3)
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.truncation.run(0, NOW)


def test_a_damaged_note_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("somewhere")
    with pytest.raises(StoreCorrupt, match="remove it to keep all of the log"):
        opened(tmp_path)
    assert options(tmp_path).root == tmp_path

"""Recovery from every crash point of a recorded run: killed after each step, and the power cut after each.

ORBITMQ_CRASH_SEED (1) is the first seed, ORBITMQ_CRASH_RUNS (1) how many there are of each kind, and
ORBITMQ_CRASH_ACTIONS (38) how much each does. A failure names seed and step, and both repeat it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from orbitmq.store import MessageStore
from orbitmq.store.log.retention import HOUR_MS
from tests.fault.recorded_broker import check_after, recorded, with_small_wheel
from tests.fault.recorded_disk import RecordedDisk
from tests.kit.brokers import others_at_night
from tests.kit.store import NOW, crash, message, options, query, read_queue, run_task

SEED = int(os.environ.get("ORBITMQ_CRASH_SEED", "1"))
RUNS = int(os.environ.get("ORBITMQ_CRASH_RUNS", "1"))
ACTIONS = int(os.environ.get("ORBITMQ_CRASH_ACTIONS", "38"))
THOROUGH_EVERY = 5
"""After so many steps one where the broker goes on, stops and starts once more."""

pytestmark = pytest.mark.timeout(300 + ACTIONS * 20)


@pytest.fixture(autouse=True)
def small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_wheel(monkeypatch)


@pytest.mark.parametrize("flush", others_at_night(["SYNC_FLUSH", "ASYNC_FLUSH"], ["SYNC_FLUSH"]))
@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
def test_every_crash_point_keeps_every_promise(tmp_path: Path, seed: int, flush: str) -> None:
    run = recorded(tmp_path / "store", seed, ACTIONS, flushDiskType=flush)
    assert sum(promise.acked_at is not None for promise in run.ledger.promises.values()) > ACTIONS // 3
    playback = run.disk.playback()
    for step in range(len(run.disk.journal) + 1):
        playback.go_to(step)
        thorough = step % THOROUGH_EVERY == 0
        for power in (False, True):
            chance = random.Random(f"{seed}-{step}")
            disk = playback.power_cut(chance) if power else playback.killed()
            try:
                check_after(run, disk, step, power=power, thorough=thorough)
            except Exception as error:
                what = run.disk.journal[step - 1] if step else "nothing"
                fate = "power cut" if power else "kill"
                pytest.fail(f"{flush}, seed {seed}, {fate} after step {step} ({what}): {error!r}")


@pytest.mark.parametrize("flush", others_at_night(["SYNC_FLUSH", "ASYNC_FLUSH"], ["ASYNC_FLUSH"]))
def test_a_power_cut_amid_recovery_keeps_every_promise(tmp_path: Path, flush: str) -> None:
    run = recorded(tmp_path / "store", SEED + 100, ACTIONS, flushDiskType=flush)
    chance = random.Random(SEED)
    playback = run.disk.playback()
    steps = sorted(chance.sample(range(len(run.disk.journal)), 10 * RUNS))
    for step in steps:
        playback.go_to(step)
        disk = playback.power_cut(chance)
        recovered = check_after(run, disk, step, power=True, thorough=False)
        again = disk.playback()
        for second in sorted(chance.sample(range(len(disk.journal)), min(4, len(disk.journal)))):
            again.go_to(second)
            left = again.power_cut(chance)
            now = recovered.ledger.sample_at(second).now
            try:
                check_after(run, left, step, power=True, thorough=False, now=now)
            except Exception as error:
                pytest.fail(f"{flush}, seed {SEED}, power cut after step {step}, again {second}: {error!r}")


def test_a_power_cut_behind_a_new_checkpoint_takes_no_queue_with_it(tmp_path: Path) -> None:
    """Before its queue checkpoint is written."""
    disk = RecordedDisk(tmp_path)
    given = options(tmp_path)
    store = MessageStore.open(given, NOW, disk)
    known: list[tuple[int, int]] = []
    """(step, how far the log is on the disk)"""
    disk.before = lambda kind, path: known.append((len(disk.journal), store.durable_offset))
    ends: list[int] = []
    for number in range(90):
        now = NOW + number * 10_000
        appended = store.append(message(number, queue_id=number % 3, body=bytes(3000)), now)
        ends.append(appended.end_offset)
        if number % 30 == 29:
            store.flushing.flush_now()
            run_task(store, "write queues", now)
    renamed = [
        step for step, what in enumerate(disk.journal) if what.kind == "rename" and "queuemarks" in what.path
    ]
    assert len(renamed) > 1
    crash(store)
    playback = disk.playback()
    for step in (before for at in renamed for before in range(at - 8, at + 1)):
        playback.go_to(step)
        _, durable = max(one for one in known if one[0] <= step)
        promised = {number for number, end in enumerate(ends) if end <= durable}
        for number in range(8):
            left = playback.power_cut(random.Random(f"{SEED}-{number}"), kept=0.5)
            again = MessageStore.open(given, NOW, left)
            found = {record.flag for queue_id in range(3) for record in read_queue(again, "T", queue_id)}
            assert promised <= found, f"after step {step} ({disk.journal[step - 1]})"
            crash(again)


def test_a_crash_while_old_segments_go_takes_nothing_that_stays(tmp_path: Path) -> None:
    """Segments, queue files and index files are removed while more messages come."""
    disk = RecordedDisk(tmp_path)
    given = options(
        tmp_path, delete_when="", delete_commit_log_files_interval=0, delete_file_batch_max=1,
        mapped_file_size_consume_queue=20 * 10, max_hash_slot_num=10, max_index_num=40,
    )  # fmt: skip
    store = MessageStore.open(given, NOW, disk)
    known: list[tuple[int, int, int]] = []
    """(step, where the log begins, how far it is on the disk)"""
    disk.before = lambda kind, path: known.append(
        (len(disk.journal), store.min_physical, store.durable_offset)
    )
    places: list[int] = []

    def append(count: int) -> None:
        for _ in range(count):
            number = len(places)
            places.append(store.append(message(number, body=bytes(3000)), NOW + number).physical_offset)
        store.flushing.flush_now()

    append(100)
    run_task(store, "write queues", NOW + 120_000)
    run_task(store, "index", NOW)
    first = len(disk.journal)
    now = NOW + 80 * HOUR_MS
    for _ in range(4):
        store.retention.ask()
        run_task(store, "retention", now)
        append(5)
        run_task(store, "write queues", now := now + 120_000)
        run_task(store, "index", now)
    removed = {Path(step.path).parts[-2] for step in disk.journal if step.kind == "unname"}
    assert {"commitlog", "0", "index"} <= removed, "files of each kind went"
    crash(store)
    playback = disk.playback()
    for step in range(first, len(disk.journal) + 1):
        playback.go_to(step)
        _, begins, durable = max(one for one in known if one[0] <= step)
        for power in (False, True):
            left = playback.power_cut(random.Random(f"{SEED}-{step}")) if power else playback.killed()
            again = MessageStore.open(given, now, left)
            found = [record.flag for record in read_queue(again)]
            what = f"{'power cut' if power else 'kill'} after step {step} ({disk.journal[step - 1]})"
            assert found == list(range(found[0], found[0] + len(found))), what
            kept = [number for number, place in enumerate(places) if begins <= place < durable]
            assert set(kept) <= set(found), what
            assert again.figures().bad_records == 0, what
            for number in (kept[0], kept[-1]):
                assert len(query(again, "T", f"ID{number:08d}", 2, 0, 1 << 60, "U").records) == 1, what
            assert again.append(message(999), now).queue_offset == found[-1] + 1, what
            crash(again)

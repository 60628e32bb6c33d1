"""Defects planted into store and rules, one at a time: crash points and failing disks find each of them.

Each is a line or two that somebody could have written. `docs/trust/reliability.md` lists them.
"""

from __future__ import annotations

import errno
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.transaction.recovery import TransactionLoading
from orbitmq.store import FlushFailed, StoreCorrupt
from orbitmq.store.flushing import Flushing
from orbitmq.store.index.index_table import Index
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.recovery.log_recovery import Recovery
from orbitmq.store.recovery.missing_units import MissingUnits
from tests.fault.recorded_broker import Recorded, check_after, recorded, with_small_wheel
from tests.fault.recorded_disk import RecordedDisk, RecordedFile
from tests.fault.test_failing_disk import SYNCS, Fault, failing_run
from tests.kit.brokers import others_at_night

ACTIONS = 45
SEEDS = (1, 2, 3)
DOCUMENT = Path(__file__).parents[2] / "docs" / "trust" / "reliability.md"

Plant = Callable[[pytest.MonkeyPatch], None]


def unsynced(monkeypatch: pytest.MonkeyPatch, is_meant: Callable[[str], bool]) -> None:
    """Leaves out the fsync of some files."""
    before = RecordedFile.sync

    def sync(self: RecordedFile) -> None:
        if not is_meant(str(self.path)):
            before(self)

    monkeypatch.setattr(RecordedFile, "sync", sync)


def no_fsync_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced(monkeypatch, lambda path: "/commitlog/" in path)


def no_fsync_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced(monkeypatch, lambda path: "/config/" in path and path.endswith(".tmp"))


def no_fsync_of_the_timer_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced(monkeypatch, lambda path: path.endswith("timercheck"))


def no_fsync_of_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordedDisk, "sync_folder", lambda self, folder: None)


def durable_before_the_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    before = CommitLog._sync_segments

    def sync(self: CommitLog) -> None:
        self.durable = self.max_physical
        before(self)

    monkeypatch.setattr(CommitLog, "_sync_segments", sync)


def a_live_figure_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flushing, "unflushed", lambda self, now_ms: (0, 0))


def recovery_that_cuts_one_message_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Recovery._end_log

    def end_log(self: Recovery, begin: int, end: int, torn: bool) -> None:
        before(self, begin, max(0, self.found.last_record), torn)

    monkeypatch.setattr(Recovery, "_end_log", end_log)


def _without_every_seventh(before: Callable[..., None]) -> Callable[..., None]:
    def put(self: MissingUnits, records: list[Any]) -> None:
        before(self, [record for record in records if record[3] % 7 != 6])

    return put


def recovery_that_forgets_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MissingUnits, "put", _without_every_seventh(MissingUnits.put))


def an_index_that_is_not_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Index, "_first_position", lambda self, queue_checkpoint: self._log.max_physical)


def consumer_offsets_that_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = OffsetTable.load_text

    def load(self: OffsetTable, text: str) -> None:
        before(self, re.sub(r"(\d+):(\d+)", lambda m: f"{m[1]}:{max(0, int(m[2]) - 1)}", text))

    monkeypatch.setattr(OffsetTable, "load_text", load)


def delayed_messages_half_a_second_early(monkeypatch: pytest.MonkeyPatch) -> None:
    before = DelayDelivery._is_due
    monkeypatch.setattr(
        DelayDelivery,
        "_is_due",
        lambda self, level, position, due_ms, now: before(self, level, position, due_ms - 500, now),
    )


def timers_a_second_early(monkeypatch: pytest.MonkeyPatch) -> None:
    from orbitmq.broker.delay import timer_intake

    before = timer_intake.Intake._read

    def read(self: Any, record: Any) -> Any:
        found = before(self, record)
        return None if found is None else found._replace(due_ms=found.due_ms - 1_000)

    monkeypatch.setattr(timer_intake.Intake, "_read", read)


def delayed_messages_that_nobody_recognises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DelayDelivery, "_known_as", lambda self, message: None)


def delay_positions_ahead_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def confirm(self: DelayDelivery) -> bool:
        self._savable, self._progress = self._here(), None
        return True

    monkeypatch.setattr(DelayDelivery, "_confirm_progress", confirm)


def half_messages_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionLoading, "run", lambda self, now: iter(()))


def a_failed_fsync_that_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    never = property(lambda self: None, lambda self, error: None)
    monkeypatch.setattr(CommitLog, "flush_error", never, raising=False)


BY_CRASHES: list[Plant] = [
    no_fsync_of_the_log,
    no_fsync_of_tables,
    no_fsync_of_the_timer_checkpoint,
    no_fsync_of_folders,
    durable_before_the_fsync,
    a_live_figure_that_is_too_small,
    recovery_that_cuts_one_message_too_many,
    recovery_that_forgets_units,
    an_index_that_is_not_made_anew,
    consumer_offsets_that_go_back,
    delayed_messages_half_a_second_early,
    timers_a_second_early,
    delayed_messages_that_nobody_recognises,
    delay_positions_ahead_of_the_disk,
    half_messages_that_are_forgotten,
]


@pytest.fixture(autouse=True)
def small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_wheel(monkeypatch)


def first_failure(run: Recorded, seed: int) -> str | None:
    """The first failure that is found, if any: at some steps, and behind every table that was saved."""
    chance = random.Random(seed)
    journal = run.disk.journal
    wanted = {step + 1 for step, one in enumerate(journal) if one.kind == "sync folder"}
    wanted |= set(chance.sample(range(len(journal) + 1), 40))
    playback = run.disk.playback()
    for step in sorted(wanted):
        playback.go_to(step)
        for power in (True, False):
            disk = playback.power_cut(chance, chance.choice((None, 0.0))) if power else playback.killed()
            try:
                check_after(run, disk, step, power=power, thorough=False)
            except (AssertionError, FlushFailed, StoreCorrupt) as error:
                return f"step {step}, {'power cut' if power else 'kill'}: {error}"
    return None


@pytest.mark.parametrize(
    "plant", others_at_night(BY_CRASHES, BY_CRASHES[::4]), ids=lambda plant: plant.__name__
)
def test_crash_points_find_what_was_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    plant(monkeypatch)
    for seed in SEEDS:
        for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            run = recorded(tmp_path / f"{seed}-{flush}", seed, ACTIONS, flushDiskType=flush)
            found = first_failure(run, seed)
            if found is not None:
                print(f"{plant.__name__}: {flush}, seed {seed}, {found}")
                return
    pytest.fail("nobody has noticed")


def test_a_failing_disk_finds_a_sync_that_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_failed_fsync_that_is_tried_again(monkeypatch)
    for at in range(20, 60):
        run = failing_run(tmp_path / f"{at}", "SYNC_FLUSH", Fault(SYNCS, at, errno.EIO, for_good=False))
        disk = run.disk.played().power_cut(random.Random(1), kept=0.0)
        try:
            check_after(run, disk, len(run.disk.journal), power=True, thorough=False)
        except AssertionError:
            return
    pytest.fail("nobody has noticed")


def test_the_document_lists_each_of_them() -> None:
    text = " ".join(DOCUMENT.read_text().split())
    for plant in [*BY_CRASHES, a_failed_fsync_that_is_tried_again]:
        assert plant.__name__.replace("_", " ") in text, plant.__name__

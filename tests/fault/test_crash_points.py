"""Recovery from every crash point of a recorded run: killed after each step, and the power cut after each.

ORBITMQ_CRASH_SEED (1) is the first seed, ORBITMQ_CRASH_RUNS (1) how many there are of each kind, and
ORBITMQ_CRASH_ACTIONS (45) how much each does. A failure names seed and step, and both repeat it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.fault.recorded_broker import check_after, recorded, with_small_wheel

SEED = int(os.environ.get("ORBITMQ_CRASH_SEED", "1"))
RUNS = int(os.environ.get("ORBITMQ_CRASH_RUNS", "1"))
ACTIONS = int(os.environ.get("ORBITMQ_CRASH_ACTIONS", "45"))
THOROUGH_EVERY = 5
"""After so many steps one where the broker goes on, stops and starts once more."""

pytestmark = pytest.mark.timeout(300 + ACTIONS * 20)


@pytest.fixture(autouse=True)
def small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_wheel(monkeypatch)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
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


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
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

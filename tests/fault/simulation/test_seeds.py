"""Simulated runs: the same seeds each time, as many as ORBITMQ_SIMULATION_SEEDS (8) says from
ORBITMQ_SIMULATION_FIRST (1) on. A seed that fails is printed with the command that runs it again.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SEEDS = int(os.environ.get("ORBITMQ_SIMULATION_SEEDS", "8"))
FIRST = int(os.environ.get("ORBITMQ_SIMULATION_FIRST", "1"))


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orbitmq.testing.simulation", *arguments],
        capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False,
    )  # fmt: skip


@pytest.mark.timeout(SEEDS * 20 + 120)
def test_no_promise_is_broken_under_any_seed() -> None:
    done = simulate("--first", str(FIRST), "--count", str(SEEDS))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr

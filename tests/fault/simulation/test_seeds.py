"""Simulated runs: as many seeds as there is time for, and those that once failed.

ORBITMQ_SIMULATION_SECONDS (10) says for how long, ORBITMQ_SIMULATION_SEED where to begin (by default
anywhere).
A seed that fails is printed with the command that runs it again.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SECONDS = float(os.environ.get("ORBITMQ_SIMULATION_SECONDS", "10"))
FIRST = int(os.environ.get("ORBITMQ_SIMULATION_SEED", "1"))


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orbitmq.testing.simulation", *arguments],
        capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False,
    )  # fmt: skip


@pytest.mark.timeout(SECONDS * 2 + 300)
def test_no_promise_is_broken_under_any_seed() -> None:
    done = simulate("--first", str(FIRST), "--for", str(SECONDS))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr

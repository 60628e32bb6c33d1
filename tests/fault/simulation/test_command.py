"""The command that runs seeds of clusters."""

from __future__ import annotations

import json

import pytest

from tests.fault.simulation.test_seeds import simulate


@pytest.mark.timeout(600)
def test_the_command_plays_seeds_of_a_cluster_and_says_how_to_run_them_again() -> None:
    done = simulate(
        "--cluster", "controller", "--mode", "sync-master", "--length", "1", "--seeds", "1..2", "--json"
    )
    found = json.loads(done.stdout)
    assert found["seeds"] == 2
    assert found["kept"] > 0
    assert found["again"].endswith("--length=1 --cluster=controller --mode=sync-master --count 1 --first")
    assert done.returncode == (1 if found["failed"] else 0), done.stderr

"""The demo of a cluster, with fewer flights: a master dies in between, with and without controllers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need
from tests.peers.machine import REPOSITORY

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("failover", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_a_master_dies_in_the_middle_and_no_flight_is_lost(tmp_path: Path, failover: bool) -> None:
    if failover:
        need("etcd")
    done = subprocess.run(
        [
            *(sys.executable, str(REPOSITORY / "examples" / "demo_cluster.py"), "--rows=3000", "--masters=1"),
            *(f"--data-dir={tmp_path}", *(["--failover"] if failover else [])),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout
    killed = re.search(r"kill -9 broker-a-., the master of broker-a, behind ([\d,]+) acknowledged", told)
    assert killed is not None, told
    assert 1_000 <= int(killed[1].replace(",", "")) <= 2_100
    assert "flights lost: 0" in told
    assert "flights consumed, all different: 3,000" in told
    assert "aircraft whose flights came in another order: 0" in told
    assert ("is master" in told) is failover

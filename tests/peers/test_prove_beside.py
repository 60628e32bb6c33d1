"""`orbitmq prove` with Apache's broker beside the user's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need
from tests.peers.apache import POM
from tests.peers.machine import jars

pytestmark = pytest.mark.timeout(600)


@pytest.mark.nightly
def test_apache_is_killed_in_the_same_way_and_told_of_beside(tmp_path: Path) -> None:
    need("java", "mvn")
    home = jars(POM, "apache-5.4.0").parent
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq", "prove", "--for", "1s", "--seed", "11", "--json",
         "--set", "flushDiskType=SYNC_FLUSH", "--set", "messageDelayLevel=1s",
         "--beside", "apache", "--apache-home", str(home)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ours, apaches = json.loads(done.stdout)
    assert (ours["broker"], apaches["broker"]) == ("OrbitMQ", "Apache RocketMQ")
    assert ours["settings"] == apaches["settings"] == {"flushDiskType": "SYNC_FLUSH"}
    assert ours["kept"]
    assert not apaches["failed"], "what it breaks is counted, and that it ran is told"
    assert apaches["kills"] >= 2
    assert apaches["power_cuts"] == apaches["stops"] == 0
    assert apaches["acknowledged"].keys() == ours["acknowledged"].keys()
    assert sum(apaches["acknowledged"].values()) > 0
    assert apaches["lost_to_power_cuts"] is None, "not tried, which is not none"
    assert apaches["simulated"] is None

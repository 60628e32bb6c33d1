"""`orbitmq prove --cluster` in short: real processes and links fail, and the table says what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.cli.app import run
from tests.needs import need

pytestmark = pytest.mark.timeout(600)


def proved(*arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "orbitmq", "prove", "--cluster", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.nightly
def test_a_cluster_with_synchronous_slaves_loses_nothing() -> None:
    found = proved("--faults", "3", "--seed", "7", "--set", "slaveTimeout=2000")
    assert found["faults"] == 3
    assert found["kept"]
    assert found["lost"] == 0
    assert found["acknowledged"] > 100  # type: ignore[operator]
    assert found["cluster"]["options"] == {"slaveTimeout": "2000"}  # type: ignore[index]
    rows = {row["fault"]: row for row in found["rows"]}  # type: ignore[attr-defined]
    assert rows["none"]["producerWithoutServiceSeconds"] is not None
    assert sum(row["times"] for row in rows.values()) == 4


def test_a_cluster_with_controllers_loses_nothing() -> None:
    need("etcd")
    found = proved("--failover", "--faults", "2", "--seed", "8")
    assert found["kept"]
    assert found["faults"] == 2


@pytest.mark.nightly
def test_masters_that_go_on_without_controllers_or_without_etcd_lose_nothing() -> None:
    need("etcd")
    only = ["--only", "lose controllers", "--only", "lose etcd"]
    found = proved("--failover", "--set", "enableBlindMaster=true", "--faults", "2", "--seed", "10", *only)
    assert found["kept"]
    assert found["lost"] == 0
    assert found["faults"] == 2


@pytest.mark.nightly
def test_asynchronous_slaves_lose_no_more_than_their_master_had_reported() -> None:
    need("etcd")
    found = proved("--failover", "--mode", "async-master", "--faults", "1", "--only", "kill master")
    assert found["kept"]
    assert found["lost"] == found["lostAsReported"]
    assert found["mostUnreplicatedSeconds"] >= 0  # type: ignore[operator]


@pytest.mark.nightly
def test_full_disks_lost_packets_and_broken_connections_lose_nothing() -> None:
    kinds = [
        "full disk of master",
        "full disk of slave",
        "lossy link to slave",
        "broken connections to slave",
    ]
    only = [word for kind in kinds for word in ("--only", kind)]
    found = proved("--faults", "4", "--seed", "9", *only)
    assert found["kept"]
    assert found["lost"] == 0
    rows = {row["fault"]: row["times"] for row in found["rows"]}  # type: ignore[attr-defined]
    assert rows == {"none": 1, **dict.fromkeys(kinds, 1)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cluster", "--failover", "--slaves", "0"], "give --slaves 1 or more"),
        (["--cluster", "--beside", "apache"], "--beside goes without --cluster"),
        (["--faults", "3"], "--faults needs --cluster"),
        (["--mode", "async-master"], "--mode needs --cluster"),
        (["--only", "kill master"], "--only needs --cluster"),
        (["--cluster", "--only", "kill etcd"], "no 'kill etcd', but kill master"),
        (["--cluster", "--failover", "--only", "lose etcd"], "no 'lose etcd', but kill master"),
        (["--cluster", "--set", "nonsense=1"], "nonsense"),
    ],
)
def test_flags_that_do_not_go_together_are_named(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["prove", *arguments]) == 2
    assert says in capsys.readouterr().err

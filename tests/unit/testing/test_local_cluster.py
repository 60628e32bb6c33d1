"""A cluster of processes: made once, looked at and changed from elsewhere, and gone when it is stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from orbitmq import Message
from orbitmq.cli.cluster import cluster
from orbitmq.sync import Producer
from orbitmq.testing import LocalCluster


def asked(folder: Path, *arguments: str) -> dict[str, dict[str, object]]:
    """The nodes, by name, as the command tells them behind an action."""
    command = [sys.executable, "-m", "orbitmq", "cluster", str(folder), *arguments, "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    return {row["node"]: row for row in json.loads(said.stdout)}


def test_a_synchronous_cluster_outlives_its_maker_and_its_nodes_die_one_by_one(tmp_path: Path) -> None:
    try:
        made = asked(tmp_path, "--slaves", "1", "--mode", "sync-master", "--flush", "sync")
        assert {name: row["state"] for name, row in made.items()} == {
            "namesrv-0": "running",
            "broker-a-0": "running",
            "broker-a-1": "running",
        }
        seen = LocalCluster.load(tmp_path)
        with Producer(group="P", namesrv=seen.namesrv) as producer:
            assert producer.send(Message("T", b"safe")).status.name == "SEND_OK"
        rows = asked(tmp_path, "status")
        assert rows["broker-a-1"]["logEnd"] == rows["broker-a-0"]["logEnd"] != 0
        assert rows["broker-a-1"]["behindBytes"] == 0
        assert asked(tmp_path, "kill", "broker-a-1")["broker-a-1"]["state"] == "down"
        assert asked(tmp_path)["broker-a-1"]["behindBytes"] == 0
    finally:
        gone = asked(tmp_path, "stop")
    assert {row["state"] for row in gone.values()} == {"down"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("status",), "holds no cluster"),
        (("kill",), "needs the name of a node"),
        (("start", "x"), "no cluster"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(cluster, [str(tmp_path / "none"), *arguments])
    assert result.exit_code != 0
    assert says in result.output
    assert not (tmp_path / "none").exists()


def test_a_node_that_is_none_is_answered_by_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(
        '[{"name": "broker-a-0", "kind": "master", "address": "127.0.0.1:1"}]'
    )
    result = CliRunner().invoke(cluster, [str(tmp_path), "kill", "broker-b-0"])
    assert "there are broker-a-0" in result.output

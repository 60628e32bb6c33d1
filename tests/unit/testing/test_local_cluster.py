"""A cluster of processes: made once, looked at and changed from elsewhere, and gone when it is stopped."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orbitmq import Message
from orbitmq.cli.cluster import cluster
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.ha import GetBrokerHaStatus
from orbitmq.sync import Producer
from orbitmq.testing import LocalCluster
from tests.needs import need


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
        assert rows["namesrv-0"]["logEnd"] is None
        assert list(asked(tmp_path, "status", "broker-a-1")) == ["broker-a-1"]
        assert rows["broker-a-1"]["behindBytes"] == 0
        assert asked(tmp_path, "kill", "broker-a-1")["broker-a-1"]["state"] == "down"
        assert asked(tmp_path)["broker-a-1"]["behindBytes"] == 0
    finally:
        gone = asked(tmp_path, "stop")
    assert {row["state"] for row in gone.values()} == {"down"}


@pytest.mark.timeout(600)
def test_a_promoted_slave_stays_master_and_the_old_master_comes_back_as_its_slave(tmp_path: Path) -> None:
    """It came back as a slave, and the old master, which lacks what it has taken since, as master: and beside
    it, when that was started alone.
    """

    def admin(*words: str) -> Any:
        said = subprocess.run(
            [sys.executable, "-m", "orbitmq", "admin", *words, "-n", made.namesrv, "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)

    def roles() -> dict[str, str]:
        return {row["address"]: row["role"] for row in admin("ha", "status")}

    with LocalCluster(tmp_path, slaves=1) as made:
        old, new = made.node("broker-a-0"), made.node("broker-a-1")
        made.kill(old.name)
        assert admin("broker", "promote", "broker-a")["master"] == new.address
        made.kill(new.name)
        assert asked(tmp_path, "start", old.name)[old.name]["role"] == "slave", "the master is away"
        made.start()
        assert roles() == {old.address: "slave", new.address: "master"}
        # The places change again: the later promotion counts.
        assert admin("broker", "promote", old.address, "--fence")["changed"]
        made.kill(new.name)
        made.start()
        assert roles() == {old.address: "master", new.address: "slave"}


def logged(cluster: LocalCluster, name: str) -> bytes:
    """All bytes of a node's log, as its files have them."""
    folder = cluster.data_dir / name / "data" / "commitlog"
    return b"".join(segment.read_bytes() for segment in sorted(folder.iterdir()))


@pytest.mark.timeout(600)
def test_masters_that_are_killed_and_paused_are_replaced_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    need("etcd")
    acknowledged: list[bytes] = []
    stop = threading.Event()

    def keep_sending(namesrv: str) -> None:
        with Producer("P", namesrv, delivery_timeout_ms=60_000) as producer:
            number = 0
            while not stop.is_set():
                number += 1
                body = b"message %d." % number
                if producer.send(Message("T", body)).status.name == "SEND_OK":
                    acknowledged.append(body)

    def more_are_sent() -> None:
        seen = len(acknowledged)
        until(lambda: len(acknowledged) > seen + 50 or sending.done())
        if sending.done():
            sending.result()

    with LocalCluster(tmp_path, slaves=1, mode="sync-master", failover=True) as cluster:
        pool = ThreadPoolExecutor(1)
        sending = pool.submit(keep_sending, cluster.namesrv)
        try:
            more_are_sent()
            killed = master_of(cluster)
            cluster.kill(killed)
            more_are_sent()
            assert master_of(cluster) != killed
            cluster.start()
            # On a slow machine the one that is back may be master again already.
            paused = master_of(cluster)
            [heir] = {node.name for node in cluster.nodes if node.group} - {paused}
            os.kill(cluster.pid(paused), signal.SIGSTOP)
            until(lambda: answers_as_master(cluster, heir))
            more_are_sent()
            os.kill(cluster.pid(paused), signal.SIGCONT)
            cluster.start()
            more_are_sent()
        finally:
            stop.set()
            pool.shutdown()
        sending.result()
        until(lambda: logged(cluster, heir) == logged(cluster, paused))
        there = set(re.findall(rb"message \d+\.", logged(cluster, heir)))
        assert set(acknowledged) - there == set()


def master_of(cluster: LocalCluster) -> str:
    """The name of the master, once a node says that it is: for a moment none may, or may answer."""
    while (master := cluster.master()) is None:
        time.sleep(0.05)
    return master.name


def answers_as_master(cluster: LocalCluster, name: str) -> bool:
    with contextlib.suppress(OrbitError), BlockingConnection(cluster.node(name).address) as connection:
        return bool(connection.call(GetBrokerHaStatus()).body.master)
    return False


def until(is_so: Callable[[], bool]) -> None:
    """Returns once something holds; the test's own time limit ends it else."""
    while not is_so():
        time.sleep(0.05)


def test_failover_needs_somebody_to_take_over(tmp_path: Path) -> None:
    result = CliRunner().invoke(cluster, [str(tmp_path / "none"), "--failover"])
    assert result.exit_code == 2
    assert "--slaves" in result.output


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


def made_before(folder: Path, **settings: Any) -> None:
    """A cluster of an earlier start, none of whose nodes runs."""
    nodes = LocalCluster(folder, **settings).nodes
    (folder / "cluster.json").write_text(json.dumps([asdict(node) for node in nodes]))


@pytest.mark.parametrize(
    ("settings", "others", "says"),
    [
        ({"masters": 2}, "--masters 3", "with --masters 2"),
        ({"masters": 2, "slaves": 1}, "--slaves 2", "with --slaves 1"),
        ({"name_servers": 2}, "--namesrvs 1", "with --namesrvs 2"),
        ({"mode": "sync-master"}, "--mode async-master", "with --mode sync-master"),
        ({"flush": "sync"}, "--flush async", "with --flush sync"),
        ({"slaves": 1}, "--failover --slaves 1", "without --failover"),
        ({"slaves": 1, "failover": True}, "--mode sync-master", "with --mode async-master"),
    ],
)
def test_a_cluster_takes_no_other_settings_than_those_of_its_first_start(
    tmp_path: Path, settings: dict[str, Any], others: str, says: str
) -> None:
    made_before(tmp_path, **settings)
    result = CliRunner().invoke(cluster, [str(tmp_path), *others.split()])
    assert result.exit_code == 2
    assert says in result.output


def test_the_settings_that_a_cluster_has_may_be_given_again(tmp_path: Path) -> None:
    made_before(tmp_path, slaves=1, mode="sync-master", flush="sync")
    given = "status --masters 1 --slaves 1 --namesrvs 1 --mode sync-master --flush sync"
    result = CliRunner().invoke(cluster, [str(tmp_path), *given.split()])
    assert result.exit_code == 0, result.output


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    result = CliRunner().invoke(cluster, [str(tmp_path)])
    assert result.exit_code == 2
    assert "is not empty and holds no cluster" in result.output
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_start_on_a_taken_port_says_so_and_how_to_end_what_runs(tmp_path: Path) -> None:
    made_before(tmp_path)
    (server,) = (node for node in LocalCluster.load(tmp_path).nodes if node.kind == "namesrv")
    host, _, port = server.address.rpartition(":")
    with socket.create_server((host, int(port))):
        result = CliRunner().invoke(cluster, [str(tmp_path)])
    assert result.exit_code == 1
    assert f"cannot listen on {server.address}: the port is taken" in result.output
    assert f"`orbitmq cluster {tmp_path} stop`" in result.output


def test_ctrl_c_during_a_start_says_what_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: LocalCluster) -> LocalCluster:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalCluster, "start", interrupted)
    result = CliRunner().invoke(cluster, [str(tmp_path)])
    assert result.exit_code != 0
    assert f"`orbitmq cluster {tmp_path} stop`" in result.output

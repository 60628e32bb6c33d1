"""The last release and this version beside each other: a rolling upgrade and its rollback.

The wheel of the release is built from its commit (`tests.kit.releases`). `make nightly` runs the long forms.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orbitmq import Admin
from orbitmq.admin.replication.old_master import OldMaster
from orbitmq.admin.replication.promoting import PromotionRequest, promote
from orbitmq.testing import LocalCluster
from orbitmq.testing.local_cluster import Node
from tests.kit.releases import RELEASES, release
from tests.needs import excuse, need
from tests.peers.machine import REPOSITORY

CLIENT = Path(__file__).with_name("client.py")
LAST = "0.2.0"
OWN = "orbitmqVersion"
QUICK = {"messageDelayLevel": "1s 1s 1s 1s 20s", "transactionTimeOut": 1000, "transactionCheckInterval": 1000}

pytestmark = pytest.mark.timeout(600)


class Mixed(LocalCluster):
    """A cluster whose nodes `old` run the last release, the others this version."""

    def __init__(self, folder: Path, old: Iterable[str], **options: Any) -> None:
        super().__init__(folder, **{**QUICK, **options})
        self.old = set(old)
        self._site = release(LAST)

    def _run(self, node: Node, command: list[str]) -> None:
        is_old = node.name in self.old and node.kind != "etcd"
        super()._run(node, ["env", f"PYTHONPATH={self._site}", *command] if is_old else command)

    def renew(self, name: str, *, old: bool = False) -> None:
        """Stops a node, if it runs, and starts it with the other version."""
        self.stop_node(name)
        (self.old.add if old else self.old.discard)(name)
        self.start_node(name)

    async def old_brokers(self) -> set[str]:
        """The addresses of brokers of the last release, by what they say: it does not say its version."""
        async with Admin(self.namesrv) as admin:
            found = await admin.cluster_list()
        return {at.address for at, figures in found if isinstance(figures, Mapping) and OWN not in figures}

    def client(self, *words: str | int, old: bool) -> set[str]:
        """The bodies that a client prints, of the last release or of this version."""
        path = str(self._site) if old else f"{REPOSITORY / 'src'}"
        done = subprocess.run(
            [sys.executable, str(CLIENT), str(words[0]), self.namesrv, *map(str, words[1:])],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    def change_places(self, name: str) -> None:
        """Makes a slave the master of its group while both live."""

        async def run() -> None:
            async with Admin(self.namesrv) as admin:
                await promote(
                    admin,
                    PromotionRequest(self.node(name).address, fence=True),
                    OldMaster(admin),
                    lambda line: None,
                )

        asyncio.run(run())


def test_a_group_is_upgraded_broker_by_broker_and_rolled_back(tmp_path: Path) -> None:
    """New name server and old brokers; new slave and old master; new master and old slave; all new; and the
    folders that the new ones have written opened by the old ones again.
    """
    first, second = "broker-a-0", "broker-a-1"
    sent: set[str] = set()
    with Mixed(tmp_path, {first, second}, slaves=1, mode="sync-master") as made:
        sent |= made.client("send", "T", "old", old=True)
        made.renew(second)
        made.start()
        assert asyncio.run(made.old_brokers()) == {made.node(first).address}
        sent |= made.client("send", "T", "slave", old=False)
        made.change_places(second)
        sent |= made.client("send", "T", "master", old=True)
        made.renew(first)
        made.start()
        assert len(sent) == 3 * 10
        half = made.client("read", "T", "new", 30, "--calm", old=False)
        assert half == sent
        for name in (first, second):
            made.stop_node(name)
        made.old |= {first, second}
        made.start()
        sent |= made.client("send", "T", "back", old=True)
        assert made.client("read", "T", "old", 40, old=True) == sent
        rest = made.client("read", "T", "new", 10, "--calm", old=True)
        assert rest == sent - half, "the offsets of the group count"


@pytest.mark.nightly
def test_things_that_wait_in_a_folder_are_done_by_whichever_version_has_it(tmp_path: Path) -> None:
    """Delayed messages, timers and transactions, over old, new, old, new."""
    broker = "broker-a-0"
    with Mixed(tmp_path, {broker}) as made:
        sent = made.client("send", "T", "begin", "--ask", old=True)
        sent |= made.client("leave", "T", "left-old", old=True)
        made.renew(broker)
        sent |= made.client("leave", "T", "left-new", old=False)
        made.renew(broker, old=True)
        sent |= made.client("send", "T", "again", "--ask", old=False)
        assert made.client("read", "T", "old", len(sent), old=True) == sent
        made.renew(broker)
        assert made.client("read", "T", "new", len(sent), old=False) == sent


@pytest.mark.nightly
@pytest.mark.parametrize("is_old", [True, False])
def test_name_servers_of_the_other_version_and_the_other_way_round(tmp_path: Path, is_old: bool) -> None:
    """The order that the page does not advise: it works, too."""
    brokers = {"broker-a-0", "broker-a-1"}
    old = {"namesrv-0"} if is_old else brokers
    with Mixed(tmp_path, old, slaves=1, mode="sync-master") as made:
        sent = made.client("send", "T", "a", "--ask", old=is_old)
        sent |= made.client("send", "T", "b", "--ask", old=not is_old)
        for reader in (True, False):
            assert made.client("read", "T", f"reader-{reader}", len(sent), old=reader) == sent


@pytest.mark.nightly
def test_controllers_and_replicas_are_upgraded_one_by_one_and_rolled_back(tmp_path: Path) -> None:
    need("etcd")
    controllers, replicas = ["controller-0", "controller-1"], ["broker-a-0", "broker-a-1"]
    with Mixed(tmp_path, {*controllers, *replicas}, slaves=1, failover=True) as made:
        sent = made.client("send", "T", "old", old=True)
        for name in [*controllers, *replicas]:
            made.renew(name)
            made.start()
            sent |= made.client("send", "T", name, old=False)
        master = made.master()
        assert master is not None
        made.kill(master.name)
        sent |= made.client("send", "T", "elected", old=False)
        made.start()
        for name in [*replicas, *controllers]:
            made.renew(name, old=True)
            made.start()
        sent |= made.client("send", "T", "back", old=True)
        assert made.client("read", "T", "old", len(sent), old=True) == sent


def test_a_clone_without_the_commit_of_a_release_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORBITMQ_PEERS_CACHE", str(tmp_path))
    monkeypatch.setitem(RELEASES, "0.0.1", "1" * 40)
    with pytest.raises(pytest.skip.Exception, match="`git fetch --unshallow` brings it") as skipped:
        release("0.0.1")
    assert excuse(str(skipped.value)) == "a shallow clone has no commits of earlier versions"

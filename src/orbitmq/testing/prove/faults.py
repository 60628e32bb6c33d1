"""Faults of a cluster, each with its end: kills, pauses, links that are cut, slow, or carry one way only."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.controller import ControllerElectMaster
from orbitmq.testing.local_cluster import LocalCluster, Node
from orbitmq.testing.prove.links import CLIENTS, Link, Links

TWO = "two at once"
TWO_SHARE = 0.12
"""Share of faults that are two, on different nodes."""
DOWN_SECONDS = (0.5, 3.0)
PAUSE_SECONDS = (0.5, 6.0)
CUT_SECONDS = (0.5, 6.0)
SLOW_SECONDS = 0.05
HA_DISTANCE = 1
"""From a broker's port to its port for slaves."""

End = Callable[[], Awaitable[None]]


class Faults:
    """Begins faults on a cluster that is whole, and ends them."""

    def __init__(self, cluster: LocalCluster, chance: random.Random) -> None:
        self.cluster = cluster
        self._chance = chance
        self.links = Links(lambda: {node.name: cluster.pid(node.name) for node in cluster.nodes})
        self._has_failover = any(node.kind == "controller" for node in cluster.nodes)
        groups = [node.group for node in cluster.nodes if node.group]
        self._has_slaves = len(groups) > len(set(groups))
        self._taken: set[str] = set()

    def kinds(self) -> list[str]:
        """The kinds of faults that such a cluster can have."""
        kinds = ["kill master", "pause master", "kill name server", "pause name server"]
        kinds += ["cut clients from master", "cut master from name servers"]
        if self._has_slaves:
            kinds += ["kill slave", "pause slave", "cut slave from master", "one-way link to slave"]
            kinds += ["slow link to slave"]
        if self._has_failover:
            kinds += [
                "kill controller",
                "pause controller",
                "kill etcd",
                "pause etcd",
                "elect another master",
            ]
            kinds += ["cut master from all but clients"]
        return kinds

    async def open(self) -> None:
        """Opens the links of all nodes."""
        for node in self.cluster.nodes:
            await self.links.open(node.name, _ports(node))

    async def begin(self, kind: str) -> tuple[float, End]:
        """Begins a fault; how long it is to be held, and what ends it."""
        self._taken.clear()
        if kind != TWO:
            return await self._begin(kind)
        first, second = self._chance.sample(self.kinds(), 2)
        one, end_one = await self._begin(first)
        other, end_other = await self._begin(second)

        async def end() -> None:
            # One may need the other: a controller starts when etcd is back.
            await asyncio.gather(end_one(), end_other())

        return max(one, other), end

    async def _begin(self, kind: str) -> tuple[float, End]:
        act, _, what = kind.partition(" ")
        if kind == "elect another master":
            await self._elect()
            return 0.0, self._nothing
        if act in ("kill", "pause"):
            node = await self._choose(what)
            if node is None:
                return 0.0, self._nothing
            return await (self._kill(node) if act == "kill" else self._pause(node))
        return await self._disturb(kind)

    async def _nothing(self) -> None:
        """Ends what has no end."""

    # Nodes.

    async def _choose(self, what: str) -> Node | None:
        """A node of a kind or role that has no fault yet."""
        kinds = {"name server": "namesrv", "controller": "controller", "etcd": "etcd"}
        if what in kinds:
            found = [node for node in self.cluster.nodes if node.kind == kinds[what]]
        else:
            found = [node for master, node in await self._brokers() if (what == "master") == (master == node)]
        found = [node for node in found if node.name not in self._taken]
        if not found:
            return None
        node = self._chance.choice(found)
        self._taken.add(node.name)
        return node

    async def _brokers(self) -> list[tuple[Node, Node]]:
        """Every broker behind the master of its group. Those of a group that has none now are left out."""
        masters = {
            state.node.group: state.node
            for state in await asyncio.to_thread(self.cluster.status)
            if state.role == "master" and state.log_end >= 0
        }
        return [(masters[node.group], node) for node in self.cluster.nodes if node.group in masters]

    async def _kill(self, node: Node) -> tuple[float, End]:
        await asyncio.to_thread(self.cluster.kill, node.name)
        self.links.close_node(node.name)

        async def end() -> None:
            await self.links.open(node.name, _ports(node))
            await asyncio.to_thread(self.cluster.start_node, node.name)

        return self._chance.uniform(*DOWN_SECONDS), end

    async def _pause(self, node: Node) -> tuple[float, End]:
        pid = self.cluster.pid(node.name)
        os.kill(pid, signal.SIGSTOP)

        async def end() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        return self._chance.uniform(*PAUSE_SECONDS), end

    async def _elect(self) -> None:
        brokers = await self._brokers()
        others = [node for master, node in brokers if master != node and node.name not in self._taken]
        if not others:
            return
        group = self._chance.choice(others).group
        self._taken |= {node.name for _, node in brokers if node.group == group}
        request = ControllerElectMaster("DefaultCluster", group, -1, False)
        for node in self.cluster.nodes:
            if node.kind == "controller":
                with suppress(OrbitError):
                    await asyncio.to_thread(_call, node.address, request)

    # Links.

    async def _disturb(self, kind: str) -> tuple[float, End]:
        links: list[Link] = []
        brokers = await self._brokers()
        master = await self._choose("master")
        if master is None:
            return 0.0, self._nothing
        slaves = [node.name for at, node in brokers if at == master and node != master]
        names = [node.name for node in self.cluster.nodes if node.kind == "namesrv"]
        if kind == "cut clients from master":
            links = _both(master.name, [CLIENTS])
        elif kind == "cut master from name servers":
            links = _both(master.name, names)
        elif kind == "cut master from all but clients":
            links = _both(master.name, [node.name for node in self.cluster.nodes if node != master])
        elif kind == "one-way link to slave":
            way = self._chance.choice((False, True))
            links = [(slave, master.name) if way else (master.name, slave) for slave in slaves]
        else:
            links = _both(master.name, slaves)
        if kind.startswith("slow"):
            self.links.slow_down(SLOW_SECONDS, *links)
        else:
            self.links.cut(*links)

        async def end() -> None:
            self.links.mend()

        return self._chance.uniform(*CUT_SECONDS), end


def _both(name: str, others: list[str]) -> list[Link]:
    return [link for other in others for link in ((name, other), (other, name))]


def _call(address: str, request: ControllerElectMaster) -> None:
    with BlockingConnection(address) as connection:
        connection.call(request)


def _ports(node: Node) -> list[int]:
    port = int(node.address.rpartition(":")[2])
    return [port, port + HA_DISTANCE] if node.group else [port]

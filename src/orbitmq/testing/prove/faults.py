"""Faults of a cluster, each with its end: kills, pauses, full disks, and links that are cut, slow or lossy,
carry one way only, or break connections.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from orbitmq.broker.role.options import HA_DISTANCE
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.controller import ControllerElectMaster
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.testing.local_cluster import LocalCluster, Node
from orbitmq.testing.prove.disks import Disks
from orbitmq.testing.prove.links import CLIENTS, Link, Links

TWO = "two at once"
TWO_SHARE = 0.12
"""Share of faults that are two, on different nodes."""
DOWN_SECONDS = (0.5, 3.0)
PAUSE_SECONDS = (0.5, 6.0)
CUT_SECONDS = (0.5, 6.0)
OUTAGE_SECONDS = (20.0, 60.0)
"""Longer than the lease of a master: one that depends on controllers would stop."""
SLOW_SECONDS = 0.05
LOSSY_SECONDS = (2.0, 8.0)
LOST_SHARE = (0.05, 0.3)
"""Share of packets that a lossy link loses. Each delays what is behind it by 0.2 s, 0.4 s and so on."""
BROKEN_SHARE = 0.05
"""Share of pieces of the bytes on a link in whose middle its connection ends."""
FULL_SECONDS = (1.0, 6.0)
LEFT_BYTES = 2 << 20
"""Most room that a full disk still has."""
BALLAST_TOPIC = "ClusterTrialBallast"
BALLAST_BYTES = 64 << 10
MOST_BALLAST = 160
"""Messages that a fault sends at most, to use up blocks that a broker has reserved before."""
REFUSAL_SECONDS = 60.0
"""Time within which a master whose disk is full refuses messages."""
KINDS = (
    *("kill master", "pause master", "kill name server", "pause name server"),
    *("cut clients from master", "cut master from name servers"),
    *("lossy link to clients", "broken connections to clients", "full disk of master"),
)
KINDS_WITH_SLAVES = (
    *("kill slave", "pause slave", "cut slave from master", "one-way link to slave", "slow link to slave"),
    *("lossy link to slave", "broken connections to slave", "full disk of slave"),
)
KINDS_WITH_CONTROLLERS = (
    *("kill controller", "pause controller", "kill etcd", "pause etcd"),
    *("elect another master", "cut master from all but clients"),
)
KINDS_WITH_BLIND_MASTERS = ("lose controllers", "lose etcd")


def kinds_of(*, has_slaves: bool, has_controllers: bool, goes_blind: bool) -> list[str]:
    """The kinds of faults that such a cluster can have; `goes_blind`: its brokers have enableBlindMaster."""
    kinds = [*KINDS, *(KINDS_WITH_SLAVES if has_slaves else ())]
    kinds += KINDS_WITH_CONTROLLERS if has_controllers else ()
    return [*kinds, *(KINDS_WITH_BLIND_MASTERS if has_controllers and goes_blind else ())]


End = Callable[[], Awaitable[None]]


class Faults:
    """Begins faults on a cluster that is whole, and ends them."""

    def __init__(
        self,
        cluster: LocalCluster,
        chance: random.Random,
        break_: Callable[[str, str], None],
        *,
        goes_blind: bool = False,
    ) -> None:
        """`break_(rule, detail)` is called for a promise that a fault itself found broken."""
        self.cluster = cluster
        self._chance = chance
        self._break = break_
        self.disks = Disks(
            {node.name: cluster.data_folder(node.name) for node in cluster.nodes if node.group}, cluster.pid
        )
        self.links = Links(lambda: {node.name: cluster.pid(node.name) for node in cluster.nodes})
        groups = [node.group for node in cluster.nodes if node.group]
        self.kinds = kinds_of(
            has_slaves=len(groups) > len(set(groups)),
            has_controllers=any(node.kind == "controller" for node in cluster.nodes),
            goes_blind=goes_blind,
        )
        self._taken: set[str] = set()

    async def open(self) -> None:
        """Opens the links of all nodes, and the disks of brokers."""
        await asyncio.to_thread(self.disks.open)
        for node in self.cluster.nodes:
            await self.links.open(node.name, _ports(node))

    async def close(self) -> None:
        """Ends the relays. The disks stay until `disks.close`: nodes end in order, and write to them."""
        await self.links.close()

    async def begin(self, kind: str) -> tuple[float, End]:
        """Begins a fault; how long it is to be held, and what ends it."""
        self._taken.clear()
        if kind != TWO:
            return await self._begin(kind)
        first, second = self._chance.sample(self.kinds, 2)
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
        if act == "lose":
            return await self._lose(what.removesuffix("s"))
        if act == "full":
            return await self._fill(what.removeprefix("disk of "))
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
        await self.links.close_node(node.name)

        async def end() -> None:
            await self.links.open(node.name, _ports(node))
            await asyncio.to_thread(self.cluster.start_node, node.name)

        return self._chance.uniform(*DOWN_SECONDS), end

    async def _lose(self, kind: str) -> tuple[float, End]:
        """Kills all nodes of a kind; they are away for longer than any other node ever is."""
        nodes = [node for node in self.cluster.nodes if node.kind == kind and node.name not in self._taken]
        self._taken |= {node.name for node in nodes}
        ends = [(await self._kill(node))[1] for node in nodes]

        async def end() -> None:
            for start in ends:
                await start()

        return self._chance.uniform(*OUTAGE_SECONDS), end

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

    # Disks.

    async def _fill(self, what: str) -> tuple[float, End]:
        node = await self._choose(what)
        master = None if node is None else await asyncio.to_thread(self.cluster.master, node.group)
        if node is None or master is None:
            return 0.0, self._nothing
        left = self._chance.randrange(LEFT_BYTES)
        await asyncio.to_thread(self.disks.fill, node.name, left)
        ballast = asyncio.ensure_future(self._add_ballast(master.address))

        async def end() -> None:
            if what == "master":
                await asyncio.wait({ballast}, timeout=REFUSAL_SECONDS)
            is_refused = ballast.done() and ballast.result()
            ballast.cancel()
            await asyncio.gather(ballast, return_exceptions=True)
            # Of two faults the other one may have kept messages from it.
            if what == "master" and not is_refused and len(self._taken) == 1:
                self._break(
                    "refused", f"{node.name} took messages, or gave no answer, with {left:,} bytes left"
                )
            await asyncio.to_thread(self.disks.free, node.name)

        return self._chance.uniform(*FULL_SECONDS), end

    async def _add_ballast(self, address: str) -> bool:
        """Sends large messages without a reader; true once the broker refuses them for want of room."""
        pool = ConnectionPool()
        request = SendMessageV2(
            "trial-ballast", BALLAST_TOPIC, "TBW102", 1, 0, 0, 0, 0, body=bytes(BALLAST_BYTES)
        )
        try:
            for _ in range(MOST_BALLAST):
                try:
                    await pool.call(address, request, 10_000)
                except BrokerRefused as refused:
                    if refused.code == ResponseCode.SERVICE_NOT_AVAILABLE:
                        return True
                    await asyncio.sleep(SLOW_SECONDS)
                except NetError:
                    await asyncio.sleep(SLOW_SECONDS)
        finally:
            await pool.close()
        return False

    # Links.

    async def _disturb(self, kind: str) -> tuple[float, End]:
        links: list[Link] = []
        brokers = await self._brokers()
        master = await self._choose("master")
        if master is None:
            return 0.0, self._nothing
        slaves = [node.name for at, node in brokers if at == master and node != master]
        names = [node.name for node in self.cluster.nodes if node.kind == "namesrv"]
        if kind.endswith(" clients") or kind.startswith("cut clients"):
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
        seconds = CUT_SECONDS
        if kind.startswith("slow"):
            self.links.slow_down(SLOW_SECONDS, *links)
        elif kind.startswith("lossy"):
            self.links.lose(self._chance.uniform(*LOST_SHARE), *links)
            seconds = LOSSY_SECONDS
        elif kind.startswith("broken"):
            self.links.break_connections(BROKEN_SHARE, *links)
        else:
            self.links.cut(*links)

        async def end() -> None:
            self.links.mend()

        return self._chance.uniform(*seconds), end


def _both(name: str, others: list[str]) -> list[Link]:
    return [link for other in others for link in ((name, other), (other, name))]


def _call(address: str, request: ControllerElectMaster) -> None:
    with BlockingConnection(address) as connection:
        connection.call(request)


def _ports(node: Node) -> list[int]:
    port = int(node.address.rpartition(":")[2])
    return [port, port + HA_DISTANCE] if node.group else [port]

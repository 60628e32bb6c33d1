"""One simulated run: a name server, a broker that dies again and again, and clients of all kinds.

`run(seed)` gives what happened. A fault is one small function with `@fault`: it is given the world, may wait,
and undoes what does not go away by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import Layer
from orbitmq.protocol.delay_levels import delays_ms
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.lifecycle.namesrv import NamesrvServer
from orbitmq.testing.load.clients import TOPICS, Clients
from orbitmq.testing.load.history import Broken, History
from orbitmq.testing.simulation.disk import MemoryDisk
from orbitmq.testing.simulation.loop import NODE, START_SECONDS, Node, VirtualLoop, on_node
from orbitmq.testing.simulation.network import Network
from orbitmq.testing.simulation.running import VirtualClock, play

NAMESRV_PORT, BROKER_PORT = 9876, 10911
LONGEST_SECONDS = 3_000
"""Of virtual time: whoever takes longer is stuck."""
DRAIN_SECONDS = 300

DEFAULTS: dict[str, object] = {
    "messageDelayLevel": "1s 2s 3s",
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 1000,
    # A producer behind a dead connection answers nothing for two minutes, and is asked all the while.
    "transactionCheckMax": 1000,
    "recallMessageEnable": "true",
    "flushDelayOffsetInterval": 2000,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 200,
    "maxIndexNum": 800,
    "mappedFileSizeTimerLog": 52 * 500,
}


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    seed: int
    broken: list[Broken]
    promises: int = 0
    kept: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    lost_to_cuts: int = 0
    virtual_seconds: float = 0.0
    settings: dict[str, object] = field(default_factory=dict)


Fault = Callable[["World"], Awaitable[None]]
FAULTS: dict[str, Fault] = {}


def fault(function: Fault) -> Fault:
    """Adds a fault under the name of its function."""
    FAULTS[function.__name__] = function
    return function


class World:
    """The parts, and what faults act on."""

    def __init__(self, seed: int, root: Path, settings: dict[str, object]) -> None:
        self.chance = random.Random(seed)
        self.loop = VirtualLoop(self.chance)
        self.network = Network(self.loop, self.chance)
        self.clock = VirtualClock(self.loop)
        self.disk = self._new_disk(MemoryDisk(self.chance))
        self.root = root
        self.history = History()
        self.settings = {**DEFAULTS, **self._drawn(), **settings}
        self.faults: Counter[str] = Counter()
        self.broker: BrokerServer
        self.namesrv: NamesrvServer
        self.broker_node = Node("none yet")
        self.namesrv_node = Node("none yet")
        levels = dict(enumerate(delays_ms(str(self.settings["messageDelayLevel"])), start=1))
        self.client_node = Node("clients")
        self._levels = {level: ms for level, ms in levels.items() if ms <= 10_000}

    def _drawn(self) -> dict[str, object]:
        """Options that differ from run to run."""
        chance = self.chance
        return {
            "flushDiskType": chance.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
            "mappedFileSizeCommitLog": chance.choice((64 << 10, 256 << 10, 1 << 20)),
            "enabledAppendPropCRC": chance.choice(("true", "false")),
            "flushCommitLogLeastPages": chance.choice((0, 4)),
            # In some runs is enough. Pops come again by it.
            "timerWheelEnable": chance.choice(("true", "false", "false")),
        }

    def _new_disk(self, disk: MemoryDisk) -> MemoryDisk:
        disk.now_ms = self.clock.now
        return disk

    def break_(self, rule: str, detail: str) -> None:
        """Notes a breach."""
        self.history.break_(rule, detail)

    def nodes(self) -> Iterable[Node]:
        """Everything that may still run."""
        return self.broker_node, self.namesrv_node, self.client_node, self.network.nobody

    def let_go(self) -> None:
        """Lets go of the store's lock."""
        self.disk.is_dead = True
        store = getattr(getattr(self, "broker", None), "store", None)
        if store is not None:
            store.abandon()

    # Processes.

    async def start_namesrv(self) -> None:
        """Starts a name server; it knows nothing."""
        node = self.namesrv_node = Node("name server")
        settings = NAMESRV_TABLE.load([Layer("the simulation", {"listenPort": NAMESRV_PORT})])
        data_dir = self.root / "namesrv"

        def begin() -> asyncio.Task[None]:
            self.namesrv = NamesrvServer(settings, data_dir=data_dir, clock=self.clock)
            return self.loop.create_task(self.namesrv.start())

        await on_node(node, begin)

    async def start_broker(self) -> None:
        """Starts the broker on what its last life left."""
        node = self.broker_node = Node(f"broker, life {self.history.life}")
        values = {
            **self.settings,
            "storePathRootDir": str(self.root / "store"),
            "listenPort": BROKER_PORT,
            "namesrvAddr": f"127.0.0.1:{NAMESRV_PORT}",
            "brokerName": "broker-a",
            "bindAddress": "127.0.0.1",
        }
        settings = BROKER_TABLE.load([Layer("the simulation", values)])

        def begin() -> asyncio.Task[None]:
            self.broker = BrokerServer(settings, clock=self.clock, disk=self.disk)
            return self.loop.create_task(self.broker.start())

        try:
            await on_node(node, begin)
        except Exception as error:
            self.history.break_("stuck", f"the broker does not start: {error!r}")
            raise

    async def stop_broker(self) -> None:
        """An orderly stop."""
        self.history.life_ended("stop", self.clock.now())
        await on_node(self.broker_node, lambda: self.loop.create_task(self.broker.stop()))
        self.broker_node.is_dead = True

    def kill_broker(self, *, power_cut: bool = False) -> None:
        """Ends the broker between two of its steps; with `power_cut` the disk loses what was not synced."""
        store = self.broker.store
        loses = power_cut and self.settings["flushDiskType"] != "SYNC_FLUSH"
        durable = store.durable_offset
        self.broker_node.is_dead = True
        self.network.died(self.broker_node)
        store.abandon()
        # Acknowledged, and still on its way to the client, is what it is to be counted as: not known.
        self.history.life_ended("cut" if power_cut else "kill", self.clock.now(), durable if loses else None)
        self.disk = self._new_disk(self.disk.reopened(power_cut=power_cut))

    def kill_namesrv(self) -> None:
        """Ends the name server."""
        self.namesrv_node.is_dead = True
        self.network.died(self.namesrv_node)

    # The run.

    async def play(self, seconds: float) -> None:
        """Faults for so long, then quiet, then the reckoning."""
        NODE.set(self.client_node)
        await self.start_namesrv()
        await self.start_broker()
        clients = Clients(
            f"127.0.0.1:{BROKER_PORT}",
            self.history,
            self.clock.now,
            self.chance,
            levels_ms=self._levels,
            kinds=tuple(
                kind
                for kind in TOPICS
                if self.settings["timerWheelEnable"] == "true" or kind not in ("timed", "popped")
            ),
            queues=self.chance.choice((1, 2, 4)),
            pause_seconds=self.chance.choice((1.0, 2.0)),
            most_in_batch=8,
            hold_ms=2_000,
        )
        try:
            await clients.make_topics()
            clients.start()
            names = sorted(FAULTS)
            ends = self.loop.time() + seconds
            while self.loop.time() < ends and not self.history.broken:
                await asyncio.sleep(self.chance.uniform(0.2, seconds / 4))
                name = self.chance.choice(names)
                self.faults[name] += 1
                await FAULTS[name](self)
            await clients.drain(DRAIN_SECONDS)
            self.kill_broker(power_cut=self.settings["flushDiskType"] == "SYNC_FLUSH")
            await self.start_broker()
            self.history.check(await clients.everything())
            error = clients.failed()
            if error is not None:
                self.history.break_("failed", f"a client ended with {error!r}")
        finally:
            await clients.stop()

    def outcome(self, seed: int) -> Outcome:
        """The result of the run."""
        promises = self.history.promises.values()
        return Outcome(
            seed,
            self.history.broken,
            len(promises),
            sum(one.acknowledged for one in promises),
            self.faults,
            self.history.loss.messages,
            self.loop.now_seconds - START_SECONDS,
            self.settings,
        )


def run(seed: int, seconds: float = 8.0, **settings: object) -> Outcome:
    """One run. With the same PYTHONHASHSEED a seed does the same again."""
    outcome: Outcome = play(
        lambda root: World(seed, root, settings),
        lambda world: world.play(seconds),
        lambda world: world.outcome(seed),
        LONGEST_SECONDS,
    )
    return outcome


# Faults.


@fault
async def kill(world: World) -> None:
    """The process dies and is started again."""
    world.kill_broker()
    await world.start_broker()


@fault
async def cut_power(world: World) -> None:
    """Power fails: what was not synced is lost, torn or there."""
    world.kill_broker(power_cut=True)
    await world.start_broker()


@fault
async def stop(world: World) -> None:
    """An orderly restart."""
    await world.stop_broker()
    await world.start_broker()


@fault
async def stay_away(world: World) -> None:
    """The broker dies and stays away for a while."""
    world.kill_broker()
    await asyncio.sleep(world.chance.uniform(1, 20))
    await world.start_broker()


@fault
async def cut_connections(world: World) -> None:
    """Some connections of the broker are reset."""
    world.network.cut(world.broker_node)


@fault
async def pull_cables(world: World) -> None:
    """Some connections of the broker go silent in one direction or both."""
    world.network.go_silent(world.broker_node)


@fault
async def slow_down(world: World) -> None:
    """Some connections of the broker become slow."""
    world.network.delay(world.broker_node)


@fault
async def freeze(world: World) -> None:
    """The broker stands still for some seconds, as behind a SIGSTOP."""
    seconds = world.chance.uniform(0.5, 20)
    world.broker_node.stopped_until = world.loop.time() + seconds
    await asyncio.sleep(seconds)
    world.broker_node.stopped_until = 0.0


@fault
async def fill_disk(world: World) -> None:
    """There is no room on the disk for some seconds."""
    disk = world.disk
    disk.is_full = True
    await asyncio.sleep(world.chance.uniform(0.5, 5))
    disk.is_full = False


@fault
async def lose_name_server(world: World) -> None:
    """The name server dies, and comes back knowing nothing."""
    world.kill_namesrv()
    await asyncio.sleep(world.chance.uniform(0.1, 10))
    await world.start_namesrv()

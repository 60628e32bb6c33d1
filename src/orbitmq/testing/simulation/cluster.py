"""Simulated runs of a cluster: name servers, broker groups, their clients, and controllers if they decide; or
of one broker.

The programs are the real ones; what may go wrong with them is in `cluster_faults`. A `Ledger` for each group
looks at all logs after every step.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.role.role import SLAVE, Role
from orbitmq.controller.options import CONTROLLER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import Layer
from orbitmq.protocol.delay_levels import delays_ms
from orbitmq.server.controller.consensus import ConsensusError
from orbitmq.server.controller.server import ControllerServer
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.lifecycle.namesrv import NamesrvServer
from orbitmq.testing.load.clients import TOPICS
from orbitmq.testing.load.history import Broken
from orbitmq.testing.simulation.cluster_clients import ClusterClients, ClusterHistory
from orbitmq.testing.simulation.consensus import Consensus, SimulatedStore
from orbitmq.testing.simulation.disk import MemoryDisk
from orbitmq.testing.simulation.groups import Group, Mode
from orbitmq.testing.simulation.ledger import Ledger
from orbitmq.testing.simulation.loop import NODE, START_SECONDS, Node, VirtualLoop, on_node
from orbitmq.testing.simulation.machines import (
    BrokerMachine,
    ControllerMachine,
    Machine,
    NamesrvMachine,
    VirtualClock,
)
from orbitmq.testing.simulation.network import Network
from orbitmq.testing.simulation.onlooker import Onlooker

NAMESRV_PORT, CONTROLLER_PORT, BROKER_PORT, BROKER_STRIDE = 9876, 9890, 10911, 10
DRAIN_SECONDS = 200
WHOLE_SECONDS = 200
"""Virtual seconds within which a cluster without faults is whole again."""
CLOCK_RATE = 0.01
"""Clocks run faster or slower by so much at most."""
JUMP_MS = 3_600_000
AGAIN_SECONDS = 1.0
MORE_SILENCES = 5
"""Where masters may do without controllers, these are away more often than anything else happens."""

SETTINGS: dict[str, object] = {
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
    "haSendHeartbeatInterval": 1000,
    "haHousekeepingInterval": 5000,
    "syncBrokerMetadataPeriod": 1000,
    "registerNameServerPeriod": 10_000,
    "slaveReadEnable": "true",
}
HEARTBEAT_TIMEOUT_MS = 3_000
CONTROLLED: dict[str, object] = {
    "enableControllerMode": "true",
    "brokerRole": "SYNC_MASTER",
    "controllerHeartBeatTimeoutMills": HEARTBEAT_TIMEOUT_MS,
    "checkSyncStateSetPeriod": 500,
    "syncControllerMetadataPeriod": 2000,
    "haMaxTimeSlaveNotCatchup": 3000,
}


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    seed: int
    mode: Mode
    broken: list[Broken]
    trace: list[str]
    promises: int = 0
    kept: int = 0
    lost: int = 0
    elections: int = 0
    blind_spells: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    virtual_seconds: float = 0.0
    settings: dict[str, object] = field(default_factory=dict)


Fault = Callable[["Cluster"], Awaitable[None]]


class Cluster:
    """The parts, and what faults act on."""

    def __init__(
        self,
        chance: random.Random,
        mode: Mode,
        root: Path,
        settings: Mapping[str, object],
        faults: Mapping[str, Fault],
        script: Fault | None,
    ) -> None:
        self.chance = chance
        self.mode = mode
        self.loop = VirtualLoop(chance)
        self.network = Network(self.loop, chance)
        self.root = root
        self.trace: list[str] = []
        self.faults: Counter[str] = Counter()
        self._to_play = faults
        self._script = script
        self.client_node = Node("clients")
        self.clock = VirtualClock(self.loop)
        """That of the clients, which is right."""
        self._errors_ms = [0, 0]
        """By how much a broker's clock was behind and ahead, at most."""
        self.consensus = Consensus(self.loop, chance, self._rate())
        self._first_broken: list[Broken] = []
        self.settings: dict[str, object] = {**SETTINGS, **self._drawn(), **settings}
        self.settings["flushDiskType"] = "SYNC_FLUSH" if mode.sync_flush else "ASYNC_FLUSH"
        self.name_servers = [
            NamesrvMachine(f"namesrv-{n}", NAMESRV_PORT + n, root / f"namesrv-{n}", self._clock())
            for n in range(chance.choice((1, 2)))
        ]
        self.controllers = [
            ControllerMachine(f"controller-{n}", CONTROLLER_PORT + n, root / f"controller-{n}", self._clock())
            for n in range(chance.choice((2, 3)) if mode.has_controller else 0)
        ]
        self.groups: list[Group] = []
        self.onlooker = Onlooker(mode, self.groups, self.note, self.break_, self.clock.now)
        self.consensus.on_change = self.onlooker.decided
        replicas = 1 if mode.is_alone else chance.choice((2, 3, 3))
        for number in range(1 if mode.is_alone or chance.random() < 0.85 else 2):
            self.groups.append(self._group(number, replicas))
        self._places = itertools.count(len(self.brokers))
        levels = dict(enumerate(delays_ms(str(self.settings["messageDelayLevel"])), start=1))
        self._levels = {level: ms for level, ms in levels.items() if ms <= 10_000}
        self.spread_ms()  # clocks that are wrong from the beginning come nearer to the right time, too
        self.loop.after_step = self.onlooker.observe

    def _rate(self) -> float:
        return self.chance.choice((1.0, 1.0, self.chance.uniform(1 - CLOCK_RATE, 1 + CLOCK_RATE)))

    def _clock(self) -> VirtualClock:
        offset = self.chance.choice((0, 0, self.chance.randint(-2000, 2000)))
        return VirtualClock(self.loop, offset, self._rate())

    def _drawn(self) -> dict[str, object]:
        chance = self.chance
        return {
            "mappedFileSizeCommitLog": chance.choice((64 << 10, 256 << 10, 1 << 20)),
            "enabledAppendPropCRC": chance.choice(("true", "false")),
            "flushCommitLogLeastPages": chance.choice((0, 4)),
            "timerWheelEnable": chance.choice(("true", "false", "false")),
            "haTransferBatchSize": chance.choice((32_768, 1_000)),
        }

    def _group(self, number: int, replicas: int) -> Group:
        name = f"broker-{chr(ord('a') + number)}"
        members = []
        for index in range(replicas):
            place = number * replicas + index
            own = f"{name}-{index}"
            members.append(
                BrokerMachine(
                    own, BROKER_PORT + BROKER_STRIDE * place, self.root / own, self._clock(),
                    disk=MemoryDisk(self.chance), number=index,
                )
            )  # fmt: skip
        for member in members:
            member.disk.now_ms = member.clock.now
        history = ClusterHistory(lambda promise: self.onlooker.acknowledged(group, promise), self.spread_ms)
        group = Group(name, members, history, Ledger(name, self.break_), members[0])
        return group

    def spread_ms(self) -> float:
        """By how much any two clocks ever differed: one broker notes when a message is due, another one
        looks.
        """
        for broker in self.brokers:
            error = broker.clock.now() - self.clock.now()
            self._errors_ms = [min(error, self._errors_ms[0]), max(error, self._errors_ms[1])]
        return self._errors_ms[1] - self._errors_ms[0]

    # Told of.

    def note(self, what: str) -> None:
        self.trace.append(f"{self.loop.now_seconds - START_SECONDS:9.3f} {what}")

    def break_(self, rule: str, detail: str) -> None:
        self.note(f"BROKEN {rule}: {detail}")
        self._first_broken.append(Broken(rule, detail))

    @property
    def is_broken(self) -> bool:
        return bool(self._first_broken) or any(group.history.broken for group in self.groups)

    @property
    def brokers(self) -> list[BrokerMachine]:
        return [member for group in self.groups for member in group.members]

    @property
    def machines(self) -> list[Machine]:
        """Everything that may be hit."""
        return [*self.name_servers, *self.controllers, *self.brokers]

    def group_of(self, broker: BrokerMachine) -> Group:
        return next(group for group in self.groups if broker in group.members)

    def nodes(self) -> Iterable[Node]:
        """Everything that may still run."""
        return (
            *(machine.node for machine in self.machines),
            self.client_node, self.network.nobody, self.consensus.node,
        )  # fmt: skip

    def let_go(self) -> None:
        """Lets go of the stores' locks."""
        self.loop.after_step = None
        for broker in self.brokers:
            broker.disk.is_dead = True
            broker.unlock()

    # Processes.

    async def start(self, machine: Machine) -> None:
        """Starts the process of a machine on what its last life left."""
        self.note(f"{machine.name} starts")
        self.network.powered_off.discard(machine.name)
        node = machine.next_node()
        life = machine.life
        try:
            await on_node(node, lambda: self.loop.create_task(self._begin(machine)))
        except Exception as error:
            if machine.life == life and not node.is_dead:
                is_full = getattr(getattr(machine, "disk", None), "is_full", False)
                self.kill(machine)
                # A controller without its store ends after a while; whatever has started it starts it again.
                if not (is_full or isinstance(error, ConsensusError)):
                    self.break_("stuck", f"{machine.name} does not start: {error!r}")
                    return
                await asyncio.sleep(AGAIN_SECONDS)  # an operator makes room, and starts it again
                await self.start(machine)

    async def _begin(self, machine: Machine) -> None:
        if isinstance(machine, NamesrvMachine):
            settings = NAMESRV_TABLE.load([Layer("the simulation", {"listenPort": machine.port})])
            machine.server = NamesrvServer(settings, data_dir=machine.root, clock=machine.clock)
            await machine.server.start()
        elif isinstance(machine, ControllerMachine):
            values = {"listenPort": machine.port, "storeLeaseSeconds": 2, "controllerId": machine.name}
            store = SimulatedStore(self.consensus, machine.name)
            given = CONTROLLER_TABLE.load([Layer("the simulation", values)])
            machine.server = ControllerServer(given, store, clock=machine.clock)
            await machine.server.start()
        else:
            assert isinstance(machine, BrokerMachine)
            await self._begin_broker(machine)

    async def _begin_broker(self, broker: BrokerMachine) -> None:
        group = self.group_of(broker)
        values = {
            **self.settings,
            "storePathRootDir": str(broker.root),
            "listenPort": broker.port,
            "namesrvAddr": ";".join(one.address for one in self.name_servers),
            "brokerName": group.name,
            "bindAddress": "127.0.0.1",
        }
        if self.mode.has_controller:
            values |= CONTROLLED
            values["controllerAddr"] = ";".join(one.address for one in self.controllers)
            values["allAckInSyncStateSet"] = str(self.mode.is_sync).lower()
            values["enableBlindMaster"] = str(self.mode.goes_blind).lower()
        else:
            is_master = broker is group.master
            values["brokerId"] = 0 if is_master else broker.number + 1
            values["brokerRole"] = (
                SLAVE if not is_master else "SYNC_MASTER" if self.mode.is_sync else "ASYNC_MASTER"
            )
            values["inSyncReplicas"] = 2 if self.mode.is_sync else 1
        settings = BROKER_TABLE.load([Layer("the simulation", values)])
        broker.server = BrokerServer(settings, clock=broker.clock, disk=broker.disk)
        await broker.server.start()
        broker.is_ready = True

    def kill(self, machine: Machine, *, power_cut: bool = False) -> None:
        """Ends a process between two of its steps; with `power_cut` its disk loses what was not synced, and
        its peers are not notified.
        """
        if not machine.is_up:
            return
        self.note(f"{machine.name} {'loses power' if power_cut else 'is killed'}")
        self.onlooker.observe()
        if isinstance(machine, BrokerMachine):
            self._end_broker(machine, power_cut=power_cut)
        machine.is_up = False
        machine.node.is_dead = True
        self.network.died(machine.node, is_off=power_cut)

    def _end_broker(self, broker: BrokerMachine, *, power_cut: bool) -> None:
        group = self.group_of(broker)
        durable = broker.held_end(on_disk=True)
        broker.end = broker.held_end(on_disk=power_cut)
        broker.unlock()
        disk = broker.disk.reopened(power_cut=power_cut)
        disk.now_ms = broker.clock.now
        broker.disk = disk
        may_lose = power_cut and not self.mode.sync_flush
        if may_lose and (self.mode.has_controller or broker is group.master):
            # It may have acknowledged it to its clients, or to its master.
            lost_from = self.onlooker.lost_from(group, broker, durable)
            broker.has_lost = True
        else:
            lost_from = None
        if lost_from is not None:
            self.onlooker.life_ended(group, lost_from)
        elif broker is group.master:
            self.onlooker.life_ended(group, None)

    async def stop(self, machine: Machine) -> None:
        self.note(f"{machine.name} stops")
        server: Any = machine.server  # type: ignore[attr-defined]
        node = machine.node
        await on_node(node, lambda: self.loop.create_task(server.stop()))
        if node.is_dead:
            return
        if isinstance(machine, BrokerMachine):
            group = self.group_of(machine)
            broker_end = machine.store
            machine.end = broker_end.max_physical if broker_end is not None else machine.end
            if machine is group.master:
                # Its saved tables are not those of a successor.
                self.onlooker.life_ended(group, None, "kill" if self.mode.has_controller else "stop")
        machine.is_up = False
        machine.node.is_dead = True
        self.network.died(machine.node)

    # Waiting.

    async def until(self, is_so: Callable[[], bool], seconds: float = WHOLE_SECONDS) -> bool:
        """Waits until something is so; False where it does not come to that."""
        end = self.loop.time() + seconds
        while not is_so():
            if self.loop.time() >= end or self.is_broken:
                return False
            await asyncio.sleep(0.05)
        return True

    def has_master(self, group: Group) -> bool:
        """True if the member that should be master is, and takes messages."""
        master = group.master
        if master.store is None or not master.is_ready:
            return False
        assert master.server is not None
        role = master.server.broker.role
        return role.current is Role.MASTER and (
            not self.mode.has_controller or role.epoch == group.ledger.epoch
        )

    def is_whole(self, group: Group) -> bool:
        """True if all members run, follow the master and have all of its log."""
        if not self.has_master(group) or not all(one.is_up and one.is_ready for one in group.members):
            return False
        end = group.master.held_end(on_disk=False)
        if any(one.held_end(on_disk=False) != end for one in group.members):
            return False
        if not self.mode.has_controller:
            assert group.master.server is not None
            return len(group.master.server.broker.promise.links.all) == len(group.members) - 1
        return group.decided is not None and len(group.decided.sync_state_set) == len(group.members)

    async def make_whole(self) -> None:
        """Waits until every group is whole; an operator sees to slaves that refuse to follow."""
        for group in self.groups:
            if not await self.until(lambda group=group: self._is_mended(group)) and not self.is_broken:  # type: ignore[misc]
                states = [f"{one.name} {one.seen}, up {one.is_up}" for one in group.members]
                said = [
                    one.server.broker.replication.refusal
                    for one in group.members
                    if one.server is not None and hasattr(one.server, "broker")
                ]
                self.break_("stuck", f"{group.name} does not become whole: {states} {said} {group.decided}")

    def _is_mended(self, group: Group) -> bool:
        if not self.mode.has_controller:
            for slave in group.members:
                refusal = self._refusal_of(group, slave)
                if refusal:
                    self.note(f"{slave.name} is refused, and begins anew: {refusal}")
                    self.kill(slave)
                    self.wipe(slave)
                    slave.is_busy = True
                    self.loop.create_task(self._back(slave))
        return self.is_whole(group)

    def _refusal_of(self, group: Group, slave: BrokerMachine) -> str:
        if slave is group.master or not slave.is_ready or slave.store is None or slave.is_busy:
            return ""
        assert slave.server is not None
        replication = slave.server.broker.replication
        return "" if replication.following is not None else replication.refusal

    async def _back(self, machine: Machine) -> None:
        await self.start(machine)
        machine.is_busy = False

    def wipe(self, broker: BrokerMachine) -> None:
        """Puts an empty disk into the machine of a broker that does not run."""
        self.note(f"{broker.name} has an empty disk")
        mode = getattr(broker.server, "controller_mode", None)
        if mode is not None:
            broker.gone_ids.add(mode.machine.broker_id)
        disk = MemoryDisk(self.chance)
        disk.now_ms = broker.clock.now
        broker.wipe(disk)

    def copy(self, broker: BrokerMachine) -> BrokerMachine:
        """A machine with a copy of the folder of a broker that does not run; it is counted as a member, and
        no other fault acts on it.
        """
        group, place = self.group_of(broker), next(self._places)
        name = f"{broker.name}-copy-{place}"
        root = self.root / name
        self.note(f"the folder of {broker.name} is copied")
        shutil.copytree(broker.root, root, ignore=shutil.ignore_patterns("lock"))
        copy = BrokerMachine(
            name, BROKER_PORT + BROKER_STRIDE * place, root, self._clock(),
            disk=broker.disk.copied(broker.root, root), number=broker.number,
        )  # fmt: skip
        copy.disk.now_ms = copy.clock.now
        copy.is_busy = True
        group.members.append(copy)
        return copy

    # The run.

    async def play(self, seconds: float) -> None:
        """Faults for so long, then quiet, then the reckoning."""
        NODE.set(self.client_node)
        await self._start_all()
        for group in self.groups:
            group.clients = self._clients(group)
        clients = [group.clients for group in self.groups if group.clients is not None]
        try:
            for one in clients:
                await one.make_topics()
            await asyncio.sleep(2.5)  # slaves take over topics
            for one in clients:
                one.start()
            if self._script is not None:
                await self._script(self)
            else:
                await self._play_faults(self._to_play, seconds)
            self.note("quiet")
            await self._let_times_of_day_come()
            await self.make_whole()
            if self.is_broken:
                return
            for one in clients:
                await one.drain(DRAIN_SECONDS)
            await self.make_whole()
            if not self.is_broken:
                await self._last_change()
            for group in self.groups:
                if group.clients is None or self.is_broken:
                    break
                group.history.check(await group.clients.everything())
                error = group.clients.failed()
                if error is not None:
                    self.break_("failed", f"a client ended with {error!r}")
        finally:
            for one in clients:
                await one.stop()

    async def _start_all(self) -> None:
        for machine in (*self.name_servers, *self.controllers):
            await self.start(machine)
        for group in self.groups:
            await self.start(group.members[0])
            if not await self.until(lambda group=group: self.has_master(group), 60):  # type: ignore[misc]
                self.break_("stuck", f"{group.name} gets no master")
            for member in group.members[1:]:
                await self.start(member)
        await self.make_whole()

    def _clients(self, group: Group) -> ClusterClients:
        kinds = tuple(
            kind
            for kind in TOPICS
            if self.settings["timerWheelEnable"] == "true" or kind not in ("timed", "popped")
        )
        return ClusterClients(
            group.master.address,
            group.history,
            self.clock.now,
            self.chance,
            name_servers=[one.address for one in self.name_servers],
            is_master=lambda address: address == group.master.address,
            may_show=lambda address: self.onlooker.may_show(group, address),
            reads_at_slaves=self.mode.is_sync and self.mode.has_controller,
            levels_ms=self._levels,
            kinds=kinds,
            queues=self.chance.choice((1, 2)),
            pause_seconds=self.chance.choice((0.5, 2.0)),
            most_in_batch=8,
            hold_ms=2_000,
            broker_name=group.name,
            suffix="" if len(self.groups) == 1 else f"-{group.name}",
        )

    async def _play_faults(self, faults: Mapping[str, Fault], seconds: float) -> None:
        names = sorted(
            name
            for name, one in faults.items()
            if self.mode.has_controller or not getattr(one, "needs_controller", False)
            if self.mode.goes_blind or not getattr(one, "needs_blind_masters", False)
        )
        if self.mode.goes_blind and "silence" in names:
            names += ["silence"] * MORE_SILENCES
        ends = self.loop.time() + seconds
        under_way: list[asyncio.Task[None]] = []
        while self.loop.time() < ends and not self.is_broken:
            await asyncio.sleep(self.chance.uniform(0.1, seconds / 5))
            name = self.chance.choice(names)
            self.faults[name] += 1
            self.note(f"fault {name}")
            under_way.append(self.loop.create_task(self._one_fault(faults[name])))
        await asyncio.gather(*under_way)

    async def _one_fault(self, fault: Fault) -> None:
        await fault(self)

    async def _let_times_of_day_come(self) -> None:
        """Sets clocks that are far behind the latest one to its time: timers and popped messages of those
        brokers wait for a time of day. Nothing else does.
        """
        if self.settings["timerWheelEnable"] != "true":
            return
        self.spread_ms()
        latest_ms = self._errors_ms[1]
        for broker in self.brokers:
            assert isinstance(broker.clock, VirtualClock)
            behind_ms = latest_ms - (broker.clock.now() - self.clock.now())
            if behind_ms > JUMP_MS / 2:
                self.kill(broker)
                self.note(f"the clock of {broker.name} is set by {behind_ms} ms")
                broker.clock.jump(behind_ms)
                await self.start(broker)

    async def _last_change(self) -> None:
        """Every master ends, and what its successor holds is what counts."""
        for group in self.groups:
            await self._end_master(group)
        await self.make_whole()
        for group in self.groups:
            clients = group.clients
            assert clients is not None
            clients.address = group.master.address

    async def _end_master(self, group: Group) -> None:
        master = group.master
        elections = group.elections
        self.kill(master, power_cut=self.mode.sync_flush)
        if self.mode.has_controller:
            await self.until(lambda: group.elections > elections and self.has_master(group))
        await self.start(master)
        if not await self.until(lambda: self.has_master(group)) and not self.is_broken:
            self.break_("stuck", f"{group.name} gets no master any more")

    def outcome(self, seed: int) -> Outcome:
        histories = [group.history for group in self.groups]
        promises = [one for history in histories for one in history.promises.values()]
        broken = self._first_broken + [one for history in histories for one in history.broken]
        return Outcome(
            seed, self.mode, broken, self.trace, len(promises),
            sum(one.acknowledged for one in promises),
            sum(history.loss.messages for history in histories),
            sum(group.elections for group in self.groups),
            sum(group.blind_spells for group in self.groups),
            self.faults, self.loop.now_seconds - START_SECONDS, self.settings,
        )  # fmt: skip

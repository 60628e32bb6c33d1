"""Faults of a cluster, each one small function: it is given the cluster, waits, and undoes what it did.

Several are under way at a time; a machine has one at most that ends its process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.controller import CleanBrokerData, ControllerElectMaster
from orbitmq.protocol.schema.declare import Request
from orbitmq.testing.simulation.cluster import JUMP_MS, Cluster, Fault
from orbitmq.testing.simulation.loop import on_node
from orbitmq.testing.simulation.machines import BrokerMachine, Machine, VirtualClock

FAULTS: dict[str, Fault] = {}


def fault(function: Fault) -> Fault:
    """Adds a fault under the name of its function."""
    FAULTS[function.__name__] = function
    return function


def controllers_only(function: Fault) -> Fault:
    """A fault that makes sense where controllers decide."""
    function.needs_controller = True  # type: ignore[attr-defined]
    return fault(function)


def _idle(cluster: Cluster, machines: Iterable[Machine]) -> Machine | None:
    """A machine that runs and that no other fault acts on."""
    free = [one for one in machines if one.is_up and not one.is_busy]
    return cluster.chance.choice(free) if free else None


def _broker(cluster: Cluster) -> BrokerMachine | None:
    """A broker, the master rather than another one."""
    masters = [group.master for group in cluster.groups]
    found = _idle(cluster, masters if cluster.chance.random() < 0.6 else cluster.brokers)
    assert found is None or isinstance(found, BrokerMachine)
    return found


async def _away(cluster: Cluster, machine: Machine | None, *, power_cut: bool = False, most: float) -> None:
    if machine is None:
        return
    machine.is_busy = True
    cluster.kill(machine, power_cut=power_cut)
    await asyncio.sleep(cluster.chance.choice((0.0, cluster.chance.uniform(0, most))))
    await cluster.start(machine)
    machine.is_busy = False


@fault
async def kill(cluster: Cluster) -> None:
    """A broker's process dies, and is started at once or later."""
    await _away(cluster, _broker(cluster), most=10)


@fault
async def cut_power(cluster: Cluster) -> None:
    """A broker's machine loses power: what was not synced is lost, torn or there, and no peer is notified."""
    await _away(cluster, _broker(cluster), power_cut=True, most=10)


@fault
async def kill_twice(cluster: Cluster) -> None:
    """A broker dies, and once more amid its start or soon behind it."""
    broker = _broker(cluster)
    if broker is None:
        return
    broker.is_busy = True
    cluster.kill(broker)
    starting = cluster.loop.create_task(cluster.start(broker))
    await asyncio.sleep(cluster.chance.uniform(0, 0.5))
    cluster.kill(broker)
    starting.cancel()
    await cluster.start(broker)
    broker.is_busy = False


@fault
async def stop(cluster: Cluster) -> None:
    """An orderly restart of a broker."""
    broker = _broker(cluster)
    if broker is None or not broker.is_ready:
        return
    broker.is_busy = True
    await cluster.stop(broker)
    await asyncio.sleep(cluster.chance.choice((0.0, 3.0)))
    await cluster.start(broker)
    broker.is_busy = False


@fault
async def freeze(cluster: Cluster) -> None:
    """A process stands still for some seconds, as behind a SIGSTOP, and wakes."""
    machine = _broker(cluster) if cluster.chance.random() < 0.7 else _idle(cluster, cluster.controllers)
    if machine is None:
        return
    node = machine.node
    seconds = cluster.chance.choice((cluster.chance.uniform(0.1, 2), cluster.chance.uniform(2, 15)))
    cluster.note(f"{machine.name} stands still for {seconds:.1f} s")
    node.stopped_until = cluster.loop.time() + seconds
    await asyncio.sleep(seconds)
    node.stopped_until = 0.0


async def _cut_links(cluster: Cluster, links: Sequence[tuple[str, str]], seconds: float) -> None:
    for link in links:
        cluster.network.cut_link(*link)
    await asyncio.sleep(seconds)
    for link in links:
        cluster.network.mend_link(*link)


def _names(cluster: Cluster) -> list[str]:
    return [machine.name for machine in cluster.machines] + [cluster.client_node.machine]


@fault
async def cut_off(cluster: Cluster) -> None:
    """One broker reaches no machine but, in half of the cases, its clients; in some it is only unheard."""
    broker, chance = _broker(cluster), cluster.chance
    if broker is None:
        return
    others = [name for name in _names(cluster) if name != broker.name]
    if chance.random() < 0.5:
        others.remove(cluster.client_node.machine)
    ways = chance.choice(((True, True), (True, True), (True, False), (False, True)))
    seconds = chance.uniform(0.5, 12)
    cluster.note(f"{broker.name} is cut off for {seconds:.1f} s, out and in: {ways}")
    links = [(broker.name, other) for other in others if ways[0]]
    links += [(other, broker.name) for other in others if ways[1]]
    await _cut_links(cluster, links, seconds)


@fault
async def cut_one_link(cluster: Cluster) -> None:
    """Two machines do not reach each other, or one of them not the other."""
    one, other = cluster.chance.sample(_names(cluster), 2)
    seconds = cluster.chance.uniform(0.5, 15)
    links = [(one, other)] if cluster.chance.random() < 0.4 else [(one, other), (other, one)]
    cluster.note(f"{one} does not reach {other} for {seconds:.1f} s{' nor back' if len(links) == 2 else ''}")
    await _cut_links(cluster, links, seconds)


@fault
async def part(cluster: Cluster) -> None:
    """The machines fall into two parts."""
    names = _names(cluster)
    cluster.chance.shuffle(names)
    some = set(names[: cluster.chance.randint(1, len(names) - 1)])
    seconds = cluster.chance.uniform(0.5, 10)
    cluster.note(f"{sorted(some)} and the others are parted for {seconds:.1f} s")
    links = [(a, b) for a in names for b in names if (a in some) != (b in some)]
    await _cut_links(cluster, links, seconds)


@fault
async def slow_link(cluster: Cluster) -> None:
    """One broker's links are slow for a while."""
    broker = _broker(cluster)
    if broker is None:
        return
    seconds = cluster.chance.uniform(0.05, 1.5)
    cluster.note(f"links of {broker.name} take {seconds:.2f} s")
    others = [name for name in _names(cluster) if name != broker.name]
    links = [link for name in others for link in ((broker.name, name), (name, broker.name))]
    for link in links:
        cluster.network.slow[link] = seconds
    await asyncio.sleep(cluster.chance.uniform(1, 10))
    for link in links:
        cluster.network.slow.pop(link, None)


@fault
async def reset_connections(cluster: Cluster) -> None:
    """Some connections of a process are reset."""
    machine = _idle(cluster, cluster.machines)
    if machine is not None:
        cluster.note(f"connections of {machine.name} are reset")
        cluster.network.cut(machine.node)


@fault
async def fill_disk(cluster: Cluster) -> None:
    """A broker's disk has no room for some seconds."""
    broker = _broker(cluster)
    if broker is None:
        return
    disk = broker.disk
    cluster.note(f"the disk of {broker.name} is full")
    disk.is_full = True
    await asyncio.sleep(cluster.chance.uniform(0.5, 5))
    disk.is_full = False
    if broker.disk is not disk:
        broker.disk.is_full = False


@fault
async def fail_disk(cluster: Cluster) -> None:
    """Syncs of a broker's disk fail for some seconds; then its operator starts it again."""
    broker = _broker(cluster)
    if broker is None or not broker.is_ready:
        return
    broker.is_busy = True
    disk = broker.disk
    cluster.note(f"the disk of {broker.name} fails")
    disk.is_failing = True
    await asyncio.sleep(cluster.chance.uniform(0.5, 5))
    disk.is_failing = False
    cluster.kill(broker)
    await cluster.start(broker)
    broker.is_busy = False


@fault
async def lose_name_servers(cluster: Cluster) -> None:
    """A name server dies, or all do, and comes back knowing nothing."""
    chance = cluster.chance
    found = [one for one in cluster.name_servers if one.is_up and not one.is_busy]
    for server in found if chance.random() < 0.5 else found[:1]:
        cluster.kill(server)
    await asyncio.sleep(chance.uniform(0.1, 10))
    for server in found:
        if not server.is_up:
            await cluster.start(server)


@fault
async def wipe(cluster: Cluster) -> None:
    """A broker's disk is replaced by an empty one, where others that may be elected hold its log."""
    broker = _broker(cluster)
    if broker is None or not broker.is_ready or not _may_be_wiped(cluster, broker):
        return
    broker.is_busy = True
    cluster.kill(broker)
    cluster.wipe(broker)
    await asyncio.sleep(cluster.chance.uniform(0, 3))
    await cluster.start(broker)
    broker.is_busy = False


def _may_be_wiped(cluster: Cluster, broker: BrokerMachine) -> bool:
    group = cluster.group_of(broker)
    if not cluster.mode.has_controller:
        return broker is not group.master
    if not (cluster.mode.is_sync and cluster.mode.sync_flush) or group.decided is None:
        return False
    in_sync = {
        group.decided.replicas[one].address
        for one in group.decided.sync_state_set
        if not any(one in member.gone_ids for member in group.members)
    }
    return bool(in_sync - {broker.address})


@fault
async def jump_clock(cluster: Cluster) -> None:
    """The wall clock of a machine was set while its process was down."""
    machine = _broker(cluster) if cluster.chance.random() < 0.5 else _idle(cluster, cluster.controllers)
    if machine is None:
        return
    machine.is_busy = True
    cluster.kill(machine)
    jump = cluster.chance.choice((-JUMP_MS, JUMP_MS, -5_000, 5_000))
    cluster.note(f"the clock of {machine.name} is set by {jump} ms")
    assert isinstance(machine.clock, VirtualClock)
    cluster.spread_ms()
    machine.clock.jump(jump)
    await cluster.start(machine)
    machine.is_busy = False


# Where controllers decide.

LONG_OUTAGE_SECONDS = (4, 25)


@controllers_only
async def kill_controller(cluster: Cluster) -> None:
    """A controller dies, the leader rather than another one, and is started again."""
    leader = next((one for one in cluster.controllers if _leads(one)), None)
    some = [leader] if leader is not None and cluster.chance.random() < 0.7 else cluster.controllers
    await _away(cluster, _idle(cluster, some), most=8)


def _leads(machine: Machine) -> bool:
    server = getattr(machine, "server", None)
    return (
        machine.is_up
        and server is not None
        and hasattr(server, "controller")
        and server.controller.leadership.leads
    )


@controllers_only
async def die_in_an_election(cluster: Cluster) -> None:
    """The master dies, and the leading controller just before or just behind its decision is taken."""
    leader = next((one for one in cluster.controllers if _leads(one) and not one.is_busy), None)
    if leader is None:
        return
    leader.is_busy = True

    def die() -> None:
        cluster.kill(leader)

    if cluster.chance.random() < 0.5:
        cluster.consensus.before_commit = die
    else:
        cluster.consensus.after_commit = die
    await kill(cluster)
    await cluster.until(lambda: not leader.is_up, 5)
    cluster.consensus.before_commit = cluster.consensus.after_commit = None
    cluster.kill(leader)
    await asyncio.sleep(cluster.chance.uniform(0, 3))
    await cluster.start(leader)
    leader.is_busy = False


async def elect(cluster: Cluster) -> None:
    """An operator makes another member of a group its master. Not among FAULTS: it is no fault."""
    leader = next((one for one in cluster.controllers if _leads(one)), None)
    group = cluster.chance.choice(cluster.groups)
    if leader is None or group.decided is None:
        return
    others = sorted(group.decided.sync_state_set - {group.decided.master_id})
    if not others:
        return
    chosen = cluster.chance.choice(others)
    cluster.note(f"an operator elects member {chosen} of {group.name}")
    await _ask(cluster, leader, ControllerElectMaster(group.decided.cluster, group.name, chosen, True))


async def _ask(cluster: Cluster, controller: Machine, request: Request[Any]) -> None:
    """Asks a controller as an operator does."""
    pool = ConnectionPool()
    try:
        await on_node(
            cluster.client_node, lambda: cluster.loop.create_task(pool.call(controller.address, request))
        )
    except OrbitError as error:
        cluster.note(f"it is refused: {error}")
    finally:
        await pool.close()


@controllers_only
async def kill_controllers(cluster: Cluster) -> None:
    """All controllers are gone for a while."""
    found = [one for one in cluster.controllers if one.is_up and not one.is_busy]
    for one in found:
        one.is_busy = True
        cluster.kill(one)
    await asyncio.sleep(cluster.chance.uniform(0.5, 10))
    for one in found:
        await cluster.start(one)
        one.is_busy = False


@controllers_only
async def silence(cluster: Cluster) -> None:
    """No controller answers for so long that leases end: it is not reached, or its answers are lost."""
    are_heard = cluster.chance.random() < 0.5
    cluster.note(f"no controller answers a broker{', though it hears it' if are_heard else ''}")
    links = [(a.name, b.name) for a in cluster.brokers for b in cluster.controllers]
    if are_heard:
        links = [(b, a) for a, b in links]
    await _cut_links(cluster, links, cluster.chance.uniform(*LONG_OUTAGE_SECONDS))


silence.needs_blind_masters = True  # type: ignore[attr-defined]


@controllers_only
async def lose_a_tail(cluster: Cluster) -> None:
    """A slave loses power apart from its master, and with it the end of its log. It is back alone, or with
    the master for a while; in some cases it is elected as it goes.
    """
    group, chance = cluster.chance.choice(cluster.groups), cluster.chance
    master = group.master
    slaves = [one for one in group.members if one is not master and one.is_ready and not one.is_busy]
    if not slaves or master.is_busy or not master.is_up:
        return
    slave = chance.choice(slaves)
    slave.is_busy = True
    others = [one.name for one in group.members if one is not slave]
    unheard = [(one.name, name) for one in cluster.controllers for name in others]
    apart = [(slave.name, name) for name in others]
    case = chance.choice(("is elected as it goes", "is back alone", "is back beside its master"))
    cluster.note(f"{slave.name} is to lose the end of its log, and {case}")

    def go() -> None:
        cluster.kill(slave, power_cut=True)

    def go_once_elected() -> None:
        if group.master is slave:
            go()
        else:
            cluster.consensus.after_commit = go_once_elected

    links = {
        "is elected as it goes": unheard, "is back alone": unheard + apart, "is back beside its master": apart
    }[case]  # fmt: skip
    cuts = cluster.loop.create_task(_cut_links(cluster, _both_ways(links), 15))
    if case == "is elected as it goes":
        cluster.consensus.after_commit = go_once_elected
        await asyncio.sleep(6)
        cluster.consensus.after_commit = None
    else:
        await asyncio.sleep(chance.uniform(0.05, 1.0))
    go()
    await cluster.start(slave)
    if case == "is back beside its master":
        await asyncio.sleep(chance.uniform(1, 4))
        await _cut_links(cluster, _both_ways(unheard), 8)
    await cuts
    slave.is_busy = False


lose_a_tail.needs_blind_masters = True  # type: ignore[attr-defined]


@controllers_only
async def start_a_copy(cluster: Cluster) -> None:
    """No controller is heard. A slave stops, its folder is copied, and it follows its master again. Then the
    copy starts elsewhere, and the controllers hear that one alone.
    """
    group, chance = cluster.chance.choice(cluster.groups), cluster.chance
    slave = _idle(cluster, [one for one in group.members if one is not group.master])
    if not isinstance(slave, BrokerMachine) or not slave.is_ready:
        return
    slave.is_busy = True
    names = [one.name for one in group.members]
    unheard = [(one.name, name) for one in cluster.controllers for name in names]
    cuts = cluster.loop.create_task(_cut_links(cluster, _both_ways(unheard), 20))
    await asyncio.sleep(chance.uniform(2.7, 4))
    await cluster.stop(slave)
    copy = cluster.copy(slave)
    await cluster.start(slave)
    await asyncio.sleep(chance.uniform(3, 8))
    apart = cluster.loop.create_task(
        _cut_links(cluster, _both_ways([(copy.name, name) for name in names]), 6)
    )
    await cluster.start(copy)
    await apart
    cluster.kill(copy)
    group.members.remove(copy)
    await cuts
    slave.is_busy = False


start_a_copy.needs_blind_masters = True  # type: ignore[attr-defined]


@controllers_only
async def clean_group(cluster: Cluster) -> None:
    """A slave is apart, and no controller is heard by the others. An operator removes the group, and has the
    slave start over with another id, then the others.
    """
    group, chance = cluster.chance.choice(cluster.groups), cluster.chance
    members, decided = list(group.members), group.decided
    if decided is None or not all(one.is_ready and one.is_up and not one.is_busy for one in members):
        return
    first = chance.choice([one for one in members if one is not group.master])
    others = [one for one in members if one is not first]
    for one in members:
        one.is_busy = True
    apart = _both_ways([(first.name, one.name) for one in others])
    unheard = _both_ways([(one.name, other.name) for one in cluster.controllers for other in others])
    cuts = cluster.loop.create_task(_cut_links(cluster, apart, 20))
    await asyncio.sleep(chance.uniform(4, 6))
    silent = cluster.loop.create_task(_cut_links(cluster, unheard, 14))
    await asyncio.sleep(chance.uniform(3, 5))
    leader = next((one for one in cluster.controllers if _leads(one)), None)
    if leader is not None:
        request = CleanBrokerData(group.name, decided.cluster, is_clean_living_broker=True)
        await _ask(cluster, leader, request)
    was_cleaned = group.decided is not None and group.decided.begins_anew
    if was_cleaned:
        await _begin_with_another_id(cluster, first)
    await cuts
    await silent
    # A request whose answer was lost may have been carried out meanwhile.
    if was_cleaned or (group.decided is not None and group.decided.begins_anew):
        await _begin_with_another_id(cluster, *(others if was_cleaned else members))
        await cluster.until(lambda: group.decided is not None and len(group.decided.replicas) == len(members))
        for _ in range(60):
            await asyncio.sleep(1)
            leader = next((one for one in cluster.controllers if _leads(one)), None)
            if group.decided is not None and group.decided.master_id is not None:
                break
            if leader is not None:
                await _ask(cluster, leader, ControllerElectMaster(decided.cluster, group.name, -1, True))
    for one in members:
        one.is_busy = False


clean_group.needs_blind_masters = True  # type: ignore[attr-defined]


async def _begin_with_another_id(cluster: Cluster, *brokers: BrokerMachine) -> None:
    """Stops all of them first: one that runs on would take the old id that another one is given."""
    for broker in brokers:
        await cluster.stop(broker)
        (broker.root / "brokerIdentity").unlink(missing_ok=True)
    for broker in brokers:
        await cluster.start(broker)


def _both_ways(links: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*links, *((other, one) for one, other in links)]


@controllers_only
async def lose_majority(cluster: Cluster) -> None:
    """The consensus store has no majority for a while."""
    consensus = cluster.consensus
    if not consensus.has_majority:
        return
    cluster.note("the consensus store loses its majority")
    consensus.has_majority = False
    await asyncio.sleep(cluster.chance.uniform(0.2, 8))
    consensus.majority_is_back()
    cluster.note("the consensus store has a majority")


@controllers_only
async def cut_off_from_store(cluster: Cluster) -> None:
    """A controller does not reach the consensus store."""
    machine = cluster.chance.choice(cluster.controllers)
    cluster.note(f"{machine.name} does not reach the consensus store")
    cluster.consensus.unreachable.add(machine.name)
    await asyncio.sleep(cluster.chance.uniform(0.2, 8))
    cluster.consensus.unreachable.discard(machine.name)


@controllers_only
async def lose_answers(cluster: Cluster) -> None:
    """The consensus store is slow, and some requests are not answered: they may have taken effect."""
    cluster.note("the consensus store is slow, and does not answer all")
    cluster.consensus.unanswered = cluster.chance.choice((0.1, 0.5))
    cluster.consensus.delay_seconds = cluster.chance.uniform(0, 1)
    await asyncio.sleep(cluster.chance.uniform(1, 8))
    cluster.consensus.unanswered = cluster.consensus.delay_seconds = 0.0

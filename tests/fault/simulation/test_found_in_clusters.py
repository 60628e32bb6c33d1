"""Findings of simulated clusters, each told as the story that showed it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq.broker.mastership.mastership import Mastership
from orbitmq.controller.groups import GROUP_KEYS
from orbitmq.controller.live import Member
from orbitmq.net.errors import NetError
from orbitmq.protocol.requests.controller import ControllerAlterSyncStateSet
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.role.controller_client import ControllerClient
from orbitmq.server.role.controller_mode import ControllerMode
from orbitmq.testing.simulation.cluster import Cluster, Fault
from orbitmq.testing.simulation.cluster_run import run
from orbitmq.testing.simulation.loop import on_node
from orbitmq.testing.simulation.machines import BrokerMachine, ControllerMachine
from tests.kit.store import message

SEED = 1


def play(script: Fault, **mode: Any) -> None:
    """Plays a script to its end, which raises what it finds. Nothing counts of what happens behind it."""
    found: list[BaseException | None] = []

    async def to_the_end(cluster: Cluster) -> None:
        try:
            await script(cluster)
            found.append(None)
        except AssertionError as error:
            found.append(error)
        cluster.break_("failed", "the script is over")

    outcome = run(SEED, script=to_the_end, **mode)
    assert found, outcome.broken
    if found[0] is not None:
        raise found[0]


def members(cluster: Cluster) -> tuple[BrokerMachine, BrokerMachine]:
    """The master, and a slave of its group."""
    group = cluster.groups[0]
    return group.master, next(one for one in group.members if one is not group.master)


def run_task(server: BrokerServer, name: str, now: int) -> None:
    """Runs a periodic task of a broker, and ends the turn."""
    (task,) = (task for task in server.periodic_tasks if task.name == name)
    task.run(now)


def store_of(broker: BrokerMachine) -> Any:
    assert broker.store is not None
    return broker.store


def in_sync(cluster: Cluster) -> int:
    decided = cluster.groups[0].decided
    return 0 if decided is None else len(decided.sync_state_set)


@pytest.mark.parametrize("has_controller", [False, True])
def test_a_master_that_comes_back_empty_takes_no_topics_from_its_slaves(has_controller: bool) -> None:
    """Slaves took over its table of topics, and deleted the queues of all that it did not know any more."""

    async def script(cluster: Cluster) -> None:
        master, slave = members(cluster)
        await asyncio.sleep(3)
        cluster.consensus.has_majority = False  # nobody is elected meanwhile
        before = store_of(slave).topics()
        clients = cluster.groups[0].clients
        assert clients is not None
        await clients.stop()
        cluster.kill(master)
        cluster.wipe(master)
        await cluster.start(master)
        await asyncio.sleep(5)
        assert set(store_of(slave).topics()) >= set(before)

    play(script, has_controller=has_controller, is_sync=False, sync_flush=False)


def test_a_message_waits_for_a_member_that_is_about_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored between the master's wish to have it in the set and the end of that turn was
    acknowledged at once: all of the log counted as confirmed there.
    """
    real = ControllerClient.call

    async def script(cluster: Cluster) -> None:
        master, _ = members(cluster)
        others = [one for one in cluster.groups[0].members if one is not master]
        for one in others:
            await cluster.stop(one)
        assert await cluster.until(lambda: in_sync(cluster) == 1)
        server, store = master.server, store_of(master)
        assert server is not None
        confirmed: list[tuple[int, int]] = []

        async def call(self: ControllerClient, request: Any) -> Any:
            if (
                isinstance(request, ControllerAlterSyncStateSet)
                and len(request.body.sync_state_set or ()) > 1
            ):
                before = store.max_physical
                store.append(message(1, topic="T"), master.clock.now())
                run_task(server, "sample statistics", master.clock.now())
                confirmed.append((before, store.confirm_offset))
            return await real(self, request)

        monkeypatch.setattr(ControllerClient, "call", call)
        for one in others:
            await cluster.start(one)
        assert await cluster.until(lambda: bool(confirmed))
        assert confirmed[0][1] <= confirmed[0][0], "those who join have not got it yet"

    play(script, has_controller=True, is_sync=True, sync_flush=False)


def test_a_message_waits_for_a_member_that_joined_without_its_master_hearing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer to the change of the set was lost. The controller refused the same change the next time, for
    nothing was left to change, and the master took that for the set of before: it acknowledged alone what
    the new member did not have.
    """
    real = ControllerClient.call

    async def script(cluster: Cluster) -> None:
        master, joining = members(cluster)
        clients = cluster.groups[0].clients
        assert clients is not None
        await clients.stop()
        for one in cluster.groups[0].members:
            if one is not master:
                await cluster.stop(one)
        assert await cluster.until(lambda: in_sync(cluster) == 1)
        server, store = master.server, store_of(master)
        assert server is not None
        ends: list[int] = []

        async def call(self: ControllerClient, request: Any) -> Any:
            is_change = isinstance(request, ControllerAlterSyncStateSet)
            is_lost = is_change and len(request.body.sync_state_set or ()) > 1 and not ends
            if is_lost:
                # Nor does it hear of the change by a notice, or before it next asks who is master.
                monkeypatch.setattr(ControllerMode, "_follow", hear_nothing)
            reply = await real(self, request)
            if is_lost:
                ends.append(store.max_physical)
                joining.node.stopped_until = cluster.loop.time() + 100
                store.append(message(1, topic="T"), master.clock.now())
                raise NetError("the answer is lost")
            return reply

        async def hear_nothing(self: ControllerMode) -> None:
            pass

        monkeypatch.setattr(ControllerClient, "call", call)
        await cluster.start(joining)
        assert await cluster.until(lambda: bool(ends))
        for _ in range(15):
            await asyncio.sleep(0.1)
            run_task(server, "sample statistics", master.clock.now())
            assert in_sync(cluster) > 1
            assert store.confirm_offset <= ends[0] < store.max_physical

    play(script, has_controller=True, is_sync=True, sync_flush=False)


def test_a_broker_that_was_started_anew_shows_nothing_that_was_never_confirmed() -> None:
    """All that it found in its log counted as confirmed, and its group's next master has other messages
    there.
    """

    async def script(cluster: Cluster) -> None:
        master, _ = members(cluster)
        await asyncio.sleep(2)
        for one in cluster.groups[0].members:
            if one is not master:
                one.node.stopped_until = cluster.loop.time() + 1_000
        await asyncio.sleep(1.5)
        confirmed, end = store_of(master).confirm_offset, store_of(master).max_physical
        assert confirmed < end
        for controller in cluster.controllers:
            cluster.kill(controller)
        cluster.kill(master)
        await cluster.start(master)
        assert store_of(master).max_physical == end
        assert store_of(master).confirm_offset <= confirmed
        assert all(store_of(master).max_offset(topic, 0) == 0 for topic in store_of(master).topics())

    play(script, has_controller=True, is_sync=True, sync_flush=False)


def test_what_a_replaced_master_told_name_servers_before_does_not_take_its_place_back() -> None:
    """It was cut off from all but its clients. When that was over its registration of before arrived, and
    producers were sent to it for half a minute: until its successor registered the next time.
    """

    async def script(cluster: Cluster) -> None:
        await asyncio.sleep(3)
        group, network = cluster.groups[0], cluster.network
        master = group.master
        links = [
            link
            for other in cluster.machines
            if other is not master
            for link in ((master.name, other.name), (other.name, master.name))
        ]
        for link in links:
            network.cut_link(*link)
        server = master.server
        assert server is not None
        on_node(master.node, lambda: run_task(server, "register", master.clock.now()))
        assert await cluster.until(lambda: group.master is not master and cluster.has_master(group))
        await asyncio.sleep(1)
        for link in links:
            del network.cuts[link]
            for end in network.between(*link):
                end.release()
        await asyncio.sleep(3)
        for one in cluster.name_servers:
            assert one.server is not None
            assert one.server.nameserver.routes.groups[group.name].addresses[0] == group.master.address

    play(script, has_controller=True, is_sync=True, sync_flush=False)


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_new_master_takes_up_its_work_from_all_of_the_log(
    sync_flush: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked no further than its last master had confirmed or its disk had, and delivered delayed
    messages and published transactions a second time that were delivered there.
    """
    real = Mastership.begin
    seen: list[tuple[int, int]] = []

    def begin(mastership: Mastership, now: int) -> Iterator[None]:
        seen.append((mastership.store.confirm_offset, mastership.store.max_physical))
        return real(mastership, now)

    async def script(cluster: Cluster) -> None:
        master, _ = members(cluster)
        await asyncio.sleep(3)
        monkeypatch.setattr(Mastership, "begin", begin)
        cluster.kill(master)
        assert await cluster.until(lambda: bool(seen))
        confirmed, end = seen[0]
        assert confirmed == end > 0

    play(script, has_controller=True, is_sync=True, sync_flush=sync_flush)


def test_a_store_of_an_older_time_elects_no_member_that_a_blind_master_has_left_behind() -> None:
    """The store was restored to the in-sync set of before. The member that had been told of the later one was
    heard once, and died before the lease was over: one that had left the set was elected, and acknowledged
    messages were lost.
    """

    async def script(cluster: Cluster) -> None:
        group, network, consensus = cluster.groups[0], cluster.network, cluster.consensus
        master, (told, behind) = group.master, [one for one in group.members if one is not group.master]
        names = [one.name for one in cluster.controllers]

        def link(broker: BrokerMachine, others: list[str], *, is_cut: bool) -> None:
            for other in others:
                for ends in ((broker.name, other), (other, broker.name)):
                    (network.cut_link if is_cut else network.mend_link)(*ends)

        await asyncio.sleep(3)
        assert in_sync(cluster) == 3
        backup = consensus.keys[GROUP_KEYS + group.name].text
        link(behind, [master.name], is_cut=True)
        assert await cluster.until(lambda: in_sync(cluster) == 2)
        await asyncio.sleep(3)  # the slave is told of the set
        for one in group.members:
            link(one, names, is_cut=True)
        assert await cluster.until(lambda: master.blind_from is not None)
        await asyncio.sleep(3)
        assert store_of(master).confirm_offset > store_of(behind).max_physical
        for controller in cluster.controllers:
            cluster.kill(controller)
        consensus.keys[GROUP_KEYS + group.name].text = backup
        for controller in cluster.controllers:
            await cluster.start(controller)
        assert told.server is not None
        member = group.name, told.server.controller_mode.machine.broker_id
        link(told, names, is_cut=False)
        assert await cluster.until(lambda: any(was_heard(one, member) for one in cluster.controllers))
        cluster.kill(told)
        link(behind, names, is_cut=False)
        await asyncio.sleep(10)
        assert group.master is not behind
        await cluster.start(told)
        link(master, names, is_cut=False)
        link(behind, [master.name], is_cut=False)
        assert await cluster.until(lambda: cluster.is_whole(group))
        assert not cluster.is_broken

    play(script, has_controller=True, is_sync=True, sync_flush=True, goes_blind=True)


def was_heard(controller: ControllerMachine, member: Member) -> bool:
    server = controller.server
    return server is not None and hasattr(server, "controller") and server.controller.live.was_heard(member)


def test_a_master_that_stops_gives_its_role_up_before_it_closes_its_port() -> None:
    """Controllers take a refused connection for the end of a process. A master that stopped closed its port
    first; a connection to them broke just then, and another member was elected while the master had a lease,
    and messages that its slaves had not got.
    """

    async def script(cluster: Cluster) -> None:
        group, (master, _) = cluster.groups[0], members(cluster)
        server = master.server
        assert server is not None
        await asyncio.sleep(3)
        assert in_sync(cluster) > 1
        stopping = cluster.loop.create_task(cluster.stop(master))
        assert await cluster.until(lambda: server.turns.dispatcher.going_away)
        for controller in cluster.controllers:
            for link in ((master.name, controller.name), (controller.name, master.name)):
                for end in cluster.network.between(*link):
                    end.abort()
        assert await cluster.until(lambda: group.master is not master and cluster.has_master(group))
        assert not stopping.done(), "the election came too late to show anything"
        await stopping
        assert not cluster.is_broken

    play(script, has_controller=True, is_sync=False, sync_flush=True)

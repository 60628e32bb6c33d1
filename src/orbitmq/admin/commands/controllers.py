"""`orbitmq admin controller ...`: controllers, the masters that they elect, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.command import CommandFunction, command, confirm, yes_flag
from orbitmq.admin.output import Column, Done, Facts, Rows
from orbitmq.net.address import parse_addresses
from orbitmq.net.errors import NetError
from orbitmq.options.properties import format_properties, parse_properties
from orbitmq.protocol.bodies.ha import BrokerNames, ElectionRecord, EpochEntryCache, ReplicasInfo
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.controller import (
    CleanBrokerData,
    ControllerElectMaster,
    ControllerGetMetadataInfo,
    ControllerGetSyncStateData,
    ElectMasterReply,
    GetControllerConfig,
    MetadataReply,
    UpdateControllerConfig,
)
from orbitmq.protocol.requests.ha import GetBrokerEpochCache

VARIABLE = "ORBITMQ_CONTROLLERS"
DEFAULT = "127.0.0.1:19876"
_PEER = re.compile(r"(?:^|[:;])((?:\[[^\]]*\]|[^:;\[\]]+):\d+)(?=;|$)")
"""The address of one controller in the list that a controller gives: `id:host:port;id:host:port`."""


class NoLeader(OrbitError):
    """No controller leads, as far as those say that could be reached."""


@dataclass(frozen=True, slots=True)
class KnownController:
    """One controller by its own report; `error` if it does not answer."""

    address: str
    metadata: MetadataReply | None
    error: str = ""


def controller_flag(function: CommandFunction) -> CommandFunction:
    """--controller: addresses of controllers, of which one that answers will do."""
    return click.option(
        "--controller",
        "controllers",
        metavar="HOST:PORT[;...]",
        envvar=VARIABLE,
        default=DEFAULT,
        show_default=True,
        help=f"Controllers, also from {VARIABLE}. The leader is found through any of them.",
    )(function)


async def known_controllers(admin: Admin, controllers: str) -> list[KnownController]:
    """The controllers of a list, and those that they know. Raises BadAddress."""

    async def ask(address: str) -> KnownController:
        try:
            return KnownController(address, await admin.call(address, ControllerGetMetadataInfo()))
        except OrbitError as error:
            return KnownController(address, None, str(error))

    found = await admin.each(parse_addresses(controllers), ask)
    known = {one.address for one in found}
    peers = {
        address
        for one in found
        if one.metadata is not None
        for address in _PEER.findall(one.metadata.peers or "")
    }
    return found + await admin.each(sorted(peers - known), ask)


async def leader_of(admin: Admin, controllers: str) -> str:
    """The address of the leading controller. Raises NoLeader, BadAddress."""
    failures = []
    for address in parse_addresses(controllers):
        try:
            said = await admin.call(address, ControllerGetMetadataInfo())
        except NetError as error:
            failures.append(str(error))
            continue
        if said.controller_leader_address:
            return said.controller_leader_address
        failures.append(f"{address} knows of no leader")
    raise NoLeader(f"no controller leads: {'; '.join(failures)}")


async def replica_groups(admin: Admin, controllers: str, names: Sequence[str]) -> dict[str, ReplicasInfo]:
    """Broker groups as the leading controller knows them; without names those of the name servers."""
    chosen = list(names) or sorted((await admin.clusters()).broker_addr_table or {})
    leader = await leader_of(admin, controllers)
    reply = await admin.call(leader, ControllerGetSyncStateData(BrokerNames(chosen)))
    return dict(sorted(reply.body.replicas_info_table.items()))


async def elect_master(
    admin: Admin, controllers: str, cluster: str, broker: str, broker_id: int
) -> ElectMasterReply:
    """Makes an in-sync replica master. Raises BrokerRefused if it cannot be."""
    leader = await leader_of(admin, controllers)
    return await admin.call(leader, ControllerElectMaster(cluster, broker, broker_id, True))


async def broker_epochs(admin: Admin, address: str) -> EpochEntryCache:
    """The reigns in the log of a broker in controller mode."""
    return (await admin.call(address, GetBrokerEpochCache())).body


@command("controller", "list", "orbitmq admin controller list --controller 127.0.0.1:19876")
@controller_flag
async def show_controllers(admin: Admin, controllers: str) -> Rows:
    """Controllers, and which one leads."""
    return Rows(
        (
            Column("address", "Address"),
            Column("state", "State"),
            Column("leader", "Leader"),
            Column("peers", "Peers"),
        ),
        [
            (one.address, "down", None, one.error)
            if one.metadata is None
            else (
                one.address,
                "leads" if one.metadata.is_leader else "follows",
                one.metadata.controller_leader_address,
                one.metadata.peers,
            )
            for one in await known_controllers(admin, controllers)
        ],
    )


@command("controller", "groups", "orbitmq admin controller groups broker-a")
@click.argument("brokers", metavar="[BROKER]...", nargs=-1)
@controller_flag
async def show_groups(admin: Admin, brokers: tuple[str, ...], controllers: str) -> Rows:
    """Broker groups: master, epochs, and which members are in sync. All groups without BROKER."""
    rows = []
    for name, group in (await replica_groups(admin, controllers, brokers)).items():
        members = [(one, True) for one in group.in_sync_replicas or ()]
        members += [(one, False) for one in group.not_in_sync_replicas or ()]
        for one, in_sync in sorted(members, key=lambda member: member[0].broker_id):
            role = "master" if one.broker_id == group.master_broker_id else "slave"
            state = "alive" if one.alive else "down"
            rows.append((name, one.broker_id, one.broker_address, role, state, in_sync, group.master_epoch))
    return Rows(
        (
            Column("broker", "Broker"),
            Column("id", "Id"),
            Column("address", "Address"),
            Column("role", "Role"),
            Column("state", "State"),
            Column("inSync", "In sync"),
            Column("epoch", "Master epoch"),
        ),
        rows,
    )


@command("controller", "events", "orbitmq admin controller events broker-a --json")
@click.argument("brokers", metavar="[BROKER]...", nargs=-1)
@controller_flag
async def show_events(admin: Admin, brokers: tuple[str, ...], controllers: str) -> Rows:
    """Elections: time, new master, reason, time without a master. Apache's controllers keep none."""
    events: list[tuple[str, ElectionRecord]] = []
    for name, group in (await replica_groups(admin, controllers, brokers)).items():
        events += [(name, one) for one in group.elections or ()]
    return Rows(
        (
            Column("time", "Time", is_time=True),
            Column("broker", "Broker"),
            Column("epoch", "Epoch"),
            Column("master", "Master"),
            Column("address", "Address"),
            Column("reason", "Reason"),
            Column("withoutMasterMs", "Without master (ms)"),
            Column("lostBytes", "Lost (bytes)"),
        ),
        [
            (
                one.at_ms,
                name,
                one.master_epoch,
                one.master_broker_id,
                one.master_address,
                one.reason,
                one.without_master_ms,
                one.lost_bytes if one.unclean else None,
            )
            for name, one in sorted(events, key=lambda event: event[1].at_ms)
        ],
    )


@command("controller", "elect", "orbitmq admin controller elect broker-a 2")
@click.argument("broker")
@click.argument("broker_id", metavar="ID", type=click.IntRange(1))
@click.option("-c", "--cluster", default="DefaultCluster", show_default=True, help="The broker's cluster.")
@controller_flag
async def show_election(admin: Admin, broker: str, broker_id: int, cluster: str, controllers: str) -> Done:
    """Make member ID of BROKER its master. Only a living in-sync replica can be."""
    reply = await elect_master(admin, controllers, cluster, broker, broker_id)
    was = reply.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    return Done(
        f"{reply.master_address} {'already is' if was else 'is'} the master of {broker}, "
        f"epoch {reply.master_epoch}",
        {"broker": broker, "master": reply.master_broker_id, "address": reply.master_address,
         "epoch": reply.master_epoch, "changed": not was},
    )  # fmt: skip


@command("controller", "clean", "orbitmq admin controller clean broker-a --id 3")
@click.argument("broker")
@click.option("--id", "ids", type=click.IntRange(1), multiple=True, help="Only this member. Repeatable.")
@click.option("--living", is_flag=True, help="Living members, too.")
@click.option("-c", "--cluster", default="DefaultCluster", show_default=True, help="The broker's cluster.")
@yes_flag
@controller_flag
async def show_clean(
    admin: Admin,
    broker: str,
    ids: tuple[int, ...],
    living: bool,
    cluster: str,
    yes: bool,
    controllers: str,
) -> Done:
    """Forget the members of BROKER, which will not come back. Their ids are not given out again."""
    which = ", ".join(map(str, ids)) or "all members"
    confirm(f"Have the controller forget {which} of {broker}?", yes)
    leader = await leader_of(admin, controllers)
    listed = ";".join(map(str, ids)) or None
    await admin.call(leader, CleanBrokerData(broker, cluster, listed, living))
    return Done(f"forgot {which} of {broker}", {"broker": broker, "ids": list(ids)})


@command("controller", "config", "orbitmq admin controller config --json")
@controller_flag
async def show_config(admin: Admin, controllers: str) -> Facts:
    """The options of the leading controller."""
    reply = await admin.call(await leader_of(admin, controllers), GetControllerConfig())
    return Facts(dict(sorted(parse_properties(bytes(reply.body or b""), "controller").items())))


@command("controller", "set", "orbitmq admin controller set enableElectUncleanMaster=true")
@click.argument("assignments", metavar="NAME=VALUE...", nargs=-1, required=True)
@controller_flag
async def show_set(admin: Admin, assignments: tuple[str, ...], controllers: str) -> Done:
    """Set options of the controllers. If one is refused, none is set."""
    options = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{text}: expected NAME=VALUE")
        options[name] = value
    leader = await leader_of(admin, controllers)
    await admin.call(leader, UpdateControllerConfig(format_properties(options).encode()))
    return Done(f"set {', '.join(options)} on {leader}", {"options": options, "controller": leader})


@command("controller", "epochs", "orbitmq admin controller epochs broker-a")
@click.argument("broker")
async def show_epochs(admin: Admin, broker: str) -> Rows:
    """The reigns that the logs of BROKER hold, of a name or HOST:PORT: which master wrote what."""
    rows = []
    notes = []
    for address in await admin.addresses(broker):
        try:
            epochs = await broker_epochs(admin, address)
        except BrokerRefused as error:
            notes.append(f"{address}: {error}")
            continue
        rows += [
            (address, epochs.broker_id, one.epoch, one.start_offset, min(one.end_offset, epochs.max_offset))
            for one in epochs.epoch_list
        ]
    return Rows(
        (
            Column("address", "Address"),
            Column("id", "Id"),
            Column("epoch", "Epoch"),
            Column("start", "From offset"),
            Column("end", "To offset"),
        ),
        rows,
        note="\n".join(notes),
    )

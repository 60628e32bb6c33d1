"""`orbitmq admin controller ...`: controllers, the masters that they elect, and why."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.controllers import (
    broker_epochs,
    elect_master,
    elections,
    known_controllers,
    leader_of,
    replica_groups,
)
from orbitmq.admin.output import Done, Facts, Rows, columns
from orbitmq.cli.admin.command import command, confirm, yes_flag
from orbitmq.flags import pairs_of
from orbitmq.options.properties import format_properties, parse_properties
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.controller import (
    CleanBrokerData,
    GetControllerConfig,
    UpdateControllerConfig,
)

VARIABLE = "ORBITMQ_CONTROLLERS"


DEFAULT = "127.0.0.1:19876"


controller_flag = click.option(
    "--controller",
    "controllers",
    metavar="HOST:PORT[;...]",
    envvar=VARIABLE,
    default=DEFAULT,
    help=f"Controllers, also from {VARIABLE}. The leader is found through any of them.",
)


@command("controller", "list", "orbitmq admin controller list --controller 127.0.0.1:19876")
@controller_flag
async def show_controllers(admin: Admin, controllers: str) -> Rows:
    """Controllers, and which one leads."""
    return Rows(
        columns("address state leader peers"),
        [
            (one.address, "down", None, one.error)
            if one.metadata is None
            else (
                one.address,
                "leads" if one.leads else "follows",
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
        columns("broker id address role state inSync epoch", epoch="Master epoch"),
        rows,
    )


@command("controller", "events", "orbitmq admin controller events broker-a --json")
@click.argument("brokers", metavar="[BROKER]...", nargs=-1)
@controller_flag
async def show_events(admin: Admin, brokers: tuple[str, ...], controllers: str) -> Rows:
    """Elections: time, new master, reason, time without a master, end of a reign that no other followed.
    Apache's controllers keep none.
    """
    return Rows.of(
        columns(
            "time broker epoch master address reason withoutMasterMs lostBytes ended endedBecause",
            times="time ended",
            withoutMasterMs="Without master (ms)",
            lostBytes="Lost (bytes)",
        ),
        await elections(admin, controllers, brokers),
        time="at_ms",
        ended="ended_ms",
    )


@command("controller", "elect", "orbitmq admin controller elect broker-a 2")
@click.argument("broker")
@click.argument("broker_id", metavar="ID", type=click.IntRange(1))
@click.option("-c", "--cluster", default="DefaultCluster", help="The broker's cluster.")
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
@click.option("-c", "--cluster", default="DefaultCluster", help="The broker's cluster.")
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
    options = dict(pairs_of(assignments))
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
        columns("address id epoch start end", start="From offset", end="To offset"),
        rows,
        note="\n".join(notes),
    )

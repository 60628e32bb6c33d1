"""`orbitmq admin topic ...`: names, routes and offsets of topics, and their changes."""

from __future__ import annotations

from typing import Any

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.output import Column, Done, Rows, columns
from orbitmq.admin.static_topics import (
    LogicalQueueState,
    create_static_topic,
    move_static_topic,
    static_topic,
)
from orbitmq.admin.topics import (
    broker_routes,
    create_topic_on_masters,
    delete_topic,
    message_count,
    newest_queues,
    own_topics,
    perm_text,
    queue_states,
    set_topic_perm_on_masters,
    topic_names,
    topic_status,
)
from orbitmq.cli.admin.command import cluster_flags, command, confirm, yes_flag
from orbitmq.flags import pairs_of
from orbitmq.plurals import counted

MANY_QUEUES = 1024
"""Queues per broker beyond which a creation is asked about: hardly a topic has so many."""


@command(
    "topic",
    "create",
    "orbitmq admin topic create flights --queues 8\n"
    "orbitmq admin topic create orders --queues 4 --attribute message.type=FIFO --broker broker-a",
)
@click.argument("topic")
@click.option("-q", "--queues", type=click.IntRange(1), default=8, help="Queues per broker.")
@click.option(
    "--read-queues", type=click.IntRange(1), help="Readable queues per broker. [default: as many as --queues]"
)
@click.option("--perm", type=click.IntRange(0, 7), default=6, help="Sum of 4 read, 2 write.")
@click.option("--order", is_flag=True, help="Keep all queues in the route while a broker is gone.")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="Repeatable.")
@cluster_flags
@yes_flag
async def show_create(
    admin: Admin,
    topic: str,
    queues: int,
    read_queues: int | None,
    attributes: tuple[str, ...],
    yes: bool,
    **settings: Any,
) -> Done:
    """Create TOPIC on all masters, or change it if it exists.

    More than 1,024 queues on a broker are asked about first.
    """
    most = max(queues, read_queues or 0)
    if most > MANY_QUEUES:
        confirm(
            f"Create {most:,} queues of {topic} on each broker? Every client and every page has them all in "
            "memory, and they only go with the topic",
            yes,
        )
    names = await create_topic_on_masters(
        admin,
        topic,
        queues=queues,
        read_queues=read_queues,
        attributes=dict(pairs_of(attributes)),
        **settings,
    )
    return Done(
        f"topic {topic} has {counted(queues, 'queue')} on {', '.join(names)}",
        {"topic": topic, "queues": queues, "brokers": names},
    )


@command("topic", "static", "orbitmq admin topic static ledger\norbitmq admin topic static ledger --queues 8")
@click.argument("topic")
@click.option(
    "-q", "--queues", type=click.IntRange(1), help="Logical queues that it shall have, of all brokers."
)
@cluster_flags
async def show_static(
    admin: Admin, topic: str, queues: int | None, cluster: str | None, broker: str | None
) -> Rows:
    """Show the logical queues of a static TOPIC; with --queues create it, or give it more of them."""
    if queues is None:
        return _logical_queues(await static_topic(admin, topic))
    return _logical_queues(await create_static_topic(admin, topic, queues, cluster=cluster, broker=broker))


@command(
    "topic",
    "move",
    "orbitmq admin topic move ledger --to broker-b\n"
    "orbitmq admin topic move ledger --to broker-a --to broker-b",
)
@click.argument("topic")
@click.option("--to", "brokers", metavar="BROKER", multiple=True, required=True, help="Repeatable.")
async def show_move(admin: Admin, topic: str, brokers: tuple[str, ...]) -> Rows:
    """Move the logical queues of a static TOPIC, so that these brokers lead all of them."""
    return _logical_queues(await move_static_topic(admin, topic, brokers))


def _logical_queues(queues: list[LogicalQueueState]) -> Rows:
    return Rows.of(columns("queue broker physicalQueue firstOffset earlier"), queues)


@command("topic", "delete", "orbitmq admin topic delete flights")
@click.argument("topic")
@click.option("-c", "--cluster", metavar="NAME", help="Only in this cluster.")
@yes_flag
async def show_delete(admin: Admin, topic: str, cluster: str | None, yes: bool) -> Done:
    """Delete TOPIC, its messages, and the offsets of all groups on it."""
    where = f" in cluster {cluster}" if cluster else ""
    confirm(f"Delete topic {topic} and all its messages{where}?", yes)
    existed = topic in await topic_names(admin)
    names = await delete_topic(admin, topic, cluster)
    what = "is deleted" if existed else "was known to no name server; it is not"
    return Done(
        f"topic {topic} {what} on {', '.join(names)}", {"topic": topic, "existed": existed, "brokers": names}
    )


@command("topic", "list", "orbitmq admin topic list\norbitmq admin topic list --json")
@click.option("-c", "--cluster", metavar="NAME", help="Only topics of this cluster.")
@click.option("-a", "--all", "everything", is_flag=True, help="Include system, retry and dead-letter topics.")
async def show_list(admin: Admin, cluster: str | None, everything: bool) -> Rows:
    """Names of topics."""
    names = await topic_names(admin, cluster)
    hidden = 0
    if not everything:
        own = await own_topics(admin, names)
        hidden = len(names) - len(own)
        names = own
    note = f"({hidden} more with --all)" if hidden else ""
    return Rows((Column("topic", "Topic"),), [(name,) for name in names], note)


@command("topic", "perm", "orbitmq admin topic perm flights 4   # nobody may send any more")
@click.argument("topic")
@click.argument("perm", type=click.IntRange(0, 7))
@cluster_flags
async def show_perm(admin: Admin, topic: str, perm: int, cluster: str | None, broker: str | None) -> Done:
    """Set the permissions of clients on TOPIC. PERM is the sum of 4 (read) and 2 (write)."""
    changed = await set_topic_perm_on_masters(admin, topic, perm, cluster, broker)
    text = ", ".join(f"{perm_text(old)} to {perm_text(perm)} on {name}" for name, old in changed.items())
    return Done(
        f"permission of {topic}: {text or 'nothing changed'}",
        {"topic": topic, "perm": perm, "before": changed},
    )


@command("topic", "route", "orbitmq admin topic route flights")
@click.argument("topic")
async def show_route(admin: Admin, topic: str) -> Rows:
    """Brokers with queues of TOPIC, the number of queues, and their permissions."""
    found = broker_routes(await admin.route(topic))
    return Rows(
        columns(
            "cluster broker addresses readQueues writeQueues perm",
            addresses="Addresses by id",
            perm="Permission",
        ),
        [
            (one.cluster, one.broker, one.addresses, one.read_queues, one.write_queues, perm_text(one.perm))
            for one in found
        ],
    )


@command(
    "topic",
    "status",
    "orbitmq admin topic status flights --json\norbitmq admin topic status flights --newest 20",
)
@click.argument("topic")
@click.option(
    "--newest",
    type=click.IntRange(1),
    metavar="N",
    help="Only the N queues that stored a message last, newest first; fast for very many queues.",
)
async def show_status(admin: Admin, topic: str, newest: int | None) -> Rows:
    """Offsets and last store time of every queue of TOPIC. The largest offset is the next one."""
    if newest is None:
        table, left_out = await topic_status(admin, topic), 0
    else:
        table, left_out = await newest_queues(admin, topic, newest)
    more = f"; {counted(left_out, 'other queue')} with messages" if left_out else ""
    return Rows.of(
        columns(
            "broker queueId minOffset maxOffset lastUpdate",
            times="lastUpdate",
            queueId="Queue",
            lastUpdate="Last stored",
        ),
        queue_states(table),
        f"{counted(message_count(table), 'message')} in {counted(len(table), 'queue')}{more}",
        lastUpdate="last_ms",
    )

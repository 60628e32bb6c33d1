"""`orbitmq admin group ...`: consumer groups, their members and progress, and their changes."""

from __future__ import annotations

from typing import Any

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.dead_letters.counting import dead_letters
from orbitmq.admin.group_clone import clone_group
from orbitmq.admin.groups import (
    create_group_on_masters,
    delete_group,
    group_connections,
    known_groups,
    subscriptions_of,
)
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.admin.progress import NoOffsets, group_summaries, live_progress
from orbitmq.cli.admin.command import cluster_flags, command, confirm, yes_flag
from orbitmq.flags import pairs_of
from orbitmq.plurals import counted
from orbitmq.protocol.remoting.versions import version_name


@command("group", "clone", "orbitmq admin group clone billing billing-copy")
@click.argument("group")
@click.argument("name")
async def show_clone(admin: Admin, group: str, name: str) -> Done:
    """Make a new group NAME with the settings and offsets of GROUP: it goes on where GROUP is now."""
    topics = await clone_group(admin, group, name)
    return Done(
        f"group {name} is made of {group}, with its offsets on {counted(len(topics), 'topic')}",
        {"group": name, "topics": topics},
    )


@command("group", "connections", "orbitmq admin group connections billing")
@click.argument("group")
async def show_connections(admin: Admin, group: str) -> Rows:
    """The clients of GROUP and what they subscribe to."""
    found = await group_connections(admin, group)
    subscriptions = subscriptions_of(found)
    kind = (
        f"{_name(found.consume_type)}, {_name(found.message_model)}, from {_name(found.consume_from_where)}"
    )
    return Rows(
        columns("clientId address language version subscriptions", clientId="Client"),
        [
            (
                member.client_id,
                member.client_addr,
                _name(member.language),
                version_name(member.version),
                subscriptions[member.client_id],
            )
            for member in sorted(found.connection_set, key=lambda one: one.client_id)
        ],
        kind,
    )


def _name(value: object) -> str:
    return getattr(value, "name", "-")


@command(
    "group",
    "create",
    "orbitmq admin group create billing --max-retries 3\n"
    "orbitmq admin group create agents --attribute lite.bind.topic=sessions",
)
@click.argument("group")
@click.option(
    "--max-retries",
    type=click.IntRange(0),
    help="Redeliveries before a message becomes a dead letter. [default: 16]",
)
@click.option(
    "--retry-queues", type=click.IntRange(0), help="Queues of the group's retry topic. [default: 1]"
)
@click.option(
    "--enable/--disable", "enabled", default=None, help="Let the group consume, or not. [default: enabled]"
)
@click.option(
    "--broadcast/--no-broadcast", default=None, help="Allow broadcast consumption, or not. [default: yes]"
)
@click.option("--orderly/--no-orderly", default=None, help="Consume in order, or not. [default: no]")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="Repeatable.")
@cluster_flags
async def show_create(admin: Admin, group: str, attributes: tuple[str, ...], **settings: Any) -> Done:
    """Create GROUP on all masters. If it exists, only the given settings change."""
    names = await create_group_on_masters(admin, group, attributes=dict(pairs_of(attributes)), **settings)
    return Done(f"group {group} is on {', '.join(names)}", {"group": group, "brokers": names})


@command("group", "dead-letters", "orbitmq admin group dead-letters\norbitmq admin group dead-letters --json")
async def show_dead_letters(admin: Admin) -> Rows:
    """Groups with dead letters: messages that failed after all retries."""
    found = await dead_letters(admin)
    return Rows.of(
        columns("group deadLetters last", times="last", last="Last stored"),
        found,
        counted(sum(one.count for one in found), "dead letter"),
        deadLetters="count",
        last="last_ms",
    )


@command("group", "delete", "orbitmq admin group delete billing --keep-topics")
@click.argument("group")
@click.option(
    "--keep-offsets", is_flag=True, help="Keep the offsets: a later group of this name continues from them."
)
@click.option("--keep-topics", is_flag=True, help="Keep its retry and dead-letter topics.")
@click.option("-c", "--cluster", metavar="NAME", help="Only in this cluster.")
@yes_flag
async def show_delete(
    admin: Admin, group: str, keep_offsets: bool, keep_topics: bool, cluster: str | None, yes: bool
) -> Done:
    """Delete GROUP, its offsets, its retries and its dead letters."""
    confirm(f"Delete group {group}{'' if keep_topics else ', its retries and dead letters'}?", yes)
    names = await delete_group(
        admin, group, keep_offsets=keep_offsets, keep_topics=keep_topics, cluster=cluster
    )
    return Done(f"group {group} is deleted on {', '.join(names)}", {"group": group, "brokers": names})


@command("group", "list", "orbitmq admin group list\norbitmq admin group list --broker broker-a --json")
@click.option("-a", "--all", "everything", is_flag=True, help="Include the brokers' own groups.")
@cluster_flags
async def show_list(admin: Admin, everything: bool, cluster: str | None, broker: str | None) -> Rows:
    """Consumer groups, their settings and their brokers."""
    groups = await known_groups(admin, cluster=cluster, broker=broker, everything=everything)
    return Rows(
        columns(
            "group consumeEnable broadcast orderly retryQueues retryMax brokers",
            consumeEnable="Enabled",
            broadcast="May broadcast",
            orderly="Ordered",
            retryMax="Max retries",
        ),
        [
            (
                group,
                known.config.consume_enable,
                known.config.consume_broadcast_enable,
                known.config.consume_message_orderly,
                known.config.retry_queue_nums,
                known.config.retry_max_times,
                known.brokers,
            )
            for group, known in groups.items()
        ],
    )


@command(
    "group",
    "progress",
    "orbitmq admin group progress\norbitmq admin group progress billing --topic orders --json",
)
@click.argument("group", required=False)
@click.option("-t", "--topic", metavar="NAME", help="Only this topic.")
async def show_progress(admin: Admin, group: str | None, topic: str | None) -> Rows:
    """The backlog of GROUP by queue, or of all groups with one line each.

    In flight: messages that clients have pulled but not finished.
    """
    if group is None:
        return Rows.of(
            columns("group members lag inFlight tps", tps="Messages/s"), await group_summaries(admin, topic)
        )
    progress, _ = await live_progress(admin, group, topic, await admin.masters())
    if not progress.queues:
        raise NoOffsets(
            f"group {group} has no offsets{f' on {topic}' if topic else ''}: it has consumed nothing yet"
        )
    return Rows.of(
        columns(
            "topic broker queueId brokerOffset consumerOffset lag inFlight lastConsumed",
            times="lastConsumed",
            queueId="Queue",
        ),
        progress.by_queue(),
        f"lag {progress.lag}, in flight {progress.in_flight}, {progress.tps:.2f} messages/s",
        lastConsumed="last_ms",
    )

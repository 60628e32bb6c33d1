"""`orbitmq admin group reset-offset`: let a group read again, or skip what waits."""

from __future__ import annotations

from dataclasses import replace

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.output import Rows, columns
from orbitmq.admin.resets import EARLIEST, LATEST, ResetEffect, preview_reset, reset_offset
from orbitmq.cli.admin.command import command, confirm, yes_flag
from orbitmq.flags import Moment
from orbitmq.plurals import counted


class _Target(Moment):
    """A time, `earliest` or `latest`."""

    name = "TIME|earliest|latest"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "earliest":
            return EARLIEST
        if value == "latest":
            return LATEST
        return super().convert(value, param, ctx)


@command(
    "group",
    "reset-offset",
    "orbitmq admin group reset-offset billing orders --to earliest\n"
    "orbitmq admin group reset-offset billing orders --to 2026-01-31T06:00\n"
    "orbitmq admin group reset-offset billing orders --broker broker-a --queue 2 --offset 1500",
)
@click.argument("group")
@click.argument("topic")
@click.option("--to", "target", type=_Target(), help="Position to continue from; `latest` skips the backlog.")
@click.option("--queue", "queue_id", type=click.IntRange(0), default=None, help="Only this queue.")
@click.option(
    "--offset",
    type=click.IntRange(0),
    help="Queue offset to continue from, instead of a time; needs --queue.",
)
@click.option("-b", "--broker", metavar="NAME|HOST:PORT", help="Only this broker.")
@click.option("--dry-run", is_flag=True, help="Show what would change, queue by queue, and change nothing.")
@yes_flag
async def show(
    admin: Admin,
    group: str,
    topic: str,
    target: int | None,
    queue_id: int | None,
    offset: int | None,
    broker: str | None,
    dry_run: bool,
    yes: bool,
) -> Rows:
    """Set the offsets of GROUP on TOPIC. Consumers may be running or not.

    Without --yes it says before how many messages come again and how many are skipped.
    """
    if (target is None) == (offset is None):
        raise click.UsageError("give either --to or --offset")
    if offset is not None and queue_id is None:
        raise click.UsageError("--offset needs --queue")
    if dry_run or not yes:
        rows = [
            one if offset is None else replace(one, new_offset=offset)
            for one in await preview_reset(
                admin, group, topic, LATEST if target is None else target, queue_id
            )
            if await _is_at(admin, one.queue.broker_name, broker)
        ]
        effect = ResetEffect(rows)
        told = f"{counted(effect.again, 'message')} again, {counted(effect.skipped, 'message')} skipped"
        if dry_run:
            return _previewed(effect, told)
        confirm(f"Reset the offsets of group {group} on topic {topic}: {told}?", yes)
    table = await reset_offset(
        admin,
        group,
        topic,
        LATEST if target is None else target,
        queue_id=-1 if queue_id is None else queue_id,
        offset=offset,
        broker=broker,
    )
    return Rows(
        columns("topic broker queueId offset", queueId="Queue", offset="New offset"),
        [(queue.topic, queue.broker_name, queue.queue_id, new) for queue, new in table.items()],
        counted(len(table), "queue"),
    )


async def _is_at(admin: Admin, name: str, broker: str | None) -> bool:
    """True if a broker group is the one that is meant, by its name or the address of a member."""
    return broker in (None, name) or any(one.name == name for one in await admin.brokers(broker=broker))


def _previewed(effect: ResetEffect, told: str) -> Rows:
    return Rows.of(
        columns("topic broker queueId offset newOffset again skipped", queueId="Queue"),
        effect.queues,
        f"nothing was changed: {told}",
        offset="consumer_offset",
    )

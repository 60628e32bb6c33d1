"""`orbitmq admin group reset-offset`: let a group read again, or skip what waits."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.face import Moment, confirm, face, yes_flag
from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.requests.offset import InvokeBrokerToResetOffset

LATEST = -1
EARLIEST = 0


async def reset_offset(
    admin: Admin,
    group: str,
    topic: str,
    timestamp_ms: int,
    *,
    queue_id: int = -1,
    offset: int | None = None,
    broker: str | None = None,
) -> dict[MessageQueue, int]:
    """Sets a group's offsets on a topic to a store time (ms; LATEST, EARLIEST), or one queue's to `offset`.

    Gives the new offsets by queue.
    """

    async def reset(one: BrokerAt) -> dict[MessageQueue, int]:
        reply = await admin.call(
            one.address,
            InvokeBrokerToResetOffset(group, topic, timestamp_ms, True, queue_id, offset),
        )
        table = reply.body.offset_table if reply.body else {}
        # A broker that resets on its own names no broker in its answer.
        return {
            MessageQueue(queue.topic or topic, queue.broker_name or one.name, queue.queue_id): new
            for queue, new in table.items()
        }

    targets = [one for one in await admin.brokers_of(topic) if broker in (None, one.name, one.address)]
    tables = await admin.each(targets, reset)
    return dict(sorted((queue, new) for table in tables for queue, new in table.items()))


class _Target(Moment):
    """A time, `earliest` or `latest`."""

    name = "TIME|earliest|latest"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "earliest":
            return EARLIEST
        if value == "latest":
            return LATEST
        return super().convert(value, param, ctx)


@face(
    "group",
    "reset-offset",
    "orbitmq admin group reset-offset billing orders --to earliest\n"
    "orbitmq admin group reset-offset billing orders --to 2026-01-31T06:00\n"
    "orbitmq admin group reset-offset billing orders --broker broker-a --queue 2 --offset 1500",
)
@click.argument("group")
@click.argument("topic")
@click.option("--to", "target", type=_Target(), help="Where to go on; `latest` skips what waits.")
@click.option("--queue", "queue_id", type=click.IntRange(0), default=None, help="Only this queue.")
@click.option("--offset", type=click.IntRange(0), help="This queue offset, instead of a time; needs --queue.")
@click.option("-b", "--broker", metavar="NAME|HOST:PORT", help="Only this broker.")
@yes_flag
async def show(
    admin: Admin,
    group: str,
    topic: str,
    target: int | None,
    queue_id: int | None,
    offset: int | None,
    broker: str | None,
    yes: bool,
) -> Rows:
    """Set where GROUP goes on reading TOPIC. Consumers need not be there, nor be stopped."""
    if (target is None) == (offset is None):
        raise click.UsageError("give either --to or --offset")
    if offset is not None and queue_id is None:
        raise click.UsageError("--offset needs --queue")
    confirm(f"Reset the offsets of group {group} on topic {topic}?", yes)
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
        (
            Column("topic", "Topic"),
            Column("broker", "Broker"),
            Column("queueId", "Queue"),
            Column("offset", "New offset"),
        ),
        [(queue.topic, queue.broker_name, queue.queue_id, new) for queue, new in table.items()],
        f"{len(table)} queues",
    )

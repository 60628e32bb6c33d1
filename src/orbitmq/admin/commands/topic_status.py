"""`orbitmq admin topic status`: how far the queues of a topic reach."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import command
from orbitmq.admin.output import Column, Rows
from orbitmq.plurals import counted
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import TopicOffset
from orbitmq.protocol.requests.topic import GetTopicStatsInfo


async def topic_status(admin: Admin, topic: str) -> dict[MessageQueue, TopicOffset]:
    """Smallest and largest queue offsets and last store times of every queue, sorted."""

    async def ask(one: BrokerAt) -> dict[MessageQueue, TopicOffset]:
        return (await admin.call(one.address, GetTopicStatsInfo(topic))).body.offset_table

    tables = await admin.each(await admin.brokers_of(topic), ask)
    return dict(sorted((queue, offsets) for table in tables for queue, offsets in table.items()))


@command("topic", "status", "orbitmq admin topic status flights --json")
@click.argument("topic")
async def show(admin: Admin, topic: str) -> Rows:
    """Offsets and last store time of every queue of TOPIC. The largest offset is the next one."""
    table = await topic_status(admin, topic)
    messages = sum(offsets.max_offset - offsets.min_offset for offsets in table.values())
    return Rows(
        (
            Column("broker", "Broker"),
            Column("queueId", "Queue"),
            Column("minOffset", "Min offset"),
            Column("maxOffset", "Max offset"),
            Column("lastUpdate", "Last stored", is_time=True),
        ),
        [
            (
                queue.broker_name,
                queue.queue_id,
                offsets.min_offset,
                offsets.max_offset,
                offsets.last_update_timestamp,
            )
            for queue, offsets in table.items()
        ],
        f"{counted(messages, 'message')} in {counted(len(table), 'queue')}",
    )

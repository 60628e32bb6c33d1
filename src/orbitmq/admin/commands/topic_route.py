"""`orbitmq admin topic route`: where the queues of a topic are."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.command import command
from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.bodies.route import TopicRouteData


async def topic_route(admin: Admin, topic: str) -> TopicRouteData:
    """The route of a topic. Raises TopicNotExist."""
    return await admin.route(topic)


def perm_text(perm: int) -> str:
    """`RW` for 6: what a topic lets clients do, as mqadmin prints it."""
    return "".join(letter if perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1)))


@command("topic", "route", "orbitmq admin topic route flights")
@click.argument("topic")
async def show(admin: Admin, topic: str) -> Rows:
    """Brokers with queues of TOPIC, the number of queues, and their permissions."""
    route = await topic_route(admin, topic)
    brokers = {data.broker_name: data for data in route.broker_datas}
    rows = []
    for queues in sorted(route.queue_datas, key=lambda one: one.broker_name):
        data = brokers.get(queues.broker_name)
        addresses = (
            {str(broker_id): address for broker_id, address in (data.broker_addrs or {}).items()}
            if data
            else {}
        )
        rows.append(
            (
                data.cluster if data else None,
                queues.broker_name,
                addresses,
                queues.read_queue_nums,
                queues.write_queue_nums,
                perm_text(queues.perm),
            )
        )
    return Rows(
        (
            Column("cluster", "Cluster"),
            Column("broker", "Broker"),
            Column("addresses", "Addresses by id"),
            Column("readQueues", "Read queues"),
            Column("writeQueues", "Write queues"),
            Column("perm", "Permission"),
        ),
        rows,
    )

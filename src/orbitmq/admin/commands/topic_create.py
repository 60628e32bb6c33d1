"""`orbitmq admin topic create`: create a topic, or change it."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import cluster_flags, command
from orbitmq.admin.output import Done
from orbitmq.plurals import counted
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic


async def create_topic(admin: Admin, address: str, config: TopicConfig) -> None:
    """Creates a topic on one broker, or changes it to be as `config` says; attributes need their signs."""
    await admin.call(address, create_request(config))


async def create_topic_on_masters(
    admin: Admin, config: TopicConfig, cluster: str | None = None, broker: str | None = None
) -> list[str]:
    """The same on all masters, or on those of a cluster or broker; gives the brokers' names."""

    async def create(one: BrokerAt) -> None:
        await create_topic(admin, one.address, config)

    masters = await admin.masters(cluster, broker)
    await admin.each(masters, create)
    return [one.name for one in masters]


def create_request(config: TopicConfig) -> UpdateAndCreateTopic:
    """The request that makes a topic what `config` says."""
    return UpdateAndCreateTopic(
        topic=config.topic_name,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type="SINGLE_TAG",
        order=config.order,
        topic_sys_flag=config.topic_sys_flag,
        attributes=",".join(f"{key}={value}" for key, value in config.attributes.items()) or None,
    )


@command(
    "topic",
    "create",
    "orbitmq admin topic create flights --queues 8\n"
    "orbitmq admin topic create orders --queues 4 --attribute message.type=FIFO --broker broker-a",
)
@click.argument("topic")
@click.option(
    "-q", "--queues", type=click.IntRange(1), default=8, show_default=True, help="Queues per broker."
)
@click.option(
    "--read-queues", type=click.IntRange(1), help="Readable queues per broker. [default: as many as --queues]"
)
@click.option(
    "--perm", type=click.IntRange(0, 7), default=6, show_default=True, help="Sum of 4 read, 2 write."
)
@click.option("--order", is_flag=True, help="Keep all queues in the route while a broker is gone.")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="Repeatable.")
@cluster_flags
async def show(
    admin: Admin,
    topic: str,
    queues: int,
    read_queues: int | None,
    perm: int,
    order: bool,
    attributes: tuple[str, ...],
    cluster: str | None,
    broker: str | None,
) -> Done:
    """Create TOPIC on all masters, or change it if it exists."""
    signed = {}
    for text in attributes:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"{text}: expected NAME=VALUE")
        signed["+" + name] = value
    config = TopicConfig(topic, read_queues or queues, queues, perm, order=order, attributes=signed)
    names = await create_topic_on_masters(admin, config, cluster, broker)
    return Done(
        f"topic {topic} has {counted(queues, 'queue')} on {', '.join(names)}",
        {"topic": topic, "queues": queues, "brokers": names},
    )

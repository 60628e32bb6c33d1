"""`orbitmq admin lite ...`: lite topics, their groups and clients."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.lite import (
    broker_lite_info,
    lite_client_info,
    lite_group_info,
    lite_topic_info,
    parent_topic_info,
    trigger_lite_dispatch,
)
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.cli.admin.command import cluster_flags, command
from orbitmq.protocol.names import LITE_PREFIX

LIMIT = click.IntRange(1, 10_000)


@command("lite", "brokers", "orbitmq admin lite brokers\norbitmq admin lite brokers --broker broker-a --json")
@cluster_flags
async def show_brokers(admin: Admin, cluster: str | None, broker: str | None) -> Rows:
    """Light queues and their limit, subscriptions and events of each master, with its parent topics."""
    found = await broker_lite_info(admin, cluster, broker)
    return Rows(
        columns(
            "broker lightQueues maxLightQueues subscriptions orderInfos offsets events parents groups",
            maxLightQueues="Limit",
            parents="Expiration (minutes)",
        ),
        [
            (
                name,
                one.current_lmq_num,
                one.max_lmq_num,
                one.lite_subscription_count,
                one.order_info_count,
                one.offset_table_size,
                one.event_map_size,
                one.topic_meta,
                sorted({group for groups in one.group_meta.values() for group in groups}),
            )
            for name, one in found.items()
        ],
    )


@command("lite", "parent", "orbitmq admin lite parent sessions")
@click.argument("topic")
async def show_parent(admin: Admin, topic: str) -> Rows:
    """The number of lite topics of TOPIC on each broker, the groups bound to it, and its expiration.

    Expiration: minutes without a message after which a lite topic goes; -1: never.
    """
    found = await parent_topic_info(admin, topic)
    return Rows(
        columns("broker liteTopics expirationMinutes groups", expirationMinutes="Expiration (minutes)"),
        [(name, one.lite_topic_count, one.ttl, sorted(one.groups or ())) for name, one in found.items()],
    )


@command("lite", "topic", "orbitmq admin lite topic sessions session-42")
@click.argument("topic")
@click.argument("lite_topic")
async def show_topic(admin: Admin, topic: str, lite_topic: str) -> Rows:
    """Offsets of LITE_TOPIC of the parent TOPIC on each broker, and the clients that subscribe to it.

    `*`: all clients of a wildcard group. Chosen: clients of RocketMQ 5 send its messages to this broker.
    """
    found = await lite_topic_info(admin, topic, lite_topic)
    return Rows(
        columns(
            "broker minOffset maxOffset lastStored sharding subscribers",
            times="lastStored",
            sharding="Chosen",
        ),
        [
            (
                name,
                one.topic_offset.min_offset,
                one.topic_offset.max_offset,
                one.topic_offset.last_update_timestamp,
                one.sharding_to_broker,
                [f"{client.client_id} ({client.group})" for client in one.subscriber],
            )
            for name, one in found.items()
        ],
    )


@command("lite", "client", "orbitmq admin lite client agents 10.0.0.7@4711#12")
@click.argument("group")
@click.argument("client_id")
@click.option("--max", "most", type=LIMIT, default=1000, help="Names at most.")
async def show_client(admin: Admin, group: str, client_id: str, most: int) -> Rows:
    """The lite topics that client CLIENT_ID of GROUP subscribes to, as each broker knows them.

    Lite topics: -1 where the broker does not know the client. A member of a wildcard group has one, `*`.
    """
    found = await lite_client_info(admin, group, client_id, most)
    return Rows(
        columns("broker liteTopics lastSeen names", times="lastSeen"),
        [
            (
                name,
                one.lite_topic_count,
                one.last_access_time,
                [
                    lmq.rpartition("$")[2] if lmq.startswith(LITE_PREFIX) else "*"
                    for lmq in one.lite_topic_set or ()
                ],
            )
            for name, one in found.items()
        ],
    )


@command("lite", "lag", "orbitmq admin lite lag agents\norbitmq admin lite lag agents session-42 --json")
@click.argument("group")
@click.argument("lite_topic", required=False)
@click.option("--max", "most", type=LIMIT, default=20, help="Lite topics of each broker.")
async def show_lag(admin: Admin, group: str, lite_topic: str | None, most: int) -> Rows:
    """The lite topics with the longest backlog of GROUP, or the offsets of one of them."""
    found = await lite_group_info(admin, group, lite_topic, most)
    if lite_topic is None:
        return Rows(
            columns("broker liteTopic lag oldest", times="oldest", oldest="Oldest message"),
            [
                (name, lag.lite_topic, lag.lag_count, lag.earliest_unconsumed_timestamp)
                for name, one in found.items()
                for lag in one.lag_count_top_k
            ],
            f"lag {sum(one.total_lag_count for one in found.values())}",
        )
    rows = []
    for name, one in found.items():
        at = one.lite_topic_offset_wrapper
        offsets = (at.broker_offset, at.consumer_offset, one.total_lag_count) if at else (None, None, None)
        rows.append((name, *offsets, one.earliest_unconsumed_timestamp))
    return Rows(
        columns("broker brokerOffset consumerOffset lag oldest", times="oldest", oldest="Oldest message"),
        rows,
    )


@command(
    "lite",
    "dispatch",
    "orbitmq admin lite dispatch agents\norbitmq admin lite dispatch agents --client 10.0.0.7@4711#12",
)
@click.argument("group")
@click.option("--client", "client_id", metavar="ID", help="Only this client.")
async def show_dispatch(admin: Admin, group: str, client_id: str | None) -> Done:
    """Have the clients of GROUP look at all their lite topics with messages now."""
    names = await trigger_lite_dispatch(admin, group, client_id)
    return Done(
        f"{client_id or f'all clients of {group}'} on {', '.join(names)} look at all their lite topics",
        {"group": group, "client": client_id, "brokers": names},
    )

"""Consumer groups: settings, members, and their changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.topics import delete_topic
from orbitmq.net.near_names import near_names
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.heartbeat import ConsumerConnection
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import ConsumerNotOnline, GroupNotExist
from orbitmq.protocol.help_pages import did_you_mean
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS
from orbitmq.protocol.requests.client import GetConsumerConnectionList
from orbitmq.protocol.requests.group import (
    DeleteSubscriptiongroup,
    GetAllSubscriptiongroupConfig,
    UpdateAndCreateSubscriptiongroup,
)
from orbitmq.protocol.schema.declare import Void


async def group_connections(
    admin: Admin, group: str, brokers: Sequence[BrokerAt] | None = None
) -> ConsumerConnection:
    """The members of a group that are there, and their subscriptions.

    `brokers` are the ones to ask; all masters where they are not given. Raises ConsumerNotOnline if no broker
    knows a member.
    """
    # Every member is connected to every broker, but the first one may not know all of them yet.
    merged: ConsumerConnection | None = None
    refused: ConsumerNotOnline | None = None
    for one in brokers or await admin.masters():
        try:
            found = (await admin.call(one.address, GetConsumerConnectionList(group))).body
        except ConsumerNotOnline as error:
            refused = error
            continue
        if merged is None:
            merged = found
        else:
            known = {member.client_id for member in merged.connection_set}
            merged.connection_set += [new for new in found.connection_set if new.client_id not in known]
            merged.filters_of_members = merged.filters_of_members or found.filters_of_members
            merged.subscription_table = {**found.subscription_table, **merged.subscription_table}
    if merged is None:
        assert refused is not None
        raise refused
    return merged


def subscriptions_of(found: ConsumerConnection) -> dict[str, dict[str, str]]:
    """The filter expressions of each member by topic, as far as brokers tell: Apache's know one for all."""
    shared = {topic: one.sub_string for topic, one in sorted(found.subscription_table.items())}
    members = {one.client_id: dict(shared) for one in found.connection_set}
    for row in found.filters_of_members or ():
        for client_id in row.client_ids:
            if row.expression_type:
                members.setdefault(client_id, {})[row.topic] = row.expression
            else:
                members.setdefault(client_id, {}).pop(row.topic, None)
    return members


async def create_group(admin: Admin, address: str, config: SubscriptionGroupConfig) -> None:
    """Makes a group on one broker what `config` says, in all its settings; attributes need their signs."""
    await admin.call(address, UpdateAndCreateSubscriptiongroup(config))


SETTINGS = {
    "max_retries": "retry_max_times",
    "retry_queues": "retry_queue_nums",
    "enabled": "consume_enable",
    "broadcast": "consume_broadcast_enable",
    "orderly": "consume_message_orderly",
}
"""Settings of a group by their names in commands, programs and pages, and as fields of Apache's."""


async def create_group_on_masters(
    admin: Admin,
    group: str,
    *,
    max_retries: int | None = None,
    retry_queues: int | None = None,
    enabled: bool | None = None,
    broadcast: bool | None = None,
    orderly: bool | None = None,
    attributes: Mapping[str, str] | None = None,
    cluster: str | None = None,
    broker: str | None = None,
) -> list[str]:
    """Creates a consumer group on all masters; gives the brokers' names.

    `max_retries` (16) are deliveries after the first one before a message is a dead letter,
    `retry_queues` (1) queues of the retry topic; `enabled` lets the group consume, `broadcast` allows
    broadcasting members, `orderly` is for groups that pop in order. `attributes` are Apache's, such as
    `lite.bind.topic`. If the group exists, only the given settings change.
    """
    given = zip(SETTINGS.values(), (max_retries, retry_queues, enabled, broadcast, orderly), strict=True)
    changes: dict[str, int] = {name: value for name, value in given if value is not None}
    signed = {f"+{name}": value for name, value in (attributes or {}).items()}
    masters = await admin.masters(cluster, broker)
    for one in masters:
        present = (await groups_on(admin, one.address)).get(group) or SubscriptionGroupConfig(group)
        await create_group(admin, one.address, replace(present, attributes=signed, **changes))  # type: ignore[arg-type]
    return [one.name for one in masters]


async def delete_group(
    admin: Admin,
    group: str,
    *,
    keep_offsets: bool = False,
    keep_topics: bool = False,
    cluster: str | None = None,
) -> list[str]:
    """Deletes a group with its offsets, its retry and dead-letter topics; gives the brokers' names.

    With `keep_offsets` a later group of this name continues where this one was.
    """

    async def delete(one: BrokerAt) -> Void:
        return await admin.call(one.address, DeleteSubscriptiongroup(group, not keep_offsets))

    masters = await admin.masters(cluster)
    await admin.each(masters, delete)
    if not keep_topics:
        await delete_topic(admin, RETRY_PREFIX + group, cluster)
        await delete_topic(admin, DLQ_PREFIX + group, cluster)
    return [one.name for one in masters]


async def groups_on(admin: Admin, address: str) -> dict[str, SubscriptionGroupConfig]:
    """The groups of one broker by name."""
    reply = await admin.call(address, GetAllSubscriptiongroupConfig())
    return dict(sorted(reply.body.subscription_group_table.items())) if reply.body else {}


async def check_known(admin: Admin, group: str) -> None:
    """Raises GroupNotExist, with names that are like it, for a group that no master knows."""
    known = await admin.each(await admin.masters(), lambda one: groups_on(admin, one.address))
    if not any(group in found for found in known):
        near = did_you_mean(near_names(group, {name for found in known for name in found}))
        raise GroupNotExist(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"no broker knows a group {group}{near}"
        )


def is_system(group: str) -> bool:
    """True if a group belongs to the brokers themselves."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


@dataclass(slots=True)
class KnownGroup:
    """A consumer group as brokers know it."""

    config: SubscriptionGroupConfig
    """Its settings at the first of the brokers."""
    brokers: list[str]
    """Names of the brokers that know it."""


async def known_groups(
    admin: Admin, *, cluster: str | None = None, broker: str | None = None, everything: bool = False
) -> dict[str, KnownGroup]:
    """Consumer groups by name; with `everything` the brokers' own, too."""

    async def ask(one: BrokerAt) -> tuple[str, dict[str, SubscriptionGroupConfig]]:
        return one.name, await groups_on(admin, one.address)

    known: dict[str, KnownGroup] = {}
    for name, groups in await admin.each(await admin.masters(cluster, broker), ask):
        for group, config in groups.items():
            if everything or not is_system(group):
                known.setdefault(group, KnownGroup(config, [])).brokers.append(name)
    return dict(sorted(known.items()))

"""The filters of a group's members, compared with that of somebody who wants to join."""

from __future__ import annotations

from orbitmq.admin.admin import Admin
from orbitmq.admin.groups import group_connections
from orbitmq.protocol.bodies.heartbeat import (
    ConsumerConnection,
    FilterOfMembers,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.errors import ConsumerNotOnline, OrbitError
from orbitmq.protocol.names import RETRY_PREFIX


class OtherFilter(OrbitError):
    """Members of a group read by another filter than somebody who wants to join it."""


async def check_filter_of_group(admin: Admin, group: str, wanted: SubscriptionData) -> None:
    """Raises OtherFilter if members of a group that is online read otherwise than `wanted`; also NoBroker,
    NetError, NoPermission.
    """
    try:
        online = await group_connections(admin, group)
    except ConsumerNotOnline:
        return
    if others := other_filters(online, wanted):
        raise OtherFilter(
            f"group {group} is online and reads otherwise: {_listed(others)}. What a member's filter "
            "passes over in the queues that it owns is lost to the group: read with a group of your own"
        )


def other_filters(online: ConsumerConnection, wanted: SubscriptionData) -> list[FilterOfMembers]:
    """The filters of members who read otherwise than `wanted`, or not that topic at all."""
    topics = {topic: one for topic, one in online.subscription_table.items() if not _is_retry(topic)}
    if not topics:
        return []  # its members pull by themselves
    clients = sorted(one.client_id for one in online.connection_set)
    broadcasting = online.message_model is MessageModel.BROADCASTING
    shared = topics.get(wanted.topic)
    rows = [one for one in online.filters_of_members or () if one.topic == wanted.topic]
    if not rows and shared is not None:
        rows = [FilterOfMembers(wanted.topic, *shared.filter, broadcasting, clients)]
    if not rows:
        others = sorted(topics.items())
        rows = [FilterOfMembers(topic, *one.filter, broadcasting, clients) for topic, one in others]
    return [
        one
        for one in rows
        if (one.topic, one.expression_type, one.expression) != (wanted.topic, *wanted.filter)
        or one.broadcasting
    ]


def _listed(filters: list[FilterOfMembers]) -> str:
    return ", ".join(f"{one.topic} {one}" for one in filters)


def _is_retry(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)

"""Lite topics: figures of brokers and parent topics, subscriptions, backlogs. Brokers since 5.5 answer."""

from __future__ import annotations

from shlex import quote
from typing import TypeVar

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.groups import groups_on
from orbitmq.protocol.bodies.lite import (
    BrokerLiteInfoBody,
    LiteClientInfoBody,
    LiteGroupInfoBody,
    LiteTopicInfoBody,
    ParentTopicInfoBody,
)
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.lite_topics import BIND_TOPIC, bound_topic
from orbitmq.protocol.requests.lite import (
    GetBrokerLiteInfo,
    GetLiteClientInfo,
    GetLiteGroupInfo,
    GetLiteTopicInfo,
    GetParentTopicInfo,
    TriggerLiteDispatch,
)
from orbitmq.protocol.schema.declare import JsonReply, Request
from orbitmq.protocol.schema.json_body import JsonBody

BodyT = TypeVar("BodyT", bound=JsonBody)


class NotALiteGroup(OrbitError):
    """The group is bound to no topic with lite topics."""


async def broker_lite_info(
    admin: Admin, cluster: str | None = None, broker: str | None = None
) -> dict[str, BrokerLiteInfoBody]:
    """Figures of the lite topics of each master, by the brokers' names. Raises NoBroker."""
    return await _ask(admin, await admin.masters(cluster, broker), GetBrokerLiteInfo(), BrokerLiteInfoBody)


async def parent_topic_info(admin: Admin, topic: str) -> dict[str, ParentTopicInfoBody]:
    """Figures of a parent topic, by broker. Raises TopicNotExist, BrokerRefused if it has no lite topics."""
    return await _ask(admin, await admin.brokers_of(topic), GetParentTopicInfo(topic), ParentTopicInfoBody)


async def lite_topic_info(admin: Admin, topic: str, lite_topic: str) -> dict[str, LiteTopicInfoBody]:
    """The offsets and the subscribers of one lite topic of the parent `topic`, by broker.

    A lite topic without messages has the offsets 0. Raises as `parent_topic_info` does.
    """
    request = GetLiteTopicInfo(topic, lite_topic)
    return await _ask(admin, await admin.brokers_of(topic), request, LiteTopicInfoBody)


async def lite_client_info(
    admin: Admin, group: str, client_id: str, most: int = 1000
) -> dict[str, LiteClientInfoBody]:
    """The lite topics that a client subscribes to, by broker; of their names the first `most`.

    The count is -1 where the broker does not know the client. Raises NotALiteGroup.
    """
    parent = await _parent_of(admin, group)
    request = GetLiteClientInfo(parent, group, client_id, most)
    return await _ask(admin, await admin.brokers_of(parent), request, LiteClientInfoBody)


async def lite_group_info(
    admin: Admin, group: str, lite_topic: str | None = None, most: int = 20
) -> dict[str, LiteGroupInfoBody]:
    """The backlog of a group, by broker: in all with the `most` longest, or in one lite topic.

    Raises NotALiteGroup.
    """
    brokers = await admin.brokers_of(await _parent_of(admin, group))
    return await _ask(admin, brokers, GetLiteGroupInfo(group, lite_topic, most), LiteGroupInfoBody)


async def trigger_lite_dispatch(admin: Admin, group: str, client_id: str | None = None) -> list[str]:
    """Has a client, or all of a group, look at its lite topics with messages now; gives the brokers' names.

    Raises NotALiteGroup.
    """
    brokers = await admin.brokers_of(await _parent_of(admin, group))
    await admin.each(brokers, lambda one: admin.call(one.address, TriggerLiteDispatch(group, client_id)))
    return [one.name for one in brokers]


async def _ask(
    admin: Admin, brokers: list[BrokerAt], request: Request[JsonReply[BodyT | None]], empty: type[BodyT]
) -> dict[str, BodyT]:
    replies = await admin.each(brokers, lambda one: admin.call(one.address, request))
    return {one.name: reply.body or empty() for one, reply in zip(brokers, replies, strict=True)}


async def _parent_of(admin: Admin, group: str) -> str:
    for one in await admin.masters():
        parent = bound_topic((await groups_on(admin, one.address)).get(group))
        if parent is not None:
            return parent
    raise NotALiteGroup(
        f"group {group} is bound to no topic with lite topics: "
        f"`orbitmq admin group create {quote(group)} --attribute {BIND_TOPIC}=TOPIC` binds it"
    )

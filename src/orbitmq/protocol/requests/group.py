"""Administration of subscription groups, and how far they have got."""

from __future__ import annotations

from orbitmq.protocol.bodies.group import (
    DeleteSubscriptionGroupListRequestBody,
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from orbitmq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, QueryConsumeTimeSpanBody
from orbitmq.protocol.schema.declare import MAX_LIST_BYTES, JsonReply, Reply, Request, Void, request


@request(200)
class UpdateAndCreateSubscriptiongroup(Request[Void]):
    """Create a group on a broker, or change it."""

    body: SubscriptionGroupConfig


class AllGroupConfigReply(Reply):
    """The table of groups, or a page of it."""

    total_group_num: int | None = None
    body: SubscriptionGroupWrapper | None = None


@request(201)
class GetAllSubscriptiongroupConfig(Request[AllGroupConfigReply]):
    """The table of groups, paged as GET_ALL_TOPIC_CONFIG is."""

    group_seq: int | None = None
    data_version: str | None = None
    max_group_num: int | None = None


@request(207)
class DeleteSubscriptiongroup(Request[Void]):
    """Delete a group, and with `clean_offset` its offsets."""

    group_name: str
    clean_offset: bool = False


@request(5003, max_body=MAX_LIST_BYTES)
class DeleteSubscriptionGroupList(Request[Void]):
    """Delete several groups, and with `clean_offset` their offsets. Brokers since 5.5.1 answer."""

    body: DeleteSubscriptionGroupListRequestBody


@request(208)
class GetConsumeStats(Request[JsonReply[ConsumeStats]]):
    """Progress of a group on a topic, on several (separated by `;`), or on all it has offsets for."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@request(225, max_body=MAX_LIST_BYTES)
class UpdateAndCreateSubscriptiongroupList(Request[Void]):
    """Create or change several groups."""

    body: SubscriptionGroupList


@request(303)
class QueryConsumeTimeSpan(Request[JsonReply[QueryConsumeTimeSpanBody]]):
    """Store times of the oldest, the newest and the last consumed message per queue."""

    topic: str
    group: str


@request(317)
class GetBrokerConsumeStats(Request[JsonReply[ConsumeStatsList]]):
    """Progress of all groups of a broker, or of all ordered ones."""

    is_order: bool


@request(352)
class GetSubscriptiongroupConfig(Request[JsonReply[SubscriptionGroupConfig]]):
    """The configuration of a group."""

    group: str


@request(353)
class UpdateAndGetGroupForbidden(Request[JsonReply[GroupForbidden]]):
    """Let a group read a topic or not; without `readable` only ask."""

    group: str
    topic: str
    readable: bool | None = None

"""Administration of topics."""

from __future__ import annotations

from orbitmq.protocol.bodies.group import GroupList
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail
from orbitmq.protocol.bodies.stats import QueryConsumeQueueResponseBody, TopicStatsTable
from orbitmq.protocol.bodies.topic import (
    CreateTopicListRequestBody,
    DeleteTopicListRequestBody,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicList,
)
from orbitmq.protocol.schema.declare import (
    MAX_LIST_BYTES,
    JsonReply,
    Long,
    Reply,
    Request,
    Void,
    request,
    wire,
)


@request(17)
class UpdateAndCreateTopic(Request[Void]):
    """Create a topic on a broker, or change it."""

    topic: str
    default_topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str
    order: bool
    topic_sys_flag: int | None = None
    attributes: str | None = None
    """`+key=value,-key`."""
    force: bool | None = None


@request(18, max_body=MAX_LIST_BYTES)
class UpdateAndCreateTopicList(Request[Void]):
    """Create or change several topics."""

    body: CreateTopicListRequestBody


class AllTopicConfigReply(Reply):
    """The table of topics, or a page of it."""

    total_topic_num: int | None = None
    body: TopicConfigAndMappingSerializeWrapper | None = None


@request(21)
class GetAllTopicConfig(Request[AllTopicConfigReply]):
    """The table of topics; with any of the three fields a page of it, from number `topic_seq` on.

    A page starts at 0 again when `data_version` (JSON) is not the present one.
    """

    topic_seq: int | None = None
    data_version: str | None = None
    max_topic_num: int | None = None


class TopicStatsReply(Reply):
    """The queues of a topic."""

    body: TopicStatsTable
    left_out: int | None = wire("orbitmqLeftOut", default=None)
    """Queues with messages that are not in the table; absent if it has all queues."""


@request(202)
class GetTopicStatsInfo(Request[TopicStatsReply]):
    """First and end offsets of the queues of a topic."""

    topic: str
    newest: int | None = wire("orbitmqNewest", default=None)
    """Gives so many queues: those with the newest messages. Apache's brokers give all, empty ones as well."""
    only_ends: bool | None = wire("orbitmqOnlyEnds", default=None)
    """Gives the `ends` in place of the table. Apache's brokers give the table."""


@request(215)
class DeleteTopicInBroker(Request[Void]):
    """Delete a topic with its queues, and its POP retry topics."""

    topic: str


@request(5002, max_body=MAX_LIST_BYTES)
class DeleteTopicInBrokerList(Request[Void]):
    """Delete several topics. Brokers since 5.5.1 answer."""

    body: DeleteTopicListRequestBody


@request(300)
class QueryTopicConsumeByWho(Request[JsonReply[GroupList]]):
    """The groups that consume a topic."""

    topic: str


@request(305)
class GetSystemTopicListFromBroker(Request[JsonReply[TopicList]]):
    """The topics of a broker that it made for itself."""


@request(316)
class CleanUnusedTopic(Request[Void]):
    """Remove queues of topics that are no more."""


@request(321)
class QueryConsumeQueue(Request[JsonReply[QueryConsumeQueueResponseBody]]):
    """Units of a consume queue from `index` on, as a group would see them."""

    topic: str | None = None
    queue_id: int = 0
    index: Long = 0
    count: int = 0
    consumer_group: str | None = None


@request(351)
class GetTopicConfig(Request[JsonReply[TopicConfigAndQueueMapping]]):
    """The configuration of a topic."""

    topic: str
    logical: bool | None = wire("lo", default=None)
    """True: with the mapping of a static topic."""


@request(513)
class UpdateAndCreateStaticTopic(Request[Void]):
    """Create or change a static topic with its mapping."""

    topic: str
    default_topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str
    order: bool
    topic_sys_flag: int | None = None
    attributes: str | None = None
    force: bool | None = None
    body: TopicQueueMappingDetail | None = None

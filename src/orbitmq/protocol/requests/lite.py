"""Lite topics: subscriptions, pops, and what operators ask. Brokers since 5.5 answer these."""

from __future__ import annotations

from orbitmq.protocol.bodies.lite import (
    BrokerLiteInfoBody,
    LiteClientInfoBody,
    LiteGroupInfoBody,
    LiteSubscriptionCtlBody,
    LiteTopicInfoBody,
    ParentTopicInfoBody,
)
from orbitmq.protocol.schema.declare import (
    MAX_LIST_BYTES,
    Bytes,
    Long,
    Reply,
    Request,
    RequestQueue,
    Void,
    request,
)


class LiteReply(Reply):
    """Stored records of several lite topics, and how often each was delivered."""

    pop_time: Long
    invisible_time: Long
    revive_qid: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None
    body: Bytes | None = None


@request(200070, queue=RequestQueue.PULL)
class PopLiteMessage(Request[LiteReply]):
    """Messages of those lite topics of a client that have any."""

    accepts = (19, 209, 210)

    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: int
    invisible_time: Long
    poll_time: Long
    born_time: Long
    attempt_id: str | None = None


@request(200071, max_body=MAX_LIST_BYTES, queue=RequestQueue.UNLIMITED)
class LiteSubscriptionCtl(Request[Void]):
    """The lite topics that a client subscribes to, or no longer does."""

    body: LiteSubscriptionCtlBody


@request(200073, to="client")
class NotifyUnsubscribeLite(Request[Void]):
    """Another member has taken over a lite topic. One-way."""

    lite_topic: str
    consumer_group: str
    client_id: str


class BrokerLiteInfoReply(Reply):
    """Figures of a broker."""

    body: BrokerLiteInfoBody | None = None


@request(200074)
class GetBrokerLiteInfo(Request[BrokerLiteInfoReply]):
    """The lite topics of a broker, in figures."""


class ParentTopicInfoReply(Reply):
    """Figures of a parent topic."""

    body: ParentTopicInfoBody | None = None


@request(200075)
class GetParentTopicInfo(Request[ParentTopicInfoReply]):
    """The lite topics of a topic, in figures."""

    topic: str


class LiteTopicInfoReply(Reply):
    """A lite topic."""

    body: LiteTopicInfoBody | None = None


@request(200076)
class GetLiteTopicInfo(Request[LiteTopicInfoReply]):
    """The offsets of a lite topic, and who subscribes to it."""

    parent_topic: str
    lite_topic: str


class LiteClientInfoReply(Reply):
    """A client's subscription."""

    body: LiteClientInfoBody | None = None


@request(200077)
class GetLiteClientInfo(Request[LiteClientInfoReply]):
    """The lite topics that a client subscribes to."""

    parent_topic: str
    group: str
    client_id: str
    max_count: int = 1000


class LiteGroupInfoReply(Reply):
    """The progress of a group."""

    body: LiteGroupInfoBody | None = None


@request(200078)
class GetLiteGroupInfo(Request[LiteGroupInfoReply]):
    """How far a group is with its lite topics, or with one of them."""

    group: str
    lite_topic: str | None = None
    top_k: int = 20


@request(200079)
class TriggerLiteDispatch(Request[Void]):
    """Have a client, or a whole group, look at all its lite topics with messages now."""

    group: str
    client_id: str | None = None

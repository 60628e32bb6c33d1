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
    JsonReply,
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


@request(200074)
class GetBrokerLiteInfo(Request[JsonReply[BrokerLiteInfoBody | None]]):
    """The lite topics of a broker, in figures."""


@request(200075)
class GetParentTopicInfo(Request[JsonReply[ParentTopicInfoBody | None]]):
    """The lite topics of a topic, in figures."""

    topic: str


@request(200076)
class GetLiteTopicInfo(Request[JsonReply[LiteTopicInfoBody | None]]):
    """The offsets of a lite topic, and who subscribes to it."""

    parent_topic: str
    lite_topic: str


@request(200077)
class GetLiteClientInfo(Request[JsonReply[LiteClientInfoBody | None]]):
    """The lite topics that a client subscribes to."""

    parent_topic: str
    group: str
    client_id: str
    max_count: int = 1000


@request(200078)
class GetLiteGroupInfo(Request[JsonReply[LiteGroupInfoBody | None]]):
    """Progress of a group on its lite topics, or with one of them."""

    group: str
    lite_topic: str | None = None
    top_k: int = 20


@request(200079)
class TriggerLiteDispatch(Request[Void]):
    """Have a client, or a whole group, look at all its lite topics with messages now."""

    group: str
    client_id: str | None = None

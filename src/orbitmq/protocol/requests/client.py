"""Clients and brokers about clients: heartbeats, who is online, asking one client."""

from __future__ import annotations

from orbitmq.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    ProducerConnection,
    ProducerTableInfo,
    QuerySubscriptionResponseBody,
)
from orbitmq.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from orbitmq.protocol.bodies.topic import TopicList
from orbitmq.protocol.schema.declare import (
    MAX_MESSAGE_BYTES,
    Bytes,
    JsonReply,
    Reply,
    Request,
    RequestQueue,
    Void,
    request,
    wire,
)


class HeartbeatReply(Reply):
    """Support of the second form of heartbeats, and whether the subscriptions have changed."""

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)


@request(34, name="HEART_BEAT", queue=RequestQueue.HEARTBEAT)
class Heartbeat(Request[HeartbeatReply]):
    """A client is there, with these groups and subscriptions."""

    body: HeartbeatData


@request(35, queue=RequestQueue.UNLIMITED)
class UnregisterClient(Request[Void]):
    """A client leaves a producer group, a consumer group, or both."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@request(38, queue=RequestQueue.UNLIMITED)
class GetConsumerListByGroup(Request[JsonReply[GetConsumerListByGroupResponseBody]]):
    """The client ids of a group that is online; SYSTEM_ERROR if none is."""

    consumer_group: str


@request(40, to="client")
class NotifyConsumerIdsChanged(Request[Void]):
    """A member joined or left a group: share the queues again. One-way."""

    consumer_group: str


@request(46, queue=RequestQueue.UNLIMITED)
class CheckClientConfig(Request[Void]):
    """Check that the broker can filter by a subscription."""

    body: CheckClientRequestBody


@request(203)
class GetConsumerConnectionList(Request[JsonReply[ConsumerConnection]]):
    """The clients of a consumer group; CONSUMER_NOT_ONLINE if there are none."""

    consumer_group: str


@request(204)
class GetProducerConnectionList(Request[JsonReply[ProducerConnection]]):
    """The clients of a producer group; SYSTEM_ERROR if there are none."""

    producer_group: str


@request(328)
class GetAllProducerInfo(Request[JsonReply[ProducerTableInfo]]):
    """All producers of a broker."""


@request(307, to="broker client")
class GetConsumerRunningInfo(Request[JsonReply[ConsumerRunningInfo]]):
    """Ask a consumer for its state; a broker passes request and answer on unchanged."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@request(309, to="broker client", max_body=MAX_MESSAGE_BYTES)
class ConsumeMessageDirectly(Request[JsonReply[ConsumeMessageDirectlyResult]]):
    """Hand one message to a consumer out of turn; the broker adds the record that `msg_id` names."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    body: Bytes | None = None


@request(343)
class QueryTopicsByConsumer(Request[JsonReply[TopicList]]):
    """The topics that a group has offsets for."""

    group: str


@request(345)
class QuerySubscriptionByConsumer(Request[JsonReply[QuerySubscriptionResponseBody]]):
    """The subscription of a group to a topic."""

    group: str
    topic: str | None = None

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
from orbitmq.protocol.declare import Bytes, Reply, Request, Void, request, wire


class HeartbeatReply(Reply):
    """Whether the broker knows the second form of heartbeats, and whether it saw another subscription."""

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)


@request(34, name="HEART_BEAT")
class Heartbeat(Request[HeartbeatReply]):
    """A client is there, with these groups and subscriptions."""

    body: HeartbeatData


@request(35)
class UnregisterClient(Request[Void]):
    """A client leaves a producer group, a consumer group, or both."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerListReply(Reply):
    """The client ids of a group."""

    body: GetConsumerListByGroupResponseBody


@request(38)
class GetConsumerListByGroup(Request[ConsumerListReply]):
    """The client ids of a group that is online; SYSTEM_ERROR if nobody is."""

    consumer_group: str


@request(40, to="client")
class NotifyConsumerIdsChanged(Request[Void]):
    """Somebody joined or left a group: share the queues anew. One-way."""

    consumer_group: str


@request(46)
class CheckClientConfig(Request[Void]):
    """Whether a subscription is one that the broker can filter by."""

    body: CheckClientRequestBody


class ConsumerConnectionReply(Reply):
    """The clients of a consumer group."""

    body: ConsumerConnection


@request(203)
class GetConsumerConnectionList(Request[ConsumerConnectionReply]):
    """The clients of a consumer group; CONSUMER_NOT_ONLINE if there are none."""

    consumer_group: str


class ProducerConnectionReply(Reply):
    """The clients of a producer group."""

    body: ProducerConnection


@request(204)
class GetProducerConnectionList(Request[ProducerConnectionReply]):
    """The clients of a producer group; SYSTEM_ERROR if there are none."""

    producer_group: str


class AllProducersReply(Reply):
    """All producers by group."""

    body: ProducerTableInfo


@request(328)
class GetAllProducerInfo(Request[AllProducersReply]):
    """All producers of a broker."""


class RunningInfoReply(Reply):
    """What a consumer tells of itself."""

    body: ConsumerRunningInfo


@request(307, to="broker client")
class GetConsumerRunningInfo(Request[RunningInfoReply]):
    """What a consumer tells of itself; a broker passes the question and the answer on unchanged."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumedDirectlyReply(Reply):
    """How the handler took the message."""

    body: ConsumeMessageDirectlyResult


@request(309, to="broker client")
class ConsumeMessageDirectly(Request[ConsumedDirectlyReply]):
    """Hand one message to a consumer out of turn; the broker adds the record that `msg_id` names."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    body: Bytes | None = None


class TopicListReply(Reply):
    """Names of topics."""

    body: TopicList


@request(343)
class QueryTopicsByConsumer(Request[TopicListReply]):
    """The topics that a group has offsets for."""

    group: str


class SubscriptionReply(Reply):
    """What a group subscribes to on a topic."""

    body: QuerySubscriptionResponseBody


@request(345)
class QuerySubscriptionByConsumer(Request[SubscriptionReply]):
    """What a group subscribes to on a topic."""

    group: str
    topic: str | None = None

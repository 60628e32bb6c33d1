"""Requests to name servers, and their replies."""

from __future__ import annotations

from orbitmq.protocol.bodies.route import (
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
    KVTable,
    RegisterBrokerBody,
    TopicRouteData,
)
from orbitmq.protocol.bodies.topic import TopicList
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.schema.declare import (
    MAX_MESSAGE_BYTES,
    Blob,
    Bytes,
    JsonReply,
    Long,
    Reply,
    Request,
    Void,
    request,
    wire,
)


@request(100, to="namesrv")
class PutKvConfig(Request[Void]):
    """Set one value of the KV configuration."""

    namespace: str
    key: str
    value: str


class KvConfigReply(Reply):
    """One value."""

    value: str | None = None


@request(101, to="namesrv")
class GetKvConfig(Request[KvConfigReply]):
    """One value of the KV configuration; QUERY_NOT_FOUND if there is none."""

    namespace: str
    key: str


@request(102, to="namesrv")
class DeleteKvConfig(Request[Void]):
    """Remove one value of the KV configuration."""

    namespace: str
    key: str


class RegisterBrokerReply(Reply):
    """For slaves, where their master is; the body is the table of ordered topics."""

    ha_server_addr: str | None = None
    master_addr: str | None = None
    body: KVTable | None = None


@request(103, to="namesrv", max_body=MAX_MESSAGE_BYTES)
class RegisterBroker(Request[RegisterBrokerReply]):
    """A broker, its topics and their queues. The body is a RegisterBrokerBody, as JSON or compressed."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Long
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: int | None = None
    """CRC-32 & 0x7fffffff of the body as sent; 0: not checked."""
    zone_name: str | None = wire("__ZONE_NAME", default=None)
    body: RegisterBrokerBody | Bytes | None = None


@request(104, to="namesrv")
class UnregisterBroker(Request[Void]):
    """A broker stops."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


@request(105, to="namesrv")
class GetRouteinfoByTopic(Request[JsonReply[TopicRouteData]]):
    """The route of a topic; TOPIC_NOT_EXIST if it has none."""

    topic: str
    accept_standard_json_only: bool | None = None


STANDARD_JSON_SINCE = 401
"""Version ordinal (V4_9_4) from which clients are given routes in standard JSON."""


def route_reply(route: TopicRouteData, command: Command) -> Reply:
    """The answer to a request for a route, in the JSON that the asker reads."""
    asked = (command.ext or {}).get("acceptStandardJsonOnly", "")
    if command.version >= STANDARD_JSON_SINCE or asked.lower() == "true":
        return Blob(route.to_standard_json())
    return JsonReply(route)


@request(106, to="namesrv")
class GetBrokerClusterInfo(Request[JsonReply[ClusterInfo]]):
    """All brokers and clusters."""


class WipedReply(Reply):
    """Number of changed topics."""

    wipe_topic_count: int


@request(205, to="namesrv")
class WipeWritePermOfBroker(Request[WipedReply]):
    """Take the write permission from every topic of a broker."""

    broker_name: str


@request(206, to="namesrv")
class GetAllTopicListFromNameserver(Request[JsonReply[TopicList]]):
    """Names of all topics."""


@request(216, to="namesrv")
class DeleteTopicInNamesrv(Request[Void]):
    """Forget a topic, or only its queues on brokers of one cluster."""

    topic: str
    cluster_name: str | None = None


@request(217, to="namesrv")
class RegisterTopicInNamesrv(Request[Void]):
    """Registration of one topic's queues, without the rest."""

    topic: str
    body: TopicRouteData | None = None


@request(219, to="namesrv")
class GetKvlistByNamespace(Request[JsonReply[KVTable]]):
    """All values of one namespace of the KV configuration; QUERY_NOT_FOUND if there are none."""

    namespace: str


@request(224, to="namesrv")
class GetTopicsByCluster(Request[JsonReply[TopicList]]):
    """Names of the topics of a cluster."""

    cluster: str


@request(304, to="namesrv")
class GetSystemTopicListFromNs(Request[JsonReply[TopicList]]):
    """Names of clusters and brokers, which are topics too, and the address of one broker."""


@request(311, to="namesrv")
class GetUnitTopicList(Request[JsonReply[TopicList]]):
    """Names of unit topics."""


@request(312, to="namesrv")
class GetHasUnitSubTopicList(Request[JsonReply[TopicList]]):
    """Names of topics with subscribers in units."""


@request(313, to="namesrv")
class GetHasUnitSubUnunitTopicList(Request[JsonReply[TopicList]]):
    """Names of topics with subscribers in units that are no unit topics."""


@request(318, to="namesrv")
class UpdateNamesrvConfig(Request[Void]):
    """Set options of the name server; the body is Java properties text."""

    body: Bytes | None = None


@request(319, to="namesrv")
class GetNamesrvConfig(Request[Blob]):
    """Every option of the name server as `key=value` lines."""


class DataVersionReply(Reply):
    """The name server's version of the broker's table, and whether it differs."""

    changed: bool
    body: DataVersion | None = None


@request(322, to="namesrv")
class QueryDataVersion(Request[DataVersionReply]):
    """Ask whether a broker has to register again; counts as a heartbeat."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long
    body: DataVersion | None = None


class AddedReply(Reply):
    """Number of changed topics."""

    add_topic_count: int


@request(327, to="namesrv")
class AddWritePermOfBroker(Request[AddedReply]):
    """Let every topic of a broker be read and written."""

    broker_name: str


@request(901, to="namesrv")
class GetBrokerMemberGroup(Request[JsonReply[GetBrokerMemberGroupResponseBody]]):
    """The living members of a broker group."""

    cluster_name: str
    broker_name: str

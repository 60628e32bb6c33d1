"""Data of the name server: brokers, their addresses, and routes of topics."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.errors import MalformedReply
from orbitmq.protocol.schema.json_body import JsonBody, Long


@dataclass(slots=True)
class QueueData(JsonBody):
    """A topic's queues on one broker."""

    broker_name: str = ""
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


MASTER_ID = 0
"""Broker id of the master of a broker group."""


@dataclass(slots=True)
class BrokerData(JsonBody):
    """A broker group: the addresses of its members by broker id; id 0 is the master."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[Long, str] | None = None
    zone_name: str | None = None
    enable_acting_master: bool = False


MAX_ROUTE_QUEUES = 1_000_000
"""Queues of a topic on all brokers."""


@dataclass(slots=True)
class TopicRouteData(JsonBody):
    """The route of a topic: its queues and their brokers."""

    order_topic_conf: str | None = None
    """`broker:queues;...` of an order topic."""
    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    def order_counts(self) -> list[tuple[str, int]]:
        """The brokers of an order topic with their numbers of queues."""
        parts = (part.partition(":") for part in (self.order_topic_conf or "").split(";"))
        return [(broker, int(count)) for broker, _, count in parts if count.isdecimal()]

    def check_size(self) -> None:
        """Raises MalformedReply for more queues than any cluster has: a reader is about to make them all."""
        rows, mappings = self.queue_datas, (self.topic_queue_mapping_by_broker or {}).values()
        queues = sum(max(row.read_queue_nums, row.write_queue_nums, 0) for row in rows)
        by_scope: dict[str, int] = {}  # each broker's mapping counts the same logical queues
        for info in mappings:
            by_scope[info.scope] = max(by_scope.get(info.scope, 0), info.total_queues)
        queues += sum(by_scope.values())
        queues += sum(count for _, count in self.order_counts())
        if queues > MAX_ROUTE_QUEUES:
            raise MalformedReply(f"a route has {MAX_ROUTE_QUEUES:,} queues at most, and this one {queues:,}")


@dataclass(slots=True)
class ClusterInfo(JsonBody):
    """All broker groups by name, and the names of the groups of each cluster."""

    broker_addr_table: dict[str, BrokerData] | None = None
    cluster_addr_table: dict[str, list[str]] | None = None


@dataclass(slots=True)
class BrokerMemberGroup(JsonBody):
    """The living members of a broker group."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[Long, str] = field(default_factory=dict)


@dataclass(slots=True)
class GetBrokerMemberGroupResponseBody(JsonBody):
    """The members of the group asked for."""

    broker_member_group: BrokerMemberGroup | None = None


@dataclass(slots=True)
class RegisterBrokerBody(JsonBody):
    """Topics in a broker's registration."""

    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = field(
        default_factory=TopicConfigAndMappingSerializeWrapper
    )
    filter_server_list: list[str] = field(default_factory=list)


@dataclass(slots=True)
class KVTable(JsonBody):
    """Names and values."""

    table: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class KVConfigSerializeWrapper(JsonBody):
    """The name server's KV configuration by namespace, as `kvConfig.json` holds it."""

    config_table: dict[str, dict[str, str]] | None = None

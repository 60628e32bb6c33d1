"""Routes and assignments as clients of RocketMQ 5 get them."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.client.core.routes import TopicRoute
from orbitmq.net.address import parse_address
from orbitmq.protocol.bodies.route import MASTER_ID, QueueData
from orbitmq.protocol.codes import PERM_READ, PERM_WRITE
from orbitmq.protocol.lite_topics import bound_topic
from orbitmq.proxy.checks import group_name, topic_name
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import OK, ProxyRefused
from orbitmq.proxy.messages import MIXED, TOPIC_TYPES
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.wire import messaging_pb2 as pb

ANY_QUEUE = -1
"""The queue id of an assignment that stands for all queues of a broker."""


class Routing:
    """The calls QueryRoute and QueryAssignment."""

    def __init__(self, cluster: Cluster, settings: ProxySettings) -> None:
        self._cluster = cluster
        self._settings = settings

    async def query_route(self, request: pb.QueryRouteRequest, caller: Caller) -> pb.QueryRouteResponse:
        """The queues of a topic. Raises ProxyRefused, NetError, BrokerRefused."""
        topic = topic_name(request.topic)
        route = await self._cluster.route(topic)
        kind = await self._cluster.topic_type(topic)
        queues = message_queues(topic, route, kind, self._endpoints(request.endpoints))
        return pb.QueryRouteResponse(status=OK, message_queues=queues)

    async def query_assignment(
        self, request: pb.QueryAssignmentRequest, caller: Caller
    ) -> pb.QueryAssignmentResponse:
        """The queues that a member of a group reads. Raises ProxyRefused, NetError, BrokerRefused."""
        topic, group = topic_name(request.topic), group_name(request.group)
        route = await self._cluster.route(topic)
        config = await self._cluster.group(group)
        # Lite topics are read from a broker as a whole, also in order.
        fifo = config.consume_message_orderly and bound_topic(config) is None
        found = assignments(topic, route, self._endpoints(request.endpoints), fifo=fifo)
        return pb.QueryAssignmentResponse(status=OK, assignments=found)

    def _endpoints(self, asked: pb.Endpoints) -> pb.Endpoints:
        settings = self._settings
        return told_endpoints(
            asked,
            settings.grpc_server_port,
            [part for part in settings.advertised_endpoints.split(";") if part],
            own_port=not settings.use_endpoint_port_from_request,
        )


def endpoints_of(addresses: Sequence[str]) -> pb.Endpoints:
    """Endpoints of addresses `host:port`."""
    endpoints = pb.Endpoints(scheme=_scheme(parse_address(addresses[0])[0]))
    for address in addresses:
        host, port = parse_address(address)
        endpoints.addresses.add(host=host, port=port)
    return endpoints


def told_endpoints(
    asked: pb.Endpoints, port: int, advertised: Sequence[str], *, own_port: bool
) -> pb.Endpoints:
    """The endpoints that a client is told: those advertised, or the ones it named, with the proxy's port."""
    if advertised:
        return endpoints_of(advertised)
    if not asked.addresses:
        raise ProxyRefused(pb.ILLEGAL_ACCESS_POINT, "the request names no endpoints of the proxy")
    told = pb.Endpoints()
    told.CopyFrom(asked)
    if own_port:
        for address in told.addresses:
            address.port = port
    return told


def message_queues(
    topic: str, route: TopicRoute, kind: str, endpoints: pb.Endpoints
) -> list[pb.MessageQueue]:
    """The queues of a topic: those to read first, then those to write, then those for both."""
    types = list(TOPIC_TYPES.values())[:4] if kind == MIXED else [TOPIC_TYPES.get(kind, pb.NORMAL)]
    queues: list[pb.MessageQueue] = []
    for row in route.data.queue_datas:
        members = route.brokers.get(row.broker_name) or {}
        for broker_id in sorted(members):
            broker = pb.Broker(name=row.broker_name, id=broker_id, endpoints=endpoints)
            queues += [
                pb.MessageQueue(
                    topic=pb.Resource(name=topic),
                    id=number,
                    permission=permission,
                    broker=broker,
                    accept_message_types=types,
                )
                for number, permission in enumerate(_permissions(row))
            ]
    return queues


def assignments(topic: str, route: TopicRoute, endpoints: pb.Endpoints, *, fifo: bool) -> list[pb.Assignment]:
    """The queues that a member of a group reads: in order each one, else all of a broker together.

    Raises ProxyRefused for a topic without a readable queue at a master.
    """
    found: list[pb.Assignment] = []
    for row in route.data.queue_datas:
        if not row.perm & PERM_READ or row.read_queue_nums <= 0:
            continue
        if MASTER_ID not in (route.brokers.get(row.broker_name) or {}):
            continue
        broker = pb.Broker(name=row.broker_name, id=MASTER_ID, endpoints=endpoints)
        numbers = range(row.read_queue_nums) if fifo else (ANY_QUEUE,)
        found += [
            pb.Assignment(
                message_queue=pb.MessageQueue(
                    topic=pb.Resource(name=topic), id=number, permission=pb.READ, broker=broker
                )
            )
            for number in numbers
        ]
    if not found:
        raise ProxyRefused(pb.FORBIDDEN, f"{topic} has no readable queue")
    return found


def _permissions(row: QueueData) -> list[pb.Permission.ValueType]:
    readable, writable = bool(row.perm & PERM_READ), bool(row.perm & PERM_WRITE)
    if readable and writable:
        both = min(row.read_queue_nums, row.write_queue_nums)
        return [
            *[pb.READ] * (row.read_queue_nums - both),
            *[pb.WRITE] * (row.write_queue_nums - both),
            *[pb.READ_WRITE] * both,
        ]
    if writable:
        return [pb.WRITE] * row.write_queue_nums
    if readable:
        return [pb.READ] * row.read_queue_nums
    return [pb.NONE] * max(1, row.write_queue_nums, row.read_queue_nums)


def _scheme(host: str) -> pb.AddressScheme.ValueType:
    if ":" in host:
        return pb.IPv6
    return pb.IPv4 if host.replace(".", "").isdigit() else pb.DOMAIN_NAME

"""The brokers that a client's request is for. Rules only.

To a client behind a proxy all brokers have one address. So its requests have to name their broker, as those
of clients since 5.0 do; for others the topic says it, where one broker alone has the topic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from orbitmq.client.core.routes import TopicRoute
from orbitmq.protocol.bodies.queue import LockBatchRequestBody
from orbitmq.protocol.bodies.route import MASTER_ID, TopicRouteData
from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.handles.pop import BadHandle, PopHandle
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import (
    CheckClientConfig,
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    Heartbeat,
    UnregisterClient,
)
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq
from orbitmq.protocol.requests.route import GetRouteinfoByTopic

ROUTE = GetRouteinfoByTopic.CODE
TO_ALL = frozenset({Heartbeat.CODE, UnregisterClient.CODE})
"""A client is to be known by every broker."""
TO_ANY = frozenset({GetConsumerListByGroup.CODE, CheckClientConfig.CODE, GetConsumerConnectionList.CODE})
"""Every broker knows the answer."""
_LOCKS = frozenset({LockBatchMq.CODE, UnlockBatchMq.CODE})
TO_ONE = _LOCKS | {
    *(10, 310, 320, 36, 37, 324, 325, 370),  # sends, returns, ends of transactions, replies, recalls
    *(11, 361, 12, 33, 14, 15, 29, 30, 31, 32),  # pulls, queries, offsets
    *(200050, 200051, 200052, 200053, 200054, 200055, 200151, 400),  # pops
}
"""Requests of clients to one broker; those of administrators are not among them."""


@dataclass(frozen=True, slots=True)
class Target:
    """The broker that a request is for: its name, or its topic; neither if the request says nothing."""

    broker_name: str | None
    topic: str | None


def target_of(command: Command) -> Target:
    """The broker or the topic that a request names. Raises Malformed."""
    ext = command.ext or {}
    topic = ext.get("topic") or ext.get("b") or ext.get("originTopic")
    name = ext.get("bname") or ext.get("n")
    if not name and command.code in _LOCKS:
        queues = LockBatchRequestBody.from_json(command.body or b"{}").mq_set
        name = queues[0].broker_name if queues else None
    if not name and (handle := ext.get("extraInfo")):
        try:
            name = PopHandle.from_text(handle).broker_name
        except BadHandle as error:
            raise Malformed(str(error)) from None
    return Target(name or None, topic or None)


def only_broker(route: TopicRoute) -> str | None:
    """The one broker that has a topic; None where there are several."""
    names = {row.broker_name for row in route.data.queue_datas}
    return names.pop() if len(names) == 1 else None


def route_through(route: TopicRoute, address: str) -> TopicRouteData:
    """A route by which every broker is at `address`, the proxy's."""
    data = route.data
    brokers = [
        replace(one, broker_addrs={MASTER_ID if MASTER_ID in members else min(members): address})
        for one in data.broker_datas
        if (members := one.broker_addrs)
    ]
    return replace(data, broker_datas=brokers, filter_server_table={})

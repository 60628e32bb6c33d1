"""What a job has to know of the cluster when it is planned: queues, where they are, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.offset import GetMaxOffset, GetMinOffset
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.spark.connecting import PLAIN, Connecting
from orbitmq.spark.errors import BadOption, SparkSourceError
from orbitmq.spark.planning import Queue

READABLE = 4
"""The bit of a queue's permissions that lets consumers read it."""
MASTER = 0


def readable_queues(
    namesrv: Sequence[str], topics: Iterable[str], connecting: Connecting = PLAIN
) -> list[Queue]:
    """The queues of `topics` that can be read, as any of the name servers tells it.

    Raises BadOption for a topic nobody knows, SparkSourceError when no name server answers.
    """
    failures = []
    for address in namesrv:
        try:
            with connecting.connect(address) as connection:
                return [queue for topic in topics for queue in _queues(connection, topic, address)]
        except NetError as error:
            failures.append(str(error))
    raise SparkSourceError(f"no name server answers: {'; '.join(failures)}")


def _queues(connection: BlockingConnection, topic: str, namesrv: str) -> list[Queue]:
    try:
        route = connection.call(GetRouteinfoByTopic(topic)).body
    except BrokerRefused as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            raise BadOption(f"topic {topic} does not exist (asked the name server {namesrv})") from None
        raise
    queues = _readable(route, topic)
    if not queues:
        raise SparkSourceError(f"topic {topic} has no queue that can be read now: no broker of it is up")
    return queues


def _readable(route: TopicRouteData, topic: str) -> list[Queue]:
    addresses: dict[str, str] = {}
    for broker in route.broker_datas:
        members = broker.broker_addrs
        if members:
            addresses[broker.broker_name] = members.get(MASTER) or members[min(members)]
    return [
        Queue(topic, data.broker_name, queue_id, addresses[data.broker_name])
        for data in route.queue_datas
        if data.perm & READABLE and data.broker_name in addresses
        for queue_id in range(data.read_queue_nums)
    ]


def queue_bounds(queues: Iterable[Queue], connecting: Connecting = PLAIN) -> dict[Queue, tuple[int, int]]:
    """First offset, and the one after the last message, of every queue. Raises NetError, BrokerRefused."""
    bounds: dict[Queue, tuple[int, int]] = {}
    by_address: dict[str, list[Queue]] = {}
    for queue in queues:
        by_address.setdefault(queue.address, []).append(queue)
    for address, members in by_address.items():
        with connecting.connect(address) as connection:
            for queue in members:
                low = connection.call(GetMinOffset(queue.topic, queue.queue_id)).offset
                high = connection.call(GetMaxOffset(queue.topic, queue.queue_id)).offset
                bounds[queue] = (max(0, low), max(0, high))
    return bounds

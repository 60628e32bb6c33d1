"""From a name server's route of a topic to queues for sending and reading, and their addresses."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import MASTER_ID, TopicRouteData
from orbitmq.protocol.bodies.static_topic import NO_BROKER, TopicQueueMappingInfo, logical_broker
from orbitmq.protocol.codes import PERM_READ, PERM_WRITE

Addresses = dict[int, str]
"""The members of a broker group by broker id."""


class TopicRoute:
    """One topic's queues and brokers, taken apart once and then only read.

    Raises MalformedReply for a route with too many queues.
    """

    __slots__ = (
        "brokers",
        "data",
        "lacks_master",
        "leaders",
        "publish_queues",
        "stored_queues",
        "subscribe_queues",
    )

    def __init__(self, topic: str, data: TopicRouteData) -> None:
        data.check_size()
        self.data = data
        """The route as the name server sent it."""
        self.brokers: dict[str, Addresses] = {
            broker.broker_name: dict(broker.broker_addrs or {}) for broker in data.broker_datas
        }
        self.leaders = leaders_of(topic, data.topic_queue_mapping_by_broker or {})
        """The logical queues of a static topic, with the brokers that lead them; empty for other topics."""
        self.publish_queues = _publish_queues(topic, data, self.brokers, self.leaders)
        """Queues that messages may be sent to, in the order of their turns."""
        self.lacks_master = not self.publish_queues and any(
            row.perm & PERM_WRITE and row.write_queue_nums > 0 and self.brokers.get(row.broker_name)
            for row in data.queue_datas
        )
        """True if there are queues for messages, and slaves alone to take them."""
        self.stored_queues = [
            MessageQueue(topic, row.broker_name, queue_id)
            for row in data.queue_datas
            if row.perm & PERM_READ
            for queue_id in range(row.read_queue_nums)
        ]
        """Queues of brokers that can be read."""
        self.subscribe_queues = list(self.leaders) or self.stored_queues
        """Queues that the members of a group share."""

    def broker_of(self, queue: MessageQueue) -> str:
        """The broker that has a queue: its own, or that which leads a logical one."""
        return self.leaders.get(queue, queue.broker_name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicRoute) and self.data == other.data

    __hash__ = None  # type: ignore[assignment]

    def template_for(self, topic: str, queue_nums: int) -> TopicRoute:
        """A route for a topic that does not exist yet, after the one that brokers create topics from."""
        rows = [
            type(row)(
                row.broker_name,
                min(queue_nums, row.read_queue_nums),
                min(queue_nums, row.read_queue_nums),
                row.perm,
                row.topic_sys_flag,
            )
            for row in self.data.queue_datas
        ]
        return TopicRoute(topic, TopicRouteData(queue_datas=rows, broker_datas=self.data.broker_datas))


def leaders_of(topic: str, mappings: Mapping[str, TopicQueueMappingInfo]) -> dict[MessageQueue, str]:
    """The logical queues that brokers say they lead, in order, with their brokers. Of two that lead a queue,
    the one of the later mapping counts. A queue without a leader has a broker that does not exist.
    """
    leaders: dict[MessageQueue, str] = {}
    infos = sorted(mappings.values(), key=lambda info: info.epoch)
    for info in infos:
        name = logical_broker(info.scope)
        for global_id in range(info.total_queues):
            leaders.setdefault(MessageQueue(topic, name, global_id), NO_BROKER)
        for global_id in info.curr_id_map:
            leaders[MessageQueue(topic, name, global_id)] = info.bname
    return {queue: leaders[queue] for queue in sorted(leaders)}


def _publish_queues(
    topic: str, data: TopicRouteData, brokers: dict[str, Addresses], leaders: dict[MessageQueue, str]
) -> list[MessageQueue]:
    if data.order_topic_conf:
        return [
            MessageQueue(topic, broker, queue_id)
            for broker, count in data.order_counts()
            for queue_id in range(count)
        ]
    if leaders:
        return [queue for queue, broker in leaders.items() if MASTER_ID in brokers.get(broker, ())]
    return [
        MessageQueue(topic, row.broker_name, queue_id)
        for row in sorted(data.queue_datas, key=lambda row: row.broker_name)
        if row.perm & PERM_WRITE and MASTER_ID in brokers.get(row.broker_name, ())
        for queue_id in range(row.write_queue_nums)
    ]


def address_to_read(
    members: Addresses, wanted_id: int = MASTER_ID, *, only_wanted: bool = False
) -> str | None:
    """Address to pull from: the member wanted, for a slave that is absent the next one, else any."""
    address = members.get(wanted_id)
    if address is None and wanted_id != MASTER_ID:
        address = members.get(wanted_id + 1)
    if address is None and not only_wanted and members:
        address = members[min(members)]
    return address

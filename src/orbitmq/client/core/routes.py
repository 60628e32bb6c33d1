"""From a name server's route of a topic to queues for sending and reading, and their addresses."""

from __future__ import annotations

from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import MASTER_ID, TopicRouteData
from orbitmq.protocol.codes import PERM_READ, PERM_WRITE

Addresses = dict[int, str]
"""The members of a broker group by broker id."""


class TopicRoute:
    """One topic's queues and brokers, taken apart once and then only read."""

    __slots__ = ("brokers", "data", "lacks_master", "publish_queues", "subscribe_queues")

    def __init__(self, topic: str, data: TopicRouteData) -> None:
        self.data = data
        """The route as the name server sent it."""
        self.brokers: dict[str, Addresses] = {
            broker.broker_name: dict(broker.broker_addrs or {}) for broker in data.broker_datas
        }
        self.publish_queues = _publish_queues(topic, data, self.brokers)
        """Queues that messages may be sent to, in the order of their turns."""
        self.lacks_master = not self.publish_queues and any(
            row.perm & PERM_WRITE and row.write_queue_nums > 0 and self.brokers.get(row.broker_name)
            for row in data.queue_datas
        )
        """True if there are queues for messages, and slaves alone to take them."""
        self.subscribe_queues = [
            MessageQueue(topic, row.broker_name, queue_id)
            for row in data.queue_datas
            if row.perm & PERM_READ
            for queue_id in range(row.read_queue_nums)
        ]
        """Queues that the members of a group share."""

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


def _publish_queues(topic: str, data: TopicRouteData, brokers: dict[str, Addresses]) -> list[MessageQueue]:
    if data.order_topic_conf:
        return [
            MessageQueue(topic, broker, queue_id)
            for broker, _, count in (part.partition(":") for part in data.order_topic_conf.split(";"))
            if count.isdigit()
            for queue_id in range(int(count))
        ]
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

"""Admission of sends: the conditions of broker and topic, decided here for every path that messages come by.

The checks stand in the order in which Apache's broker makes them, so that a client that breaks two rules
hears of the same one.
"""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.broker.metadata import names
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.options import IdentityOptions
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.codes import PERM_WRITE, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import DLQ_PREFIX, NO_SEND_TOPICS, RETRY_PREFIX

OF_COPIES = (RETRY_PREFIX, DLQ_PREFIX)
"""Topics of messages that were stored before, and say where they are from: that is for `rules`."""


class OpenQueues(dict[str, int]):
    """Topic -> number of its queues, 0 if the fast paths may not send to it. Decided once for each topic."""

    __slots__ = ("_topics",)

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics

    def __missing__(self, name: str) -> int:
        topic = self._topics.by_name.get(name)
        if topic is None:
            return 0  # not kept: a client may name any number of topics that do not exist
        is_open = (
            topic.perm & PERM_WRITE
            and name not in NO_SEND_TOPICS
            and not name.startswith(OF_COPIES)
            and name not in self._topics.static.by_topic
        )
        queues = self[name] = queue_count(topic) if is_open else 0
        return queues


class Admission:
    """The decisions of one broker. Those about topics are kept until the table of topics changes."""

    __slots__ = ("_counter", "_identity", "_open", "_settings", "_topics", "_version")

    def __init__(self, identity: BrokerIdentity, settings: IdentityOptions, topics: TopicTable) -> None:
        self._identity = identity
        self._settings = settings
        self._topics = topics
        self._open = OpenQueues(topics)
        self._version: DataVersion | None = None
        self._counter = 0

    def takes_from_anybody(self, now: int) -> bool:
        """True if the broker itself stands in the way of no send."""
        settings = self._settings
        return now >= settings.start_accept_send_request_time_stamp and bool(
            settings.broker_permission & PERM_WRITE
        )

    def open_queues(self) -> OpenQueues:
        """The topics that the fast paths may send to now."""
        version = self._topics.version
        if version is not self._version or version.counter != self._counter:
            self._open.clear()
            self._version, self._counter = version, version.counter
        return self._open

    def admit_send(self, name: str, queue_id: int, make: Callable[[], TopicConfig], now: int) -> TopicConfig:
        """The topic of a send, which `make` makes where there is none. Raises Refused."""
        self._check_start(now)
        topic = self._topics.by_name.get(name)
        if topic is None or topic.order:
            self._check_permission()
        if topic is None:
            names.check_topic_name(name)
        names.refuse_send_to_system_topic(name)
        if topic is None:
            topic = make()
        if not topic.perm & PERM_WRITE:
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
        if queue_id >= queue_count(topic):
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{queue_id}] is illegal, topic[{name}] has "
                f"{topic.write_queue_nums} write and {topic.read_queue_nums} read queues",
            )
        return topic

    def admit_reply(self, name: str, queue_id: int, now: int) -> None:
        """Raises Refused for a reply that may not be stored in this queue: no send makes a topic for it.

        Among copies it could say where it is from without a look at its sender's rights there.
        """
        self._check_start(now)
        self._check_permission()
        names.check_topic_name(name)
        names.refuse_send_to_system_topic(name)
        if name.startswith(OF_COPIES):
            raise Refused(ResponseCode.NO_PERMISSION, f"a reply does not go to {name}: name a reply topic")
        topic = self._topics.by_name.get(name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        if queue_id >= queue_count(topic):
            raise Refused(ResponseCode.INVALID_PARAMETER, f"request queueId[{queue_id}] is illegal")

    def _check_start(self, now: int) -> None:
        start = self._settings.start_accept_send_request_time_stamp
        if now < start:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {start}")

    def _check_permission(self) -> None:
        if not self._settings.broker_permission & PERM_WRITE:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._identity.address}] sending message is forbidden",
            )


def queue_count(topic: TopicConfig) -> int:
    """Number of queues that a sender may name."""
    return max(topic.write_queue_nums, topic.read_queue_nums)

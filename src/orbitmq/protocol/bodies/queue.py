"""A queue, named so that it is the same for every peer."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.protocol.schema.json_body import JsonBody, Long, named


@dataclass(slots=True, frozen=True, order=True)
class MessageQueue(JsonBody):
    """One queue of a topic on one broker; usable as a key, ordered by topic, broker, queue id."""

    topic: str = ""
    broker_name: str = ""
    queue_id: int = 0


@dataclass(slots=True)
class MessageQueueForC(JsonBody):
    """A queue with its offset, for clients that cannot read a map keyed by queues."""

    topic: str = ""
    broker_name: str = ""
    queue_id: int = 0
    offset: Long = 0


@dataclass(slots=True)
class LockBatchRequestBody(JsonBody):
    """Queues that a client of a group wants to lock for ordered consumption."""

    consumer_group: str = ""
    client_id: str = ""
    only_this_broker: bool = False
    """True if the broker does not involve its replicas."""
    mq_set: list[MessageQueue] = field(default_factory=list)


@dataclass(slots=True)
class UnlockBatchRequestBody(JsonBody):
    """Queues that a client of a group unlocks."""

    consumer_group: str = ""
    client_id: str = ""
    only_this_broker: bool = False
    mq_set: list[MessageQueue] = field(default_factory=list)


@dataclass(slots=True)
class LockBatchResponseBody(JsonBody):
    """The wanted queues that the client now holds."""

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list, metadata=named("lockOKMQSet"))

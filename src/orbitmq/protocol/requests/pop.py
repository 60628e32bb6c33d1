"""POP consumption. Codes above 32767 need JSON headers."""

from __future__ import annotations

from orbitmq.protocol.bodies.pop import (
    BatchAckMessageRequestBody,
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from orbitmq.protocol.schema.declare import (
    Bytes,
    JsonReply,
    Long,
    Reply,
    Request,
    RequestQueue,
    Void,
    request,
    wire,
)


class PopReply(Reply):
    """Stored records, and what acknowledging them needs."""

    pop_time: Long
    invisible_time: Long
    revive_qid: int
    rest_num: Long
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None
    body: Bytes | None = None


RENEWED = "orbitmqRenewed"
"""Header field of the reply to an acknowledgement that counts for a message which a proxy has renewed."""


@request(200050, queue=RequestQueue.PULL)
class PopMessage(Request[PopReply]):
    """Messages for a group from any queue (-1) or one; others of the group do not see them for a while."""

    accepts = (19, 20, 208, 209, 210)

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: Long
    poll_time: Long
    born_time: Long
    init_mode: int
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


@request(200051, queue=RequestQueue.ACK)
class AckMessage(Request[Void]):
    """A popped message was handled."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: Long
    lite_topic: str | None = None
    """Of a message of a lite topic of `topic`; the queue id is 0 then, and the offset that in its queue."""


@request(200052)
class PeekMessage(Request[PopReply]):
    """Messages that could be popped, without popping them."""

    accepts = (19, 20, 208, 209, 210)

    topic: str
    queue_id: int
    max_msg_nums: int
    consumer_group: str


class InvisibletimeReply(Reply):
    """The new times (ms) of a popped message."""

    pop_time: Long
    invisible_time: Long
    revive_qid: int


@request(200053, queue=RequestQueue.ACK)
class ChangeMessageInvisibletime(Request[InvisibletimeReply]):
    """Keep a popped message hidden for another `invisible_time` ms."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: Long
    invisible_time: Long
    lite_topic: str | None = None
    suspend: bool | None = None
    """Of a lite topic: hide the whole batch, and do not count its next delivery."""
    renewal: bool | None = wire("orbitmqRenewal", default=None)
    """A proxy hides the message for its client, which keeps the handle of before."""


class NotificationReply(Reply):
    """Tells whether there is a message to pop, or too many requests already wait."""

    has_msg: bool
    polling_full: bool = False


@request(200054, queue=RequestQueue.PULL)
class Notification(Request[NotificationReply]):
    """Wait until a message can be popped."""

    consumer_group: str
    topic: str
    queue_id: int
    poll_time: Long
    born_time: Long
    order: bool | None = None
    attempt_id: str | None = None
    is_lite_consumer: bool = False
    """Ask for any lite topic of `client_id`. Brokers since 5.5.1 look at it."""
    client_id: str | None = None


class PollingReply(Reply):
    """Number of held requests."""

    polling_num: int


@request(200055, queue=RequestQueue.PULL)
class PollingInfo(Request[PollingReply]):
    """Number of pop requests held for a queue."""

    consumer_group: str
    topic: str
    queue_id: int


@request(200056)
class PopRollback(Request[Void]):
    """Move pop records kept in a key-value store back to files."""


@request(200151, queue=RequestQueue.ACK)
class BatchAckMessage(Request[Void]):
    """Several popped messages were handled."""

    body: BatchAckMessageRequestBody


@request(400, queue=RequestQueue.UNLIMITED)
class QueryAssignment(Request[JsonReply[QueryAssignmentResponseBody | None]]):
    """The queues that a client should read, and its request mode."""

    body: QueryAssignmentRequestBody


@request(401, queue=RequestQueue.UNLIMITED)
class SetMessageRequestMode(Request[Void]):
    """Have the clients of a group pull a topic, or pop it."""

    body: SetMessageRequestModeRequestBody


@request(402)
class GetAllMessageRequestMode(Request[JsonReply[MessageRequestModeSerializeWrapper | None]]):
    """All modes, for slaves."""

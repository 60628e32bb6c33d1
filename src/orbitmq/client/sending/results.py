"""Meaning of a broker's answer to a send for each message."""

from __future__ import annotations

from orbitmq.client.core.message import SendResult, SendStatus
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import MSG_REGION
from orbitmq.protocol.requests.send import SendReply

_STATUS = {int(status): status for status in SendStatus}

DEFAULT_REGION = "DefaultRegion"


def single_result(reply: SendReply, queue: MessageQueue, unique_id: str) -> SendResult:
    """The result of a message that was sent by itself."""
    if reply.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, reply.queue_id)
    return SendResult(
        _STATUS[reply.code],
        unique_id,
        reply.msg_id,
        queue,
        reply.queue_offset,
        reply.transaction_id,
        _region(reply),
        reply.recall_handle,
    )


def batch_results(reply: SendReply, queue: MessageQueue, unique_ids: list[str]) -> list[SendResult]:
    """The results of the messages of a batch, in their order."""
    status = _STATUS[reply.code]
    region = _region(reply)
    offset_ids = reply.msg_id.split(",")
    if len(offset_ids) != len(unique_ids):
        # A batch that became one record (BatchCQ topics) has one place, and one id that says it.
        offset_ids = offset_ids[:1] * len(unique_ids)
    return [
        SendResult(status, unique_id, offset_id, queue, reply.queue_offset + place, None, region)
        for place, (unique_id, offset_id) in enumerate(zip(unique_ids, offset_ids, strict=True))
    ]


def _region(reply: SendReply) -> str:
    extra = reply.extra
    return DEFAULT_REGION if extra is None else extra.get(MSG_REGION, DEFAULT_REGION)

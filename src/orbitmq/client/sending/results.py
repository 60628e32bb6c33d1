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


class BatchResults:
    """The results of the messages of a stored batch, by their place: each is made when somebody asks."""

    __slots__ = ("_first_offset", "_offset_ids", "_queue", "_region", "_status")

    def __init__(self, reply: SendReply, queue: MessageQueue, count: int) -> None:
        self._status = _STATUS[reply.code]
        self._region = _region(reply)
        self._queue = queue
        self._first_offset = reply.queue_offset
        offset_ids = reply.msg_id.split(",")
        # A batch that became one record (BatchCQ topics) has one place, and one id that says it.
        self._offset_ids = offset_ids if len(offset_ids) == count else offset_ids[:1] * count

    def of(self, place: int, unique_id: str) -> SendResult:
        """The result of the message at a place of the batch, which was sent under this id."""
        return SendResult(
            self._status,
            unique_id,
            self._offset_ids[place],
            self._queue,
            self._first_offset + place,
            None,
            self._region,
        )


def batch_results(reply: SendReply, queue: MessageQueue, unique_ids: list[str]) -> list[SendResult]:
    """The results of the messages of a batch, in their order."""
    results = BatchResults(reply, queue, len(unique_ids))
    return [results.of(place, unique_id) for place, unique_id in enumerate(unique_ids)]


def _region(reply: SendReply) -> str:
    extra = reply.extra
    return DEFAULT_REGION if extra is None else extra.get(MSG_REGION, DEFAULT_REGION)

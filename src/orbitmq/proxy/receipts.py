"""Receipt handles: the pop that delivered a message, and its place in the log."""

from __future__ import annotations

from dataclasses import replace

from orbitmq.protocol.handles.pop import ORDER_REVIVE_QUEUE, BadHandle, PopHandle, topic_type
from orbitmq.protocol.names import POP_CK
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.requests.pop import PopReply
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.wire import messaging_pb2 as pb


def read_handle(text: str) -> PopHandle:
    """The handle that a client gives back, which may be over. Raises ProxyRefused for one that is none."""
    try:
        handle = PopHandle.from_text(text)
    except BadHandle as error:
        raise ProxyRefused(pb.INVALID_RECEIPT_HANDLE, f"receipt handle: {error}") from None
    if handle.queue_offset < 0:
        raise ProxyRefused(pb.INVALID_RECEIPT_HANDLE, "receipt handle without a queue offset")
    return handle


def expired() -> ProxyRefused:
    """The refusal of a handle that is over."""
    return ProxyRefused(pb.INVALID_RECEIPT_HANDLE, "receipt handle is expired")


class PopAnswer:
    """Handles and deliveries of all messages in an answer to a pop."""

    def __init__(self, reply: PopReply, broker_name: str) -> None:
        self._reply = reply
        self._broker_name = broker_name
        self._starts: dict[tuple[int, int], int] = {}
        self._counts: dict[tuple[int, str], int] = {}
        for item in _items(reply.start_offset_info):
            kind, queue_id, start = item
            self._starts[int(kind), int(queue_id)] = int(start)
        for item in _items(reply.order_count_info):
            kind, key, count = item
            self._counts[int(kind), key] = int(count)

    def handle(self, record: StoredMessage) -> PopHandle:
        """The receipt handle of one record. Raises BadHandle where the answer does not say its pop."""
        text = record.property_map().get(POP_CK)
        if text is not None:
            # A retried message: the broker has written the pop into its copy.
            handle = PopHandle.from_text(text)
            queue_offset = handle.queue_offset if handle.queue_offset >= 0 else record.queue_offset
            return replace(handle, queue_offset=queue_offset, physical_offset=record.physical_offset)
        kind = topic_type(record.topic)
        start = self._starts.get((kind, record.queue_id))
        if start is None:
            raise BadHandle(f"the broker's answer names no start of queue {record.queue_id}")
        reply = self._reply
        return PopHandle(
            start, reply.pop_time, reply.invisible_time, reply.revive_qid, kind,
            self._broker_name, record.queue_id, record.queue_offset, record.physical_offset,
        )  # fmt: skip

    def deliveries(self, record: StoredMessage) -> int:
        """Number of the delivery, from 1: an ordered pop counts by queue, others by the record."""
        if self._reply.revive_qid == ORDER_REVIVE_QUEUE or self._counts:
            kind = topic_type(record.topic)
            one = self._counts.get((kind, f"qo{record.queue_id}%{record.queue_offset}"))
            count = one if one is not None else self._counts.get((kind, str(record.queue_id)), 0)
            return max(count, record.reconsume_times) + 1
        return record.reconsume_times + 1


def _items(text: str | None) -> list[tuple[str, str, str]]:
    items = []
    for part in (text or "").split(";"):
        words = part.split(" ")
        if len(words) == 3:
            items.append((words[0], words[1], words[2]))
    return items

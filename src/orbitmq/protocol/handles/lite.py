"""Answers to pops of lite topics: the handle and the number of the delivery of each record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.protocol import names
from orbitmq.protocol.handles.pop import ORDER_REVIVE_QUEUE, BadHandle, PopHandle
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import whole_number
from orbitmq.protocol.requests.lite import LiteReply


@dataclass(frozen=True, slots=True)
class LiteAnswer:
    """An answer to a pop of lite topics: the handle and the number of the delivery of each record."""

    reply: LiteReply
    broker_name: str
    counts: Mapping[int, int]
    """Number of earlier deliveries of each record, by its place."""

    @classmethod
    def of(cls, reply: LiteReply, broker_name: str, records: int) -> LiteAnswer:
        """Reads the counts, which are there where there are as many as records."""
        parts = (reply.order_count_info or "").split(";")
        words = [part.split(" ") for part in parts] if len(parts) == records else []
        numbers = [one[2] if len(one) == 3 else one[0] for one in words]
        return cls(
            reply,
            broker_name,
            {place: count for place, text in enumerate(numbers) if (count := whole_number(text)) is not None},
        )

    def handle(self, record: StoredMessage) -> PopHandle:
        """The receipt handle of a record. Raises BadHandle for one that is not of one lite topic alone."""
        properties = record.property_map()
        name = properties.get(names.LITE_TOPIC, "")
        queues = properties.get(names.INNER_MULTI_DISPATCH, "").split(",")
        offset = properties.get(names.INNER_MULTI_QUEUE_OFFSET, "")
        if not name or len(queues) != 1 or not (offset.isascii() and offset.isdigit()):
            raise BadHandle(f"record {record.offset_id} is not of one lite topic")
        reply = self.reply
        return PopHandle(
            0, reply.pop_time, reply.invisible_time, ORDER_REVIVE_QUEUE, 0, self.broker_name, 0,
            int(offset), record.physical_offset, name,
        )  # fmt: skip

    def deliveries(self, place: int) -> int:
        """Number of the delivery of the record at a place, from 1."""
        return self.counts.get(place, 0) + 1

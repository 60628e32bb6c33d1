"""Pulls and offsets: for clients that keep their own places in queues."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from orbitmq.client.core.subscription import wants
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import NotFound
from orbitmq.protocol.records.compression import CompressionError
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.offset import (
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pull import MAY_BE_HELD, SUBSCRIPTION_IN_REQUEST, PullMessage
from orbitmq.proxy.checks import duration_ms, group_name, topic_name
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.errors import OK, ProxyRefused
from orbitmq.proxy.messages import readable_messages, received_message
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.subscriptions import subscription_of
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

MOST_IN_A_PULL = 32
SPARE_MS = 3000
"""A broker answers a held pull within its time; this much longer the proxy waits for the answer."""


class Offsets:
    """The calls PullMessage, UpdateOffset, GetOffset and QueryOffset, which Apache's proxy does not serve."""

    def __init__(self, cluster: Cluster, settings: ProxySettings) -> None:
        self._cluster = cluster
        self._settings = settings

    async def pull(self, request: pb.PullMessageRequest) -> AsyncIterator[pb.PullMessageResponse]:
        """A status, messages, and the offset to continue at. Raises ProxyRefused, NetError, BrokerRefused."""
        group = group_name(request.group)
        topic, queue_id, address = await self._queue(request.message_queue)
        if request.offset < 0:
            raise ProxyRefused(pb.ILLEGAL_OFFSET, f"the offset {request.offset} is below 0")
        subscription = subscription_of(topic, request.filter_expression)
        wait_ms = min(
            duration_ms(request.long_polling_timeout),
            self._settings.grpc_client_consumer_max_long_polling_timeout_millis,
        )
        flags = SUBSCRIPTION_IN_REQUEST | (MAY_BE_HELD if wait_ms > 0 else 0)
        count = max(1, min(request.batch_size or MOST_IN_A_PULL, MOST_IN_A_PULL))
        reply = await self._cluster.call(
            address,
            PullMessage(
                group, topic, queue_id, request.offset, count, flags, 0, wait_ms, 0,
                subscription=subscription.sub_string, expression_type=subscription.expression_type,
            ),
            wait_ms + SPARE_MS,
        )  # fmt: skip
        messages: list[pb.Message] = []
        records, bad = decode_records(reply.body or b"")
        for one in bad:
            log.error("a record of %s, queue %d, cannot be read: %s", topic, queue_id, one)
        for record in records:
            try:
                plain = await readable_messages(record)
            except (CompressionError, BadRecord) as error:
                log.error("record %s of %s cannot be inflated: %s", record.offset_id, topic, error)
                continue
            messages += [
                received_message(one, topic, None, one.reconsume_times + 1, 0)
                for one in plain
                if one.queue_offset >= request.offset and wants(subscription, one.tags)
            ]
        if reply.code == ResponseCode.PULL_OFFSET_MOVED:
            status = pb.Status(code=pb.ILLEGAL_OFFSET, message="the offset is outside of the queue")
        else:
            status = OK if messages else pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no new message")
        yield pb.PullMessageResponse(status=status)
        for message in messages:
            yield pb.PullMessageResponse(message=message)
        yield pb.PullMessageResponse(next_offset=reply.next_begin_offset)

    async def update(self, request: pb.UpdateOffsetRequest) -> pb.UpdateOffsetResponse:
        """Keeps a group's offset. Raises ProxyRefused, NetError, BrokerRefused."""
        group = group_name(request.group)
        topic, queue_id, address = await self._queue(request.message_queue)
        if request.offset < 0:
            raise ProxyRefused(pb.ILLEGAL_OFFSET, f"the offset {request.offset} is below 0")
        await self._cluster.call(address, UpdateConsumerOffset(group, topic, queue_id, request.offset))
        return pb.UpdateOffsetResponse(status=OK)

    async def get(self, request: pb.GetOffsetRequest) -> pb.GetOffsetResponse:
        """A group's offset. Raises ProxyRefused, NetError, BrokerRefused."""
        group = group_name(request.group)
        topic, queue_id, address = await self._queue(request.message_queue)
        try:
            reply = await self._cluster.call(address, QueryConsumerOffset(group, topic, queue_id, False))
        except NotFound:
            raise ProxyRefused(
                pb.OFFSET_NOT_FOUND, f"{group} has no offset on queue {queue_id} of {topic}"
            ) from None
        return pb.GetOffsetResponse(status=OK, offset=reply.offset)

    async def query(self, request: pb.QueryOffsetRequest) -> pb.QueryOffsetResponse:
        """The first or last offset of a queue, or that of a time. Raises ProxyRefused, NetError,
        BrokerRefused.
        """
        topic, queue_id, address = await self._queue(request.message_queue)
        policy = request.query_offset_policy
        if policy == pb.BEGINNING:
            offset = (await self._cluster.call(address, GetMinOffset(topic, queue_id))).offset
        elif policy == pb.END:
            offset = (await self._cluster.call(address, GetMaxOffset(topic, queue_id))).offset
        elif policy == pb.TIMESTAMP and request.HasField("timestamp"):
            search = SearchOffsetByTimestamp(topic, queue_id, duration_ms(request.timestamp))
            offset = (await self._cluster.call(address, search)).offset
        else:
            raise ProxyRefused(pb.BAD_REQUEST, "the policy TIMESTAMP needs a timestamp")
        return pb.QueryOffsetResponse(status=OK, offset=offset)

    async def _queue(self, queue: pb.MessageQueue) -> tuple[str, int, str]:
        """Topic, queue id and the address of the master. Raises ProxyRefused."""
        topic = topic_name(queue.topic)
        if queue.id < 0:
            raise ProxyRefused(pb.BAD_REQUEST, "the request names no queue")
        return topic, queue.id, await self._cluster.master(queue.broker.name)

"""Sends and recalls: from a call to requests of brokers, and back to receipts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from orbitmq.net.errors import NetError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.handles.recall import MalformedHandle, RecallHandle
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.requests.send import RecallMessage, SendBatchMessage, SendMessageV2, SendReply
from orbitmq.proxy.checks import MessageChecks, duration_ms, topic_name
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import OK, ProxyRefused, joined_status, status_of
from orbitmq.proxy.messages import MIXED, check_type, sent_properties, sent_sys_flag
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.transactions import OpenTransaction
from orbitmq.proxy.wire import messaging_pb2 as pb

_TEMPLATE_QUEUES = 4
_STORED: dict[int, pb.Code.ValueType] = {
    ResponseCode.FLUSH_DISK_TIMEOUT: pb.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: pb.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: pb.HA_NOT_AVAILABLE,
}
"""Codes of answers to sends that were stored, but not as safely as promised."""


class Sending:
    """The calls SendMessage and RecallMessage."""

    def __init__(self, cluster: Cluster, settings: ProxySettings, now: Callable[[], int]) -> None:
        self._cluster = cluster
        self._checks = MessageChecks(settings)
        self._checks_types = settings.enable_topic_message_type_check
        self._now = now
        self._most_held = settings.max_held_bytes_of_client
        self._held: Counter[str] = Counter()
        """Bytes of messages in open sends, by client."""
        self.sent = 0
        """Messages stored since the start."""

    async def send(self, request: pb.SendMessageRequest, caller: Caller) -> pb.SendMessageResponse:
        """Stores one message, or several of one topic with a receipt for each. Raises ProxyRefused."""
        messages = request.messages
        if not messages:
            raise ProxyRefused(pb.MESSAGE_CORRUPTED, "the request holds no message")
        topic = topic_name(messages[0].topic)
        if any(message.topic.name != topic for message in messages):
            raise ProxyRefused(pb.MESSAGE_CORRUPTED, "the messages of one request have different topics")
        size = sum(len(message.body) for message in messages)
        held, most = self._held[caller.client_id], self._most_held
        if held and held + size > most:
            raise ProxyRefused(pb.TOO_MANY_REQUESTS, f"the open sends of this client hold {most} bytes")
        self._held[caller.client_id] += size
        try:
            return await self._send(topic, messages, caller)
        finally:
            self._held[caller.client_id] -= size
            if not self._held[caller.client_id]:
                del self._held[caller.client_id]

    async def _send(
        self, topic: str, messages: Sequence[pb.Message], caller: Caller
    ) -> pb.SendMessageResponse:
        now = self._now()
        for message in messages:
            self._checks.check(message, now)
        if self._checks_types:
            kind = await self._cluster.topic_type(topic)
            for message in messages:
                check_type(topic, kind, message)
        try:
            if len(messages) == 1 or messages[0].system_properties.HasField("lite_topic"):
                # Brokers do not look for lite topics in a batch.
                entries = [await self._send_one(topic, message, caller, now) for message in messages]
            else:
                entries = await self._send_several(topic, list(messages), caller, now)
        except (NetError, BrokerRefused):
            self._cluster.forget_route(topic)
            raise
        self.sent += len(entries)
        return pb.SendMessageResponse(
            status=joined_status([entry.status for entry in entries]), entries=entries
        )

    async def _send_one(
        self, topic: str, message: pb.Message, caller: Caller, now: int
    ) -> pb.SendResultEntry:
        system = message.system_properties
        # Messages of a group, and those of a lite topic, have one queue in the whole cluster.
        group = system.message_group or system.lite_topic or None
        queue, address = await self._cluster.queue_to_write(topic, group)
        born_ms = duration_ms(system.born_timestamp) or now
        reply = await self._cluster.call(
            address,
            SendMessageV2(
                topic, topic, AUTO_CREATE_TOPIC, _TEMPLATE_QUEUES, queue.queue_id, sent_sys_flag(message),
                born_ms, 0, sent_properties(message, topic, caller.host, now),
                0, False, None, False, queue.broker_name, message.body,
            ),
        )  # fmt: skip
        entry = self._entry(reply, message, 0)
        if system.message_type == pb.TRANSACTION:
            opened = OpenTransaction.of_send(system.message_id, queue.broker_name, reply)
            entry.transaction_id = opened.to_text()
        return entry

    async def _send_several(
        self, topic: str, messages: Sequence[pb.Message], caller: Caller, now: int
    ) -> list[pb.SendResultEntry]:
        if any(message.system_properties.message_type == pb.TRANSACTION for message in messages):
            raise ProxyRefused(pb.MESSAGE_CORRUPTED, "half messages are sent one by one")
        groups = {message.system_properties.message_group for message in messages}
        if len(groups) > 1:
            raise ProxyRefused(pb.MESSAGE_CORRUPTED, "the messages of one request have different groups")
        queue, address = await self._cluster.queue_to_write(topic, groups.pop() or None)
        properties = [sent_properties(message, topic, caller.host, now) for message in messages]
        body = encode_batch(
            (0, message.body, text.encode()) for message, text in zip(messages, properties, strict=True)
        )
        reply = await self._cluster.call(
            address,
            SendBatchMessage(
                topic, topic, AUTO_CREATE_TOPIC, _TEMPLATE_QUEUES, queue.queue_id, 0, now, 0, "", 0, False,
                None, True, queue.broker_name, body,
            ),
        )  # fmt: skip
        return [self._entry(reply, message, place) for place, message in enumerate(messages)]

    @staticmethod
    def _entry(reply: SendReply, message: pb.Message, place: int) -> pb.SendResultEntry:
        """The receipt of one message; those of a batch follow each other in the queue."""
        code = _STORED.get(reply.code)
        return pb.SendResultEntry(
            status=OK if code is None else pb.Status(code=code, message=pb.Code.Name(code)),
            message_id=message.system_properties.message_id,
            offset=reply.queue_offset + place,
            recall_handle=reply.recall_handle or "",
        )

    async def recall(self, request: pb.RecallMessageRequest) -> pb.RecallMessageResponse:
        """Takes back a delayed message. Raises ProxyRefused."""
        topic = topic_name(request.topic)
        kind = await self._cluster.topic_type(topic)
        if kind not in ("DELAY", MIXED):
            raise ProxyRefused(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"{topic} has no delayed messages: it is of type {kind}",
            )
        try:
            handle = RecallHandle.decode(request.recall_handle)
        except MalformedHandle as error:
            raise ProxyRefused(pb.ILLEGAL_MESSAGE_ID, str(error)) from None
        address = await self._cluster.master(handle.broker_name)
        try:
            reply = await self._cluster.call(address, RecallMessage(topic, request.recall_handle))
        except BrokerRefused as error:
            return pb.RecallMessageResponse(status=status_of(error))
        return pb.RecallMessageResponse(status=OK, message_id=reply.msg_id)

"""Messages that operators look for, send, and have a client try; and stacks of a client's threads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.admin.admin import Admin
from orbitmq.admin.messages import NoMessage, message_by_id, messages_by_key, messages_from
from orbitmq.client.core.identity import unique_ids
from orbitmq.protocol.records.compression import CompressionError
from orbitmq.protocol.records.ids import MalformedId
from orbitmq.protocol.records.message import BadRecord, StoredMessage
from orbitmq.proxy.checks import duration_ms
from orbitmq.proxy.clients import Client, Clients
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import OK, ProxyRefused
from orbitmq.proxy.messages import readable_messages, received_message
from orbitmq.proxy.operating.members import named
from orbitmq.proxy.sending import Sending
from orbitmq.proxy.telemetry import Telemetry
from orbitmq.proxy.wire import admin_pb2 as operator
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

MOST_MESSAGES = 64
"""Messages in one answer."""


@dataclass(eq=False, repr=False)
class MessageCalls:
    """The calls about messages and about what clients answer."""

    _admin: Admin
    _clients: Clients
    _telemetry: Telemetry
    _sending: Sending
    _now: Callable[[], int]

    def __post_init__(self) -> None:
        self._ids = unique_ids("127.0.0.1")

    async def query(self, request: operator.ListMessageRequest) -> operator.ListMessageResponse:
        """Messages of a topic by id, by key, or by their time alone; oldest first. Raises ProxyRefused."""
        topic = named(request.topic, "topic")
        count = min(request.max_message_nums or request.page_size or MOST_MESSAGES, MOST_MESSAGES)
        begin_ms = duration_ms(request.begin_timestamp)
        end_ms = duration_ms(request.end_timestamp) if request.HasField("end_timestamp") else self._now()
        match request.WhichOneof("search_key"):
            case "message_id":
                records = [await self._by_id(topic, request.message_id)]
            case "message_key":
                records = await messages_by_key(
                    self._admin, topic, request.message_key, max_count=count, begin_ms=begin_ms, end_ms=end_ms
                )
            case None:
                found = await messages_from(self._admin, topic, begin_ms, count)
                records = [one for _, one in found if one.store_timestamp <= end_ms]
            case other:
                raise ProxyRefused(pb.NOT_IMPLEMENTED, f"messages cannot be looked for by {other}")
        response = operator.ListMessageResponse(status=OK)
        for record in records[:count]:
            response.messages.extend(await _shown(record, topic))
        return response

    async def _by_id(self, topic: str, message_id: str) -> StoredMessage:
        """By the id that clients of RocketMQ 5 know, or by the place in the log."""
        found = await messages_by_key(self._admin, topic, message_id, unique=True, max_count=1)
        if found:
            return found[0]
        try:
            return await message_by_id(self._admin, message_id, topic)
        except (MalformedId, NoMessage) as error:
            raise ProxyRefused(
                pb.MESSAGE_NOT_FOUND, f"{topic} has no message {message_id[:100]!r}: {error}"
            ) from None

    async def stack(
        self, request: operator.PrintThreadStackTraceRequest
    ) -> operator.PrintThreadStackTraceResponse:
        """The stacks of a client's threads, as it tells them. Raises ProxyRefused."""
        client = self._client(request.client_id, request.group)
        command = pb.TelemetryCommand(print_thread_stack_trace_command=pb.PrintThreadStackTraceCommand())
        told = await self._telemetry.ask(client, command)
        return operator.PrintThreadStackTraceResponse(
            status=told.status if told.HasField("status") else OK,
            thread_stack_trace=told.thread_stack_trace.thread_stack_trace,
        )

    async def verify(self, request: operator.VerifyMessageRequest) -> operator.VerifyMessageResponse:
        """Has one client handle a message again; what came of it is the status. Raises ProxyRefused."""
        client = self._client(request.client_id, request.group)
        topic = named(request.topic, "topic")
        shown = await _shown(await self._by_id(topic, request.message_id), topic)
        if not shown:
            raise ProxyRefused(pb.MESSAGE_CORRUPTED, f"message {request.message_id} cannot be read")
        command = pb.TelemetryCommand(verify_message_command=pb.VerifyMessageCommand(message=shown[0]))
        told = await self._telemetry.ask(client, command)
        return operator.VerifyMessageResponse(status=told.status if told.HasField("status") else OK)

    def _client(self, client_id: str, group: pb.Resource) -> Client:
        client = self._clients.get(client_id)
        if client is None or client.group != named(group, "group"):
            raise ProxyRefused(
                pb.NOT_FOUND, f"group {group.name} has no member {client_id!r} at this proxy: ask the others"
            )
        return client

    async def send(
        self, request: operator.AdminSendMessageRequest, caller: Caller
    ) -> operator.AdminSendMessageResponse:
        """Stores a message, with the checks of every other one. Raises ProxyRefused."""
        topic = named(request.topic, "topic")
        message = pb.Message(topic=pb.Resource(name=topic), body=request.body)
        message.user_properties.update(request.user_properties)
        system = message.system_properties
        system.CopyFrom(request.system_properties)
        if request.tag:
            system.tag = request.tag
        if request.key:
            system.keys.append(request.key)
        system.message_id = system.message_id or self._ids.new(self._now())
        sent = await self._sending.send(pb.SendMessageRequest(messages=[message]), caller)
        return operator.AdminSendMessageResponse(status=sent.status, message_id=system.message_id)


async def _shown(record: StoredMessage, topic: str) -> list[pb.Message]:
    """The messages of a record as clients get them; none where it cannot be read."""
    try:
        plain = await readable_messages(record)
    except (CompressionError, BadRecord) as error:
        log.warning("record %s of %s cannot be inflated: %s", record.offset_id, topic, error)
        return []
    return [received_message(one, topic, None, one.reconsume_times + 1, 0) for one in plain]

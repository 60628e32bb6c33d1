"""Replies of consumers, passed on to the producer that asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from orbitmq.broker.auth.permissions import PUB
from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.meaningful_properties import DROPPED_OF_REPLY
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.registry import handlers
from orbitmq.broker.send.admission import Admission
from orbitmq.broker.send.options import SendOptions
from orbitmq.handling.call import Answer, Call, Outcome, Result, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.ids import offset_message_id
from orbitmq.protocol.records.properties import decode_properties, encode_properties
from orbitmq.protocol.requests.send import (
    PushReplyMessageToClient,
    SendReply,
    SendReplyMessage,
    SendReplyMessageV2,
)
from orbitmq.store import MessageStore, PendingMessage, PutStatus

PUSH_TIMEOUT_MS = 10_000
"""Time that a producer may take to accept the reply it waits for."""

AnyReply: TypeAlias = SendReplyMessage | SendReplyMessageV2


@dataclass(slots=True)
class ReplyTables:
    """Tables that passing on a reply looks at and changes."""

    identity: BrokerIdentity
    settings: SendOptions
    admission: Admission
    clients: ClientTable
    store: MessageStore
    record_access: RecordAccess


@handlers(SendReplyMessage, SendReplyMessageV2)
def send_reply_message(tables: ReplyTables, call: Call[AnyReply], now: int) -> Result:
    """Pushes a reply to the producer that it names; it is stored as well, for whoever wants to look."""
    request = call.request
    # Whichever topic it stores in: what it pushes to a client is what this right is about.
    tables.record_access.check_topic(call.command, call.peer, f"{tables.identity.cluster}_REPLY_TOPIC", PUB)
    tables.admission.admit_reply(request.topic, request.queue_id, now)
    queue_id = max(0, request.queue_id)
    settings = tables.settings
    properties = decode_properties((request.properties or "").encode())
    asker = properties.get("REPLY_TO_CLIENT")
    if asker is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, "reply message properties[REPLY_TO_CLIENT] is null")
    producer = tables.clients.find_producer(asker)
    if producer is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"push reply message fail, channel of <{asker}> not found.")
    for name in DROPPED_OF_REPLY:
        properties.pop(name, None)
    trace_on = "true" if settings.trace_on else "false"
    properties |= {"MSG_REGION": settings.region_id, "TRACE_ON": trace_on, "PUSH_REPLY_TIME": str(now)}
    text = encode_properties(properties)
    push = Answer(producer.connection_id, _push(tables, call, queue_id, text, now))
    extra = {"MSG_REGION": settings.region_id, "TRACE_ON": trace_on}

    def pushed(outcome: Outcome, later: int) -> Result:
        reply = SendReply("0", queue_id, 0, extra=extra)
        if settings.store_reply_message_enable:
            _store(tables, call, reply, text, later)
        answer = outcome.answers.get(push)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"push reply message to {asker}fail.", extra)
        return reply

    return Wait((push,), now + PUSH_TIMEOUT_MS, pushed)


def _push(
    tables: ReplyTables, call: Call[AnyReply], queue_id: int, properties: bytes, now: int
) -> PushReplyMessageToClient:
    """The request that takes a reply to its producer."""
    request = call.request
    return PushReplyMessageToClient(
        producer_group=request.producer_group,
        topic=request.topic,
        default_topic=request.default_topic,
        default_topic_queue_nums=request.default_topic_queue_nums,
        queue_id=queue_id,
        sys_flag=request.sys_flag,
        born_timestamp=request.born_timestamp,
        flag=request.flag,
        born_host=call.peer.address,
        store_host=tables.identity.address,
        store_timestamp=now,
        properties=properties.decode(),
        reconsume_times=request.reconsume_times or 0,
        unit_mode=bool(request.unit_mode),
        body=bytes(request.body),
    )


def _store(tables: ReplyTables, call: Call[AnyReply], reply: SendReply, properties: bytes, now: int) -> None:
    """Stores a reply, and notes in the answer where it is."""
    request, host = call.request, tables.identity.host
    message = PendingMessage(
        request.topic, reply.queue_id, request.flag, request.sys_flag, request.born_timestamp,
        call.peer.host, host, request.reconsume_times or 0, 0, bytes(request.body), properties,
    )  # fmt: skip
    stored = tables.store.append(message, now)
    if stored.status is PutStatus.PUT_OK:
        reply.msg_id = offset_message_id(host, stored.physical_offset)
        reply.queue_offset = stored.queue_offset

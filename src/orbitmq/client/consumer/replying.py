"""Replies to requests that came as messages: handed to a broker, which hands them to whoever asked."""

from __future__ import annotations

from orbitmq.client.consumer.context import ConsumerContext
from orbitmq.client.core.errors import IllegalMessage
from orbitmq.client.core.handlers import Reply
from orbitmq.client.core.instance import now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.names import INNER_PRODUCER_GROUP
from orbitmq.client.core.options import ProducerOptions
from orbitmq.client.sending.attempts import BrokerUnknown
from orbitmq.protocol.names import (
    AUTO_CREATE_TOPIC,
    CLUSTER,
    CORRELATION_ID,
    MSG_TYPE,
    REPLY_TO_CLIENT,
    REPLY_TOPIC_SUFFIX,
    TTL,
    UNIQ_KEY,
    WAIT,
)
from orbitmq.protocol.records.compression import deflated_if_smaller
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.send import SendReplyMessageV2

TIMEOUT_MS = 3000
COMPRESS_OVER_BYTES = ProducerOptions.compress_msg_body_over_bytes


async def send_reply(session: ConsumerContext, message: ReceivedMessage, reply: Reply) -> None:
    """Has the broker that held the request hand `reply` to the client that asked.

    Raises IllegalMessage where `message` is no request; BrokerRefused where the client is not there any more;
    what the network says.
    """
    asked = message.properties
    missing = [name for name in (CORRELATION_ID, REPLY_TO_CLIENT, CLUSTER) if not asked.get(name)]
    if missing:
        raise IllegalMessage(f"nobody waits for a reply: the message has no {' and no '.join(missing)}")
    # The broker that got the request knows the client that sent it.
    address = session.instance.routes.master_of(message.queue)
    if address is None:
        raise BrokerUnknown(f"no master of broker {message.queue.broker_name} is known")
    properties = {
        **reply.properties,
        MSG_TYPE: "reply",
        CORRELATION_ID: asked[CORRELATION_ID],
        REPLY_TO_CLIENT: asked[REPLY_TO_CLIENT],
        UNIQ_KEY: session.instance.unique_ids.new(now_ms()),
        WAIT: "true",
    }
    if TTL in asked:
        properties[TTL] = asked[TTL]
    body, sys_flag = reply.body, 0
    if len(body) >= COMPRESS_OVER_BYTES:
        body, sys_flag = deflated_if_smaller(body)
    request = SendReplyMessageV2(
        INNER_PRODUCER_GROUP,
        f"{asked[CLUSTER]}_{REPLY_TOPIC_SUFFIX}",
        AUTO_CREATE_TOPIC,
        4,
        0,
        sys_flag,
        now_ms(),
        0,
        encode_properties(properties).decode(),
        0,
        False,
        None,
        False,
        message.queue.broker_name,
        body,
    )
    await session.instance.call(address, request, TIMEOUT_MS)

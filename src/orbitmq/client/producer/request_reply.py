"""Requests sent as messages: who asks waits until a broker hands over the reply of whoever handled it."""

from __future__ import annotations

import asyncio
import uuid
import zlib

from orbitmq.client.core.errors import NotRunning
from orbitmq.client.core.instance import now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.reading import BodyLimits, read_record
from orbitmq.net.connection import Connection
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Malformed, OrbitError, Refused
from orbitmq.protocol.names import ARRIVE_TIME, CORRELATION_ID, REPLY_TO_CLIENT, TTL
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import decode_properties, encode_properties
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.send import PushReplyMessageToClient
from orbitmq.protocol.schema.declare import Void

UNKNOWN_HOST = bytes(8)


class Questions:
    """The requests of one producer that wait for their reply."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[StoredMessage]] = {}

    def ask(self, client_id: str, timeout_ms: float) -> tuple[dict[str, str], asyncio.Future[StoredMessage]]:
        """The properties that make a message a request, and the reply to come, for `read_reply`.

        The caller takes it back with `forget`.
        """
        correlation_id = str(uuid.uuid4())
        reply = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        properties = {
            CORRELATION_ID: correlation_id,
            REPLY_TO_CLIENT: client_id,
            TTL: str(max(1, int(timeout_ms))),
        }
        return properties, reply

    def forget(self, properties: dict[str, str]) -> None:
        """The reply is no longer waited for."""
        self._waiting.pop(properties[CORRELATION_ID], None)

    def close(self) -> None:
        """No reply comes any more: who waits for one gets NotRunning."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(NotRunning("the producer was closed before a reply came"))
                waiting.exception()  # whoever asked may have stopped waiting just now

    def on_requests(self, connection: Connection, commands: list[Command]) -> None:
        """Takes what one read of a connection brought."""
        for command in commands:
            reply = self._serve(command)
            if not command.is_oneway:
                connection.send(reply)

    def _serve(self, command: Command) -> Command:
        try:
            if command.code != PushReplyMessageToClient.CODE:
                raise Refused(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
                )
            self._handle_reply(PushReplyMessageToClient.from_command(command))
        except Refused as refused:
            return Command.refusal(refused, command.opaque)
        except (Malformed, OrbitError) as error:
            return Command.refusal(Refused(ResponseCode.SYSTEM_ERROR, str(error)), command.opaque)
        return Void().to_command(command.opaque)

    def _handle_reply(self, push: PushReplyMessageToClient) -> None:
        properties = decode_properties((push.properties or "").encode())
        correlation_id = properties.get(CORRELATION_ID)
        if correlation_id is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"a reply without {CORRELATION_ID}")
        waiting = self._waiting.pop(correlation_id, None)
        # The asker may have given up: the broker need not hear of it.
        if waiting is not None and not waiting.done():
            properties[ARRIVE_TIME] = str(now_ms())
            waiting.set_result(_record_of(push, properties))


async def read_reply(record: StoredMessage, limit_bytes: int) -> ReceivedMessage:
    """The reply for whoever asked. Raises UnreadableBody, BodyTooLarge for one above `limit_bytes`."""
    queue = MessageQueue(record.topic, "", record.queue_id)
    message = await read_record(record, queue, BodyLimits(limit_bytes))
    if message.body_error is not None:
        raise message.body_error
    return message


def _record_of(push: PushReplyMessageToClient, properties: dict[str, str]) -> StoredMessage:
    body = bytes(push.body)
    return StoredMessage(
        topic=push.topic,
        body=body,
        properties=encode_properties(properties),
        queue_id=push.queue_id,
        queue_offset=0,
        physical_offset=0,
        flag=push.flag,
        sys_flag=push.sys_flag,
        born_timestamp=push.born_timestamp,
        born_host=_packed(push.born_host),
        store_timestamp=push.store_timestamp,
        store_host=_packed(push.store_host),
        reconsume_times=push.reconsume_times or 0,
        prepared_transaction_offset=0,
        body_crc=zlib.crc32(body) & 0x7FFFFFFF,
        size=len(body),
    )


def _packed(address: str) -> bytes:
    """`ip:port`, in Java's spelling too (`/ip:port`, `name/ip:port`); nothing for what is neither."""
    ip, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        return pack_host(ip.strip("[]"), int(port))
    except (OrbitError, ValueError):
        return UNKNOWN_HOST

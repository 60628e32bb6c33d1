"""What becomes of a message that was not handled: the broker hands it out again later, or gives it up."""

from __future__ import annotations

from orbitmq.client.instance import now_ms
from orbitmq.client.message import ReceivedMessage
from orbitmq.client.names import INNER_PRODUCER_GROUP
from orbitmq.client.options import ProducerOptions
from orbitmq.client.sending import Sender
from orbitmq.client.session import Session
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import (
    AUTO_CREATE_TOPIC,
    DELAY,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    RECONSUME_TIME,
    RETRY_TOPIC,
    retry_topic,
)
from orbitmq.protocol.properties import encode_properties
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2

TIMEOUT_MS = 5000
FIRST_DELAY_LEVEL = 3
"""10 s: what a message waits that comes again for the first time."""
STORED_BY_BROKERS = ("REAL_TOPIC", "REAL_QID", "POP_CK", "TRAN_MSG")
"""Properties that would send the copy of a message another way."""


class SendBack:
    """Sends messages of one consumer back."""

    def __init__(self, session: Session) -> None:
        self._session = session
        options = session.options
        self._sender = Sender(
            session.instance,
            ProducerOptions(INNER_PRODUCER_GROUP, options.namesrv, send_msg_timeout_ms=TIMEOUT_MS),
        )

    async def to_broker(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Asks the broker that has the message to hand it out again, or to give it up after too many times.

        Where that fails, a copy is sent to the group's retry topic. False: neither worked.
        """
        session = self._session
        instance = session.instance
        address = instance.routes.master(message.queue.broker_name)
        if address is not None:
            request = ConsumerSendMsgBack(
                message.physical_offset,
                session.group,
                delay_level,
                message.message_id,
                message.wire_topic,
                False,
                session.max_reconsume_times,
            )
            try:
                await instance.call(address, request, TIMEOUT_MS)
            except OrbitError as error:
                instance.report(f"send back to {address}", error, at=address)
            else:
                instance.well(f"send back to {address}")
                return True
        return await self.as_copy(message)

    async def as_copy(self, message: ReceivedMessage) -> bool:
        """Sends a copy to the group's retry topic; the broker gives it up if it came too often."""
        session = self._session
        reconsume_times = message.reconsume_times + 1
        properties = {
            name: value for name, value in message.properties.items() if name not in STORED_BY_BROKERS
        }
        properties.setdefault(ORIGIN_MESSAGE_ID, message.offset_message_id)
        properties[RETRY_TOPIC] = message.wire_topic
        properties[RECONSUME_TIME] = str(reconsume_times)
        properties[MAX_RECONSUME_TIMES] = str(session.max_reconsume_times)
        if reconsume_times <= session.max_reconsume_times:
            properties[DELAY] = str(FIRST_DELAY_LEVEL + message.reconsume_times)
        else:
            # It becomes a dead letter: brokers before 5.0 would let it wait all the same.
            properties.pop(DELAY, None)
        request = SendMessageV2(
            INNER_PRODUCER_GROUP,
            retry_topic(session.group),
            AUTO_CREATE_TOPIC,
            4,
            0,
            0,
            now_ms(),
            message.flag,
            encode_properties(properties).decode(),
            reconsume_times,
            False,
            session.max_reconsume_times,
            False,
            None,
            message.body,
        )
        try:
            await self._sender.send(request, None, TIMEOUT_MS)
        except OrbitError as error:
            session.instance.report(f"copy to {retry_topic(session.group)}", error)
            return False
        session.instance.well(f"copy to {retry_topic(session.group)}")
        return True

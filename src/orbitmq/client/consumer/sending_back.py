"""The fate of a message that was not handled: the broker hands it out again later, or gives it up."""

from __future__ import annotations

from orbitmq.client.consumer.context import ConsumerContext
from orbitmq.client.consumer.dead_letters import reason_of
from orbitmq.client.core.errors import MessageStays
from orbitmq.client.core.handlers import HoldBack, Retry
from orbitmq.client.core.instance import HANDLER, now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.names import INNER_PRODUCER_GROUP
from orbitmq.client.core.options import ProducerOptions
from orbitmq.client.sending.attempts import Sender
from orbitmq.protocol.bodies.static_topic import LOGICAL_BROKER_PREFIX
from orbitmq.protocol.delay_levels import FIRST_RETRY_LEVEL
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import (
    AUTO_CREATE_TOPIC,
    DELAY,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    POP_CK,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RECONSUME_TIME,
    RETRY_PREFIX,
    RETRY_TOPIC,
    TRANSACTION_PREPARED,
    retry_topic,
)
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.send import ConsumerSendMsgBack, SendMessageV2

TIMEOUT_MS = 5000
STORED_BY_BROKERS = (
    REAL_TOPIC,
    REAL_QUEUE_ID,
    POP_CK,
    TRANSACTION_PREPARED,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
)
"""Properties that would send the copy of a message another way."""


class SendBack:
    """Sends messages of one consumer back."""

    def __init__(self, session: ConsumerContext) -> None:
        self._session = session
        options = session.options
        self._sender = Sender(
            session.instance,
            ProducerOptions(INNER_PRODUCER_GROUP, options.namesrv, send_msg_timeout_ms=TIMEOUT_MS),
        )

    async def to_broker(self, message: ReceivedMessage, retry: Retry) -> bool:
        """Asks the broker that has the message to hand it out again, or to give it up after too many times.

        Where that fails, a copy is sent to the group's retry topic. A message to be given up goes as a copy
        first, for that says why. False: neither worked.
        """
        session = self._session
        instance = session.instance
        retry = session.under_policy(message, retry)
        gives_up = session.gives_up(message, retry)
        if gives_up:
            try:
                await self._send_copy(message, retry)
            except OrbitError as error:
                # Too large as a copy, or not permitted: the dead letter is kept, without the reason.
                instance.report(f"copy to {retry_topic(session.group)}", error, lasting=False)
            else:
                return True
        # Of a logical queue, the broker that has the message may be one that leads it no more.
        is_logical = message.queue.broker_name.startswith(LOGICAL_BROKER_PREFIX)
        address = None if is_logical else instance.routes.master_of(message.queue)
        if address is not None:
            request = ConsumerSendMsgBack(
                message.physical_offset,
                session.group,
                retry.delay_level,
                message.message_id,
                message.wire_topic,
                False,
                session.max_reconsume_times,
                message.queue.broker_name,
            )
            try:
                await instance.call(address, request, TIMEOUT_MS)
            except OrbitError as error:
                instance.report(f"send back to {address}", error, at=address)
            else:
                instance.recovered(f"send back to {address}")
                return True
        return not gives_up and await self.as_copy(message, retry)

    async def in_place(self, message: ReceivedMessage, outcome: Retry | None) -> float:
        """Settles a message that is repeated in place: gives the seconds to wait before it is.

        0 where it is done, or given up.
        """
        session = self._session
        if outcome is None:
            return 0
        if isinstance(outcome, HoldBack):
            return outcome.pause_ms / 1000
        outcome = session.under_policy(message, outcome)
        if not session.gives_up(message, outcome):
            pause_ms = session.pause_in_place_ms(message, outcome)
            message.reconsume_times += 1
            if session.stays(message):
                error = MessageStays(message.topic, message.keys, message.reconsume_times)
                session.instance.report(f"{HANDLER}{message.topic}", error, lasting=False)
            return pause_ms / 1000
        if await self.as_copy(message, outcome):
            return 0
        message.reconsume_times += 1
        return session.options.suspend_current_queue_time_ms / 1000

    async def as_copy(self, message: ReceivedMessage, retry: Retry) -> bool:
        """Sends a copy to the group's retry topic; the broker gives it up if it came too often."""
        session = self._session
        try:
            await self._send_copy(message, retry)
        except OrbitError as error:
            session.instance.report(f"copy to {retry_topic(session.group)}", error)
            return False
        session.instance.recovered(f"copy to {retry_topic(session.group)}")
        return True

    async def _send_copy(self, message: ReceivedMessage, retry: Retry) -> None:
        """Raises what a send raises."""
        session = self._session
        reconsume_times = message.reconsume_times + 1
        gives_up = session.gives_up(message, retry)
        most = (
            min(session.max_reconsume_times, message.reconsume_times)
            if gives_up
            else session.max_reconsume_times
        )
        properties = {
            name: value for name, value in message.properties.items() if name not in STORED_BY_BROKERS
        }
        if not message.queue.topic.startswith(RETRY_PREFIX):
            properties.pop(ORIGIN_MESSAGE_ID, None)  # its sender wrote it
        properties.setdefault(ORIGIN_MESSAGE_ID, message.offset_message_id)
        properties[RETRY_TOPIC] = message.wire_topic
        properties[RECONSUME_TIME] = str(reconsume_times)
        properties[MAX_RECONSUME_TIMES] = str(most)
        if gives_up:
            # It becomes a dead letter: brokers before 5.0 would let it wait all the same.
            properties.pop(DELAY, None)
            properties.update(reason_of(retry, session.instance.client_id, reconsume_times))
        else:
            properties[DELAY] = str(FIRST_RETRY_LEVEL + message.reconsume_times)
        body, sys_flag = message.stored_body
        request = SendMessageV2(
            INNER_PRODUCER_GROUP,
            retry_topic(session.group),
            AUTO_CREATE_TOPIC,
            4,
            0,
            sys_flag,
            message.born_timestamp_ms if gives_up else now_ms(),
            message.flag,
            encode_properties(properties).decode(),
            reconsume_times,
            False,
            most,
            False,
            None,
            body,
        )
        await self._sender.send(request, None, TIMEOUT_MS)

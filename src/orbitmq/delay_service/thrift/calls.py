"""Calls of DDMQ's SDKs, carried out: delayed messages go through the source topic, others to their own.

A call is answered with OK only once the cluster has stored what it brought.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any

from orbitmq.client import IllegalMessage, IllegalName, SendFailed, TopicNotFound
from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.ddmq import CANCEL, ORDER
from orbitmq.delay_service.rules.ddmq_requests import (
    Code,
    DelayRequest,
    RequestRefused,
    ThriftCounts,
    cancelled_id,
    check_action,
    check_message,
    new_id,
)
from orbitmq.delay_service.rules.intake import queue_of, way_of
from orbitmq.delay_service.rules.targets import WEBHOOK, Target
from orbitmq.delay_service.thrift.codec import (
    PROTOCOL_ERROR,
    UNKNOWN_METHOD,
    Call,
    error_frame,
    result_frame,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.names import KEYS, TAGS

if TYPE_CHECKING:
    from orbitmq.delay_service.engine import Engine
    from orbitmq.delay_service.service import Service

log = logging.getLogger(__name__)

MAX_BODY = 4 << 20
LONGEST_SECONDS = 10.0
"""Time after which a call is answered with a timeout, if its sender does not ask for less."""
HEARTBEAT = "carrera_heartbeat"
"""A message to this topic is a probe, and is not stored."""
BY_HASH = -1
_CODES: dict[int, Code] = {
    ResponseCode.MESSAGE_ILLEGAL: Code.ILLEGAL,
    ResponseCode.SYSTEM_BUSY: Code.TOO_FAST,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_MISSING,
}


class Calls:
    """Carries calls out."""

    def __init__(self, delay: Service) -> None:
        self._delay = delay
        settings = delay.settings
        self._known = settings.known
        self._cluster = settings.thrift_cluster
        self._delay_topics = settings.thrift_topics
        self._inner_topics = max(1, settings.ddmq_sources)
        self.counts = ThriftCounts()
        self.stopping = False

    async def carry_out(self, call: Call) -> bytes:
        method = call.method
        if call.problem:
            return error_frame(call, PROTOCOL_ERROR, call.problem)
        if call.arguments is None:
            return error_frame(call, UNKNOWN_METHOD, f"there is no method {method!r}")
        id = ""
        try:
            if self.stopping:
                raise RequestRefused(Code.STOPPING, "the service is stopping")
            async with asyncio.timeout(_seconds(getattr(call.arguments, "timeout", None))):
                if method == "sendDelaySync":
                    id = await self._send_delay(_given(call.arguments.message, "message"))
                elif method == "sendBatchSync":
                    await self._send_all(_given(call.arguments.messages, "messages"))
                else:
                    await self._send_all([_given(call.arguments.message, "message")])
            code, reason = Code.OK, "OK"
        except RequestRefused as refused:
            code, reason = refused.code, str(refused)
        except TimeoutError:
            code, reason = Code.TIMEOUT, "the cluster has not answered in time: the message may be stored"
        except Exception as error:
            code, reason = code_of(error), f"{type(error).__name__}: {error}"
            if not isinstance(error, OrbitError):
                log.warning("thrift: %s: %s", method, reason)
        self.counts.results[method, int(code)] += 1
        if code is not Code.OK and method == "sendDelaySync" and call.arguments.message is not None:
            id = call.arguments.message.uniqDelayMsgId or ""
        return result_frame(call, code, reason, id)

    # Delayed messages.

    async def _send_delay(self, message: Any) -> str:
        request = _delay_request(message)
        check_message(request.tags, request.properties, request.body, MAX_BODY)
        target = await self._target(request.topic)
        if self._delay_topics and request.topic not in self._delay_topics:
            raise RequestRefused(Code.NO_DELAY_TOPIC, f"{request.topic} takes no delayed messages")
        check_action(request.action)
        engine = self._engine
        writer, topic = self._delay.writer, self._delay.settings.delay_topic
        if request.action == CANCEL:
            id = cancelled_id(request, self._inner_topics)
            control = {"delay.action": "cancel", "delay.id": id.uuid}
            queue = queue_of(engine.store, self._cluster, id.uuid)
            topic, queue = way_of(self._known, self._cluster, "", queue, topic)
            await writer.write(self._cluster, topic, control, b"c", queue=queue)
            return request.id
        id = new_id(request, _new_uuid, engine.now() // 1000)
        control = {
            "delay.action": "schedule",
            "delay.topic": str(target) if target.cluster != WEBHOOK else target.topic,
            "delay.id": id.uuid,
            ORDER: str(id),
        }
        own = dict(request.properties)
        if request.tags:
            own[TAGS] = request.tags
        await writer.write(self._cluster, topic, control, request.body, own)
        return str(id)

    @property
    def _engine(self) -> Engine:
        engine = self._delay.engine
        if engine is None:
            raise RequestRefused(Code.UNKNOWN, self._delay.problem or "the store is not open")
        return engine

    async def _target(self, text: str) -> Target:
        """The target of a topic, which has to be there. Raises RequestRefused."""
        cluster, slash, topic = text.partition("/")
        target = Target(cluster, topic) if slash else Target(self._cluster, text)
        if target in self._known.sources:
            raise RequestRefused(Code.ILLEGAL, f"topic: {target} is a source of the service")
        try:
            target = self._known.target("topic", self._cluster, text)
            if target.cluster != WEBHOOK:
                await self._delay.writer.queues(target.cluster, target.topic)
        except (NotSchedulable, TopicNotFound) as error:
            raise RequestRefused(Code.TOPIC_UNKNOWN, str(error)) from None
        return target

    # Messages that are sent at once.

    async def _send_all(self, messages: list[Any]) -> None:
        if not messages:
            raise RequestRefused(Code.ILLEGAL, "there is no message")
        found = [(one, *_plain(one)) for one in messages]
        for one, body, _ in found:
            if one.topic != HEARTBEAT:
                check_message(one.tags or "", _texts(one.properties), body, MAX_BODY)
                if one.topic in self._delay_topics:
                    raise RequestRefused(Code.DELAY_TOPIC, f"{one.topic} takes delayed messages alone")
        for one, body, own in found:
            if one.topic != HEARTBEAT:
                await self._send(one, body, own)

    async def _send(self, message: Any, body: bytes, own: dict[str, str]) -> None:
        target = await self._target(message.topic or "")
        if target.cluster == WEBHOOK:
            raise RequestRefused(Code.TOPIC_UNKNOWN, "topic: a web address takes delayed messages alone")
        writer = self._delay.writer
        queues = await writer.queues(target.cluster, target.topic)
        number = message.partitionId if message.partitionId is not None else BY_HASH
        if number >= len(queues):
            raise RequestRefused(Code.ILLEGAL, f"partitionId: {number}, and there are {len(queues)} queues")
        queue = None
        if number >= 0:
            queue = queues[number]
        elif number == BY_HASH:
            queue = queues[abs(message.hashId or 0) % len(queues)]
        await writer.write(target.cluster, target.topic, {}, body, own, queue)


def _given(value: Any, name: str) -> Any:
    if value is None:
        raise RequestRefused(Code.ILLEGAL, f"{name}: it is missing")
    return value


def _seconds(timeout_ms: int | None) -> float:
    if timeout_ms is None or timeout_ms <= 0:
        return LONGEST_SECONDS
    return min(timeout_ms / 1000, LONGEST_SECONDS)


def _new_uuid() -> str:
    return str(uuid.uuid1())


def _texts(properties: dict[str, str] | None) -> dict[str, str]:
    return properties or {}


def _delay_request(message: Any) -> DelayRequest:
    return DelayRequest(
        topic=message.topic or "",
        body=message.body or b"",
        action=message.action or 0,
        id=message.uniqDelayMsgId or "",
        tags=message.tags or "",
        timestamp=message.timestamp or 0,
        type=message.dmsgtype or 0,
        interval=message.interval or 0,
        expire=message.expire or 0,
        times=message.times or 0,
        uuid=message.uuid or "",
        properties=_texts(message.properties),
    )


def _plain(message: Any) -> tuple[bytes, dict[str, str]]:
    """Body and properties of a message that is sent at once."""
    own = dict(_texts(message.properties))
    if message.tags:
        own[TAGS] = message.tags
    if message.key:
        own[KEYS] = message.key
    return message.body or (message.value or "").encode(), own


def code_of(error: Exception) -> Code:
    """The code of a send that failed."""
    cause = error.failures[-1][1] if isinstance(error, SendFailed) and error.failures else error
    if isinstance(cause, NotSchedulable | IllegalMessage | IllegalName):
        return Code.ILLEGAL
    if isinstance(cause, TopicNotFound):
        return Code.TOPIC_MISSING
    if isinstance(cause, BrokerRefused):
        return _CODES.get(cause.code, Code.UNKNOWN)
    return Code.UNKNOWN

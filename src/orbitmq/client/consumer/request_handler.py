"""Requests of brokers to a consumer: to rebalance, to reset offsets, to report on itself, to handle a
message.
"""

from __future__ import annotations

import asyncio
import io
import time
from typing import TYPE_CHECKING, Any

from orbitmq.client.core.handlers import Retry
from orbitmq.client.core.instance import now_ms
from orbitmq.client.core.namespaces import unwrap
from orbitmq.client.core.reading import BodyLimits, read_answer
from orbitmq.net.connection import Connection
from orbitmq.protocol.bodies.offset import GetConsumerStatusBody, ResetOffsetBody, ResetOffsetBodyForC
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.running import (
    LOOP_BLOCKED_AT,
    LOOP_BLOCKED_LAST_MS,
    LOOP_BLOCKED_LONGEST_MS,
    LOOP_BLOCKED_TIMES,
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Malformed, Refused
from orbitmq.protocol.names import RETRY_PREFIX, RETRY_TOPIC
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    NotifyConsumerIdsChanged,
)
from orbitmq.protocol.requests.offset import GetConsumerStatusFromClient, ResetConsumerClientOffset
from orbitmq.protocol.schema.declare import Bytes, JsonReply, Reply

if TYPE_CHECKING:
    from orbitmq.client.consumer.assignment import Assignment
    from orbitmq.client.consumer.consuming import Handling
    from orbitmq.client.consumer.context import ConsumerContext

CLIENT_VERSION = "V5_4_0"
RESET_WAIT_SECONDS = 10.0
"""Time that handlers have before offsets are set to other values."""


class Serving:
    """Answers brokers on behalf of one running consumer."""

    def __init__(self, session: ConsumerContext, assignment: Assignment, handling: Handling) -> None:
        self._session = session
        self._assignment = assignment
        self._handling = handling

    def on_requests(self, connection: Connection, commands: list[Command]) -> None:
        """Takes what one read of a connection brought."""
        for command in commands:
            work = self._serve(connection, command)
            self._session.instance.tasks.start(work, f"request {command.code} of {connection.peer.address}")

    async def _serve(self, connection: Connection, command: Command) -> None:
        try:
            answer = await self._answer(command)
        except Refused as refused:
            reply = Command.refusal(refused, command.opaque)
        except Malformed as error:
            reply = Command.refusal(Refused(ResponseCode.SYSTEM_ERROR, str(error)), command.opaque)
        else:
            if answer is None:
                return
            reply = answer.to_command(command.opaque)
        if not command.is_oneway:
            connection.send(reply)

    async def _answer(self, command: Command) -> Reply | None:
        match command.code:
            case NotifyConsumerIdsChanged.CODE:
                self._assignment.wake.set()
            case ResetConsumerClientOffset.CODE:
                await self._reset(ResetConsumerClientOffset.from_command(command))
            case GetConsumerStatusFromClient.CODE:
                return self._status(GetConsumerStatusFromClient.from_command(command))
            case GetConsumerRunningInfo.CODE:
                return self._running_info(GetConsumerRunningInfo.from_command(command))
            case ConsumeMessageDirectly.CODE:
                return await self._consume(ConsumeMessageDirectly.from_command(command))
            case code:
                raise Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")
        return None

    def _check_group(self, group: str) -> None:
        if group != self._session.group:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the consumer group <{group}> does not exist in this client",
            )

    async def _reset(self, request: ResetConsumerClientOffset) -> None:
        if request.group == self._session.group and request.body:
            await self._assignment.reset(request.topic, _new_offsets(request.body), RESET_WAIT_SECONDS)

    def _status(self, request: GetConsumerStatusFromClient) -> Reply:
        self._check_group(request.group)
        offsets = self._session.offsets
        table = {
            queue: offset
            for queue in self._assignment.queues
            if queue.topic == request.topic and (offset := offsets.known(queue)) is not None
        }
        return JsonReply(GetConsumerStatusBody(message_queue_table=table))

    def _running_info(self, request: GetConsumerRunningInfo) -> Reply:
        self._check_group(request.consumer_group)
        session, assignment = self._session, self._assignment
        table = {}
        for queue in assignment.queues:
            held = assignment.held(queue)
            if held is not None:
                table[queue] = held.info(max(session.offsets.known(queue) or 0, 0))
        info = ConsumerRunningInfo(
            properties=self._properties(),
            subscription_set=[row.data for row in session.subscriptions.values()],
            mq_table=table,
            status_table={topic: stats.status(now_ms()) for topic, stats in session.stats.items()},
        )
        if request.jstack_enable:
            info.jstack = stacks()
        return JsonReply(info)

    def _properties(self) -> dict[str, str]:
        session = self._session
        options = session.options
        settings: dict[str, Any] = {
            "consumerGroup": options.group,
            "messageModel": "BROADCASTING" if options.broadcasting else "CLUSTERING",
            "consumeFromWhere": options.consume_from_where.name,
            "consumeThreadMax": options.concurrency,
            "consumeThreadMin": options.concurrency,
            "maxReconsumeTimes": options.max_reconsume_times,
            "pullBatchSize": options.pull_batch_size,
            "pullInterval": options.pull_interval_ms,
            "pullThresholdForQueue": options.pull_threshold_for_queue,
            "pullThresholdSizeForQueue": options.pull_threshold_size_for_queue_mib,
            "pullThresholdForTopic": options.pull_threshold_for_topic,
            "consumeConcurrentlyMaxSpan": options.consume_concurrently_max_span,
            "consumeTimeout": options.consume_timeout_ms // 60_000,
            "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in session.instance.names.addresses),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CLIENT_VERSION": CLIENT_VERSION,
            "PROP_CONSUMER_START_TIMESTAMP": session.instance.started_ms,
            "PROP_CONSUMEORDERLY": str(options.in_order).lower(),
            "PROP_THREADPOOL_CORE_SIZE": options.concurrency,
        }
        if (blocked := session.watch.blocked).times:
            settings |= {
                LOOP_BLOCKED_TIMES: blocked.times,
                LOOP_BLOCKED_LONGEST_MS: blocked.longest_ms,
                LOOP_BLOCKED_LAST_MS: blocked.last_ms,
                LOOP_BLOCKED_AT: blocked.place,
            }
        return {name: str(value) for name, value in settings.items()}

    async def _consume(self, request: ConsumeMessageDirectly) -> Reply:
        self._check_group(request.consumer_group)
        result = ConsumeMessageDirectlyResult(order=self._session.options.in_order)
        started = time.monotonic()
        queue = MessageQueue(request.topic or "", request.broker_name or "", 0)
        limits = BodyLimits(self._session.options.max_inflated_body_bytes)
        answer = await read_answer(request.body, queue, limits=limits)
        if not answer.messages:
            why = answer.problems[0] if answer.problems else "no body"
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no message: {why}")
        message = answer.messages[0]
        record = message.record
        message.queue = MessageQueue(record.topic, queue.broker_name, record.queue_id)
        retried = message.properties.get(RETRY_TOPIC) if record.topic.startswith(RETRY_PREFIX) else None
        message.wire_topic = retried or record.topic
        message.topic = unwrap(self._session.options.namespace, message.wire_topic)
        subscription = self._session.subscription_of(message.wire_topic)
        if subscription is None or subscription.handler is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"nothing handles {message.topic} by itself in this client"
            )
        try:
            if message.body_error is not None:
                raise message.body_error
            outcome = await self._handling.call(subscription, [message])
        except Exception as error:
            result.consume_result = CMResult.CR_THROW_EXCEPTION
            result.remark = f"{type(error).__name__}: {error}"
        else:
            later = isinstance(outcome, Retry)
            result.consume_result = CMResult.CR_LATER if later else CMResult.CR_SUCCESS
        result.spent_time_mills = int((time.monotonic() - started) * 1000)
        return JsonReply(result)


def _new_offsets(body: ResetOffsetBody | ResetOffsetBodyForC | Bytes) -> dict[MessageQueue, int]:
    """The offsets by queue, in whichever form the broker sends them."""
    if not isinstance(body, ResetOffsetBody | ResetOffsetBodyForC):
        text = bytes(body)
        try:
            body = ResetOffsetBody.from_json(text)
        except Malformed:
            body = ResetOffsetBodyForC.from_json(text)
    if isinstance(body, ResetOffsetBody):
        return dict(body.offset_table)
    return {
        MessageQueue(row.topic, row.broker_name, row.queue_id): row.offset for row in body.offset_table or ()
    }


def stacks() -> str:
    """Stacks of all tasks of the running loop, in place of Java's thread dump."""
    out = io.StringIO()
    for task in asyncio.all_tasks():
        task.print_stack(limit=20, file=out)
        out.write("\n")
    return out.getvalue()

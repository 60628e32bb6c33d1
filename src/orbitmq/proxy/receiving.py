"""Receives: from a call to pops of one broker, and from its records to messages."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from orbitmq.client.core.subscription import wants
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.handles.lite import LiteAnswer
from orbitmq.protocol.handles.pop import BadHandle, PopHandle, normal_topic
from orbitmq.protocol.records.compression import CompressionError
from orbitmq.protocol.records.inner_batch import is_inner_batch
from orbitmq.protocol.records.message import BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.protocol.requests.lite import LiteReply, PopLiteMessage
from orbitmq.protocol.requests.pop import PopMessage, PopReply
from orbitmq.proxy.checks import check_invisible_time, duration_ms, group_name, topic_name
from orbitmq.proxy.clients import Clients
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import OK, ProxyRefused, status_of
from orbitmq.proxy.lite.rules import LITE_CLIENTS
from orbitmq.proxy.messages import readable_messages, received_message
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.receipts import PopAnswer
from orbitmq.proxy.renewal import Renewals, Renewed
from orbitmq.proxy.routes import ANY_QUEUE
from orbitmq.proxy.settings import max_attempts
from orbitmq.proxy.settling import Settling
from orbitmq.proxy.subscriptions import subscription_of
from orbitmq.proxy.wire import messaging_pb2 as pb

log = logging.getLogger(__name__)

MOST_IN_A_POP = 32
FROM_THE_END = 1
"""Where a pop begins in a queue without an offset of its group."""
SPARE_MS = 3000
"""A broker answers a held pop within its time; this much longer the proxy waits for the answer."""


@dataclass(eq=False, repr=False)
class Receiving:
    """The call ReceiveMessage."""

    _cluster: Cluster
    _clients: Clients
    _settling: Settling
    _renewals: Renewals
    _settings: ProxySettings
    _now: Callable[[], int]

    def __post_init__(self) -> None:
        self._turns = itertools.count()
        self.received = 0
        """Messages given to clients since the start."""

    async def receive(
        self, request: pb.ReceiveMessageRequest, caller: Caller
    ) -> AsyncIterator[pb.ReceiveMessageResponse]:
        """The answers of a receive: a status, messages, and the time of delivery. Raises ProxyRefused."""
        group, topic = group_name(request.group), topic_name(request.message_queue.topic)
        client = self._clients.heard(caller.client_id, self._now())
        config = await self._cluster.group(group)
        fifo = client.settings.subscription.fifo
        invisible_ms = self._invisible_ms(request)
        poll_ms = waiting_ms(request, client.settings, caller, self._settings)
        subscription = subscription_of(topic, request.filter_expression)
        broker_name = await self._broker_name(request, topic)
        address = await self._cluster.master(broker_name)
        is_lite = client.settings.client_type in LITE_CLIENTS
        most = max(1, min(request.batch_size or 1, MOST_IN_A_POP))
        attempt_id = request.attempt_id or None
        wait_ms = poll_ms + SPARE_MS
        if is_lite:
            self._check_held(caller.client_id)
        reply: PopReply | LiteReply
        try:
            if is_lite:
                lite = PopLiteMessage(
                    caller.client_id, group, topic, most, invisible_ms, poll_ms, self._now(), attempt_id
                )
                reply = await self._cluster.call(address, lite, wait_ms)
            else:
                # Whichever queue the client names, as with Apache's proxy: simple consumers name all queues
                # in turn, and would wait at empty ones.
                pop = PopMessage(
                    group, topic, ANY_QUEUE,
                    most, invisible_ms, poll_ms, self._now(), FROM_THE_END, subscription.expression_type,
                    subscription.sub_string, fifo, attempt_id,
                )  # fmt: skip
                reply = await self._cluster.call(address, pop, wait_ms)
        except (NetError, BrokerRefused) as error:
            self._cluster.forget_route(topic)
            yield pb.ReceiveMessageResponse(status=status_of(error))
            return
        if reply.code == ResponseCode.POLLING_FULL:
            yield pb.ReceiveMessageResponse(
                status=pb.Status(code=pb.TOO_MANY_REQUESTS, message="the broker holds too many receives")
            )
            return
        records, bad = decode_records(reply.body or b"")
        answer = (
            LiteAnswer.of(reply, broker_name, -1 if bad else len(records))
            if isinstance(reply, LiteReply)
            else PopAnswer(reply, broker_name)
        )
        for one in bad:
            log.error("a record of %s at %s cannot be read: %s", topic, broker_name, one)
        found: list[tuple[pb.Message, PopHandle]] = []
        for place, record in enumerate(records):
            try:
                handle = answer.handle(record)
            except BadHandle as error:
                log.error("record %s was popped without a handle: %s", record.offset_id, error)
                continue
            number = answer.deliveries(place) if isinstance(answer, LiteAnswer) else answer.deliveries(record)
            found += await self._messages(record, handle, number, subscription, group, max_attempts(config))
        status = OK if found else pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no new message")
        given = 0
        try:
            yield pb.ReceiveMessageResponse(status=status)
            for message, handle in found:
                if request.auto_renew and self._settings.enable_proxy_auto_renew:
                    self._renew(caller.client_id, group, topic, message, handle)
                yield pb.ReceiveMessageResponse(message=message)
                given += 1
                self.received += 1
            last = pb.ReceiveMessageResponse()
            last.delivery_timestamp.FromMilliseconds(self._now())
            yield last
        finally:
            # The client is gone: others get soon what it did not get.
            for message, handle in found[given:]:
                self._renewals.remove(caller.client_id, message.system_properties.receipt_handle)
                self._settling.release_soon(group, topic, handle)

    def _renew(self, client_id: str, group: str, topic: str, message: pb.Message, handle: PopHandle) -> None:
        system = message.system_properties
        one = Renewed(
            group, topic, client_id, system.message_id, handle, self._now(), system.delivery_attempt
        )
        if not self._renewals.add(system.receipt_handle, one):
            log.warning("client %s holds too many messages: the next ones are not renewed", client_id)

    async def _messages(
        self,
        record: StoredMessage,
        handle: PopHandle,
        number: int,
        subscription: SubscriptionData,
        group: str,
        attempts: int,
    ) -> list[tuple[pb.Message, PopHandle]]:
        """The messages of one record that a client gets; others are acknowledged or become dead letters."""
        topic = normal_topic(record.topic, group)
        if not wants(subscription, record.tags) and not is_inner_batch(record.sys_flag):
            self._settling.acknowledge_soon(group, topic, handle)
            return []
        if number > attempts:
            self._settling.bury_soon(group, topic, handle)
            return []
        try:
            plain = await readable_messages(record)
        except (CompressionError, BadRecord) as error:
            log.error("record %s of %s cannot be inflated: %s", record.offset_id, topic, error)
            self._settling.bury_soon(group, topic, handle)
            return []
        return [
            (
                received_message(one, topic, handle, number, handle.invisible_ms),
                handle,
            )
            for one in plain
            if wants(subscription, one.tags)
        ]

    def _check_held(self, client_id: str) -> None:
        held = self._renewals.held_by(client_id)
        if held > self._settings.max_lite_renew_num_per_channel:
            raise ProxyRefused(
                pb.FORBIDDEN,
                f"The client [{client_id}] has too many unacked messages. Unacked count: {held}",
            )

    async def _broker_name(self, request: pb.ReceiveMessageRequest, topic: str) -> str:
        named = request.message_queue.broker.name
        if named:
            return named
        brokers = await self._cluster.readable_brokers(topic)
        if not brokers:
            raise ProxyRefused(pb.FORBIDDEN, f"{topic} has no readable queue")
        return brokers[next(self._turns) % len(brokers)]

    def _invisible_ms(self, request: pb.ReceiveMessageRequest) -> int:
        settings = self._settings
        if request.auto_renew and settings.enable_proxy_auto_renew:
            return settings.default_invisible_time_mills
        asked_ms = duration_ms(request.invisible_duration)
        low, high = settings.min_invisible_time_mills_for_recv, settings.max_invisible_time_mills
        check_invisible_time(asked_ms, low, high)
        return asked_ms


def waiting_ms(
    request: pb.ReceiveMessageRequest, settings: pb.Settings, caller: Caller, options: ProxySettings
) -> int:
    """The time that a receive may be held: as asked for, within the limits and the call's own deadline.

    Raises ProxyRefused for a call that ends before the shortest wait does.
    """
    low = options.grpc_client_consumer_min_long_polling_timeout_millis
    high = options.grpc_client_consumer_max_long_polling_timeout_millis
    left_ms = caller.deadline_ms
    if request.HasField("long_polling_timeout"):
        wanted_ms = float(duration_ms(request.long_polling_timeout))
    elif left_ms is not None:
        wanted_ms = left_ms - duration_ms(settings.request_timeout) / 2
    else:
        wanted_ms = high
    wait_ms = min(max(wanted_ms, low), high)
    if left_ms is None:
        return int(wait_ms)
    if left_ms < min(wait_ms, low):
        code = pb.ILLEGAL_POLLING_TIME if caller.knows_polling_time else pb.BAD_REQUEST
        raise ProxyRefused(
            code, f"the call has {left_ms:.0f} ms left, less than the shortest wait of {low} ms"
        )
    # Messages popped at the very end of a call do not reach the client.
    return int(max(0.0, min(wait_ms, left_ms - options.long_polling_reserve_time_in_millis)))

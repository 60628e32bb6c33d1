"""One send with all its tries: which queue, which broker, how often, and within which time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

from orbitmq.client.core.errors import ClientError, SendFailed
from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.options import ProducerOptions
from orbitmq.client.sending.latency import LatencyTable
from orbitmq.client.sending.queue_choice import RoundRobin
from orbitmq.net.errors import CallTimeout, Closed, NetError
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.static_topic import LOGICAL_BROKER_PREFIX
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, NoPermission, NotLeaderForQueue
from orbitmq.protocol.handles.recall import RecallHandle
from orbitmq.protocol.names import UNIQ_KEY
from orbitmq.protocol.records.properties import decode_properties, encode_properties
from orbitmq.protocol.requests.send import RecallMessage, SendBatchMessage, SendMessageV2, SendReply

CONNECT_BROKER = 10001
ACCESS_BROKER_TIMEOUT = 10002
BROKER_NOT_EXIST = 10003

V5_0_0 = 413
"""Brokers before it give every message of a batch the batch's own properties, its id among them."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
"""Pause before a failed send is repeated: twice as long each time, up to the longest."""
LOOK_SECONDS = 0.25
"""Interval of looks at the route while a broker is waited for that did not answer before."""

RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
        ResponseCode.NOT_LEADER_FOR_QUEUE,
    }
)
"""Error answers after which another broker may take the message (Apache's retryResponseCodes, and
that a logical queue has moved)."""
DECIDED_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
"""Those that the same broker gives again, whenever it is asked."""


class BrokerUnknown(ClientError):
    """The route names a broker whose master has no address now."""

    code = BROKER_NOT_EXIST


class MasterMoved(NetError):
    """A try was given up, for its broker is no master any more. It may have been carried out."""

    def __init__(self, address: str, broker_name: str) -> None:
        super().__init__(f"{address} is not the master of {broker_name} any more")
        self.address = address


class Sender:
    """Gets a request to a broker of its topic."""

    def __init__(self, instance: ClientInstance, options: ProducerOptions) -> None:
        self._instance = instance
        self._options = options
        self._latencies = LatencyTable() if options.send_latency_enable else None
        self._in_turn = RoundRobin(self._latencies)
        self._silent: set[str] = set()
        """Addresses that left a send without an answer, and have answered none since."""

    def known_queues(self, topic: str) -> Sequence[MessageQueue] | None:
        """The same as `queues` where nothing has to be looked up, else None."""
        namespace = self._options.namespace
        route = self._instance.routes.known_to_publish(wrap(namespace, topic) if namespace else topic)
        return None if route is None else route.publish_queues

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Queues that the topic can be sent to. Raises TopicNotFound, NoNameServer."""
        options = self._options
        topic = wrap(options.namespace, topic)
        route = await self._instance.routes.route_to_publish(
            topic, options.create_topic_key, options.default_topic_queue_nums
        )
        return route.publish_queues

    async def send(
        self,
        request: SendMessageV2 | SendBatchMessage,
        queue: MessageQueue | None,
        timeout_ms: float,
    ) -> tuple[MessageQueue, SendReply]:
        """Sends to `queue` with one try, or to any queue of the topic with several.

        Raises SendFailed when every try failed; the broker's refusal where no other would decide otherwise,
        or each has refused; TopicNotFound, NoNameServer, Closed.
        """
        options = self._options
        started = time.monotonic()
        tries = 1 if queue is not None else 1 + options.retry_times_when_send_failed
        failures: list[tuple[str, Exception]] = []
        last_broker: str | None = None
        refused_by: set[str | None] = set()
        code = 0
        if queue is not None:
            await self._know(queue)
        for _ in range(tries):
            now = time.monotonic()
            left_ms = timeout_ms - (now - started) * 1000
            if failures and left_ms <= 0:
                break
            if queue is None:
                queues = self.known_queues(request.topic) or await self.queues(request.topic)
                if refused_by and not (queues := self._queues_elsewhere(queues, refused_by)):
                    break
                chosen = self._in_turn.next(queues, now * 1000, last_broker)
            else:
                chosen = queue
            last_broker = self._instance.routes.broker_of(chosen)
            try:
                reply = await self._once(request, chosen, left_ms)
            except Closed:
                raise
            except BrokerRefused as error:
                unsigned = isinstance(error, NoPermission) and error.wants_signature
                if error.code not in RETRY_CODES or unsigned:
                    raise
                failures.append((last_broker, error))
                code = error.code
                if code in DECIDED_CODES:
                    refused_by.add(self._instance.routes.master(last_broker))
                # A master that was replaced refuses so, too.
                self._instance.refresh_route_soon(request.topic)
            except (NetError, BrokerUnknown) as error:
                failures.append((last_broker, error))
                code = _code_of(error)
                if isinstance(error, CallTimeout):
                    self._silent.add(error.address)
                self._instance.refresh_route_soon(request.topic)
            else:
                if self._instance.routes.is_template(request.topic):
                    self._instance.refresh_route_soon(request.topic)
                if reply.code == 0 or not options.retry_another_broker_when_not_store_ok or tries == 1:
                    return chosen, reply
                failures.append((last_broker, BrokerRefused(reply.code, reply.remark)))
                code = reply.code
        last = failures[-1][1]
        if all(isinstance(error, BrokerRefused) and error.code in DECIDED_CODES for _, error in failures):
            raise last
        raise SendFailed(request.topic, failures, code) from last

    def _queues_elsewhere(
        self, queues: Sequence[MessageQueue], refused_by: Collection[str | None]
    ) -> Sequence[MessageQueue]:
        """Those of other brokers than the ones at these addresses."""
        master_of = self._instance.routes.master_of
        return [queue for queue in queues if master_of(queue) not in refused_by]

    async def send_oneway(self, request: SendMessageV2, queue: MessageQueue | None) -> None:
        """Sends once and does not wait for the broker's word."""
        if queue is not None:
            await self._know(queue)
        else:
            queue = self._in_turn.next(await self.queues(request.topic), time.monotonic() * 1000)
        await self._instance.send_oneway(self._addressed(request, queue), request)

    async def recall(self, handle: RecallHandle, text: str, timeout_ms: float) -> str:
        """Takes a message back at the broker that has it; gives its unique id."""
        await self._know(MessageQueue(broker_name=handle.broker_name, queue_id=0, topic=handle.topic))
        address = self._instance.routes.master(handle.broker_name)
        if address is None:
            raise BrokerUnknown(f"no master of broker {handle.broker_name} is known")
        request = RecallMessage(handle.topic, text, self._options.group, handle.broker_name)
        reply = await self._instance.call(address, request, timeout_ms)
        return reply.msg_id

    async def _know(self, queue: MessageQueue) -> None:
        """Looks the topic up where a caller names a queue of which nothing was heard before."""
        if self._instance.routes.master_of(queue) is None:
            await self._instance.routes.refresh(queue.topic)

    def _once(
        self, request: SendMessageV2 | SendBatchMessage, queue: MessageQueue, timeout_ms: float
    ) -> Coroutine[Any, Any, SendReply]:
        """One try. Raises BrokerUnknown; awaited, what a call raises."""
        if queue.broker_name.startswith(LOGICAL_BROKER_PREFIX):
            return self._led(request, queue, timeout_ms)
        return self._to_broker(request, queue, timeout_ms)

    def _to_broker(
        self, request: SendMessageV2 | SendBatchMessage, queue: MessageQueue, timeout_ms: float
    ) -> Coroutine[Any, Any, SendReply]:
        address = self._addressed(request, queue)
        if self._latencies is None and isinstance(request, SendMessageV2):
            return self._call(address, request, queue, timeout_ms)
        return self._watched(address, request, queue, timeout_ms)

    def _call(
        self,
        address: str,
        request: SendMessageV2 | SendBatchMessage,
        queue: MessageQueue,
        timeout_ms: float,
    ) -> Coroutine[Any, Any, SendReply]:
        if address in self._silent:
            return self._call_unless_moved(address, request, queue, timeout_ms)
        return self._instance.call(address, request, timeout_ms)

    async def _call_unless_moved(
        self,
        address: str,
        request: SendMessageV2 | SendBatchMessage,
        queue: MessageQueue,
        timeout_ms: float,
    ) -> SendReply:
        """The same at a broker that may be paused: the route may name another master any moment."""
        call = asyncio.ensure_future(self._instance.call(address, request, timeout_ms))
        try:
            while not (await asyncio.wait([call], timeout=LOOK_SECONDS))[0]:
                with contextlib.suppress(NetError, BrokerRefused):
                    await self._instance.routes.refresh(request.topic)
                if self._instance.routes.master_of(queue) != address:
                    raise MasterMoved(address, queue.broker_name)
            reply = call.result()
        except BrokerRefused:
            self._silent.discard(address)
            raise
        finally:
            call.cancel()
        self._silent.discard(address)
        return reply

    async def _led(
        self,
        request: SendMessageV2 | SendBatchMessage,
        queue: MessageQueue,
        timeout_ms: float,
    ) -> SendReply:
        """The same for a logical queue, which may have moved since the route was heard of."""
        try:
            return await self._to_broker(request, queue, timeout_ms)
        except NotLeaderForQueue:
            await self._instance.routes.refresh(queue.topic)
            return await self._to_broker(request, queue, timeout_ms)

    async def _watched(
        self,
        address: str,
        request: SendMessageV2 | SendBatchMessage,
        queue: MessageQueue,
        timeout_ms: float,
    ) -> SendReply:
        """The same for a batch, as the broker knows it, and with a look at how long it takes."""
        if isinstance(request, SendBatchMessage) and await self._instance.version_of(address) < V5_0_0:
            request.properties = without_unique_id(request.properties or "")
        table = self._latencies
        if table is None:
            return await self._call(address, request, queue, timeout_ms)
        started = time.monotonic() * 1000
        try:
            reply = await self._call(address, request, queue, timeout_ms)
        except (NetError, BrokerRefused) as error:
            now = time.monotonic() * 1000
            table.failed(queue.broker_name, now, reachable=isinstance(error, BrokerRefused))
            raise
        now = time.monotonic() * 1000
        table.answered(queue.broker_name, now - started, now)
        return reply

    def _addressed(self, request: SendMessageV2 | SendBatchMessage, queue: MessageQueue) -> str:
        address = self._instance.routes.master_of(queue)
        if address is None:
            raise BrokerUnknown(f"no master of broker {self._instance.routes.broker_of(queue)} is known")
        request.queue_id = queue.queue_id
        request.broker_name = queue.broker_name
        return address


def without_unique_id(properties: str) -> str:
    """A batch's properties as clients of old brokers sent them."""
    kept = {name: value for name, value in decode_properties(properties).items() if name != UNIQ_KEY}
    return encode_properties(kept).decode()


def _code_of(error: Exception) -> int:
    if isinstance(error, CallTimeout):
        return ACCESS_BROKER_TIMEOUT
    if isinstance(error, BrokerUnknown):
        return BROKER_NOT_EXIST
    return CONNECT_BROKER

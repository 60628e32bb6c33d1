"""Reading queues by hand: the caller chooses queue and offset, and keeps the offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from orbitmq.client.consumer.offsets import Commits, OffsetTable
from orbitmq.client.core.checking import check_number, check_queue
from orbitmq.client.core.errors import NotRunning
from orbitmq.client.core.instance import ClientInstance, now_ms
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.option_help import documented
from orbitmq.client.core.options import ClientOptions
from orbitmq.client.core.reading import BodyLimits, read_answer
from orbitmq.client.core.routes import address_to_read
from orbitmq.client.core.subscription import Wanted, subscription
from orbitmq.net.errors import ConnectFailed, NetError
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import MASTER_ID
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.offset import (
    GetMaxOffset,
    GetMinOffset,
    SearchOffsetByTimestamp,
)
from orbitmq.protocol.requests.pull import MAY_BE_HELD, SUBSCRIPTION_IN_REQUEST, PullMessage


class Pulled(list[ReceivedMessage]):
    """The messages of one answer, none where there is nothing; and where to continue."""

    def __init__(
        self,
        messages: Iterable[ReceivedMessage],
        next_offset: int,
        min_offset: int,
        max_offset: int,
        moved: bool,
    ) -> None:
        super().__init__(messages)
        self.next_offset = next_offset
        """The queue offset to ask for next."""
        self.min_offset = min_offset
        """The queue offset of the oldest message there."""
        self.max_offset = max_offset
        """The queue offset that the next message will get."""
        self.moved = moved
        """The offset asked for is outside the queue; `next_offset` is inside."""


@documented()
@dataclass(eq=False)
class PullConsumer(ClientOptions):
    """Pulls messages from queues of the caller's choice.

        async with PullConsumer("audit") as consumer:
            for queue in await consumer.queues("orders"):
                offset = await consumer.min_offset(queue)
                while messages := await consumer.pull(queue, offset):
                    offset = messages.next_offset

    It joins no group and shares nothing with others: `group` is under whose name it pulls and keeps offsets.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._instance: ClientInstance | None = None
        self._commits: Commits | None = None
        self._suggested: dict[MessageQueue, int] = {}

    async def start(self) -> Self:
        """Makes it ready. `async with` does so."""
        if self._instance is not None:
            raise NotRunning("a consumer is started once: make another one")
        self._instance = ClientInstance(self, await self.own_ip(), producer_groups=[])
        self._commits = Commits(self._instance, self.group)
        self._instance.start()
        return self

    async def close(self) -> None:
        """Closes every connection; nothing connects afterwards."""
        if self._instance is not None:
            await self._instance.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise NotRunning("the consumer has not been started: use `async with`, or start()")
        self._instance.check_running()
        return self._instance

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, sorted. Raises TopicNotFound, NoNameServer."""
        routes = self._running().routes
        route = await routes.refresh(wrap(self.namespace, topic))
        if route is None:
            raise await routes.not_found(topic)
        return sorted(route.subscribe_queues)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        *,
        tags: Wanted = "*",
        max_bytes: int = 4 << 20,
        wait_ms: float = 0,
        timeout_ms: float | None = None,
    ) -> Pulled:
        """Messages of a queue from `offset` on; none where there are none, after up to `wait_ms`.

        `tags` chooses among them: `A || B`, several tags, or an expression (`Sql`).

        With a filter an answer may be empty although `next_offset` has moved: the end of the queue is where
        `next_offset` is `max_offset`. `timeout_ms` is `wait_ms` and 10 s.

        An answer has about `max_bytes` of bodies, as they are stored and again once they are inflated; the
        message that exceeds it is still there, the next ones come with the next pull. A body above
        `max_inflated_body_bytes`, or one that cannot be inflated, is there as an UnreadableMessage: its
        `body_error` says why, and reading its `body` raises that.

        Raises what brokers say (BrokerRefused), NetError, and Malformed for a record that cannot be read.
        """
        instance = self._running()
        check_queue("pull", queue)
        check_number("pull", "offset", offset, 0)
        check_number("pull", "max_messages", max_messages, 1)
        check_number("pull", "max_bytes", max_bytes, 1)
        check_number("pull", "wait_ms", wait_ms, 0)
        if timeout_ms is not None:
            check_number("pull", "timeout_ms", timeout_ms, 1)
        filtered = subscription(queue.topic, tags, now_ms())
        request = self._request(queue, offset, max_messages, filtered, max_bytes, wait_ms)
        address = await self._address(queue, self._suggested.get(queue, MASTER_ID))
        try:
            reply = await instance.call(address, request, timeout_ms or wait_ms + 10_000)
        except NetError:
            # The next pull asks the master, wherever that is by then.
            self._suggested.pop(queue, None)
            instance.refresh_route_soon(queue.topic)
            raise
        self._suggested[queue] = reply.suggest_which_broker_id
        messages: list[ReceivedMessage] = []
        next_offset = reply.next_begin_offset
        if reply.code == ResponseCode.SUCCESS:
            limits = BodyLimits(self.max_inflated_body_bytes, max_bytes)
            answer = await read_answer(
                reply.body, queue, filtered, self.group, self.namespace, limits, reply.offset_delta
            )
            if answer.problems:
                raise answer.problems[0]
            messages = answer.messages
            if answer.stopped_at is not None:
                next_offset = answer.stopped_at
        moved = reply.code == ResponseCode.PULL_OFFSET_MOVED
        return Pulled(messages, next_offset, reply.min_offset, reply.max_offset, moved)

    def _request(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int,
        filtered: SubscriptionData,
        max_bytes: int,
        wait_ms: float,
    ) -> PullMessage:
        return PullMessage(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_messages,
            sys_flag=SUBSCRIPTION_IN_REQUEST | (MAY_BE_HELD if wait_ms > 0 else 0),
            commit_offset=0,
            suspend_timeout_millis=int(wait_ms),
            sub_version=0,
            subscription=filtered.sub_string,
            expression_type=filtered.expression_type,
            max_msg_bytes=max_bytes,
            broker_name=queue.broker_name,
        )

    async def min_offset(self, queue: MessageQueue) -> int:
        """The queue offset of the oldest message."""
        request = GetMinOffset(queue.topic, queue.queue_id, queue.broker_name)
        return (await self._running().call(await self._address(queue), request)).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """The queue offset that the next message will get."""
        request = GetMaxOffset(queue.topic, queue.queue_id, broker_name=queue.broker_name)
        return (await self._running().call(await self._address(queue), request)).offset

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The queue offset of the first message stored at a time (ms since 1970) or later."""
        request = SearchOffsetByTimestamp(
            queue.topic, queue.queue_id, timestamp_ms, broker_name=queue.broker_name
        )
        return (await self._running().call(await self._address(queue), request)).offset

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group has at the broker, None if it has none."""
        await self._address(queue)
        return await OffsetTable(self._running(), self.group).stored(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Has the broker keep an offset for the group. Returns when the broker has it."""
        address = await self._address(queue)
        assert self._commits is not None
        await self._commits.send(address, queue, offset, confirmed=True)

    async def _address(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        instance = self._running()
        address = address_to_read(instance.routes.members_of(queue), broker_id)
        if address is None:
            if await instance.routes.refresh(queue.topic) is None:
                raise await instance.routes.not_found(queue.topic)
            address = address_to_read(instance.routes.members_of(queue), broker_id)
        if address is None:
            raise ConnectFailed(queue.broker_name, "the name servers know no address of this broker")
        return address

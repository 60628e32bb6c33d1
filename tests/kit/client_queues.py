"""Queues of messages behind a fake broker, and handlers that keep what they get."""

from __future__ import annotations

import asyncio
from typing import Any

from orbitmq.client.core.message import ReceivedMessage
from orbitmq.protocol.bodies.queue import LockBatchResponseBody
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.lock import LockBatchMq
from orbitmq.protocol.requests.offset import (
    ConsumerOffset,
    GetMaxOffset,
    OffsetReply,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pull import PullMessage, PullReply
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from orbitmq.protocol.schema.declare import JsonReply, Reply, Void
from tests.kit.client_messages import record, stored
from tests.kit.fake_broker import FakeBroker


class Queues:
    """Queues of messages behind a fake broker: pulls, offsets, sends back."""

    def __init__(self, broker: FakeBroker, *topics: str, queues: int = 1) -> None:
        self.broker = broker
        self.messages: dict[tuple[str, int], list[bytes]] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self.first: dict[tuple[str, int], int] = {}
        for topic in topics:
            broker.topic(topic, queues)
        broker.on(PullMessage, self.pull)
        broker.on(QueryConsumerOffset, self.query)
        broker.on(UpdateConsumerOffset, self.update)
        broker.on(GetMaxOffset, lambda request: OffsetReply(len(self.messages.get(key(request), []))))
        broker.on(ConsumerSendMsgBack, lambda _: Void())

    def put(self, *bodies: bytes, topic: str = "T", queue_id: int = 0, **properties: str) -> None:
        queue = self.messages.setdefault((topic, queue_id), [])
        for body in bodies:
            queue.append(record(stored(len(queue), body, topic=topic, **properties)))

    def pull(self, request: PullMessage) -> Reply | None:
        queue = self.messages.get(key(request), [])
        first = self.first.get(key(request), 0)
        here = request.queue_offset
        if here < first or here > len(queue):
            return PullReply(0, first if here < first else len(queue), first, len(queue), code=21)
        found = queue[here : here + request.max_msg_nums]
        if found:
            return PullReply(0, here + len(found), first, len(queue), body=b"".join(found))
        held = request.sys_flag & 2
        return None if held else PullReply(0, here, first, len(queue), code=19)

    def query(self, request: QueryConsumerOffset) -> Reply | Refused:
        offset = self.offsets.get(key(request))
        return ConsumerOffset(offset) if offset is not None else Refused(22, "not found")

    def lock_all(self) -> None:
        """Grants every lock that is asked for."""
        self.broker.on(
            LockBatchMq,
            lambda request: JsonReply[LockBatchResponseBody](LockBatchResponseBody(request.body.mq_set)),
        )

    def update(self, request: UpdateConsumerOffset) -> Reply:
        self.offsets[key(request)] = request.commit_offset
        return Void()


def key(request: Any) -> tuple[str, int]:
    return request.topic, request.queue_id


class Seen(list[ReceivedMessage]):
    def __init__(self) -> None:
        super().__init__()
        self.more = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.append(message)
        self.more.set()

    async def count(self, wanted: int) -> None:
        async with asyncio.timeout(120):
            while len(self) < wanted:
                self.more.clear()
                await self.more.wait()


async def until(condition: Any, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - whatever it looks at belongs to others
            await asyncio.sleep(0.005)

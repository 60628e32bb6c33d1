"""Progress of a group, kept here and committed to the brokers from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.routes import address_to_read
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.offset import QueryConsumerOffset, UpdateConsumerOffset

ReplyT = TypeVar("ReplyT")


class Commits:
    """Sends a group's offsets to brokers; of each topic the first one alone, until its broker has it.

    Apache's broker makes what it keeps of a topic's offsets when the first of them comes, without a lock: of
    several that come at once some may be forgotten, though all are acknowledged.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._begun: set[tuple[str, str]] = set()
        self._firsts: dict[tuple[str, str], asyncio.Event] = {}

    def begun(self, queue: MessageQueue) -> bool:
        """True if the queue's broker has an offset of its topic from here."""
        return (queue.broker_name, queue.topic) in self._begun

    def beginning(self, queue: MessageQueue) -> bool:
        """True if it has one, or is being sent one."""
        return self.begun(queue) or (queue.broker_name, queue.topic) in self._firsts

    async def send(self, address: str, queue: MessageQueue, offset: int, *, confirmed: bool) -> None:
        """Sends one offset; `confirmed` waits until the broker has it. Raises BrokerRefused, NetError."""
        request = UpdateConsumerOffset(self._group, queue.topic, queue.queue_id, offset, queue.broker_name)
        topic = queue.broker_name, queue.topic
        if topic not in self._begun:
            if (first := self._firsts.get(topic)) is None:
                first = self._firsts[topic] = asyncio.Event()
                try:
                    await self._instance.call(address, request)
                    self._begun.add(topic)
                finally:
                    del self._firsts[topic]
                    first.set()
                return
            await first.wait()
        if confirmed:
            await self._instance.call(address, request)
        else:
            await self._instance.send_oneway(address, request)


class QueueProgress:
    """The offset of one queue, for whoever moves it often: finding it in the table costs more."""

    __slots__ = ("_carrying", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        """The queue offset of the next message wanted."""
        self._carrying: asyncio.Future[Any] | None = None

    def advance(self, offset: int) -> None:
        """Moves it forward; an older offset changes nothing."""
        if offset > self.offset:
            self.offset = offset

    async def carry(self, pull: Coroutine[Any, Any, ReplyT]) -> ReplyT:
        """The reply to a pull that carries the offset. The pull continues if its caller is cancelled."""
        self._carrying = asyncio.ensure_future(pull)
        return await asyncio.shield(self._carrying)

    async def carried(self, timeout_ms: float) -> None:
        """Waits until the last such pull is answered: then the broker has handled it."""
        if self._carrying is not None:
            await asyncio.wait([self._carrying], timeout=timeout_ms / 1000)


class OffsetTable:
    """Offsets of the queues at hand; each is the queue offset of the next message wanted."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._offsets: dict[MessageQueue, QueueProgress] = {}
        self._commits = Commits(instance, group)

    def known(self, queue: MessageQueue) -> int | None:
        """The offset as it is here, which may be ahead of the broker's."""
        progress = self._offsets.get(queue)
        return None if progress is None else progress.offset

    def set(self, queue: MessageQueue, offset: int) -> QueueProgress:
        """Moves an offset, also back; gives what moves it on, until the queue is forgotten."""
        progress = self._offsets.get(queue)
        if progress is None:
            progress = self._offsets[queue] = QueueProgress(offset)
        progress.offset = offset
        return progress

    def forget(self, queue: MessageQueue) -> None:
        """The queue is somebody else's business now."""
        self._offsets.pop(queue, None)

    def address(self, queue: MessageQueue) -> str | None:
        """Address of the broker that keeps the offsets of a queue: the master, or whoever is there."""
        return address_to_read(self._instance.routes.members_of(queue))

    async def stored(self, queue: MessageQueue) -> int | None:
        """Offset that the broker has for the group, None if there is none.

        Raises BrokerRefused, NetError; LookupError where no member of the broker is known.
        """
        address = self.address(queue)
        if address is None:
            raise LookupError(f"no address of broker {queue.broker_name} is known")
        request = QueryConsumerOffset(self._group, queue.topic, queue.queue_id, broker_name=queue.broker_name)
        try:
            return (await self._instance.call(address, request)).offset
        except BrokerRefused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Tells the brokers the offsets of these queues; `confirmed` waits until they have them."""
        await asyncio.gather(*(self._commit(queue, confirmed=confirmed) for queue in queues))

    def may_ride(self, queue: MessageQueue) -> bool:
        """True if a pull may carry the queue's offset; where not, the offset is sent by itself."""
        if self._commits.begun(queue):
            return True
        self._instance.tasks.start(self._begin(queue), f"first offset of {queue.topic}")
        return False

    async def _begin(self, queue: MessageQueue) -> None:
        if not self._commits.beginning(queue):
            await self._commit(queue, confirmed=True)

    async def _commit(self, queue: MessageQueue, *, confirmed: bool) -> None:
        progress = self._offsets.get(queue)
        address = self.address(queue)
        if progress is None or address is None:
            return
        if confirmed:
            # Apache's broker handles pulls and commits in different threads: a pull that carries an older
            # offset could be handled after this commit, and take it back.
            await progress.carried(self._instance.options.mq_client_api_timeout_ms)
        try:
            await self._commits.send(address, queue, progress.offset, confirmed=confirmed)
        except OrbitError as error:
            self._instance.report(f"offsets at {address}", error, at=address)
        else:
            self._instance.recovered(f"offsets at {address}")

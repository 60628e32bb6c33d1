"""How far a group has got, kept here and told to the brokers from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from orbitmq.client.instance import ClientInstance
from orbitmq.client.routes import address_to_read
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.offset import QueryConsumerOffset, UpdateConsumerOffset


class OffsetTable:
    """Offsets of the queues at hand; each is the queue offset of the next message wanted."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._offsets: dict[MessageQueue, int] = {}

    def known(self, queue: MessageQueue) -> int | None:
        """The offset as it is here, which may be ahead of the broker's."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Moves an offset forward; an older one changes nothing."""
        if offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def set(self, queue: MessageQueue, offset: int) -> None:
        """Moves an offset, also back."""
        self._offsets[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        """The queue is somebody else's business now."""
        self._offsets.pop(queue, None)

    def address(self, queue: MessageQueue) -> str | None:
        """Who keeps the offsets of a queue: the master, or whoever is there."""
        return address_to_read(self._instance.routes.members(queue.broker_name))

    async def stored(self, queue: MessageQueue) -> int | None:
        """What the broker has for the group, None if nothing.

        Raises BrokerRefused, NetError; LookupError where no member of the broker is known.
        """
        address = self.address(queue)
        if address is None:
            raise LookupError(f"no address of broker {queue.broker_name} is known")
        request = QueryConsumerOffset(self._group, queue.topic, queue.queue_id)
        try:
            return (await self._instance.call(address, request)).offset
        except BrokerRefused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Tells the brokers the offsets of these queues; `confirmed` waits until they have them."""
        await asyncio.gather(*(self._commit(queue, confirmed) for queue in queues))

    async def _commit(self, queue: MessageQueue, confirmed: bool) -> None:
        offset = self._offsets.get(queue)
        address = self.address(queue)
        if offset is None or address is None:
            return
        request = UpdateConsumerOffset(self._group, queue.topic, queue.queue_id, offset)
        try:
            if confirmed:
                await self._instance.call(address, request)
            else:
                await self._instance.send_oneway(address, request)
        except OrbitError as error:
            self._instance.report(f"offsets at {address}", error, at=address)
        else:
            self._instance.well(f"offsets at {address}")

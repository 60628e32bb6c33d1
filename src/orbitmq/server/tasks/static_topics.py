"""A look, now and then, whether messages of earlier stretches of logical queues are gone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.broker.static_topic.expiry import Oldest, drop, oldest_stretches
from orbitmq.handling.call import OtherBroker
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.offset import GetMaxOffset, GetMinOffset
from orbitmq.server.tasks.other_brokers import OtherBrokers
from orbitmq.store import MessageStore

log = logging.getLogger(__name__)

TIMEOUT_MS = 3_000


@dataclass(eq=False, repr=False)
class StretchExpiry:
    """Drops stretches of the queues that one broker leads."""

    _own_name: str
    _static: StaticMappings
    _store: MessageStore
    _others: OtherBrokers
    _now: Callable[[], int]

    async def run(self) -> None:
        """Looks at each queue once. Where the broker of a stretch does not answer, the stretch stays."""
        static = self._static
        for oldest in oldest_stretches(static):
            try:
                low, end = await self._range(oldest)
            except OrbitError as error:
                log.debug("%s does not say what it has of %s: %s", oldest.item.bname, oldest.topic, error)
                continue
            if low >= end:
                log.info(
                    "messages %d to %d of %s-%d are gone: %s is asked for them no more",
                    oldest.item.logic_offset,
                    oldest.item.static_offset(end),
                    oldest.topic,
                    oldest.global_id,
                    oldest.item.bname,
                )
                drop(static, oldest, self._now())

    async def _range(self, oldest: Oldest) -> tuple[int, int]:
        """The first offset of a stretch's physical queue, and its end. Raises OrbitError."""
        topic, item = oldest.topic, oldest.item
        if item.bname == self._own_name:
            store = self._store
            return store.min_offset(topic, item.queue_id), store.queue_end(topic, item.queue_id)
        # The end first: a message that comes in between is no reason to take the queue for an empty one.
        ask_end = GetMaxOffset(topic, item.queue_id, broker_name=item.bname, logical=False)
        ask_low = GetMinOffset(topic, item.queue_id, broker_name=item.bname, logical=False)
        end = await self._others.call(OtherBroker(item.bname, ask_end), TIMEOUT_MS)
        low = await self._others.call(OtherBroker(item.bname, ask_low), TIMEOUT_MS)
        return low.offset, end.offset

"""Revival at a slave that acts for its master: copies leave for other masters, and nothing is stored here.

The records that the master had delivered into the revive topic are read there. Those that become due while it
is away are given to `take`, for they cannot be stored.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from orbitmq.broker.pop.revive import OpenPoint, ReviveQueue, Reviver
from orbitmq.protocol.bodies.pop import PopCheckPoint
from orbitmq.protocol.handles.pop import normal_topic, pop_retry_topic
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.store import PendingMessage


class Copy(NamedTuple):
    """A message that is delivered again."""

    message: PendingMessage
    topic: str
    """The topic from which it was popped."""
    point: OpenPoint


class ActingReviver(Reviver):
    """The reviver of one time of acting, with the tables of the broker's own."""

    def __init__(self, own: Reviver) -> None:
        super().__init__(
            own._identity,
            own._settings,
            own._topics,
            own._groups,
            own._offsets,
            own._in_flight,
            own._records,
            own._store,
        )
        self.elsewhere = own.elsewhere
        self.outbox: deque[Copy] = deque()
        """Copies to send, in order; call `sent` with each."""
        self._due: deque[StoredMessage] = deque()

    def take(self, message: PendingMessage) -> None:
        """Takes a record that is due now."""
        self._due.append(
            StoredMessage(
                topic=message.topic,
                body=bytes(message.body),
                properties=message.properties,
                queue_id=message.queue_id,
                queue_offset=self._store.max_offset(message.topic, message.queue_id),
                physical_offset=1 << 62,
                flag=message.flag,
                sys_flag=message.sys_flag,
                born_timestamp=message.born_timestamp,
                born_host=message.born_host,
                store_timestamp=message.born_timestamp,
                store_host=message.store_host,
                reconsume_times=message.reconsume_times,
                prepared_transaction_offset=0,
                body_crc=0,
                size=0,
            )
        )

    def run(self, now: int, confirmed_ms: int) -> bool:
        """See `Reviver.run`. Records that are due now count once the whole topic has been read."""
        more = super().run(now, 0)
        if not self._queues or not self._has_read_all:
            return more
        while self._due:
            record = self._due.popleft()
            queue = self._queues.get(record.queue_id)
            if queue is not None:
                self._read_record(queue, record)
        for queue in self._queues.values():
            queue.seen_ms = max(queue.seen_ms, confirmed_ms)
            self._revive(queue, now)
        return more

    @property
    def _has_read_all(self) -> bool:
        topic = self._records.topic
        return all(
            queue.next_offset >= self._store.max_offset(topic, queue_id)
            for queue_id, queue in self._queues.items()
        )

    def worked_up_to_ms(self, delivered_to_ms: int) -> int:
        """Every check point that is due until then was worked up; timers have delivered until
        `delivered_to_ms`.
        """
        if self._due or not self._queues or not self._has_read_all:
            return 0
        first = min(
            (point.due_ms for queue in self._queues.values() for point in queue.points),
            default=delivered_to_ms + 1,
        )
        return min(delivered_to_ms, first - 1)

    def sent(self) -> None:
        """Notes that another master has the first copy of the outbox."""
        point = self.outbox.popleft().point
        point.open = [offset for offset in point.open if offset != point.copied]
        self.figures.copies += 1

    def _revive_one(self, first: OpenPoint, now: int) -> bool:
        point, queue_offset = first.point, first.open[0]
        if first.copied == queue_offset:
            return False  # it is on its way
        copy = self._copy_of(point, queue_offset, now)
        if copy is None:
            first.open = first.open[1:]
            return True
        first.copied = queue_offset
        self.outbox.append(Copy(copy, normal_topic(point.topic, point.cid), first))
        return False

    def _retry_queue(self, point: PopCheckPoint, now: int) -> tuple[str, int]:
        """The queue of the other master; it makes the topic where it is missing."""
        topic = point.topic
        if not topic.startswith(RETRY_PREFIX):
            topic = pop_retry_topic(topic, point.cid, v2=self._settings.enable_retry_topic_v2)
        return topic, 0

    def _commit(self, queue: ReviveQueue, topic: str, now: int) -> None:
        """Leaves the offsets of the revive topic as they are: they are the master's."""

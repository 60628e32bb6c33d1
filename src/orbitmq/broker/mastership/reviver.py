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
    is_next: bool
    """Another message of its check point has left before it."""


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
        self.deletions = own.deletions
        self.outbox: deque[Copy] = deque()
        """Copies to send, in order; call `sent` with each."""
        self._left: list[tuple[ReviveQueue, OpenPoint]] = []
        """Check points whose copies no other master takes."""
        self._due: deque[StoredMessage] = deque()
        topic = self._records.topic
        config = self._topics.get(topic)
        self._ends = {
            queue_id: self._store.max_offset(topic, queue_id)
            for queue_id in range(0 if config is None else config.read_queue_nums)
        }
        """Queue of the revive topic -> its end now. Records behind it are those of a master that is back."""

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
        """See `Reviver.run`. Records that are due now count once their whole queue has been read."""
        more = super().run(now, 0)
        due, self._due = self._due, deque()
        for record in due:
            queue = self._queues.get(record.queue_id)
            if queue is not None and self._has_read(queue):
                self._read_record(queue, record)
            elif queue is not None:
                self._due.append(record)
        for queue in self._queues.values():
            if self._has_read(queue):
                queue.seen_ms = max(queue.seen_ms, confirmed_ms)
        self._revive_in_order(now)
        return more

    def worked_up_to_ms(self, delivered_to_ms: int) -> int:
        """Every check point that is due until then was worked up; timers have delivered until
        `delivered_to_ms`.
        """
        if self._due or not self._queues or not all(map(self._has_read, self._queues.values())):
            return 0
        waiting = [point for queue in self._queues.values() for point in queue.points if point.open]
        waiting += [point for _, point in self._left]
        first = min((point.due_ms for point in waiting), default=delivered_to_ms + 1)
        return min(delivered_to_ms, first - 1)

    def sent(self, now: int) -> None:
        """Notes that another master has the first copy of the outbox. The next one of the same check point
        takes its place.
        """
        point = self.outbox.popleft().point
        point.open = [offset for offset in point.open if offset != point.copied]
        self.figures.copies += 1
        while point.open and self._revive_one(point, now):
            pass

    def leave(self) -> None:
        """Passes over the check point of the first copy of the outbox: no other master takes it."""
        point = self.outbox.popleft().point
        point.copied = -1
        for queue in self._queues.values():
            if queue.points and queue.points[0] is point:
                queue.points.popleft()
                self._left.append((queue, point))

    def try_left(self) -> None:
        """Has the check points that were passed over tried again."""
        for queue, point in reversed(self._left):
            queue.points.appendleft(point)
        self._left.clear()

    def _has_read(self, queue: ReviveQueue) -> bool:
        """True if a queue was read as far as it went when this broker began to act."""
        return queue.next_offset >= self._ends.get(queue.queue_id, 0)

    def _revive(self, queue: ReviveQueue, now: int) -> None:
        """Nothing yet: the other queues are read first."""

    def _revive_in_order(self, now: int) -> None:
        """Finishes the check points that are due, of all queues by their times: the master that comes back
        is told one time, and delivers again what is due later.
        """
        while True:
            queues = [queue for queue in self._queues.values() if queue.points]
            if not queues or not self._finish_first(min(queues, key=_first_due_ms), now):
                return

    def _revive_one(self, first: OpenPoint, now: int) -> bool:
        point, queue_offset = first.point, first.open[0]
        if first.copied == queue_offset:
            return False  # it is on its way
        copy = self._copy_of(point, queue_offset, now)
        if copy is None:
            first.open = first.open[1:]
            return True
        is_next = first.copied >= 0
        first.copied = queue_offset
        self.outbox.append(Copy(copy, normal_topic(point.topic, point.cid), first, is_next))
        return False

    def _retry_queue(self, point: PopCheckPoint, now: int) -> tuple[str, int]:
        """The queue of the other master; it makes the topic where it is missing."""
        topic = point.topic
        if not topic.startswith(RETRY_PREFIX):
            topic = pop_retry_topic(topic, point.cid, v2=self._settings.enable_retry_topic_v2)
        return topic, 0

    def _make_dead_letter_topic(self, group: str, now: int) -> None:
        """Nothing: it is the other master's."""

    def _commit(self, queue: ReviveQueue, topic: str, now: int) -> None:
        """Leaves the offsets of the revive topic as they are: they are the master's."""


def _first_due_ms(queue: ReviveQueue) -> int:
    return queue.points[0].due_ms

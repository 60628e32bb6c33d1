"""What readers see, and what has come since they were last told.

Under ASYNC_FLUSH a message is seen once it is stored; under SYNC_FLUSH once it is on the disk, for otherwise
a power cut could take back what somebody has read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from itertools import repeat
from typing import TypeAlias

from orbitmq.store.commit_log import CommitLog
from orbitmq.store.consume_queue import UNIT_BYTES, ConsumeQueue, QueueTable
from orbitmq.store.extension import ExtensionFiles
from orbitmq.store.scan_cy import arrivals

Arrival: TypeAlias = tuple[str, int, int, int]
"""Topic, queue id, queue offset behind the message, tags code."""


class Arrivals:
    """The queues with something new. Belongs to the owner of the store."""

    def __init__(self, commit_log: CommitLog, table: QueueTable, extension: ExtensionFiles) -> None:
        self._log = commit_log
        self._table = table
        self._extension = extension
        self.dirty: list[ConsumeQueue] = []
        """Queues with something that was not told yet; appends add to it."""
        self._stirred: deque[ConsumeQueue] = deque()
        """Queues with something new since a sweep has asked for them."""
        self._shown_to = 0

    def begin(self) -> None:
        """Counts everything that is there as told."""
        self._shown_to = self._log.max_physical

    def end(self, queue: ConsumeQueue) -> int:
        """The queue offset behind what readers see."""
        if not self._table.sync_flush:
            return queue.max_offset
        if self._log.durable > self._shown_to:
            self._show_durable()
        return queue.visible

    @property
    def end_of_log(self) -> int:
        """The physical offset up to which readers see the log."""
        return self._log.durable if self._table.sync_flush else self._log.max_physical

    @property
    def shown_to(self) -> int:
        """The physical offset before which every message is seen in its queue. Any thread may ask."""
        return self._shown_to if self._table.sync_flush else self._log.max_physical

    def show_durable(self) -> None:
        """Makes visible what the last flush has brought to the disk."""
        if self._table.sync_flush and self._log.durable > self._shown_to:
            self._show_durable()

    def _show_durable(self) -> None:
        durable = self._log.durable
        for queue in self.dirty:
            end = queue.max_offset
            if queue.visible < end and not self._is_durable(queue, end - 1, durable):
                end = queue.visible
                while self._is_durable(queue, end, durable):
                    end += 1
            queue.visible = end
        self._shown_to = durable

    def _is_durable(self, queue: ConsumeQueue, queue_offset: int, durable: int) -> bool:
        unit = self._table.unit(queue, queue_offset)
        return unit is None or unit[0] + unit[1] <= durable

    def _with_tag(self, arrival: Arrival, queue: ConsumeQueue) -> Arrival:
        """The arrival with the hash of its tag, where its unit points to an extension."""
        topic, queue_id, behind, code = arrival
        return topic, queue_id, behind, self._extension.tags_code(queue, code) or 0

    def take_stirred(self) -> list[ConsumeQueue]:
        """The queues with something new since the last call. For the sweep: may be called in its thread.

        None is missed: `take` lists a queue here before it lets go of it as dirty.
        """
        found = list(self.dirty)
        while self._stirred:
            queue = self._stirred.popleft()
            queue.stirred = False
            found.append(queue)
        return found

    def take(self, wanted: Container[tuple[str, int]] | None) -> list[Arrival]:
        """What readers see since the last call; only of the `wanted` queues, if given."""
        if not self.dirty:
            return []
        self.show_durable()
        told: list[Arrival] = []
        waiting: list[ConsumeQueue] = []
        for queue in self.dirty:
            if queue.removed:
                continue
            if not queue.stirred:
                queue.stirred = True
                self._stirred.append(queue)
            end = self._table.end(queue)
            if wanted is not None and (queue.topic, queue.queue_id) not in wanted:
                queue.announced = end
            while queue.announced < end:
                units = self._table.read(queue, queue.announced, end - queue.announced)
                if not units:
                    queue.announced = end
                    break
                came = arrivals(queue.topic, queue.queue_id, units, queue.announced)
                told += came if queue.extension is None else map(self._with_tag, came, repeat(queue))
                queue.announced += len(units) // UNIT_BYTES
            if end < queue.max_offset:
                waiting.append(queue)
            else:
                queue.dirty = False
        self.dirty = waiting
        return told

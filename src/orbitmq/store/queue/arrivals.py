"""Visible offsets, and messages since the last notification of readers.

A message is seen once it is as safe as the broker promises (see `confirm`): under ASYNC_FLUSH as soon as
it is stored, under SYNC_FLUSH once it is on the disk, of a SYNC_MASTER once enough slaves hold it. Otherwise
a power cut, or a change of master, could take back what somebody has read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from itertools import repeat
from typing import TypeAlias

from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.confirm import Confirm
from orbitmq.store.queue.consume_queue import UNIT_BYTES, ConsumeQueue, QueueTable
from orbitmq.store.queue.extension import ExtensionFiles
from orbitmq.store.queue.units_cy import arrivals, count_confirmed

MANY_UNITS = 1_000
"""Units of a queue that were not visible are searched, not looked through one by one, where there are more.
"""

Arrival: TypeAlias = tuple[str, int, int, int]
"""Topic, queue id, queue offset behind the message, tags code."""


class Arrivals:
    """The queues with something new. Belongs to the owner of the store."""

    def __init__(
        self, commit_log: CommitLog, table: QueueTable, extension: ExtensionFiles, confirm: Confirm
    ) -> None:
        self._log = commit_log
        self.confirm = confirm
        self._table = table
        self._extension = extension
        self.dirty: list[ConsumeQueue] = []
        """Queues with messages that were not notified yet; appends add to it."""
        self._unwritten: deque[ConsumeQueue] = deque()
        """Queues with units that are new since the last `drain_unwritten`."""
        self._visible_end = 0
        self._drained_end = -1
        """Confirm offset of the last `drain`: without another one there is nothing new to see."""

    def begin(self) -> None:
        """Counts everything that is there as notified."""
        self._visible_end = self._log.max_physical
        self.confirm.begin()

    def cut_to(self, physical_offset: int) -> None:
        """Follows a log that has been cut: it is confirmed and shown up to there at most."""
        self.confirm.cut_to(physical_offset)
        self._visible_end = min(self._visible_end, physical_offset)
        self._drained_end = -1

    def hide_all(self) -> None:
        """Shows nothing of what the log held at the start until it is confirmed again: a log that another
        broker's may have overtaken. Call with replicas to wait for.
        """
        self.cut_to(0)
        for queue in self._table.all():
            if queue.max_offset > queue.min_offset:
                queue.visible = queue.min_offset
                queue.announced = queue.max_offset - 1  # the newest message wakes those who wait for any
                if not queue.dirty:
                    queue.dirty = True
                    self.dirty.append(queue)

    def replicas_reached(self, replicated: int | None) -> None:
        """Takes over the physical offset up to which enough replicas hold the log; None: none has to."""
        confirm = self.confirm
        if replicated == confirm.replicated:
            return
        was_held = confirm.is_held
        confirm.replicated = replicated
        if replicated is not None and not was_held:
            # Until now readers saw all there is.
            for queue in self._table.all():
                queue.visible = queue.max_offset
            self.begin()
            self._drained_end = -1
        self._table.is_held = confirm.is_held

    def end(self, queue: ConsumeQueue) -> int:
        """The queue offset behind what readers see."""
        if not self._table.is_held:
            return queue.max_offset
        self.show_confirmed()
        return queue.visible

    @property
    def end_of_log(self) -> int:
        """The physical offset up to which readers see the log."""
        return self.confirm.offset

    @property
    def visible_end(self) -> int:
        """The physical offset before which every message may be in the files of its queue. Any thread may
        ask.
        """
        return self._visible_end if self._table.sync_flush else self._log.max_physical

    def show_confirmed(self) -> None:
        """Makes visible what has become safe."""
        if self._table.is_held:
            self._show_up_to(self.confirm.offset)

    def _show_up_to(self, confirmed: int) -> None:
        if confirmed <= self._visible_end:
            return
        for queue in self.dirty:
            if queue.visible < queue.max_offset:
                queue.visible = self._end_of_confirmed(queue, confirmed)
        self._visible_end = confirmed

    def _end_of_confirmed(self, queue: ConsumeQueue, confirmed: int) -> int:
        end = queue.visible
        if end >= queue.tail_start:
            return end + count_confirmed(queue.tail, end - queue.tail_start, confirmed)
        if self._is_confirmed(queue, queue.max_offset - 1, confirmed):
            return queue.max_offset
        if queue.max_offset - end > MANY_UNITS:
            end = max(end, self._table.end_before(queue, confirmed) - 1)
        while self._is_confirmed(queue, end, confirmed):
            end += 1
        return end

    def _is_confirmed(self, queue: ConsumeQueue, queue_offset: int, confirmed: int) -> bool:
        unit = self._table.unit(queue, queue_offset)
        return unit is None or unit[0] + unit[1] <= confirmed

    def _with_tag(self, arrival: Arrival, queue: ConsumeQueue) -> Arrival:
        """The arrival with the hash of its tag, where its unit points to an extension."""
        topic, queue_id, behind, code = arrival
        return topic, queue_id, behind, self._extension.tags_code(queue, code) or 0

    def drain_unwritten(self) -> list[ConsumeQueue]:
        """The queues with new units since the last call. The queue writer may call it in its thread.

        No queue is missed: `take` lists it here before it removes it from `dirty`.
        """
        found = list(self.dirty)
        while self._unwritten:
            queue = self._unwritten.popleft()
            queue.unwritten = False
            found.append(queue)
        return found

    def drain(self, wanted: Container[tuple[str, int]] | None = None) -> list[Arrival]:
        """(topic, queue id, queue offset behind it, tags code) of every message readers see since the last
        call.

        Only of the `wanted` queues (topic, queue id), if given; what came to others counts as notified.
        """
        if not self.dirty:
            return []
        is_held = self._table.is_held
        if is_held:
            confirmed = self.confirm.offset
            if confirmed == self._drained_end:
                return []
            self._drained_end = confirmed
            self._show_up_to(confirmed)
        arrived: list[Arrival] = []
        waiting: list[ConsumeQueue] = []
        for queue in self.dirty:
            if queue.removed:
                continue
            if not queue.unwritten:
                queue.unwritten = True
                self._unwritten.append(queue)
            end = queue.visible if is_held else queue.max_offset
            if wanted is not None and (queue.topic, queue.queue_id) not in wanted:
                queue.announced = end
            while queue.announced < end:
                units = self._table.read(queue, queue.announced, end - queue.announced)
                if not units:
                    queue.announced = end
                    break
                came = arrivals(queue.topic, queue.queue_id, units, queue.announced)
                arrived += came if queue.extension is None else map(self._with_tag, came, repeat(queue))
                queue.announced += len(units) // UNIT_BYTES
            if end < queue.max_offset:
                waiting.append(queue)
            else:
                queue.dirty = False
        self.dirty = waiting
        return arrived

"""Check points on their way into the revive topic, and the offsets of the groups that popped.

A group's offset moves over a pop once its check point is stored: from then on the revive topic answers for
the messages. With `enablePopBufferMerge` a check point stays in memory for some seconds first. If all its
messages are acknowledged by then, nothing is ever stored for it; if not, it is stored with the
acknowledgements that came. Until then the group's offset stays before it, so that a crash delivers its
messages again and loses none.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.acks_cy import MARK, AckTemplate
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.pop.records import PointKey, ReviveRecords, key_of_point, offsets_of, point_key
from orbitmq.protocol.bodies.pop import PopCheckPoint
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.store import Appended, MessageStore, PutStatus

RETRY_MS = 1000
"""A check point that could not be stored is tried again after so long."""

QueueKey = tuple[str, str, int]
"""Topic, group, queue id."""


@dataclass(slots=True)
class _Step:
    """A group's offset may move here once all steps before it are done."""

    next_offset: int
    done: bool


@dataclass(slots=True)
class _Kept:
    """A check point in memory."""

    point: PopCheckPoint
    revive_queue_id: int
    offsets: list[int]
    acked: set[int]
    step: _Step


class CheckPoints:
    """The check points of one broker that are not in the revive queues yet. Belongs to the loop."""

    def __init__(
        self, settings: PopOptions, records: ReviveRecords, log: MessageStore, offsets: OffsetTable
    ) -> None:
        self._settings = settings
        self._records = records
        self._log = log
        self._offsets = offsets
        self._kept: dict[PointKey, _Kept] = {}
        self._deadlines: list[tuple[int, int, PointKey]] = []
        self._number = itertools.count()
        self._steps: dict[QueueKey, deque[_Step]] = {}
        self.stored: Counter[tuple[str, str, str, str]] = Counter()
        """Records written to the revive topic, by kind (CK, ACK), group, topic and status of the store."""

    @property
    def topic(self) -> str:
        return self._records.topic

    @property
    def kept(self) -> int:
        """Check points in memory (metrics: checkpoint buffer size)."""
        return len(self._kept)

    @property
    def steps(self) -> int:
        """Offsets that wait for check points in memory (metrics: offset buffer size)."""
        return sum(map(len, self._steps.values()))

    def next_offset(self, topic: str, group: str, queue_id: int) -> int:
        """Queue offset of the group's next pop; -1 if its stored offset counts."""
        steps = self._steps.get((topic, group, queue_id))
        return steps[-1].next_offset if steps else -1

    def add(self, point: PopCheckPoint, revive_queue_id: int, next_offset: int, now: int) -> Appended:
        """Notes a pop and moves its group to `next_offset`; the result says if it is stored.

        A check point that stays in memory counts as stored at offset 0. Nothing has changed unless the
        status is PUT_OK.
        """
        queue = (point.topic, point.cid, point.queue_id)
        if self._may_keep(point, queue, now):
            step = _Step(next_offset, False)
            key = key_of_point(point)
            kept = _Kept(point, revive_queue_id, offsets_of(point), set(), step)
            settings = self._settings
            deadline = min(
                point.pop_time + settings.pop_ck_stay_buffer_time,
                point.pop_time + point.invisible_time - settings.pop_ck_stay_buffer_time_out,
            )
            answer = Appended(PutStatus.PUT_OK)
            # If memory ends here, the group does not move: a deadline alone finds nothing.
            heapq.heappush(self._deadlines, (deadline, next(self._number), key))
            steps = self._steps.setdefault(queue, deque())
            self._kept[key] = kept
            try:
                steps.append(step)
            except MemoryError:
                del self._kept[key]
                raise
            return answer
        appended = self.store(point, revive_queue_id, now)
        if appended.status is PutStatus.PUT_OK:
            self.skip(queue, next_offset, now)
        return appended

    def store(self, point: PopCheckPoint, revive_queue_id: int, now: int) -> Appended:
        """Stores a check point at once, and moves no offset."""
        appended = self._log.append(self._records.check_point(point, revive_queue_id, now), now)
        self.stored["CK", point.cid, point.topic, appended.status.name] += 1
        return appended

    def _store_ack(
        self, handle: PopHandle, group: str, topic: str, offsets: Sequence[int], now: int
    ) -> Appended:
        appended = self._log.append(self._records.ack(handle, group, topic, offsets, now), now)
        self.stored["ACK", group, topic, appended.status.name] += 1
        return appended

    def skip(self, queue: QueueKey, next_offset: int, now: int) -> None:
        """Moves a group to `next_offset` as soon as nothing before it waits in memory."""
        steps = self._steps.get(queue)
        if steps:
            steps.append(_Step(next_offset, True))
        else:
            topic, group, queue_id = queue
            self._offsets.commit(group, topic, queue_id, next_offset, now)

    def forget_steps(self, queue: QueueKey) -> None:
        """A group was sent elsewhere: pops it made before move its offset no more."""
        self._steps.pop(queue, None)

    def forget(self) -> None:
        """Forgets all that is in memory: groups continue from their stored offsets."""
        self._kept.clear()
        self._deadlines.clear()
        self._steps.clear()

    def remove(self, is_gone: Callable[[str, str], bool]) -> None:
        """Forgets what is in memory of those topics and groups (topic, group) that are gone."""
        for queue in [queue for queue in self._steps if is_gone(queue[0], queue[1])]:
            del self._steps[queue]
        for key in [key for key in self._kept if is_gone(key[0], key[1])]:
            del self._kept[key]

    def ack_template(self, topic: str, group: str, handle: PopHandle, now: int) -> AckTemplate | None:
        """The template of acknowledgements of a pop; None where each needs to be looked at."""
        one = self._records.ack(handle, group, topic, [MARK], now)
        several = self._records.ack(handle, group, topic, [MARK, MARK], now)
        try:
            return AckTemplate(topic, group, handle, one, several)
        except ValueError:
            return None

    def is_kept(self, topic: str, group: str, handle: PopHandle) -> bool:
        return bool(self._kept) and (
            point_key(topic, group, handle.queue_id, handle.start_offset, handle.pop_time, handle.broker_name)
            in self._kept
        )

    def acknowledge(
        self, handle: PopHandle, group: str, topic: str, offsets: Sequence[int], now: int
    ) -> tuple[Appended, int]:
        """Notes messages of one pop as handled; gives whether it is stored, and how many were new.

        Those whose check point is in memory are noted there.
        """
        key = point_key(
            topic, group, handle.queue_id, handle.start_offset, handle.pop_time, handle.broker_name
        )
        kept = self._kept.get(key)
        if kept is None:
            return self._store_ack(handle, group, topic, offsets, now), len(offsets)
        before = len(kept.acked)
        kept.acked.update(offset for offset in offsets if offset in kept.offsets)
        if len(kept.acked) == len(kept.offsets):
            self._done(key, kept, now)
        return Appended(PutStatus.PUT_OK), len(kept.acked) - before

    def run(self, now: int) -> None:
        """Stores what has been in memory for long enough. Call every 100 ms or so."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number, key = self._deadlines[0]
            kept = self._kept.get(key)
            if kept is not None and not self._put(key, kept, now):
                heapq.heapreplace(self._deadlines, (now + RETRY_MS, number, key))
                return
            # Only now: whatever ends this turn, a check point in memory has its deadline.
            heapq.heappop(self._deadlines)

    def store_all(self, now: int) -> None:
        """Stores everything in memory, before the end."""
        for key, kept in list(self._kept.items()):
            self._put(key, kept, now)

    def _may_keep(self, point: PopCheckPoint, queue: QueueKey, now: int) -> bool:
        settings = self._settings
        if not settings.enable_pop_buffer_merge or len(self._kept) >= settings.pop_ck_max_buffer_size:
            return False
        left_ms = point.pop_time + point.invisible_time - now
        if left_ms <= 2 * settings.pop_ck_stay_buffer_time_out:
            return False
        steps = self._steps.get(queue)
        return steps is None or len(steps) < settings.pop_ck_offset_max_queue_size

    def _put(self, key: PointKey, kept: _Kept, now: int) -> bool:
        """Moves a check point from memory to the store; False if it is not taken."""
        if self.store(kept.point, kept.revive_queue_id, now).status is not PutStatus.PUT_OK:
            return False
        point = kept.point
        handle = PopHandle(
            point.start_offset,
            point.pop_time,
            point.invisible_time,
            kept.revive_queue_id,
            0,
            point.broker_name,
            point.queue_id,
        )
        acked = sorted(kept.acked)
        parts = [acked] if self._settings.enable_pop_batch_ack else [[offset] for offset in acked]
        for part in parts if acked else ():
            # An acknowledgement that is not taken only has its message delivered once more.
            self._store_ack(handle, point.cid, point.topic, part, now)
        self._done(key, kept, now)
        return True

    def _done(self, key: PointKey, kept: _Kept, now: int) -> None:
        del self._kept[key]
        kept.step.done = True
        queue = (kept.point.topic, kept.point.cid, kept.point.queue_id)
        steps = self._steps.get(queue)
        if steps is None:
            return
        reached = -1
        while steps and steps[0].done:
            reached = steps.popleft().next_offset
        if not steps:
            del self._steps[queue]
        if reached >= 0:
            topic, group, queue_id = queue
            self._offsets.commit(group, topic, queue_id, reached, now)

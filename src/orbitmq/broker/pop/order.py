"""Ordered pops: what of each queue a group has in work, and when the queue is free again.

A group that pops in order gets a queue's messages one batch at a time. Until every message of the batch is
acknowledged, or has become visible again, the queue is blocked for the group; so nothing overtakes. The
group's offset moves over what is acknowledged without a gap. The table lives in
`config/consumerOrderInfo.json`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace

from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.pop import ConsumerOrderInfo, OrderInfo
from orbitmq.protocol.handles.pop import order_count_info
from orbitmq.protocol.schema.json_body import require_member

FORGET_AFTER_MS = 24 * 3600_000
"""A batch of which nothing was heard for so long is not written to the file any more."""

QueueKey = tuple[str, str, int]
"""Topic, group, queue id."""


class NotInWork(Exception):
    """An acknowledgement of a message that the group's last batch does not hold."""


class OrderTable:
    """The batches in work, by topic, group and queue."""

    FILE = "consumerOrderInfo.json"
    NAME = "order"

    def __init__(self, dirty_tables: DirtyTables) -> None:
        self._batches: dict[QueueKey, OrderInfo] = {}
        self._releases: list[tuple[int, QueueKey]] = []
        self._dirty_tables = dirty_tables

    def begin(
        self,
        key: QueueKey,
        attempt_id: str | None,
        queue_offsets: Sequence[int],
        invisible_ms: int,
        now: int,
    ) -> list[str]:
        """Notes a batch that a group takes; gives the orderCountInfo of its messages."""
        topic, _, queue_id = key
        first = queue_offsets[0]
        batch = OrderInfo(
            pop_time=now,
            invisible_time=invisible_ms,
            offset_list=[first, *(offset - first for offset in queue_offsets[1:])],
            last_consume_timestamp=now,
            attempt_id=attempt_id,
        )
        before = self._batches.get(key)
        if before is not None:
            batch.offset_consumed_count = _counts(before, batch)
        self._batches[key] = batch
        self._note(key, batch)
        counts = batch.offset_consumed_count or {}
        infos = [order_count_info(topic, queue_id, count, offset) for offset, count in counts.items()]
        # Clients of earlier versions look at the queue's count: that of its least consumed message.
        least = min(counts.values()) if counts and len(counts) == len(queue_offsets) else 0
        return [*infos, order_count_info(topic, queue_id, least)]

    def is_blocked(self, key: QueueKey, attempt_id: str | None, invisible_ms: int, now: int) -> bool:
        """True if messages of the queue are in work; the attempt that took them is let in again."""
        batch = self._batches.get(key)
        if batch is None or not batch.offset_list:
            return False
        if batch.attempt_id is not None and batch.attempt_id == attempt_id:
            return False
        if not batch.invisible_time or batch.invisible_time <= 0:
            batch.invisible_time = invisible_ms
        return _free_at(batch) > now

    def acknowledge(self, key: QueueKey, queue_offset: int, pop_time: int, now: int) -> int | None:
        """Notes that a message was handled; gives the offset to commit, None if it belongs to no present pop.

        Raises NotInWork if the batch does not hold it.
        """
        batch = self._batches.get(key)
        if batch is None:
            return queue_offset + 1
        offsets = _offsets(batch)
        if not offsets:
            raise NotInWork
        if pop_time != batch.pop_time:
            return None
        if queue_offset not in offsets:
            raise NotInWork
        batch.commit_offset_bit |= 1 << offsets.index(queue_offset)
        self._note(key, batch)
        for offset, is_open in zip(offsets, _open(batch, len(offsets)), strict=True):
            if is_open:
                return offset
        return offsets[-1] + 1

    def hide_until(self, key: QueueKey, queue_offset: int, pop_time: int, visible_ms: int) -> None:
        """Sets when a message of the present batch becomes visible again, unless it is handled by then."""
        batch = self._batches.get(key)
        if batch is None or batch.pop_time != pop_time:
            return
        batch.offset_next_visible_time = {
            **(batch.offset_next_visible_time or {}),
            queue_offset: visible_ms,
        }
        self._note(key, batch)

    def suspend(self, key: QueueKey, pop_time: int, visible_ms: int) -> None:
        """Hides the whole present batch until then, and takes back that its redelivery will count."""
        batch = self._batches.get(key)
        if batch is None or batch.pop_time != pop_time:
            return
        batch.offset_next_visible_time = None
        batch.invisible_time = visible_ms - batch.pop_time
        counts = batch.offset_consumed_count or {}
        batch.offset_consumed_count = {offset: max(0, count - 1) for offset, count in counts.items()}
        self._note(key, batch)

    def counts(self, key: QueueKey) -> dict[int, int]:
        """Number of earlier deliveries of the messages of the present batch, where there were any."""
        batch = self._batches.get(key)
        return {} if batch is None else dict(batch.offset_consumed_count or {})

    def has_open(self, key: QueueKey) -> bool:
        """True if a message of the present batch still has to be acknowledged."""
        batch = self._batches.get(key)
        return batch is not None and any(_open(batch, len(batch.offset_list or ())))

    def __contains__(self, key: object) -> bool:
        """True if something of a queue is in work, or was."""
        return key in self._batches

    def __len__(self) -> int:
        return len(self._batches)

    def clear(self, key: QueueKey) -> None:
        """Frees a queue: its group was sent elsewhere."""
        if self._batches.pop(key, None) is not None:
            self._dirty_tables.mark(self.NAME, soon=False)

    def remove(self, is_gone: Callable[[str, str], bool]) -> None:
        """Forgets the queues of those topics and groups (topic, group) that are gone."""
        for key in [key for key in self._batches if is_gone(key[0], key[1])]:
            self.clear(key)

    def drain_released(self, now: int) -> list[QueueKey]:
        """The queues whose block has ended by the clock since the last call."""
        released: list[QueueKey] = []
        while self._releases and self._releases[0][0] <= now:
            _, key = heapq.heappop(self._releases)
            batch = self._batches.get(key)
            if batch is not None and _free_at(batch) <= now:
                released.append(key)
        return released

    def expire(self, now: int, exists: Callable[[str, str, int], bool]) -> None:
        """Forgets batches of queues that are gone, and those of which nothing was heard for a day."""
        for key, batch in list(self._batches.items()):
            if now - batch.last_consume_timestamp > FORGET_AFTER_MS or not exists(*key):
                self.clear(key)

    def snapshot(self) -> Snapshot:
        """The content of `consumerOrderInfo.json`."""
        table: dict[str, dict[int, OrderInfo]] = {}
        for (topic, group, queue_id), batch in self._batches.items():
            table.setdefault(f"{topic}@{group}", {})[queue_id] = replace(batch)
        return ConsumerOrderInfo(table=table).to_pretty_json

    def load_text(self, text: str) -> None:
        """Takes over the content of `consumerOrderInfo.json`. Raises MalformedJson."""
        require_member(text, "table")
        self._batches = {}
        self._releases = []
        for name, queues in ConsumerOrderInfo.from_json(text).table.items():
            topic, at, group = name.partition("@")
            if not at:
                continue
            for queue_id, batch in queues.items():
                key = (topic, group, queue_id)
                self._batches[key] = batch
                heapq.heappush(self._releases, (_free_at(batch), key))

    def _note(self, key: QueueKey, batch: OrderInfo) -> None:
        self._dirty_tables.mark(self.NAME, soon=False)
        heapq.heappush(self._releases, (_free_at(batch), key))
        if len(self._releases) > 1000 + 4 * len(self._batches):
            self._releases = [(_free_at(batch), key) for key, batch in self._batches.items()]
            heapq.heapify(self._releases)


def _offsets(batch: OrderInfo) -> list[int]:
    first, *distances = batch.offset_list or [0]
    return [first, *(first + distance for distance in distances)] if batch.offset_list else []


def _open(batch: OrderInfo, count: int) -> list[bool]:
    """For each message of the batch, whether it still has to be acknowledged."""
    return [not batch.commit_offset_bit >> index & 1 for index in range(count)]


def _free_at(batch: OrderInfo) -> int:
    """The time from which nothing of the batch blocks its queue."""
    offsets = _offsets(batch)
    hidden = batch.offset_next_visible_time or {}
    default = batch.pop_time + (batch.invisible_time or 0)
    waiting = [
        hidden.get(offset, default)
        for offset, is_open in zip(offsets, _open(batch, len(offsets)), strict=True)
        if is_open
    ]
    return max(waiting, default=0)


def _counts(before: OrderInfo, batch: OrderInfo) -> dict[int, int]:
    """Number of earlier deliveries of the messages of a batch, where there were any."""
    counts = before.offset_consumed_count or {}
    if before.attempt_id is not None and before.attempt_id == batch.attempt_id:
        return dict(counts)
    taken = set(_offsets(before))
    return {offset: counts.get(offset, 0) + 1 for offset in _offsets(batch) if offset in taken}

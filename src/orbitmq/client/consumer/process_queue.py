"""The messages of one queue that a consumer holds, and how far the queue is done.

Messages come in the order of the queue and are finished in any order; what may be committed is the offset
of the oldest one that is not finished yet. Nothing here waits or reads a clock: times are passed in, and
`room` is for others to wait for.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field

from orbitmq.client.consumer.offsets import QueueProgress
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.running import ProcessQueueInfo


@dataclass(slots=True, eq=False, repr=False)
class ProcessQueue:
    """Messages that are held of one queue."""

    queue: MessageQueue
    now_ms: InitVar[int]
    progress: QueueProgress
    """The offset up to which the queue is done, as it is committed to the broker."""
    dropped: bool = False
    """The queue is another's now: nothing of it is handled or committed any more."""
    room: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever there may be more room than before."""
    size_bytes: int = 0
    """Bodies held, in bytes."""
    max_offset: int = -1
    """The last queue offset that was ever held."""
    locked: bool = False
    last_lock_ms: int = 0
    last_pull_ms: int = 0
    last_consume_ms: int = 0
    _messages: dict[int, ReceivedMessage] = field(default_factory=dict)
    _heads: list[int] = field(default_factory=list)
    """A heap of queue offsets, finished ones included until they surface."""

    def __post_init__(self, now_ms: int) -> None:
        self.last_pull_ms = self.last_consume_ms = now_ms

    def __len__(self) -> int:
        return len(self._messages)

    def holds(self, message: ReceivedMessage) -> bool:
        """True while this very message, and not another one at its offset, is held."""
        return self._messages.get(message.queue_offset) is message

    @property
    def min_offset(self) -> int:
        """The oldest queue offset held; -1 when nothing is."""
        heads, messages = self._heads, self._messages
        while heads and heads[0] not in messages:
            heapq.heappop(heads)
        return heads[0] if heads else -1

    @property
    def span(self) -> int:
        """Distance of the newest message that came from the oldest one that is not finished."""
        lowest = self.min_offset
        return 0 if lowest < 0 else self.max_offset - lowest

    def put(self, messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
        """Takes messages in; gives those that were not held already."""
        added = []
        held, heads = self._messages, self._heads
        last, size = self.max_offset, 0
        for message in messages:
            queue_offset = message.queue_offset
            if queue_offset in held:
                continue
            held[queue_offset] = message
            if queue_offset > last:
                last = queue_offset
                heads.append(queue_offset)  # beyond all others, so this is still a heap
            else:
                heapq.heappush(heads, queue_offset)
            size += len(message.body) if message.body_error is None else message.size_bytes
            added.append(message)
        self.max_offset = last
        self.size_bytes += size
        return added

    def finish(self, message: ReceivedMessage) -> int | None:
        """Lets go of a message; gives the offset that may be committed, None if it was not held."""
        queue_offset, held, heads = message.queue_offset, self._messages, self._heads
        if held.get(queue_offset) is not message:
            return None
        del held[queue_offset]
        self.size_bytes -= len(message.body) if message.body_error is None else message.size_bytes
        self.room.set()
        while heads and heads[0] not in held:
            heapq.heappop(heads)
        return heads[0] if heads else self.max_offset + 1

    def oldest(self, count: int) -> list[ReceivedMessage]:
        """Up to `count` messages from the head of the queue, which stay held."""
        if self.min_offset < 0:
            return []
        if count == 1:
            return [self._messages[self._heads[0]]]
        return [self._messages[offset] for offset in heapq.nsmallest(count, self._messages)]

    def clear(self) -> None:
        """Lets go of everything, as if it had never been pulled."""
        self._messages.clear()
        self._heads.clear()
        self.size_bytes = 0

    def info(self, commit_offset: int) -> ProcessQueueInfo:
        """Report about it for an operator."""
        lowest = self.min_offset
        return ProcessQueueInfo(
            commit_offset=commit_offset,
            cached_msg_min_offset=max(lowest, 0),
            cached_msg_max_offset=self.max_offset if lowest >= 0 else 0,
            cached_msg_count=len(self),
            cached_msg_size_in_mib=self.size_bytes >> 20,
            locked=self.locked,
            last_lock_timestamp=self.last_lock_ms,
            droped=self.dropped,
            last_pull_timestamp=self.last_pull_ms,
            last_consume_timestamp=self.last_consume_ms,
        )

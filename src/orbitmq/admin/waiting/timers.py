"""Timer messages that are not due yet: found by reading the brokers' timer topic, and taken back."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.brokers import broker_config
from orbitmq.admin.messages import MOST_PULLED, page
from orbitmq.admin.waiting.delays import SLOT_MS
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.handles.recall import RecallHandle
from orbitmq.protocol.names import REAL_TOPIC, RETRY_PREFIX, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, TIMER_TOPIC
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import whole_number
from orbitmq.protocol.requests.offset import GetMaxOffset, GetMinOffset, SearchOffsetByTimestamp
from orbitmq.protocol.requests.send import RecallMessage

LONGEST_DELAY_SECONDS = 3 * 86_400
"""Apache's timerMaxDelaySec: no pending timer was stored longer ago."""
RECALL_GROUP = "TOOLS_PRODUCER"


@dataclass(frozen=True, slots=True)
class PendingTimer:
    """One message that waits. `queue_offset` is its place in the broker's timer topic."""

    broker: str
    queue_offset: int
    topic: str
    unique_id: str
    due_ms: int
    stored_ms: int
    tags: str | None
    keys: tuple[str, ...]
    body_size: int

    @property
    def is_recallable(self) -> bool:
        """True of what a producer sent; retries of consumers are not taken back. The console's page asks."""
        return bool(self.unique_id) and not self.topic.startswith(RETRY_PREFIX)


class TimerScan:
    """Reads the timer topic of every master, from the oldest record that may still be pending on.

    Rules of the result: a record that takes another one back removes it, and a timer that was stored again
    for another turn of the wheel counts once.
    """

    def __init__(self, admin: Admin, topic: str = "", budget: int = 50_000) -> None:
        self._admin = admin
        self._topic = topic
        self._budget = budget
        self._pending: dict[tuple[str, str, str], PendingTimer] = {}
        self.scanned = 0
        self.total = 0
        """Records that there were when the scan began."""
        self.is_complete = False
        """False while it runs, and where the budget ended it."""
        self.errors: list[str] = []

    async def run(self) -> AsyncIterator[None]:
        """Reads on; control comes back after every page."""
        ranges = []
        for one in await self._admin.masters():
            try:
                begin, end = await _range(self._admin, one)
            except OrbitError as error:
                self.errors.append(f"{one.name}: {error}")
                continue
            if begin < end:
                ranges.append((one, begin, end))
        self.total = sum(end - begin for _, begin, end in ranges)
        for one, begin, end in ranges:
            queue = MessageQueue(TIMER_TOPIC, one.name, 0)
            offset = begin
            while offset < end and self.scanned < self._budget:
                try:
                    size = min(MOST_PULLED, end - offset, self._budget - self.scanned)
                    records, following = await page(self._admin, one.address, queue, offset, size)
                except OrbitError as error:
                    self.errors.append(f"{one.name}: {error}")
                    break
                now = time.time_ns() // 1_000_000
                for record in records:
                    self._note(one.name, record, now)
                self.scanned += min(following, end) - offset
                offset = following
                yield
        self.is_complete = self.scanned >= self.total and not self.errors

    @property
    def count(self) -> int:
        """Timers that are pending, as far as was read."""
        return len(self._pending)

    def slots(self) -> dict[int, int]:
        return dict(
            sorted(Counter(one.due_ms // SLOT_MS * SLOT_MS for one in self._pending.values()).items())
        )

    def soonest(self, most: int, from_ms: int = 0, to_ms: int = 2**62) -> list[PendingTimer]:
        """Timers due in a span of time, the soonest first."""
        meant = (one for one in self._pending.values() if from_ms <= one.due_ms < to_ms)
        return heapq.nsmallest(most, meant, key=lambda one: (one.due_ms, one.broker, one.queue_offset))

    def _note(self, broker: str, record: StoredMessage, now: int) -> None:
        properties = record.property_map()
        topic, due = properties.get(REAL_TOPIC, ""), whole_number(properties.get(TIMER_OUT_MS))
        taken_back = properties.get(TIMER_DEL_UNIQKEY)
        if taken_back is not None:
            self._pending.pop((broker, topic, taken_back.removeprefix(f"{topic}+")), None)
            return
        if due is None or due <= now or (self._topic and topic != self._topic):
            return
        unique_id = record.unique_id or ""
        key = unique_id or f"at {record.queue_offset}"
        self._pending[(broker, topic, key)] = PendingTimer(
            broker,
            record.queue_offset,
            topic,
            unique_id,
            due,
            record.store_timestamp,
            record.tags,
            tuple(record.keys),
            len(record.body),
        )


async def recall(admin: Admin, broker: str, topic: str, due_ms: int, unique_id: str) -> None:
    """Takes a pending timer back. The broker's answer is the same where nothing waits any more.

    Raises NoPermission with recallMessageEnable=false, and BrokerRefused for what is due already.
    """
    [master] = await admin.masters(broker=broker)
    handle = RecallHandle(topic, master.name, due_ms + 1, unique_id).encode()
    await admin.call(master.address, RecallMessage(topic, handle, RECALL_GROUP))


async def _range(admin: Admin, one: BrokerAt) -> tuple[int, int]:
    config = await broker_config(admin, one.address)
    if config.get("timerWheelEnable") != "true":
        return 0, 0
    longest = config.get("timerMaxDelaySec", "")
    seconds = int(longest) if longest.isdigit() else LONGEST_DELAY_SECONDS
    oldest = time.time_ns() // 1_000_000 - 1000 * seconds
    end = (await admin.call(one.address, GetMaxOffset(TIMER_TOPIC, 0))).offset
    begin = (await admin.call(one.address, GetMinOffset(TIMER_TOPIC, 0))).offset
    if begin < end and oldest > 0:
        found = await admin.call(one.address, SearchOffsetByTimestamp(TIMER_TOPIC, 0, oldest))
        begin = max(begin, found.offset)
    return max(0, begin), end

"""Texts of POP in headers and handles: topics of retries, check point handles, offset lists.

A handle says which check point a message was popped under, so that acknowledging needs no look-up:
`startOffset popTime invisibleTime reviveQueueId topicType brokerName queueId queueOffset`. A proxy's receipt
handle carries the physical offset behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.names import RETRY_PREFIX, REVIVE_TOPIC_PREFIX

ORDER_REVIVE_QUEUE = 999
"""The revive queue id of ordered pops, which have no check points."""

TYPE_NORMAL = 0
TYPE_RETRY_V1 = 1
TYPE_RETRY_V2 = 2

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
"""The group whose offsets say how far the revive topic was worked through."""


class BadHandle(Malformed):
    """A text that is no handle of a popped message."""


def revive_topic(cluster: str) -> str:
    """The topic in which the brokers of a cluster keep check points and acknowledgements."""
    return REVIVE_TOPIC_PREFIX + cluster


def pop_retry_topic(topic: str, group: str, *, v2: bool = False) -> str:
    """The topic of messages that a group popped and did not acknowledge."""
    return f"{RETRY_PREFIX}{group}{'+' if v2 else '_'}{topic}"


def topic_type(topic: str) -> int:
    """0 for a normal topic, 1 for a retry topic, 2 for a POP retry topic of the second form."""
    if not topic.startswith(RETRY_PREFIX):
        return TYPE_NORMAL
    return TYPE_RETRY_V2 if "+" in topic else TYPE_RETRY_V1


def normal_topic(topic: str, group: str) -> str:
    """The topic behind a POP retry topic of a group; any other topic is its own."""
    for separator in "+_":
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


def real_topic(topic: str, group: str, kind: int) -> str:
    """The topic a message of this type is stored in."""
    if kind == TYPE_NORMAL:
        return topic
    return pop_retry_topic(topic, group, v2=kind == TYPE_RETRY_V2)


@dataclass(slots=True, frozen=True)
class PopHandle:
    """The pop that delivered a message. Times are ms, offsets queue offsets."""

    start_offset: int
    pop_time: int
    invisible_ms: int
    revive_queue_id: int
    topic_type: int
    broker_name: str
    queue_id: int
    queue_offset: int = -1
    physical_offset: int = -1
    lite_topic: str = ""
    """The lite topic of the message, which brokers are told apart from the handle."""

    @property
    def is_order(self) -> bool:
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    @property
    def visible_ms(self) -> int:
        """The time from which others of the group may get the message."""
        return self.pop_time + self.invisible_ms

    def hidden(self, pop_time: int, invisible_ms: int, revive_queue_id: int) -> PopHandle:
        """The handle of the message once its invisible time was changed, with what the broker says of it."""
        start = 0 if self.lite_topic else self.queue_offset
        return replace(
            self,
            start_offset=start,
            pop_time=pop_time,
            invisible_ms=invisible_ms,
            revive_queue_id=revive_queue_id,
        )

    def to_text(self) -> str:
        """The text that peers carry: seven fields, and those three behind them that are known."""
        parts = [
            self.start_offset,
            self.pop_time,
            self.invisible_ms,
            self.revive_queue_id,
            self.topic_type,
            self.broker_name,
            self.queue_id,
        ]
        if self.queue_offset >= 0:
            parts.append(self.queue_offset)
            if self.physical_offset >= 0:
                parts.append(self.physical_offset)
                if self.lite_topic:
                    parts.append(self.lite_topic)
        return " ".join(map(str, parts))

    @classmethod
    def from_text(cls, text: str) -> PopHandle:
        """Reads a handle. Raises BadHandle."""
        parts = text.split(" ")
        if not 7 <= len(parts) <= 10:
            raise BadHandle(f"a handle has 7 to 10 fields, not {len(parts)}")
        try:
            start, popped, invisible, revive, kind = map(int, parts[:5])
            queue_id, *rest = map(int, parts[6:9])
        except ValueError:
            raise BadHandle("a number of the handle is none") from None
        numbers = (start, popped, invisible, revive, kind, queue_id, *rest)
        if any(not 0 <= number < 2**63 for number in numbers):
            raise BadHandle("a number of the handle is out of range")
        queue_offset, physical_offset = (*rest, -1, -1)[:2]
        return cls(
            start, popped, invisible, revive, kind, parts[5], queue_id, queue_offset, physical_offset,
            "".join(parts[9:]),
        )  # fmt: skip


def start_offset_info(topic: str, queue_id: int, start_offset: int) -> str:
    """One entry of a reply's startOffsetInfo."""
    return f"{topic_type(topic)} {queue_id} {start_offset}"


def message_offset_info(topic: str, queue_id: int, queue_offsets: Iterable[int]) -> str:
    """One entry of a reply's msgOffsetInfo."""
    return f"{topic_type(topic)} {queue_id} {','.join(map(str, queue_offsets))}"


def order_count_info(topic: str, queue_id: int, count: int, queue_offset: int | None = None) -> str:
    """One entry of a reply's orderCountInfo: of a queue, or of one message."""
    key = str(queue_id) if queue_offset is None else f"qo{queue_id}%{queue_offset}"
    return f"{topic_type(topic)} {key} {count}"

"""Static topics: logical queues whose messages lie in physical queues, one stretch after another.

A logical queue has offsets of its own. Each item of its list maps a stretch of them to a physical queue of a
broker: `static offset = logic_offset + (queue offset - start_offset)`. The last item is the queue's leader,
where new messages are stored. Its logic offset is negative until whoever moves the queue knows where the
stretch before it ends: such an item is not placed yet, and cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.schema.json_body import JsonBody, Long

GLOBAL_SCOPE = "__global__"
LOGICAL_BROKER_PREFIX = "__syslo__"
"""Beginning of the broker names that clients give to logical queues."""
NO_BROKER = "__syslo__none__"
"""The broker of a logical queue that no broker leads."""


class WrongMapping(Malformed):
    """A mapping contradicts itself, or the one that it is to replace."""


def logical_broker(scope: str) -> str:
    """The broker name of the logical queues of a scope, which is no broker's own."""
    return LOGICAL_BROKER_PREFIX + (scope[2:] if scope == GLOBAL_SCOPE else scope)


@dataclass(slots=True)
class LogicQueueMappingItem(JsonBody):
    """A stretch of a logical queue's offsets and the physical queue that holds it."""

    gen: int = 0
    queue_id: int = 0
    bname: str = ""
    logic_offset: Long = 0
    """The logical queue's offset of the first message here; negative while it is not decided."""
    start_offset: Long = 0
    end_offset: Long = -1
    """-1: open."""
    time_of_start: Long = -1
    time_of_end: Long = -1

    @property
    def is_placed(self) -> bool:
        """True once it is decided where the stretch begins in the logical queue."""
        return self.logic_offset >= 0

    def static_offset(self, queue_offset: int) -> int:
        """The logical queue's offset of a physical one; one before the stretch counts as its start."""
        return self.logic_offset + max(0, queue_offset - self.start_offset)

    def queue_offset(self, static_offset: int) -> int:
        """The physical queue's offset of a logical one."""
        return static_offset - self.logic_offset + self.start_offset

    @property
    def known_end(self) -> int:
        """The logical queue's offset behind the stretch, as far as the item itself says."""
        return self.static_offset(self.end_offset)


def item_at(items: Sequence[LogicQueueMappingItem], offset: int) -> LogicQueueMappingItem | None:
    """The placed item that holds a logical offset, the first one for offsets before it; None without any."""
    first = None
    for item in reversed(items):
        if item.is_placed:
            if offset >= item.logic_offset:
                return item
            first = item
    return first


def item_behind(
    items: Sequence[LogicQueueMappingItem], item: LogicQueueMappingItem
) -> LogicQueueMappingItem | None:
    """The placed item that follows another one, if there is one yet."""
    following = next((other for other in items if other.gen > item.gen), None)
    return following if following is not None and following.is_placed else None


@dataclass(slots=True)
class TopicQueueMappingInfo(JsonBody):
    """Queues of a static topic that a broker leads: `curr_id_map` is global id -> physical id."""

    topic: str = ""
    scope: str = GLOBAL_SCOPE
    total_queues: int = 0
    bname: str = ""
    epoch: Long = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """The same with the history of each queue hosted by the broker."""

    hosted_queues: dict[int, list[LogicQueueMappingItem]] = field(default_factory=dict)

    def leads(self, global_id: int) -> bool:
        """True if the broker takes the messages of a logical queue."""
        items = self.hosted_queues.get(global_id, ())
        return len(items) > 0 and items[-1].bname == self.bname

    def info(self) -> TopicQueueMappingInfo:
        """The part of it that name servers get: the queues that the broker leads."""
        led = {
            global_id: items[-1].queue_id
            for global_id, items in self.hosted_queues.items()
            if self.leads(global_id)
        }
        return TopicQueueMappingInfo(
            self.topic, self.scope, self.total_queues, self.bname, self.epoch, self.dirty, led
        )


@dataclass(slots=True)
class TopicQueueMappingSerializeWrapper(JsonBody):
    """The table of mappings, as `topicQueueMapping.json` holds it."""

    topic_queue_mapping_info_map: dict[str, TopicQueueMappingDetail] | None = None
    data_version: DataVersion = field(default_factory=DataVersion)


def check_items(items: Sequence[LogicQueueMappingItem]) -> None:
    """Raises WrongMapping unless each item begins behind the one before it."""
    for number, item in enumerate(items):
        if item.start_offset < 0 or item.gen < 0 or item.queue_id < 0:
            raise WrongMapping("The field is illegal, should not be negative")
        if not item.is_placed and number < len(items) - 1:
            raise WrongMapping("The non-latest item has negative logic offset")
        if item.end_offset != -1 and item.end_offset < item.start_offset:
            raise WrongMapping("The endOffset is smaller than the start offset")
    for before, item in pairwise(items):
        if item.gen <= before.gen:
            raise WrongMapping("The gen does not increase monotonically")
        if item.is_placed and item.logic_offset <= before.logic_offset:
            raise WrongMapping("The base logic offset does not increase monotonically")
        if item.is_placed and item.logic_offset <= before.known_end:
            raise WrongMapping("The max logic offset does not increase monotonically")


def check_successor(old: TopicQueueMappingDetail, new: TopicQueueMappingDetail) -> None:
    """Raises WrongMapping where a mapping may not replace an older one, or messages would change places."""
    if new.epoch < old.epoch:
        raise WrongMapping(f"Can't accept data with small epoch {new.epoch} < {old.epoch}")
    if new.scope != old.scope:
        raise WrongMapping(f"Can't accept data with unmatched scope {new.scope} != {old.scope}")
    is_same = new.epoch == old.epoch
    for global_id, before in old.hosted_queues.items():
        after = new.hosted_queues.get(global_id)
        if after is None:
            if is_same:
                raise WrongMapping("Cannot accept equal epoch with null data")
        elif before:
            _check_unmoved(before, after, is_same)


def _check_unmoved(
    before: Sequence[LogicQueueMappingItem], after: Sequence[LogicQueueMappingItem], is_same: bool
) -> None:
    if not after:
        raise WrongMapping("The new item list is null or empty")
    known = {item.gen: item for item in before}
    for item in after:
        old = known.get(item.gen)
        if old is not None and (
            (item.bname, item.queue_id, item.start_offset) != (old.bname, old.queue_id, old.start_offset)
            or (old.is_placed and item.logic_offset != old.logic_offset)
        ):
            raise WrongMapping(f"The item of generation {item.gen} differs from the one that is known")
    if is_same and after[-1].gen != before[-1].gen:
        raise WrongMapping("The new leader is different but epoch equal")


def placed(items: Sequence[LogicQueueMappingItem]) -> Iterator[LogicQueueMappingItem]:
    """The items that can be read, the earliest first."""
    return (item for item in items if item.is_placed)

"""The static topics of this broker: the queues that it leads, or led, and where their messages lie.

A mapping belongs to a topic of the table of topics. Every broker of a cluster may have one, even if it hosts
no queue of the topic: it then says so to clients whose routes are old.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakSet

from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.handling.call import Signal
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.static_topic import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
    TopicQueueMappingSerializeWrapper,
    WrongMapping,
    check_items,
    check_successor,
)
from orbitmq.protocol.bodies.topic import MAX_QUEUES
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.schema.json_body import require_member


class LedQueue(NamedTuple):
    """A logical queue that this broker leads, with the stretch that takes messages."""

    global_id: int
    item: LogicQueueMappingItem

    def static_offset(self, queue_offset: int) -> int:
        """The logical queue's offset of a message; -1 while the stretch's place is not decided."""
        return self.item.static_offset(queue_offset) if self.item.is_placed else -1


class StaticMappings:
    """Mappings by topic; they live in `config/topicQueueMapping.json`.

    A mapping is replaced as a whole and never changed: who keeps one sees by its identity that it is old.
    """

    FILE = "topicQueueMapping.json"
    NAME = "static mappings"

    def __init__(self, broker_name: str, dirty_tables: DirtyTables, now: int) -> None:
        self.by_topic: dict[str, TopicQueueMappingDetail] = {}
        self.version = DataVersion(timestamp=now)
        self._broker_name = broker_name
        self._dirty_tables = dirty_tables
        self._turn = 0
        self._waiting: dict[str, WeakSet[Signal]] = {}
        self.woken: list[Signal] = []
        """The signals of those who have to look at a mapping once more."""

    def accepted(self, wanted: TopicQueueMappingDetail, *, force: bool) -> TopicQueueMappingDetail:
        """The mapping to put for one that is wanted: queues that it does not name stay as they are.

        With `force` it need not continue the present one. Raises WrongMapping.
        """
        if wanted.bname != self._broker_name:
            raise WrongMapping(
                f"The mapping is one of {wanted.bname}, and this broker is {self._broker_name}"
            )
        if not 0 <= wanted.total_queues <= MAX_QUEUES:
            raise WrongMapping(f"A static topic has {MAX_QUEUES} queues at most")
        for items in wanted.hosted_queues.values():
            check_items(items)
        current = self.by_topic.get(wanted.topic)
        if current is not None and not force:
            check_successor(current, wanted)
        kept = {} if current is None else current.hosted_queues
        return replace(wanted, curr_id_map={}, hosted_queues=kept | wanted.hosted_queues)

    def put(self, mapping: TopicQueueMappingDetail, now: int) -> None:
        """Adds or replaces a mapping."""
        self.by_topic[mapping.topic] = mapping
        self._note(mapping.topic, now)

    def delete(self, topic: str, now: int) -> None:
        """Removes the mapping of a topic that is deleted."""
        if self.by_topic.pop(topic, None) is not None:
            self._note(topic, now)

    def change_of(self, topic: str) -> Signal:
        """A signal that is given when the mapping of a topic changes, as long as somebody holds it."""
        signal = Signal()
        self._waiting.setdefault(topic, WeakSet()).add(signal)
        return signal

    def drain_woken(self) -> list[Signal]:
        """The signals of those who have to look at a mapping once more."""
        woken, self.woken = self.woken, []
        return woken

    def led_queue(self, topic: str, global_id: int) -> LedQueue:
        """The logical queue of a static topic that a message goes to: the one that is named, or for a
        negative id any that this broker leads. Raises Refused (NOT_LEADER_FOR_QUEUE).
        """
        mapping = self.by_topic[topic]
        if global_id < 0:
            led = [number for number in mapping.hosted_queues if mapping.leads(number)]
            self._turn += 1
            global_id = led[self._turn % len(led)] if led else global_id
        return LedQueue(global_id, self.items_led(mapping, global_id)[-1])

    def items_led(self, mapping: TopicQueueMappingDetail, global_id: int) -> list[LogicQueueMappingItem]:
        """The stretches of a logical queue that this broker leads. Raises Refused."""
        if not mapping.leads(global_id):
            raise Refused(
                ResponseCode.NOT_LEADER_FOR_QUEUE,
                f"{mapping.topic}-{global_id} does not exist in request process of current broker "
                f"{self._broker_name}: it is led by another one, which a route of now names",
            )
        return mapping.hosted_queues[global_id]

    def infos(self, topics: Iterable[str]) -> dict[str, TopicQueueMappingInfo]:
        """The static ones among these topics, as name servers are told of them."""
        by_topic = self.by_topic
        return {topic: by_topic[topic].info() for topic in topics if topic in by_topic} if by_topic else {}

    def details(self, topics: Iterable[str]) -> dict[str, TopicQueueMappingDetail]:
        """The mappings of the static ones among these topics."""
        by_topic = self.by_topic
        return {topic: by_topic[topic] for topic in topics if topic in by_topic} if by_topic else {}

    def replace(self, mappings: dict[str, TopicQueueMappingDetail], version: DataVersion) -> None:
        """Takes over a master's table, unless it is the present one."""
        if version == self.version or not (mappings or self.by_topic):
            return
        self.by_topic, self.version = dict(mappings), version
        self._dirty_tables.mark(self.NAME)

    def snapshot(self) -> Snapshot:
        """The content of `topicQueueMapping.json`."""
        return TopicQueueMappingSerializeWrapper(dict(self.by_topic), self.version.copy()).to_pretty_json

    def load_text(self, text: str) -> None:
        """Takes over the content of `topicQueueMapping.json`. Raises MalformedJson."""
        require_member(text, "topicQueueMappingInfoMap")
        wrapper = TopicQueueMappingSerializeWrapper.from_json(text)
        mappings = wrapper.topic_queue_mapping_info_map or {}
        for mapping in mappings.values():
            for items in mapping.hosted_queues.values():
                check_items(items)
        self.by_topic = mappings
        self.version = wrapper.data_version

    def _note(self, topic: str, now: int) -> None:
        self.woken += self._waiting.pop(topic, ())
        self.version.next(now)
        self._dirty_tables.mark(self.NAME)

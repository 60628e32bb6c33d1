"""Consumer offsets: queue offsets by group, topic and queue.

Three tables: the stored one (`config/consumerOffset.json`, written every few seconds), the resets that wait
for the next pull of their queue, and the last pull positions; the latter two live in memory only.
Offsets of groups without members are kept for ever, unless enableCleanExpiredOffset (`upkeep.py`): they go
with the group or with the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from orbitmq.broker.metadata.snapshots import Snapshot, TextLog, document_text, map_text
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.offset import ConsumerOffsetManager
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.schema.fastjson import write_pretty
from orbitmq.protocol.schema.json_body import require_member

UPDATES_PER_VERSION = 500
"""A new DataVersion every so many commits (consumerOffsetUpdateVersionStep)."""

MOST_OF_DELETED = 10_000
"""Groups with a topic that was deleted, of which it is remembered that they read it."""

Queues = dict[int, int]


def _member(name: str, value: object) -> str:
    return f"{write_pretty(name)}:{write_pretty(value, 2)}"


IsGone = Callable[[str, str], bool]
"""True if a topic and a group are among those that are gone."""


PLAIN_FILE, LMQ_FILE = "consumerOffset.json", "lmqConsumerOffset.json"
"""Names of the file; Apache's brokers have the second one where they serve light message queues."""


class OffsetTable:
    """The offsets of all groups. An offset is the queue offset of the next message to consume."""

    FILE = PLAIN_FILE
    NAME = "offsets"

    def __init__(
        self, dirty_tables: DirtyTables, now: int, updates_per_version: int = UPDATES_PER_VERSION
    ) -> None:
        self.version = DataVersion(timestamp=now)
        self._stored: dict[str, dict[str, Queues]] = {}
        self._resets: dict[tuple[str, str], Queues] = {}
        self._pulled: dict[tuple[str, str], Queues] = {}
        self._of_deleted: dict[tuple[str, str], set[int]] = {}
        """Groups, topics that were deleted, and the queues which the groups read then."""
        self._changed: dict[tuple[str, str], None] = {}
        """Groups and topics whose stored offsets are other ones than at the last snapshot."""
        self._offset_texts: TextLog[Queues] = TextLog(_member)
        self._group_texts: TextLog[list[str]] = TextLog(_member)
        self.for_master: dict[tuple[str, str, int], int] = {}
        """Offsets, by group, topic and queue id, that groups have committed at this slave while its master
        was away: it gets them when it is back."""
        self._dirty_tables = dirty_tables
        self._updates = 0
        self._updates_per_version = updates_per_version
        self.on_removed: Callable[[IsGone], None] = lambda is_gone: None
        """Told of groups and topics whose offsets are forgotten: what else is known of them has to go too."""

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int, now: int) -> None:
        """Stores an offset, lower ones too; without effect while a reset of the queue waits for its pull."""
        if self._resets and self.has_reset(group, topic, queue_id):
            return
        self.store(group, topic, queue_id, queue_offset, now)

    def store(self, group: str, topic: str, queue_id: int, queue_offset: int, now: int) -> None:
        topics = self._stored.get(group)
        if topics is None:
            topics = self._stored[group] = {}
        queues = topics.get(topic)
        if queues is None:
            queues = topics[topic] = {}
            self._group_texts.note(group)
        queues[queue_id] = queue_offset
        self._changed[group, topic] = None
        self._updates += 1
        if self._updates % self._updates_per_version == 0:
            self.version.next(now)
        self._dirty_tables.mark(self.NAME, soon=False)

    def get(self, group: str, topic: str, queue_id: int) -> int:
        """The offset of a queue, that of a waiting reset first; -1 if there is none."""
        if self._resets:
            reset = self._resets.get((group, topic), {}).get(queue_id)
            if reset is not None:
                return reset
        topics = self._stored.get(group)
        if topics is None:
            return -1
        queues = topics.get(topic)
        return -1 if queues is None else queues.get(queue_id, -1)

    def queues(self, group: str, topic: str) -> Queues:
        """A copy of what a group has stored for a topic."""
        return dict(self._stored.get(group, {}).get(topic, {}))

    def remember_pull(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Notes up to where a group has pulled a queue."""
        key = (group, topic)
        queues = self._pulled.get(key)
        if queues is None:
            queues = self._pulled[key] = {}
        queues[queue_id] = next_offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Up to where a group has pulled a queue; -1 if it has not since the start."""
        return self._pulled.get((group, topic), {}).get(queue_id, -1)

    def reset(self, group: str, topic: str, queue_id: int, queue_offset: int, now: int) -> None:
        """Sends a group to an offset: stored at once, and handed out by its next pull of the queue."""
        self._resets.setdefault((group, topic), {})[queue_id] = queue_offset
        self.store(group, topic, queue_id, queue_offset, now)
        self._dirty_tables.mark(self.NAME)

    @property
    def has_resets(self) -> bool:
        """True if a reset of any queue waits for its pull."""
        return bool(self._resets)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return queue_id in self._resets.get((group, topic), {})

    def pop_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset a waiting reset sends this pull to, once; None without one."""
        if not self._resets:
            return None
        queues = self._resets.get((group, topic))
        if queues is None:
            return None
        queue_offset = queues.pop(queue_id, None)
        if not queues:
            del self._resets[(group, topic)]
        return queue_offset

    def clone(self, source: str, target: str, topic: str, now: int) -> None:
        """Replaces the offsets of group `target` on a topic by those of `source`; nothing if it has none."""
        queues = self._stored.get(source, {}).get(topic)
        if queues is None:
            return
        self._stored.setdefault(target, {})[topic] = dict(queues)
        self._note(target, topic)
        self.version.next(now)
        self._dirty_tables.mark(self.NAME)

    def remove_group(self, group: str, now: int) -> None:
        topics = self._stored.pop(group, None)
        if topics is not None:
            for topic in topics:
                self._note(group, topic)
            self.version.next(now)
            self._dirty_tables.mark(self.NAME)
        self._forget(lambda key: key[0] == group)

    def remove_group_topic(self, group: str, topic: str, now: int) -> None:
        topics = self._stored.get(group)
        if topics is None or topics.pop(topic, None) is None:
            return
        if not topics:
            del self._stored[group]
        self._note(group, topic)
        self.version.next(now)
        self._dirty_tables.mark(self.NAME)

    def remove_topic(self, topic: str, now: int) -> None:
        """Forgets the offsets that all groups have on a topic. If it is made again, `begin_anew` says that
        they begin at its start.
        """
        found = False
        for group in {*self.groups_of(topic), *(group for group, name in self._pulled if name == topic)}:
            self._of_deleted[group, topic] = set(self.positions(group, topic))
        while len(self._of_deleted) > MOST_OF_DELETED:
            del self._of_deleted[next(iter(self._of_deleted))]
        for group in list(self._stored):
            topics = self._stored[group]
            if topics.pop(topic, None) is not None:
                found = True
                self._note(group, topic)
                if not topics:
                    del self._stored[group]
        if found:
            self.version.next(now)
            self._dirty_tables.mark(self.NAME)
        self._forget(lambda key: key[1] == topic)

    def begin_anew(self, topic: str, is_running: Callable[[str], bool]) -> None:
        """Sends groups that run, and read a topic of this name before it was deleted, to the start of the new
        one: where they are now means nothing there, and all its messages are new to them.
        """
        for group, name in [key for key in self._of_deleted if key[1] == topic]:
            queues = self._of_deleted.pop((group, name))
            if is_running(group):
                self._resets.setdefault((group, name), {}).update(dict.fromkeys(queues, 0))

    def topics_of(self, group: str) -> set[str]:
        return set(self._stored.get(group, ()))

    def groups_of(self, topic: str) -> set[str]:
        return {group for group, topics in self._stored.items() if topic in topics}

    def pairs(self) -> list[tuple[str, str]]:
        """Group and topic of everything stored, as it is now."""
        return [(group, topic) for group, topics in self._stored.items() for topic in topics]

    def read_pairs(self) -> list[tuple[str, str]]:
        """Group and topic of everything stored or pulled since the start, as it is now."""
        return list(dict.fromkeys((*self.pairs(), *self._pulled)))

    def positions(self, group: str, topic: str) -> Queues:
        """Up to where a group has got on a topic: what it has stored, or pulled if that is more."""
        positions = self.queues(group, topic)
        for queue_id, pulled in self._pulled.get((group, topic), {}).items():
            positions[queue_id] = max(pulled, positions.get(queue_id, -1))
        return positions

    def __iter__(self) -> Iterator[tuple[str, str, Queues]]:
        """Group, topic and offsets by queue id, of everything stored."""
        for group, topics in self._stored.items():
            for topic, queues in topics.items():
                yield group, topic, queues

    def to_body(self) -> ConsumerOffsetManager:
        """The stored table as it goes over the wire and into the file."""
        return ConsumerOffsetManager(
            data_version=self.version,
            group_topic_map={group: sorted(topics) for group, topics in self._stored.items()},
            offset_table={f"{topic}@{group}": queues for group, topic, queues in self},
        )

    def snapshot(self) -> Snapshot:
        """The content of `consumerOffset.json`. It costs as much as has changed since the last one."""
        version = write_pretty(self.version.to_value(), 1)
        for group, topic in self._changed:
            self._offset_texts.note(f"{topic}@{group}")
        self._changed.clear()
        groups = self._group_texts.snapshot(self._topics_of)
        offsets = self._offset_texts.snapshot(self._queues_of)
        lmq = {"lmqOffsetTable": "{}"} if self.FILE == LMQ_FILE else {}
        return lambda: document_text(
            {
                "dataVersion": version,
                "groupTopicMap": map_text(groups()),
                **lmq,
                "offsetTable": map_text(offsets()),
            }
        )

    def _note(self, group: str, topic: str) -> None:
        self._changed[group, topic] = None
        self._group_texts.note(group)

    def _topics_of(self, group: str) -> list[str] | None:
        topics = self._stored.get(group)
        return None if topics is None else sorted(topics)

    def _queues_of(self, name: str) -> Queues | None:
        topic, _, group = name.partition("@")
        queues = self._stored.get(group, {}).get(topic)
        return None if queues is None else dict(queues)

    def load_text(self, text: str) -> None:
        """Takes over the content of `consumerOffset.json`. Raises MalformedJson."""
        require_member(text, "offsetTable")
        wrapper = ConsumerOffsetManager.from_json(text)
        stored: dict[str, dict[str, Queues]] = {}
        for key, queues in wrapper.offset_table.items():
            topic, at, group = key.partition("@")
            if at:
                stored.setdefault(group, {})[topic] = dict(queues)
        self._stored = stored
        self._changed.clear()
        self._group_texts.start(stored)
        self._offset_texts.start(f"{topic}@{group}" for group, topic, _ in self)
        self.version = wrapper.data_version
        self.snapshot()()  # the texts are made here, so that no first change has to make them all

    def _forget(self, is_gone: Callable[[tuple[str, str]], bool]) -> None:
        self.on_removed(lambda topic, group: is_gone((group, topic)))
        for place in [place for place in self.for_master if is_gone(place[:2])]:
            del self.for_master[place]
        for table in (self._resets, self._pulled):
            for key in [key for key in table if is_gone(key)]:
                del table[key]

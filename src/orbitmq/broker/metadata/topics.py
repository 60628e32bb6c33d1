"""The topics of this broker: their configs, how they come to be, and what the name servers have to hear.

Every change makes a new DataVersion, marks the table for its file (`config/topics.json`) and notes the
topic for registration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from orbitmq.broker.metadata.attributes import TOPIC_ATTRIBUTES, alter, without_effect
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.options import TopicOptions
from orbitmq.broker.metadata.snapshots import (
    EntryTexts,
    Snapshot,
    TextLog,
    document_text,
    in_file,
    map_text,
    on_wire,
)
from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.codes import PERM_INHERIT, PERM_READ, PERM_WRITE, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import (
    AUTO_CREATE_TOPIC,
    LMQ_PREFIX,
    REPLY_TOPIC_SUFFIX,
    REVIVE_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
)
from orbitmq.protocol.schema.fastjson import write_pretty
from orbitmq.protocol.schema.json_body import require_member

log = logging.getLogger(__name__)

SYS_FLAG_UNIT = 1
SYS_FLAG_UNIT_SUB = 2

SCHEDULE_QUEUES = 18
BENCHMARK_QUEUES = 1024
CLUSTER_TOPIC_QUEUES = 16


class TopicTable:
    """Topic configs by name. `by_name` may be read directly; changes go through the methods."""

    FILE = "topics.json"
    NAME = "topics"

    def __init__(
        self, identity: BrokerIdentity, settings: TopicOptions, dirty_tables: DirtyTables, now: int
    ) -> None:
        self.by_name: dict[str, TopicConfig] = {}
        self.static = StaticMappings(identity.name, dirty_tables, now)
        """The mappings of those topics that are static."""
        self.version = DataVersion(timestamp=now)
        self.state_version = 0
        """The epoch of this master, 0 without a controller: part of each version from then on."""
        self._identity = identity
        self._settings = settings
        self._dirty_tables = dirty_tables
        self.dirty_names: set[str] = set()
        """Topics that clients have made and that are in no file yet: who sends to them waits for it."""
        self.changed: set[str] = set()
        """Topics that changed or went, of which the name servers have to hear."""
        self.on_made: Callable[[str], None] = lambda topic: None
        """Told of topics that were not there before."""
        self._system: set[str] = set(SYSTEM_TOPICS)
        self._texts: TextLog[str] = TextLog(lambda name, text: text)
        self._wire_texts = EntryTexts(on_wire)

    def get(self, topic: str) -> TopicConfig | None:
        """The config of a topic, or None. A light message queue counts as a topic with one queue."""
        config = self.by_name.get(topic)
        if config is None and topic.startswith(LMQ_PREFIX) and self._settings.enable_lmq:
            return TopicConfig(topic, 1, 1, PERM_READ | PERM_WRITE)
        return config

    def put(self, config: TopicConfig, now: int) -> None:
        is_new = config.topic_name not in self.by_name
        self.by_name[config.topic_name] = config
        if is_new:
            self.on_made(config.topic_name)
        self._note(config.topic_name, now)

    def delete(self, topic: str, now: int) -> bool:
        """Removes a topic; False if there was none."""
        self.static.delete(topic, now)
        if self.by_name.pop(topic, None) is None:
            return False
        self._note(topic, now)
        return True

    def update(self, wanted: TopicConfig, now: int, mapping: TopicQueueMappingDetail | None = None) -> bool:
        """Applies an administrator's config, whose attributes are signed (see `attributes.alter`), and for a
        static topic its mapping.

        False if the topic was so already: then there is no new version. Raises Refused.
        """
        current = self.by_name.get(wanted.topic_name)
        signed = wanted.attributes
        attributes = alter(TOPIC_ATTRIBUTES, None if current is None else current.attributes, signed)
        config = TopicConfig(
            topic_name=wanted.topic_name,
            read_queue_nums=wanted.read_queue_nums,
            write_queue_nums=wanted.write_queue_nums,
            perm=wanted.perm,
            topic_filter_type=wanted.topic_filter_type,
            topic_sys_flag=wanted.topic_sys_flag,
            order=wanted.order,
            attributes=attributes,
        )
        if mapping is not None:
            self.static.put(mapping, now)
        elif current is not None and not signed and config == current:
            return False
        self.put(config, now)
        return True

    def create_for_send(
        self, topic: str, default_topic: str, client_queue_nums: int, unit_mode: bool, now: int
    ) -> TopicConfig | None:
        """The topic a message is sent to, made in the image of `default_topic` if it may be; else None.

        Queues: the smaller of what the client asks for and what the default topic has.
        """
        config = self.by_name.get(topic)
        if config is not None:
            return config
        pattern = self.by_name.get(default_topic)
        if pattern is None:
            return None
        perm = pattern.perm
        if default_topic == AUTO_CREATE_TOPIC and not self._settings.auto_create_topic_enable:
            perm &= ~PERM_INHERIT
        if not perm & PERM_INHERIT:
            return None
        queues = max(0, min(client_queue_nums, pattern.write_queue_nums))
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm & ~PERM_INHERIT,
            topic_filter_type=pattern.topic_filter_type,
            topic_sys_flag=SYS_FLAG_UNIT if unit_mode else 0,
        )
        self.put(config, now)
        self.dirty_names.add(topic)
        return config

    def ensure(
        self,
        topic: str,
        queue_nums: int,
        now: int,
        *,
        perm: int = PERM_READ | PERM_WRITE,
        unit_sub: bool = False,
        order: bool | None = None,
    ) -> TopicConfig:
        """The topic, made with these figures if it is missing, and with more queues if it has fewer; `order`,
        when given, is brought up to date.

        A topic is never made smaller: its last queues may hold messages.
        """
        config = self.by_name.get(topic)
        if config is not None:
            if min(config.read_queue_nums, config.write_queue_nums) < queue_nums:
                config.read_queue_nums = max(config.read_queue_nums, queue_nums)
                config.write_queue_nums = max(config.write_queue_nums, queue_nums)
                self._note(topic, now)
                self.dirty_names.add(topic)
            if order is not None and config.order != order:
                config.order = order
                self._note(topic, now)
            return config
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queue_nums,
            write_queue_nums=queue_nums,
            perm=perm,
            topic_sys_flag=SYS_FLAG_UNIT_SUB if unit_sub else 0,
            order=bool(order),
        )
        self.put(config, now)
        self.dirty_names.add(topic)
        return config

    def wire_texts(self, topics: Mapping[str, TopicConfig]) -> list[str]:
        """`"name":{...}` of topics of this table, as registrations carry them."""
        return self._wire_texts.of(topics)

    def make_wire_texts(self, most: int) -> bool:
        """Makes up to `most` of the texts that `wire_texts` would have to make. True if none is left."""
        return self._wire_texts.make(self.by_name, most)

    def note_saved(self) -> None:
        """Notes that the file holds every topic there is."""
        self.dirty_names.clear()

    def set_order(self, ordered: set[str], now: int) -> None:
        """Takes over what a name server says of ordered topics (the KV table that answers a registration)."""
        for topic, config in self.by_name.items():
            if topic in ordered and not config.order:
                config.order = True
                self._note(topic, now)

    def is_system(self, topic: str) -> bool:
        """True if a topic belongs to the system, here or on any broker."""
        return topic in self._system or topic.startswith(SYSTEM_TOPIC_PREFIX)

    @property
    def system_topics(self) -> frozenset[str]:
        """The names of the topics that this broker made for itself."""
        return frozenset(self._system)

    def require(self, topic: str) -> TopicConfig:
        """The config of a topic. Raises Refused (TOPIC_NOT_EXIST)."""
        config = self.by_name.get(topic)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return config

    def drain_changed(self) -> set[str]:
        """The topics that changed or went since the last call."""
        changed, self.changed = self.changed, set()
        return changed

    def begin_epoch(self, epoch: int, now: int) -> None:
        """Puts the epoch of a new master into versions: name servers then accept nothing more from the old
        one, whose registration may be on its way for as long as it is cut off.
        """
        if epoch > self.state_version:
            self.state_version = epoch
            self.announce_all(now)

    def announce_all(self, now: int) -> None:
        """Has every topic registered with the name servers once more, under a version that they do not
        know.
        """
        self.version.next(now, self.state_version)
        self.changed.update(self.by_name)
        self._dirty_tables.mark(self.NAME)

    def add_system_topics(self, now: int) -> None:
        """Makes the topics that every broker has, where they are missing. Call once, after `load_text`."""
        settings, identity = self._settings, self._identity
        full = PERM_READ | PERM_WRITE
        wanted: list[tuple[str, int, int]] = [
            ("SELF_TEST_TOPIC", 1, full),
            ("BenchmarkTest", BENCHMARK_QUEUES, full),
            ("OFFSET_MOVED_EVENT", 1, full),
            (SCHEDULE_TOPIC, SCHEDULE_QUEUES, full),
            (f"{identity.cluster}_{REPLY_TOPIC_SUFFIX}", 1, full),
            (f"{REVIVE_TOPIC_PREFIX}{identity.cluster}", settings.revive_queue_num, full),
            (f"rmq_sys_SYNC_BROKER_MEMBER_{identity.name}", 1, PERM_INHERIT),
            ("RMQ_SYS_TRANS_HALF_TOPIC", 1, full),
            ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, full),
            ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 1, full),
            ("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", 1, full),
            (
                identity.cluster,
                CLUSTER_TOPIC_QUEUES,
                (full if settings.cluster_topic_enable else 0) | PERM_INHERIT,
            ),
            (identity.name, 1, (full if settings.broker_topic_enable else 0) | PERM_INHERIT),
        ]
        if settings.auto_create_topic_enable:
            wanted.append((AUTO_CREATE_TOPIC, settings.default_topic_queue_nums, full | PERM_INHERIT))
        if settings.trace_topic_enable:
            wanted.append((settings.msg_trace_topic_name, 1, full))
        if settings.timer_wheel_enable:
            wanted.append(("rmq_sys_wheel_timer", 1, full))
        for topic, queues, perm in wanted:
            self._system.add(topic)
            # Pops write to as many revive queues as the option says: all of them have to be read.
            if topic not in self.by_name or topic.startswith(REVIVE_TOPIC_PREFIX):
                self.ensure(topic, queues, now, perm=perm)
        # No crash loses these: every start makes them.
        self.note_saved()

    def snapshot(self) -> Snapshot:
        """The content of `topics.json`."""
        version = write_pretty(self.version.to_value(), 1)
        members = self._texts.snapshot(self._text)
        return lambda: document_text({"dataVersion": version, "topicConfigTable": map_text(members())})

    def _text(self, topic: str) -> str | None:
        config = self.by_name.get(topic)
        return None if config is None else in_file(topic, config)

    def load_text(self, text: str) -> None:
        """Takes over the content of `topics.json`. Raises MalformedJson."""
        require_member(text, "topicConfigTable")
        wrapper = TopicConfigSerializeWrapper.from_json(text)
        self.by_name = {
            name: config for name, config in wrapper.topic_config_table.items() if config.topic_name == name
        }
        for name, config in self.by_name.items():
            if unknown := without_effect(TOPIC_ATTRIBUTES, config.attributes):
                log.warning("topic %s: %s is not supported yet and changes nothing", name, ", ".join(unknown))
        self.version = wrapper.data_version
        self._texts.start(self.by_name)
        self._wire_texts.clear()
        self.snapshot()()  # the texts are made here, so that no first change has to make them all

    def replace(self, text: str) -> None:
        """Takes over a master's table, and has its topics registered with the name servers. Raises
        MalformedJson.
        """
        before = set(self.by_name)
        self.load_text(text)
        self.changed |= before | set(self.by_name)
        self._dirty_tables.mark(self.NAME)

    def _note(self, topic: str, now: int) -> None:
        self.version.next(now, self.state_version)
        self.changed.add(topic)
        self._texts.note(topic)
        self._wire_texts.forget(topic)
        self._dirty_tables.mark(self.NAME)

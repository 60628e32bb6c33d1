"""The subscription groups of this broker, and which of them may not read which topic.

Every change makes a new DataVersion and marks the table for `config/subscriptionGroup.json`.
"""

from __future__ import annotations

from orbitmq.broker.metadata import names
from orbitmq.broker.metadata.attributes import GROUP_ATTRIBUTES, alter
from orbitmq.broker.metadata.options import TopicOptions
from orbitmq.broker.metadata.snapshots import Snapshot, TextLog, document_text, in_file, map_text
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from orbitmq.protocol.bodies.topic import MAX_QUEUES
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS
from orbitmq.protocol.schema.fastjson import write_pretty
from orbitmq.protocol.schema.json_body import require_member

FORBIDDEN_READ = 4
"""Bit of the forbidden table: the group may not read the topic."""


class GroupTable:
    """Group configs by name. `by_name` may be read directly; changes go through the methods."""

    FILE = "subscriptionGroup.json"
    NAME = "groups"

    def __init__(self, settings: TopicOptions, dirty_tables: DirtyTables, now: int) -> None:
        self.by_name: dict[str, SubscriptionGroupConfig] = {}
        self.forbidden: dict[str, dict[str, int]] = {}
        self.version = DataVersion(timestamp=now)
        self._settings = settings
        self._dirty_tables = dirty_tables
        self._texts: TextLog[str] = TextLog(lambda name, text: text)

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The config of a group, or None. Makes nothing."""
        return self.by_name.get(group)

    def find(self, group: str, now: int) -> SubscriptionGroupConfig | None:
        """The config of a group that a client names: made with defaults if groups may be made so."""
        config = self.by_name.get(group)
        if config is None and self._may_create(group):
            config = SubscriptionGroupConfig(group_name=group)
            self.put(config, now)
        return config

    def put(self, config: SubscriptionGroupConfig, now: int) -> None:
        self.by_name[config.group_name] = config
        self._texts.note(config.group_name)
        self._note(now)

    def update(self, wanted: SubscriptionGroupConfig, now: int) -> None:
        """Applies an administrator's config: all of it is replaced but the attributes, which are signed."""
        current = self.by_name.get(wanted.group_name)
        wanted.attributes = self.altered(wanted, current)
        self.put(wanted, now)

    @staticmethod
    def altered(wanted: SubscriptionGroupConfig, current: SubscriptionGroupConfig | None) -> dict[str, str]:
        """The attributes after `wanted`. Raises Refused (SYSTEM_ERROR, INVALID_PARAMETER)."""
        if wanted.retry_queue_nums > MAX_QUEUES:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"A group has {MAX_QUEUES} retry queues at most.")
        return alter(GROUP_ATTRIBUTES, None if current is None else current.attributes, wanted.attributes)

    def delete(self, group: str, now: int) -> bool:
        """Removes a group; False if there was none."""
        existed = self.by_name.pop(group, None) is not None
        self._texts.note(group)
        forbade = self.forbidden.pop(group, None) is not None
        if existed or forbade:
            self._note(now)
        return existed

    def is_forbidden(self, group: str, topic: str) -> bool:
        rows = self.forbidden.get(group)
        return rows is not None and bool(rows.get(topic, 0) & FORBIDDEN_READ)

    def set_readable(self, group: str, topic: str, readable: bool, now: int) -> None:
        """Allows or forbids the group to read the topic."""
        rows = self.forbidden.get(group, {})
        before = rows.get(topic, 0)
        after = before & ~FORBIDDEN_READ if readable else before | FORBIDDEN_READ
        if after:
            self.forbidden.setdefault(group, {})[topic] = after
        elif topic in rows:
            del rows[topic]
            if not rows:
                del self.forbidden[group]
        self._note(now)

    def add_system_groups(self, now: int) -> None:
        """Makes the groups that every broker has, where they are missing. Call once, after `load_text`."""
        for group in SYSTEM_GROUPS:
            if group not in self.by_name:
                self.put(SubscriptionGroupConfig(group_name=group), now)

    def snapshot(self) -> Snapshot:
        """The content of `subscriptionGroup.json`."""
        version = write_pretty(self.version.to_value(), 1)
        forbidden = write_pretty(self.forbidden, 1)
        members = self._texts.snapshot(self._text)
        return lambda: document_text(
            {
                "dataVersion": version,
                "forbiddenTable": forbidden,
                "subscriptionGroupTable": map_text(members()),
            }
        )

    def _text(self, group: str) -> str | None:
        config = self.by_name.get(group)
        return None if config is None else in_file(group, config)

    def load_text(self, text: str) -> None:
        """Takes over the content of `subscriptionGroup.json`. Raises MalformedJson."""
        require_member(text, "subscriptionGroupTable")
        wrapper = SubscriptionGroupWrapper.from_json(text)
        self.by_name = {
            name: config
            for name, config in wrapper.subscription_group_table.items()
            if config.group_name == name
        }
        self.forbidden = wrapper.forbidden_table
        self.version = wrapper.data_version
        self._texts.start(self.by_name)
        self.snapshot()()  # the texts are made here, so that no first change has to make them all

    def _may_create(self, group: str) -> bool:
        if not names.is_group_name(group):
            return False
        return self._settings.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)

    def _note(self, now: int) -> None:
        self.version.next(now)
        self._dirty_tables.mark(self.NAME)

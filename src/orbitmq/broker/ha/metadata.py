"""Tables that a slave takes over from its master: topics, groups, offsets, delay positions, timers, modes,
users and their rules.

Tables with a version are replaced where it differs. Offsets are merged, for groups commit at a slave while
their master is away: at first the larger one counts, later whatever the master has changed since.
"""

from __future__ import annotations

from orbitmq.broker.auth.handlers import policies_of, users_of
from orbitmq.broker.broker import Broker
from orbitmq.protocol.bodies.auth import AclInfo, UserInfo
from orbitmq.protocol.bodies.group import SubscriptionGroupWrapper
from orbitmq.protocol.bodies.offset import ConsumerOffsetSerializeWrapper
from orbitmq.protocol.bodies.pop import MessageRequestModeSerializeWrapper
from orbitmq.protocol.bodies.topic import TopicConfigAndMappingSerializeWrapper
from orbitmq.store.timer.check_point import decode_fields


class MasterTables:
    """The master's tables as they come, laid into those of a slave."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: dict[tuple[str, str, int], int] = {}
        """Offsets that the master had at the last look."""

    def lost(self) -> None:
        """Notes that the master was not reached: it may come back with offsets of before."""
        self._seen.clear()

    def topics(self, body: TopicConfigAndMappingSerializeWrapper) -> None:
        """Replaces the topics; the queues of those that are gone go with them."""
        broker = self._broker
        if body.data_version == broker.topics.version:
            return
        before = set(broker.topics.by_name)
        broker.topics.replace(body.to_json_text())
        for topic in before - set(broker.topics.by_name):
            broker.store.delete_queues(topic)

    def groups(self, body: SubscriptionGroupWrapper) -> None:
        """Replaces the groups."""
        groups = self._broker.groups
        if body.data_version != groups.version:
            groups.load_text(body.to_json_text())
            self._broker.dirty_tables.mark(groups.NAME)

    def offsets(self, body: ConsumerOffsetSerializeWrapper, now: int) -> None:
        """Merges the offsets of groups."""
        offsets, seen = self._broker.offsets, self._seen
        for key, queues in body.offset_table.items():
            topic, at, group = key.partition("@")
            if not at:
                continue
            own = offsets.queues(group, topic)
            for queue_id, offset in queues.items():
                place = (group, topic, queue_id)
                before = seen.get(place)
                if before != offset:
                    seen[place] = offset
                    mine = own.get(queue_id, -1)
                    if mine < offset or (before is not None and mine != offset):
                        offsets.store(group, topic, queue_id, offset, now)

    def delay(self, text: str, log_end: int) -> None:
        """Replaces the positions of the delay levels. `log_end` is where this log ended before they were
        asked for: whatever the master delivers beyond them stands behind it.
        """
        acting = self._broker.settings.enable_slave_acting_master
        self._broker.delay.follow(text, log_end, keeps_own=acting)

    def modes(self, body: MessageRequestModeSerializeWrapper) -> None:
        """Replaces the modes in which groups read."""
        modes = self._broker.modes
        if body != modes.to_body():
            modes.load_text(body.to_json_text())
            self._broker.dirty_tables.mark(modes.NAME)

    def users(self, users: list[UserInfo], acls: list[AclInfo]) -> list[str]:
        """Replaces users and rules; gives the names of users that cannot be taken over, for want of their
        secrets. Raises Refused for rules that cannot be read; then all stay as they are.
        """
        auth = self._broker.auth
        found, unusable = users_of(users, auth)
        if found:  # a master without any has no access control: this broker's users stay
            auth.replace_all(found, policies_of(acls))
        return unusable

    def timer_check_point(self, data: bytes) -> None:
        """Notes how far the master has delivered timer messages. Raises OSError."""
        timers = self._broker.store.timers
        if timers is not None:
            timers.follow(decode_fields(data))

    def timer_metrics(self, text: str) -> None:
        """Takes over the counts of timer messages that wait."""
        metrics = self._broker.timer.metrics
        metrics.load_text(text)
        self._broker.dirty_tables.mark(metrics.NAME, soon=False)

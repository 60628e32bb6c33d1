"""Tables that a slave takes over from its master: topics, groups, offsets, delay positions, timers, modes,
users and their rules.

Tables with a version are replaced where it differs. Offsets are merged, for groups commit at a slave while
their master is away: at first the larger one counts, later whatever the master has changed since. They wait
until this log holds what the master's held when it sent them: the offset of a group moves over a pop because
its check point is in the log. A slave that knew the offset alone and became master would never deliver these
messages again.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.broker.assignment.request_modes import RequestModes
from orbitmq.broker.auth.handlers import policies_of, users_of
from orbitmq.broker.auth.table import AuthTable
from orbitmq.broker.broker import Broker
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.protocol.bodies.auth import AclInfo, UserInfo
from orbitmq.protocol.bodies.group import SubscriptionGroupWrapper
from orbitmq.protocol.bodies.offset import ConsumerOffsetSerializeWrapper
from orbitmq.protocol.bodies.pop import MessageRequestModeSerializeWrapper
from orbitmq.protocol.bodies.topic import TopicConfigAndMappingSerializeWrapper
from orbitmq.store.timer.check_point import TimerFields

FOLLOWED = frozenset(
    {TopicTable.NAME, StaticMappings.NAME, GroupTable.NAME, RequestModes.NAME, AuthTable.NAME}
)
"""Tables of which a change is not answered before the members of the in-sync set have it."""


class MasterProgress(NamedTuple):
    """Progress of a master's deliveries of messages that waited."""

    timers: TimerFields | None
    delay: str
    """Its positions in the delay levels, in JSON; empty where it has none."""
    asked_at: int
    """The end of the slave's log before the master was asked."""
    log_end: int
    """The end of the master's log when it had answered."""


class MasterTables:
    """The master's tables as they come, laid into those of a slave."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: dict[tuple[str, str, int], int] = {}
        """Offsets that the master had at the last look."""
        self._held: MasterProgress | None = None
        self._held_offsets: tuple[ConsumerOffsetSerializeWrapper, int] | None = None
        """Offsets, and the end of the master's log when it had sent them."""

    def lost(self) -> None:
        """Notes that the master was not reached: it may come back with offsets of before."""
        self._seen.clear()
        self.forget_held()

    def forget_held(self) -> None:
        """Forgets what a master said that may not be this one, and that does not count yet."""
        self._held = self._held_offsets = None

    def topics(self, body: TopicConfigAndMappingSerializeWrapper, asked_at: int, now: int) -> None:
        """Replaces the topics; the queues of those that this master has deleted go with them. `asked_at` is
        the end of this log when the master was asked.

        The master of a new epoch may not have heard of a topic when it was elected, and have delivered
        messages there since that had waited. So queues of an earlier epoch's topics stay, and a later master
        makes these topics again.
        """
        broker = self._broker
        broker.topics.static.replace(body.topic_queue_mapping_detail_map, body.mapping_data_version)
        version = broker.topics.version
        if body.data_version == version:
            return
        before = set(broker.topics.by_name)
        is_of_this_epoch = body.data_version.state_version == version.state_version
        broker.topics.replace(body.to_json_text())
        if is_of_this_epoch:
            for topic in sorted(before - set(broker.topics.by_name)):
                broker.lite_expiry.delete_all_of(topic, now, asked_at)
                # Commits since then may be for the new topic, and are acknowledged.
                broker.store.structures.delete_queues(topic, asked_at)
                # By the master's clock, as are the pops of which this broker may find the check points.
                deleted_at = body.data_version.timestamp
                broker.deletions.note(topic, broker.store.log_end(asked_at), deleted_at)

    def groups(self, body: SubscriptionGroupWrapper) -> None:
        groups = self._broker.groups
        if body.data_version != groups.version:
            groups.load_text(body.to_json_text())
            self._broker.dirty_tables.mark(groups.NAME)

    def offsets(self, body: ConsumerOffsetSerializeWrapper, log_end: int, now: int) -> None:
        """Merges the offsets of groups, once this log holds all that the master's did before `log_end`.

        While it does not, those that it sends later are left out: a slave that is always a little behind
        would never get any.
        """
        self.apply_held_offsets(now)
        if self._held_offsets is None:
            self._held_offsets = body, log_end
            self.apply_held_offsets(now)

    def apply_held_offsets(self, now: int) -> bool:
        """Merges offsets that are held back, if they count by now; false where they still do not."""
        if self._held_offsets is None:
            return True
        body, log_end = self._held_offsets
        if self._broker.store.max_physical < log_end:
            return False
        self._held_offsets = None
        self._merge(body, now)
        return True

    def _merge(self, body: ConsumerOffsetSerializeWrapper, now: int) -> None:
        offsets, seen, mastership = self._broker.offsets, self._seen, self._broker.mastership
        goes_back, mastership.has_lost_pops = mastership.has_lost_pops, False
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
                    if mine < offset or ((before is not None or goes_back) and mine != offset):
                        offsets.store(group, topic, queue_id, offset, now)

    def ahead_of_master(self, body: ConsumerOffsetSerializeWrapper) -> dict[tuple[str, str, int], int]:
        """The offsets that groups have committed here and that are larger than those of the master, at most
        the ends of queues: of a log that was cut the messages are gone. The others need no more be kept.
        """
        ahead = {}
        for (group, topic, queue_id), offset in list(self._broker.offsets.for_master.items()):
            bounded = min(offset, self._broker.store.queue_end(topic, queue_id))
            if bounded > body.offset_table.get(f"{topic}@{group}", {}).get(queue_id, -1):
                ahead[group, topic, queue_id] = bounded
            else:
                del self._broker.offsets.for_master[group, topic, queue_id]
        return ahead

    def progress(self, sent: MasterProgress) -> None:
        """Takes over how far the master has delivered, or what it said of that the last time.

        What it said counts once this log holds all that the master's did then: a broker that is elected
        earlier continues from its own state, and finds in its log what was delivered since. Raises
        MalformedJson, OSError.
        """
        self.apply_held()
        self._held = sent
        self.apply_held()

    def apply_held(self) -> bool:
        """Takes over what is held back, if that counts by now; false where it still does not. Raises
        MalformedJson, OSError.
        """
        held = self._held
        if held is None:
            return True
        if not self._holds(held.log_end):
            return False
        self._held = None
        self._follow(held)
        return True

    def _holds(self, log_end: int) -> bool:
        store = self._broker.store
        return min(store.durable_offset, store.max_physical) >= log_end

    def _follow(self, sent: MasterProgress) -> None:
        timers = self._broker.store.timers
        if timers is not None and sent.timers is not None:
            timers.follow(sent.timers)
        if sent.delay:
            acting = self._broker.settings.enable_slave_acting_master
            self._broker.delay.follow(sent.delay, sent.asked_at, sent.log_end, keeps_own=acting)

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

    def timer_metrics(self, text: str) -> None:
        """Takes over the counts of timer messages that wait."""
        metrics = self._broker.timer.metrics
        metrics.load_text(text)
        self._broker.dirty_tables.mark(metrics.NAME, soon=False)

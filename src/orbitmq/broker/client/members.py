"""The members of a consumer group, and the filters by which they read.

RocketMQ shares a group's queues as if all members wanted the same messages. While they do not, each reads the
queues that it owns by its own filter: the messages that it does not want are passed over, for the whole
group. So it is counted here by which filters a topic is read, and those who look after a group are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from orbitmq.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumeType,
    FilterOfMembers,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.names import RETRY_PREFIX

_BROADCASTING = MessageModel.BROADCASTING  # asked of every pull, and slow to find in its enum

Filters: TypeAlias = Iterable[SubscriptionData]
Filter: TypeAlias = tuple[str, str, bool]
"""Type and expression of a filter, and True if it is that of a broadcasting member."""
NOT_SUBSCRIBED: Filter = ("", "", False)
"""The filter of a member that does not subscribe a topic which others of its group read."""


@dataclass(slots=True)
class Client:
    """One client on one connection."""

    connection_id: int
    client_id: str
    address: str
    language: int
    version: int
    last_seen_ms: int
    host: bytes = b""
    """Its packed address."""
    user: str | None = None
    """User that signed its heartbeat, where there is access control."""


@dataclass(slots=True)
class Member(Client):
    """A consumer, and what it says that it consumes."""

    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscriptions: dict[str, SubscriptionData] | None = None
    """By topic; None: its heartbeats have not said yet."""
    fingerprint: int | None = None
    """Of its heartbeat before; 0 is that of the first form of heartbeats."""
    is_replaced: bool = False
    """True if its client has come again on another connection: it has no say in what the group reads."""

    @property
    def is_broadcasting(self) -> bool:
        """True if it reads every queue."""
        return self.message_model is _BROADCASTING

    def filter_on(self, topic: str) -> Filter:
        subscription = (self.subscriptions or {}).get(topic)
        return NOT_SUBSCRIBED if subscription is None else (*subscription.filter, self.is_broadcasting)


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a consumer group that are here, and what they say together."""

    name: str
    members: dict[int, Member] = field(default_factory=dict)
    """By connection, the newest last."""
    notifies: bool = True
    """True if members are notified of changes (the group's notifyConsumerIdsChangedEnable)."""
    quiet_until: int = 0
    """No notice is sent before this time (ms)."""
    differing: frozenset[tuple[str, tuple[Filter, ...]]] = frozenset()
    """Topics that members read by different filters, each with these filters."""
    _filters: dict[str, Counter[Filter]] = field(default_factory=dict)
    """Number of members by filter, for each topic."""
    _subscribing: int = 0
    """Members that subscribe anything."""
    _newest_by_topic: dict[str, SubscriptionData] = field(default_factory=dict)
    _stale: set[str] = field(default_factory=set)
    """Topics whose newest subscription has gone: many members may go at once before the next question."""

    @property
    def subscriptions(self) -> Mapping[str, SubscriptionData]:
        """The newest subscription of each topic among the members: operators see it as that of the group."""
        for topic in self._stale:
            self._look_for_newest(topic)
        self._stale.clear()
        return self._newest_by_topic

    @property
    def is_broadcasting(self) -> bool:
        """True if every member gets every message."""
        return all(member.is_broadcasting for member in self.members.values())

    @property
    def consume_type(self) -> ConsumeType:
        """That of the newest member."""
        return self._newest.consume_type

    @property
    def message_model(self) -> MessageModel:
        """That of the newest member."""
        return self._newest.message_model

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """That of the newest member."""
        return self._newest.consume_from_where

    @property
    def _newest(self) -> Member:
        return self.members[next(reversed(self.members))]

    def client_ids(self) -> list[str]:
        """The ids of the members that share the queues, each once: without broadcasting ones, which read all
        of them beside, unless there are no others.
        """
        everybody = self.is_broadcasting
        return list(
            dict.fromkeys(
                one.client_id for one in self.members.values() if everybody or not one.is_broadcasting
            )
        )

    def find_client(self, client_id: str) -> Member | None:
        """The member of that id, on its newest connection."""
        for client in reversed(self.members.values()):
            if client.client_id == client_id:
                return client
        return None

    def differs_on(self, topic: str) -> bool:
        """True if members read a topic by different filters."""
        counts = self._filters.get(topic)
        return counts is not None and (len(counts) > 1 or counts.total() < self._subscribing)

    def subscription_of(self, connection_id: int, topic: str, client_id: str = "") -> SubscriptionData | None:
        """The subscription by which a connection reads a topic, None without one.

        It is that of the member, on whose behalf a proxy pulls if it gives a `client_id`. For a connection
        that has said nothing yet, it is the group's, unless members differ: then it is unknown.
        """
        member = self.members.get(connection_id)
        if member is None and client_id:
            member = self.find_client(client_id)
        if member is not None and member.subscriptions is not None:
            return member.subscriptions.get(topic)
        return None if self.differs_on(topic) else self.subscriptions.get(topic)

    def filters_of_members(self) -> list[FilterOfMembers]:
        """Members by their filters, for each topic on which members differ; empty if all agree."""
        rows: dict[tuple[str, Filter], list[str]] = {}
        for topic, filters in sorted(self.differing):
            rows |= {(topic, one): [] for one in filters}
            for member in self.members.values():
                if member.subscriptions and not member.is_replaced:
                    rows.setdefault((topic, member.filter_on(topic)), []).append(member.client_id)
        return [
            FilterOfMembers(topic, kind, text, broadcasting, clients)
            for (topic, (kind, text, broadcasting)), clients in rows.items()
        ]

    # Coming, changing and going.

    def join(self, member: Member) -> None:
        """Takes in a member. An older connection of its client has no say any more, but hands over what it
        subscribed.
        """
        self.leave(member.connection_id)
        for older in self.members.values():
            if older.client_id == member.client_id and older.user == member.user:
                if not older.is_replaced:
                    self._count(older, -1)
                    older.is_replaced = True
                member.subscriptions = older.subscriptions
        self.members[member.connection_id] = member
        self._count(member, 1)

    def update(self, member: Member, message_model: MessageModel, wanted: Filters | None) -> bool:
        """Takes over what a member's heartbeat says; without `wanted`, what it subscribes stays. True if a
        topic came or went, or is read otherwise than before.
        """
        before = member.subscriptions
        after = before if wanted is None else _newer(before or {}, wanted)
        is_back = member.is_replaced  # both its connections live: two clients with one id
        if message_model is member.message_model and _is_same(before, after) and not is_back:
            return False
        if not is_back:
            self._count(member, -1)
        member.is_replaced = False
        member.message_model = message_model
        member.subscriptions = after
        self._count(member, 1)
        return True

    def leave(self, connection_id: int) -> bool:
        """Takes off a member and all that it said. False if there is none on that connection."""
        member = self.members.pop(connection_id, None)
        if member is None:
            return False
        if not member.is_replaced:
            self._count(member, -1)
        return True

    def settle(self) -> bool:
        """Looks whether members differ, after a change. True if it is otherwise than before."""
        before = self.differing
        self.differing = frozenset(
            (topic, tuple(sorted([*counts, *[NOT_SUBSCRIBED] * (counts.total() < self._subscribing)])))
            for topic, counts in self._filters.items()
            if self.differs_on(topic)
        )
        return before != self.differing

    def _count(self, member: Member, step: int) -> None:
        """Counts what a member subscribes, or no longer (-1)."""
        if not member.subscriptions:
            return
        self._subscribing += step
        for topic, subscription in member.subscriptions.items():
            newest = self._newest_by_topic.get(topic)
            if step < 0:
                if newest is subscription:
                    self._stale.add(topic)
            elif newest is None or subscription.sub_version > newest.sub_version:
                self._newest_by_topic[topic] = subscription
                self._stale.discard(topic)
            if not topic.startswith(RETRY_PREFIX):
                counts = self._filters.setdefault(topic, Counter())
                counts[member.filter_on(topic)] += step
                self._filters[topic] = counts = +counts
                if not counts:
                    del self._filters[topic]

    def _look_for_newest(self, topic: str) -> None:
        found = [
            subscription
            for member in self.members.values()
            if not member.is_replaced and member.subscriptions
            if (subscription := member.subscriptions.get(topic)) is not None
        ]
        if found:
            self._newest_by_topic[topic] = max(found, key=lambda one: one.sub_version)
        else:
            del self._newest_by_topic[topic]


def _newer(known: Mapping[str, SubscriptionData], wanted: Filters) -> dict[str, SubscriptionData]:
    """Subscriptions of a member: of each topic that it names, the newer one."""
    result = {}
    for one in wanted:
        older = known.get(one.topic)
        is_older = older is not None and (
            one.sub_version < older.sub_version
            or (one.sub_version == older.sub_version and one.filter == older.filter)
        )
        result[one.topic] = older if older is not None and is_older else one
    return result


def _is_same(before: dict[str, SubscriptionData] | None, after: dict[str, SubscriptionData] | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.keys() == after.keys() and all(after[topic] is one for topic, one in before.items())

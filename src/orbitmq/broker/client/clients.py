"""Connected clients: producers and consumers by group, as their heartbeats say.

A member is a connection, since that is what comes and goes; one client id may for a moment have two. When
the members of a consumer group or its subscriptions change, every member is notified (ids changed), so that
it rebalances at once; members of a broadcasting group share nothing and are not notified. A large group hears
of the changes of some moments together: n members that come one by one would else be sent n² notices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from orbitmq.broker.client.outbox import Outbox
from orbitmq.handling.call import Peer
from orbitmq.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.requests.client import NotifyConsumerIdsChanged

E = TypeVar("E", bound=Enum)

CHANNEL_EXPIRED_MS = 120_000
"""A client that sends no heartbeat for so long is cut off (channelExpiredTimeout)."""

NOTICES_PER_MS = 10
"""Members of one group that are notified of changes per millisecond: 1,000 members every 100 ms at most."""

_BROADCASTING = MessageModel.BROADCASTING  # asked of every pull, and slow to find in its enum


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
class ConsumerGroup:
    """The members of a consumer group that are here, and what the group says it consumes."""

    name: str
    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    members: dict[int, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    notifies: bool = True
    """True if members are notified of changes (the group's notifyConsumerIdsChangedEnable)."""
    quiet_until: int = 0
    """No notice is sent before this time (ms)."""

    @property
    def is_broadcasting(self) -> bool:
        """True if every member gets every message."""
        return self.message_model is _BROADCASTING

    def client_ids(self) -> list[str]:
        """The ids of the members, each once."""
        return list(dict.fromkeys(client.client_id for client in self.members.values()))

    def find_client(self, client_id: str) -> Client | None:
        """The member of that id, on its newest connection."""
        for client in reversed(self.members.values()):
            if client.client_id == client_id:
                return client
        return None

    def subscribe(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Takes over the subscriptions of a heartbeat. True if a topic came or went.

        A newer version of a known topic replaces the old one without being a change that members must hear.
        """
        changed = False
        topics: set[str] = set()
        for subscription in wanted:
            topic = subscription.topic
            topics.add(topic)
            known = self.subscriptions.get(topic)
            if known is None:
                changed = True
            if known is None or subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
        for topic in [topic for topic in self.subscriptions if topic not in topics]:
            del self.subscriptions[topic]
            changed = True
        return changed


class ClientTable:
    """All producers and consumers that this broker knows."""

    def __init__(self, outbox: Outbox) -> None:
        self.producers: dict[str, dict[int, Client]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self.changes = 0
        """Number of times that a consumer group came, went, or changed what it consumes and how."""
        self.unnotified: set[str] = set()
        """Groups that changed since their members were last notified."""
        self._outbox = outbox
        self._fingerprints: dict[str, int] = {}
        self._produces: dict[int, set[str]] = {}
        self._consumes: dict[int, set[str]] = {}
        """Groups by connection, so that a connection that goes costs no look at every group."""

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """A group's subscription of a topic, or None."""
        consumers = self.consumers.get(group)
        return None if consumers is None else consumers.subscriptions.get(topic)

    def groups_of(self, topic: str) -> set[str]:
        """The groups that subscribe a topic at this time."""
        return {name for name, group in self.consumers.items() if topic in group.subscriptions}

    def register_producer(
        self, group: str, client_id: str, peer: Peer, now: int, user: str | None = None
    ) -> None:
        """Notes a producer, or that it is still here."""
        if _seen(self.producers.setdefault(group, {}), client_id, peer, now, user):
            self._produces.setdefault(peer.connection_id, set()).add(group)

    def register_consumer(
        self,
        data: ConsumerData,
        client_id: str,
        peer: Peer,
        now: int,
        *,
        notifies: bool,
        with_subscriptions: bool,
        user: str | None = None,
    ) -> bool:
        """Notes a consumer and what it subscribes. True if anything changed that the group had to hear."""
        name = data.group_name
        consume_type = _given(data.consume_type, ConsumeType.CONSUME_PASSIVELY)
        message_model = _given(data.message_model, MessageModel.CLUSTERING)
        consume_from_where = _given(data.consume_from_where, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
        group = self.consumers.get(name)
        if group is None:
            group = ConsumerGroup(name, consume_type, message_model, consume_from_where)
            self.consumers[name] = group
            self.changes += 1
        before = (group.consume_type, group.message_model, dict(group.subscriptions))
        group.consume_type = consume_type
        group.message_model = message_model
        group.consume_from_where = consume_from_where
        group.notifies = notifies
        changed = _seen(group.members, client_id, peer, now, user)
        if changed:
            self._consumes.setdefault(peer.connection_id, set()).add(name)
        if with_subscriptions and group.subscribe(data.subscription_data_set):
            changed = True
        if before != (group.consume_type, group.message_model, group.subscriptions):
            self.changes += 1
        if changed:
            self._changed(group)
        return changed

    def fingerprint_changed(self, group: str, fingerprint: int) -> bool:
        """Notes the heartbeat fingerprint of a group. True if an earlier one was different."""
        known = self._fingerprints.get(group)
        self._fingerprints[group] = fingerprint
        return known is not None and known != fingerprint

    def find_producer(self, client_id: str) -> Client | None:
        """A producer of that id, on any of its connections, in whichever group.

        None where several users say that it is theirs: an id is a name that anybody can take.
        """
        found = None
        for members in self.producers.values():
            for client in members.values():
                if client.client_id == client_id:
                    if found is not None and found.user != client.user:
                        return None
                    found = found or client
        return found

    def unregister_producer(self, group: str, connection_id: int) -> None:
        """Takes a producer off."""
        members = self.producers.get(group)
        if members is None or members.pop(connection_id, None) is None:
            return
        _drop_membership(self._produces, connection_id, group)
        if not members:
            del self.producers[group]

    def unregister_consumer(self, group: str, connection_id: int) -> None:
        """Removes a consumer and notifies those that stay."""
        consumers = self.consumers.get(group)
        if consumers is None or consumers.members.pop(connection_id, None) is None:
            return
        _drop_membership(self._consumes, connection_id, group)
        if consumers.members:
            self._changed(consumers)
        else:
            del self.consumers[group]
            self.changes += 1

    def connection_closed(self, connection_id: int) -> None:
        """Takes off everybody who spoke through a connection that is gone."""
        for group in tuple(self._produces.get(connection_id, ())):
            self.unregister_producer(group, connection_id)
        for group in tuple(self._consumes.get(connection_id, ())):
            self.unregister_consumer(group, connection_id)

    def expire(self, now: int, expired_ms: int = CHANNEL_EXPIRED_MS) -> list[int]:
        """Takes off clients that went silent; gives the connections to close."""
        silent: dict[int, None] = {}
        for members in (*self.producers.values(), *(group.members for group in self.consumers.values())):
            for client in members.values():
                if now - client.last_seen_ms > expired_ms:
                    silent[client.connection_id] = None
        for connection_id in silent:
            self.connection_closed(connection_id)
        return list(silent)

    def _changed(self, group: ConsumerGroup) -> None:
        if group.notifies and not group.is_broadcasting:
            self.unnotified.add(group.name)

    def notify(self, now: int) -> int | None:
        """Notifies the members of groups that changed; gives when to call again for those notified just
        now.
        """
        following: int | None = None
        for name in sorted(self.unnotified):
            group = self.consumers.get(name)
            if group is None:
                self.unnotified.discard(name)
            elif group.quiet_until > now:
                following = min(group.quiet_until, following or group.quiet_until)
            else:
                self.unnotified.discard(name)
                group.quiet_until = now + len(group.members) // NOTICES_PER_MS
                for connection_id in group.members:
                    self._outbox.push(connection_id, NotifyConsumerIdsChanged(consumer_group=name))
        return following


def _drop_membership(groups: dict[int, set[str]], connection_id: int, group: str) -> None:
    joined = groups.get(connection_id)
    if joined is not None:
        joined.discard(group)
        if not joined:
            del groups[connection_id]


def _given(value: E | None, default: E) -> E:
    return default if value is None else value


def _seen(members: dict[int, Client], client_id: str, peer: Peer, now: int, user: str | None) -> bool:
    known = members.get(peer.connection_id)
    if known is not None and known.client_id == client_id and known.user == user:
        known.last_seen_ms = now
        return False
    members[peer.connection_id] = Client(
        peer.connection_id, client_id, peer.address, peer.language, peer.version, now, peer.host, user
    )
    return True

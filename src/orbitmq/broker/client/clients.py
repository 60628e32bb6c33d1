"""Connected clients: producers and consumers by group, as their heartbeats say.

A member is a connection, since that is what comes and goes; one client id may for a moment have two. When
the members of a consumer group or its subscriptions change, every member is notified (ids changed), so that
it rebalances at once; members of a broadcasting group share nothing and are not notified. A large group hears
of the changes of some moments together: n members that come one by one would else be sent n² notices.
"""

from __future__ import annotations

import logging
from enum import Enum
from itertools import groupby
from typing import TypeVar

from orbitmq.broker.client.members import Client, ConsumerGroup, Member
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

log = logging.getLogger(__name__)

E = TypeVar("E", bound=Enum)

CHANNEL_EXPIRED_MS = 120_000
"""A client that sends no heartbeat for so long is cut off (channelExpiredTimeout)."""

NOTICES_PER_MS = 10
"""Members of one group that are notified of changes per millisecond: 1,000 members every 100 ms at most."""


class ClientTable:
    """All producers and consumers that this broker knows."""

    def __init__(self, outbox: Outbox) -> None:
        self.producers: dict[str, dict[int, Client]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self.changes = 0
        """Number of times that members of consumer groups came, went, or changed what they consume."""
        self.differed = 0
        """Number of times that members of a group began to read by different filters, or by other ones."""
        self.unnotified: set[str] = set()
        """Groups that changed since their members were last notified."""
        self._outbox = outbox
        self._produces: dict[int, set[str]] = {}
        self._consumes: dict[int, set[str]] = {}
        """Groups by connection, so that a connection that goes costs no look at every group."""

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        consumers = self.consumers.get(group)
        return None if consumers is None else consumers.subscriptions.get(topic)

    def groups_of(self, topic: str) -> set[str]:
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
        message_model = _given(data.message_model, MessageModel.CLUSTERING)
        group = self.consumers.get(name)
        if group is None:
            group = self.consumers[name] = ConsumerGroup(name)
        group.notifies = notifies
        topics = group.subscriptions.keys() | ()
        member = group.members.get(peer.connection_id)
        came = member is None or (member.client_id, member.user) != (client_id, user)
        if member is None or came:
            member = Member(
                peer.connection_id, client_id, peer.address, peer.language, peer.version, now, peer.host, user
            )
            member.message_model = message_model
            group.join(member)
            self._consumes.setdefault(peer.connection_id, set()).add(name)
        member.last_seen_ms = now
        member.consume_type = _given(data.consume_type, ConsumeType.CONSUME_PASSIVELY)
        member.consume_from_where = _given(data.consume_from_where, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
        wanted = data.subscription_data_set if with_subscriptions else None
        if not group.update(member, message_model, wanted) and not came:
            return False
        differs = self._settle(group)
        changed = came or differs or topics != group.subscriptions.keys()
        if changed:
            self._changed(group)
        return changed

    def fingerprint_changed(self, group: str, connection_id: int, fingerprint: int) -> bool:
        """Notes the heartbeat fingerprint of a member. True if an earlier one was different, or if it has to
        say what it subscribes.
        """
        consumers = self.consumers.get(group)
        member = None if consumers is None else consumers.members.get(connection_id)
        if member is None:
            return False
        known, member.fingerprint = member.fingerprint, fingerprint
        return known not in (None, fingerprint) or member.subscriptions is None

    def _settle(self, group: ConsumerGroup) -> bool:
        """Looks at a group after a change of what members read. True if they begin or cease to differ."""
        self.changes += 1
        if not group.settle():
            return False
        if group.differing:
            self.differed += 1
            rows = groupby(group.filters_of_members(), key=lambda one: one.topic)
            log.warning(
                "members of group %s read by different filters, each the queues that it owns: what its "
                "filter passes over is lost to the group. Give all one filter, or a group each. %s",
                group.name,
                "; ".join(f"{topic}: {', '.join(map(str, filters))}" for topic, filters in rows),
            )
        else:
            log.warning("members of group %s read by the same filters again", group.name)
        return True

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
        members = self.producers.get(group)
        if members is None or members.pop(connection_id, None) is None:
            return
        _drop_membership(self._produces, connection_id, group)
        if not members:
            del self.producers[group]

    def unregister_consumer(self, group: str, connection_id: int) -> None:
        """Removes a consumer and notifies those that stay."""
        consumers = self.consumers.get(group)
        if consumers is None or not consumers.leave(connection_id):
            return
        _drop_membership(self._consumes, connection_id, group)
        self._settle(consumers)
        if consumers.members:
            self._changed(consumers)
        else:
            del self.consumers[group]

    def connection_closed(self, connection_id: int) -> None:
        """Takes off everybody who spoke through a connection that is gone."""
        for group in tuple(self._produces.get(connection_id, ())):
            self.unregister_producer(group, connection_id)
        for group in tuple(self._consumes.get(connection_id, ())):
            self.unregister_consumer(group, connection_id)

    def expire(self, now: int, expired_ms: int = CHANNEL_EXPIRED_MS) -> list[int]:
        """Takes off clients that went silent; gives the connections to close."""
        silent: dict[int, None] = {}
        for clients in (
            *(members.values() for members in self.producers.values()),
            *(group.members.values() for group in self.consumers.values()),
        ):
            for client in clients:
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

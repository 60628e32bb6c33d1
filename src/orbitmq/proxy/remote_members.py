"""Members of groups that are connected to other proxies, as those proxies tell. Rules only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from orbitmq.protocol.bodies.proxies import ChannelType, HeartbeatSyncerData, HeartbeatType, RemoteChannel
from orbitmq.protocol.errors import MalformedJson

EXPIRY_MS = 120_000
"""A member of which nothing is heard for so long is gone, as with Apache's proxies."""


@dataclass(frozen=True, slots=True)
class RemoteMember:
    """One consumer at another proxy."""

    data: HeartbeatSyncerData
    channel: RemoteChannel
    heard_ms: int

    @property
    def speaks_remoting(self) -> bool:
        """True for clients that share the queues of their group among themselves."""
        return self.channel.type is ChannelType.REMOTING


class RemoteMembers:
    """The consumers at other proxies, by group and connection, at most `most`."""

    def __init__(self, own_id: str, most: int) -> None:
        self._own_id = own_id
        self._most = most
        self._members: dict[tuple[str, str], RemoteMember] = {}

    def __len__(self) -> int:
        return len(self._members)

    def take(self, body: bytes, now: int) -> str | None:
        """Notes one message; gives the group if its members are others than before. Raises MalformedJson."""
        data = HeartbeatSyncerData.from_json(body)
        if data.local_proxy_id == self._own_id:
            return None
        channel = RemoteChannel.from_json(data.channel_data)
        if not data.group or not data.client_id:
            raise MalformedJson("no group or no client is named")
        if None in (data.subscription_data_set or ()):
            raise MalformedJson("a subscription is missing")
        key = (data.group, channel.key)
        known = self._members.get(key)
        if data.heartbeat_type is HeartbeatType.UNREGISTER:
            return data.group if self._members.pop(key, None) is not None else None
        if known is None and len(self._members) >= self._most:
            return None
        if known is not None and data.subscription_data_set is None:
            data = replace(data, subscription_data_set=known.data.subscription_data_set)
        self._members[key] = RemoteMember(data, channel, now)
        return data.group if known is None else None

    def of_group(self, group: str) -> Iterator[RemoteMember]:
        """The members of a group."""
        return (one for (name, _), one in list(self._members.items()) if name == group)

    def groups_of(self, topic: str) -> set[str]:
        """The groups whose members elsewhere subscribe to a topic."""
        return {
            group
            for (group, _), one in self._members.items()
            if any(row.topic == topic for row in one.data.subscription_data_set or ())
        }

    def expire(self, now: int) -> set[str]:
        """Forgets members that were not heard for long; gives their groups."""
        gone = [key for key, one in self._members.items() if one.heard_ms < now - EXPIRY_MS]
        for key in gone:
            del self._members[key]
        return {group for group, _ in gone}

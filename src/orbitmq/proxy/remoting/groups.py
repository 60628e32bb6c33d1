"""Groups of clients behind several proxies: what is told of this one's, and lists that hold the others'."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from orbitmq.protocol.bodies.heartbeat import (
    Connection,
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
)
from orbitmq.protocol.bodies.proxies import ChannelType
from orbitmq.protocol.codes import LanguageCode, ResponseCode
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import (
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    Heartbeat,
    UnregisterClient,
)
from orbitmq.protocol.schema.declare import JsonReply
from orbitmq.proxy.heartbeat_syncer import HeartbeatSyncer, LocalMember
from orbitmq.proxy.remote_members import RemoteMember

MOST_GROUPS = 1024
"""Groups of one client that others are told of."""
_LANGUAGES = {int(one): one for one in LanguageCode}
_OFFLINE = frozenset({ResponseCode.SYSTEM_ERROR, ResponseCode.CONSUMER_NOT_ONLINE})


@dataclass(slots=True)
class Groups:
    """The consumer groups of one client, by name."""

    syncer: HeartbeatSyncer
    address: str
    members: dict[str, LocalMember] = field(default_factory=dict)

    def note(self, command: Command) -> None:
        """Tells other proxies of what a heartbeat or a farewell says, which brokers have taken."""
        if command.code == Heartbeat.CODE:
            beat = HeartbeatData.from_json(command.body or b"{}")
            language = _LANGUAGES.get(command.language, LanguageCode.OTHER)
            for row in beat.consumer_data_set:
                known = self.members.get(row.group_name)
                if known is None and len(self.members) >= MOST_GROUPS:
                    break
                if beat.without_sub and known is not None:
                    row = replace(row, subscription_data_set=known.consumer.subscription_data_set)
                member = LocalMember(beat.client_id, language, ChannelType.REMOTING, self.address, row)
                self.members[row.group_name] = member
                self.syncer.registered(member)
        elif command.code == UnregisterClient.CODE:
            self._left(UnregisterClient.from_command(command).consumer_group or "")

    def leave(self) -> None:
        """The client is gone."""
        for group in list(self.members):
            self._left(group)

    def _left(self, group: str) -> None:
        member = self.members.pop(group, None)
        if member is not None:
            self.syncer.left(member)


def with_others(command: Command, answer: Command, others: Iterable[RemoteMember]) -> Command:
    """A broker's answer to a request for the members of a group, with those behind other proxies."""
    if answer.code not in (_OFFLINE | {ResponseCode.SUCCESS}):
        return answer
    body = (answer.body or b"{}") if answer.code == ResponseCode.SUCCESS else b"{}"
    if command.code == GetConsumerListByGroup.CODE:
        listed = GetConsumerListByGroupResponseBody.from_json(body)
        ids = listed.consumer_id_list or []
        # Clients of gRPC pop: they have no share of the queues.
        more = {one.data.client_id for one in others if one.speaks_remoting} - set(ids)
        listed.consumer_id_list = [*ids, *sorted(more)]
        return JsonReply(listed).to_command() if more else answer
    if command.code == GetConsumerConnectionList.CODE:
        found = ConsumerConnection.from_json(body)
        ids = [one.client_id for one in found.connection_set]
        added = [one for one in others if one.data.client_id not in ids]
        for one in added:
            _add(found, one)
        return JsonReply(found).to_command() if added else answer
    return answer


def _add(found: ConsumerConnection, member: RemoteMember) -> None:
    data = member.data
    address = member.channel.remote_address
    found.connection_set.append(Connection(data.client_id, address, data.language, data.version))
    for row in data.subscription_data_set or ():
        found.subscription_table.setdefault(row.topic, row)
    found.consume_type = found.consume_type or data.consume_type
    found.message_model = found.message_model or data.message_model
    found.consume_from_where = found.consume_from_where or data.consume_from_where

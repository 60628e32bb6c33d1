"""Members of groups and what they subscribe to: clients of this proxy, and those that brokers know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace

from orbitmq.admin.admin import Admin
from orbitmq.admin.groups import group_connections, subscriptions_of
from orbitmq.admin.stats import groups_of
from orbitmq.protocol.bodies.heartbeat import Connection, MessageModel
from orbitmq.protocol.bodies.running import ConsumerRunningInfo
from orbitmq.protocol.errors import ConsumerNotOnline, NotFound, PeerFailed
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.remoting.versions import version_name
from orbitmq.protocol.requests.client import GetConsumerRunningInfo
from orbitmq.proxy.clients import Client, Clients
from orbitmq.proxy.errors import OK, ProxyRefused
from orbitmq.proxy.remote_members import RemoteMember, RemoteMembers
from orbitmq.proxy.wire import admin_pb2 as operator
from orbitmq.proxy.wire import messaging_pb2 as pb

_MODELS = {
    MessageModel.CLUSTERING: operator.CLUSTERING,
    MessageModel.BROADCASTING: operator.BROADCASTING,
}


@dataclass(slots=True)
class Member:
    """One client of a group."""

    info: operator.ClientInfo
    expressions: Mapping[str, pb.FilterExpression] = field(default_factory=dict)
    """Its subscriptions by topic."""
    heard_ms: int = 0
    """When it was heard last; 0 for clients that brokers know, who do not say."""


class Members:
    """The calls about members: connections, subscriptions, state."""

    def __init__(self, admin: Admin, clients: Clients, elsewhere: RemoteMembers | None = None) -> None:
        self._admin = admin
        self._clients = clients
        self._elsewhere = elsewhere

    async def of_group(self, group: str) -> list[Member]:
        """All members of a group, those of this proxy first. Raises NetError, BrokerRefused."""
        found = [_here(client) for client in self._clients.of_group(group)]
        try:
            known = await group_connections(self._admin, group)
        except ConsumerNotOnline:
            pass
        else:
            model = _MODELS.get(known.message_model or MessageModel.CLUSTERING, operator.CLUSTERING)
            filters = subscriptions_of(known)
            found += [_at_brokers(one, model, filters[one.client_id]) for one in known.connection_set]
        if self._elsewhere is not None:
            ids = {one.info.client_id for one in found}
            # By id: one that came back from another address is told of twice for a while.
            others = {one.data.client_id: one for one in self._elsewhere.of_group(group)}
            found += [_at_another_proxy(one) for client_id, one in others.items() if client_id not in ids]
        return found

    async def connections(
        self, request: operator.ListConsumerConnectionRequest
    ) -> operator.ListConsumerConnectionResponse:
        """The members of a group, or those that subscribe to one topic."""
        topic = request.topic.name
        members = await self.of_group(named(request.group, "group"))
        infos = [one.info for one in members if not topic or topic in one.expressions]
        return operator.ListConsumerConnectionResponse(status=OK, client_info=infos)

    async def subscriptions(
        self, request: operator.ListSubscriptionRequest
    ) -> operator.ListSubscriptionResponse:
        """Subscriptions of groups: one row for each group and topic."""
        rows: dict[tuple[str, str], operator.SubscriptionInfo] = {}
        async for group, topic, member in self._rows(request.group.name, request.topic.name):
            row = _row(group, topic, member)
            first = rows.setdefault((group, topic), row)
            if first is not row:
                first.subscription_consistency &= first.expression == row.expression
        return operator.ListSubscriptionResponse(status=OK, subscription_info=rows.values())

    async def described(
        self, request: operator.DescribeSubscriptionRequest
    ) -> operator.DescribeSubscriptionResponse:
        """Subscriptions of each member."""
        response = operator.DescribeSubscriptionResponse(status=OK)
        async for group, topic, member in self._rows(request.group.name, request.topic.name):
            response.client_subscription_info.add(
                client_info=member.info, subscription_info=_row(group, topic, member)
            )
        return response

    async def running(
        self, request: operator.GetConsumerRunningInfoRequest
    ) -> operator.GetConsumerRunningInfoResponse:
        """The state of a member: what it has said here, or what it answers to a broker."""
        group, client_id = named(request.group, "group"), request.client_id
        client = self._clients.get(client_id)
        info = operator.ConsumerRunningInfo()
        if client is not None and client.group == group:
            member = _here(client)
            info.properties.update(
                {
                    "clientId": client_id,
                    "clientType": pb.ClientType.Name(client.settings.client_type),
                    "version": member.info.version,
                    "lastHeardTimestamp": str(client.last_heard_ms),
                }
            )
            for topic, expression in member.expressions.items():
                info.subscriptions[topic].CopyFrom(expression)
            return operator.GetConsumerRunningInfoResponse(status=OK, consumer_running_info=info)
        told = await self._asked(group, client_id)
        info.properties.update(told.properties)
        for one in told.subscription_set:
            info.subscriptions[one.topic].CopyFrom(_expression(one.expression_type, one.sub_string))
        for queue, state in told.mq_table.items():
            item = info.message_queue_table.add()
            item.message_queue.topic.name, item.message_queue.id = queue.topic, queue.queue_id
            item.message_queue.broker.name = queue.broker_name
            for name in _QUEUE_FIELDS:
                setattr(item.process_queue_info, name, getattr(state, name))
            item.process_queue_info.dropped = state.droped
        for topic, rates in told.status_table.items():
            status = info.consume_status_table[topic]
            status.receive_rt, status.receive_tps = rates.pull_rt, rates.pull_tps
            for name in _RATE_FIELDS:
                setattr(status, name, getattr(rates, name))
        return operator.GetConsumerRunningInfoResponse(status=OK, consumer_running_info=info)

    async def _asked(self, group: str, client_id: str) -> ConsumerRunningInfo:
        for one in await self._admin.masters():
            try:
                return (await self._admin.call(one.address, GetConsumerRunningInfo(group, client_id))).body
            except (ConsumerNotOnline, NotFound, PeerFailed):
                continue
        raise ProxyRefused(
            pb.NOT_FOUND, f"no broker has a member {client_id!r} of group {group} that answers"
        )

    async def _rows(self, group: str, topic: str) -> AsyncIterator[tuple[str, str, Member]]:
        """Group, topic and member for all that is asked for. Raises ProxyRefused."""
        if not group and not topic:
            raise ProxyRefused(pb.BAD_REQUEST, "the request names neither a group nor a topic")
        groups = [group] if group else await self._groups_of(topic)
        for name in groups:
            for member in await self.of_group(name):
                for found in sorted(member.expressions):
                    if found == topic or (not topic and not found.startswith(RETRY_PREFIX)):
                        yield name, found, member

    async def _groups_of(self, topic: str) -> list[str]:
        here = {
            client.group
            for client in self._clients
            if client.group
            and any(one.topic.name == topic for one in client.settings.subscription.subscriptions)
        }
        elsewhere = set() if self._elsewhere is None else self._elsewhere.groups_of(topic)
        known = await groups_of(self._admin, await self._admin.masters(), topic)
        return sorted(here | elsewhere | set(known))


_RATE_FIELDS = ("consume_rt", "consume_ok_tps", "consume_failed_tps", "consume_failed_msgs")
_QUEUE_FIELDS = tuple(
    name for name in operator.ProcessQueueInfo.DESCRIPTOR.fields_by_name if name != "dropped"
)


def named(resource: pb.Resource, what: str) -> str:
    """The name of a topic or group; those of retries and of dead letters may be asked for as well.

    Raises ProxyRefused for none.
    """
    if not resource.name:
        raise ProxyRefused(pb.BAD_REQUEST, f"the request names no {what}")
    return resource.name


def _here(client: Client) -> Member:
    caller, agent = client.caller, client.settings.user_agent
    return Member(
        operator.ClientInfo(
            client_id=caller.client_id,
            version=caller.version,
            language=caller.language,
            hostname=agent.hostname,
            egress_ip=caller.host,
            message_model=operator.CLUSTERING,
        ),
        {one.topic.name: one.expression for one in client.settings.subscription.subscriptions},
        client.last_heard_ms,
    )


def _at_brokers(
    connection: Connection, model: operator.MessageModel.ValueType, filters: Mapping[str, str]
) -> Member:
    return Member(
        operator.ClientInfo(
            client_id=connection.client_id,
            version=version_name(connection.version),
            language="" if connection.language is None else connection.language.name,
            egress_ip=connection.client_addr,
            message_model=model,
        ),
        {topic: _expression("TAG", text) for topic, text in filters.items()},
    )


def _at_another_proxy(member: RemoteMember) -> Member:
    data = member.data
    connection = Connection(data.client_id, member.channel.remote_address, data.language, data.version)
    rows = data.subscription_data_set or ()
    found = _at_brokers(
        connection, _MODELS.get(data.message_model or MessageModel.CLUSTERING, operator.CLUSTERING), {}
    )
    return replace(
        found,
        expressions={one.topic: _expression(one.expression_type, one.sub_string) for one in rows},
        heard_ms=member.heard_ms,
    )


def _expression(kind: str, text: str) -> pb.FilterExpression:
    return pb.FilterExpression(type=pb.SQL if kind == "SQL92" else pb.TAG, expression=text)


def _row(group: str, topic: str, member: Member) -> operator.SubscriptionInfo:
    row = operator.SubscriptionInfo(
        group=pb.Resource(name=group),
        topic=pb.Resource(name=topic),
        expression=member.expressions[topic],
        online=True,
        message_model=member.info.message_model,
        subscription_consistency=True,
    )
    if member.heard_ms:
        row.last_update_timestamp.FromMilliseconds(member.heard_ms)
    return row

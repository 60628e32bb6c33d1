"""Heartbeats, farewells, and who is here."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from orbitmq.broker.auth.records import user_of
from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.members import Client, ConsumerGroup
from orbitmq.broker.client.options import ClientOptions
from orbitmq.broker.filter.filters import FilterTable
from orbitmq.broker.filter.sql92 import BadExpression, compile_filter
from orbitmq.broker.filter.subscription import TYPE_SQL92, is_tag_type, not_supported
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call, Result, in_turns
from orbitmq.protocol.bodies.heartbeat import (
    Connection,
    ConsumerConnection,
    ConsumerData,
    ConsumeType,
    GetConsumerListByGroupResponseBody,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    QuerySubscriptionResponseBody,
)
from orbitmq.protocol.codes import LanguageCode, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import retry_topic
from orbitmq.protocol.requests.client import (
    CheckClientConfig,
    GetAllProducerInfo,
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetProducerConnectionList,
    Heartbeat,
    HeartbeatReply,
    QuerySubscriptionByConsumer,
    UnregisterClient,
)
from orbitmq.protocol.schema.declare import JsonReply, Reply, Void


@dataclass(slots=True)
class ClientTables:
    """Tables that heartbeats and questions about clients look at and change."""

    settings: ClientOptions
    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    filters: FilterTable


GROUPS_PER_TURN = 250
"""Groups of a heartbeat that are registered in one turn, about 5 ms; other requests follow."""


@handlers(Heartbeat)
def heartbeat(tables: ClientTables, call: Call[Heartbeat], now: int) -> Result:
    """Registers a client's producers, and its consumers with their subscriptions.

    A long heartbeat takes several turns.
    """
    if not call.request.body.client_id:
        raise Refused(ResponseCode.SYSTEM_ERROR, "a heartbeat without clientID")
    return in_turns(_register_all(tables, call, now), now)


def _register_all(tables: ClientTables, call: Call[Heartbeat], now: int) -> Generator[None, None, Result]:
    beat = call.request.body
    client_id = beat.client_id
    user = user_of(call.command)
    is_v2 = beat.heartbeat_fingerprint != 0
    changed = not is_v2
    for number, data in enumerate(beat.consumer_data_set, 1):
        if data.group_name and _register(tables, call, data, client_id, not beat.without_sub, now):
            differs = tables.clients.fingerprint_changed(
                data.group_name, call.peer.connection_id, beat.heartbeat_fingerprint
            )
            changed = changed or differs
        if number % GROUPS_PER_TURN == 0:
            yield
    if tables.settings.enable_register_producer:
        for number, producer in enumerate(beat.producer_data_set, 1):
            if producer.group_name:
                tables.clients.register_producer(producer.group_name, client_id, call.peer, now, user)
            if number % GROUPS_PER_TURN == 0:
                yield
    return HeartbeatReply(is_support_heart_beat_v2=True, is_sub_change=changed)


def _register(
    tables: ClientTables,
    call: Call[Heartbeat],
    data: ConsumerData,
    client_id: str,
    with_subscriptions: bool,
    now: int,
) -> bool:
    """Registers one consumer; False if its group is refused, of which the client is not told."""
    if tables.settings.reject_pull_consumer_enable and data.consume_type is ConsumeType.CONSUME_ACTIVELY:
        return False
    group = tables.groups.find(data.group_name, now)
    if group is None:
        return False
    ordered = any(
        (config := tables.topics.get(subscription.topic)) is not None and config.order
        for subscription in data.subscription_data_set
    )
    if group.retry_queue_nums > 0:
        tables.topics.ensure(
            retry_topic(data.group_name),
            group.retry_queue_nums,
            now,
            unit_sub=data.unit_mode,
            order=ordered if with_subscriptions else None,
        )
    tables.clients.register_consumer(
        data,
        client_id,
        call.peer,
        now,
        notifies=tables.settings.notify_consumer_ids_changed_enable
        and group.notify_consumer_ids_changed_enable,
        with_subscriptions=with_subscriptions,
        user=user_of(call.command),
    )
    if with_subscriptions:
        tables.filters.register(data.group_name, data.subscription_data_set, now)
    return True


@handlers(UnregisterClient)
def unregister_client(tables: ClientTables, call: Call[UnregisterClient], now: int) -> Reply:
    """Takes a client off that says farewell for one of its groups."""
    request, connection_id = call.request, call.peer.connection_id
    if request.producer_group is not None:
        tables.clients.unregister_producer(request.producer_group, connection_id)
    if request.consumer_group is not None:
        tables.clients.unregister_consumer(request.consumer_group, connection_id)
    return Void()


@handlers(CheckClientConfig)
def check_client_config(tables: ClientTables, call: Call[CheckClientConfig], now: int) -> Reply:
    """Tells a consumer at its start whether the broker can filter as it wants."""
    body = call.request.body
    if body.subscription_data is None:
        return Void()
    expression_type = body.subscription_data.expression_type
    if is_tag_type(expression_type):
        return Void()
    if not tables.settings.enable_property_filter:
        raise not_supported(expression_type)
    if expression_type != TYPE_SQL92:
        raise Refused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"there is no filter of type {expression_type}, but TAG and {TYPE_SQL92}",
        )
    try:
        compile_filter(body.subscription_data.sub_string)
    except BadExpression as error:
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
    return Void()


@handlers(GetConsumerListByGroup)
def get_consumer_list_by_group(tables: ClientTables, call: Call[GetConsumerListByGroup], now: int) -> Reply:
    """The client ids of a group, among which its members share the queues; and by which filters they read,
    while these differ.
    """
    name = call.request.consumer_group
    group = tables.clients.consumers.get(name)
    if group is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return JsonReply(
        body=GetConsumerListByGroupResponseBody(group.client_ids(), group.filters_of_members() or None)
    )


@handlers(GetConsumerConnectionList)
def get_consumer_connection_list(
    tables: ClientTables, call: Call[GetConsumerConnectionList], now: int
) -> Reply:
    """The members of a consumer group, and what it consumes."""
    group = _online(tables, call.request.consumer_group)
    return JsonReply(
        body=ConsumerConnection(
            connection_set=[_connection(client) for client in group.members.values()],
            subscription_table=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
            filters_of_members=group.filters_of_members() or None,
        )
    )


@handlers(GetProducerConnectionList)
def get_producer_connection_list(
    tables: ClientTables, call: Call[GetProducerConnectionList], now: int
) -> Reply:
    """The members of a producer group."""
    name = call.request.producer_group
    members = tables.clients.producers.get(name)
    if not members:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return JsonReply(
        body=ProducerConnection(connection_set=[_connection(client) for client in members.values()])
    )


@handlers(GetAllProducerInfo)
def get_all_producer_info(tables: ClientTables, call: Call[GetAllProducerInfo], now: int) -> Reply:
    """All producers by group."""
    data = {
        group: [
            ProducerInfo(
                client_id=client.client_id,
                language=_language(client),
                last_update_timestamp=client.last_seen_ms,
                remote_ip=f"/{client.address}",  # as Java writes an address that was not looked up
                version=client.version,
            )
            for client in members.values()
        ]
        for group, members in tables.clients.producers.items()
    }
    return JsonReply(ProducerTableInfo(data=data))


@handlers(QuerySubscriptionByConsumer)
def query_subscription_by_consumer(
    tables: ClientTables, call: Call[QuerySubscriptionByConsumer], now: int
) -> Reply:
    """A group's subscription of a topic; nothing if it is not here."""
    request = call.request
    return JsonReply(
        body=QuerySubscriptionResponseBody(
            group=request.group,
            topic=request.topic or "",
            subscription_data=tables.clients.subscription(request.group, request.topic or ""),
        )
    )


def _online(tables: ClientTables, name: str) -> ConsumerGroup:
    group = tables.clients.consumers.get(name)
    if group is None or not group.members:
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    return group


def _connection(client: Client) -> Connection:
    return Connection(
        client_addr=client.address,
        client_id=client.client_id,
        language=_language(client),
        version=client.version,
    )


def _language(client: Client) -> LanguageCode:
    try:
        return LanguageCode(client.language)
    except ValueError:
        return LanguageCode["OTHER"]

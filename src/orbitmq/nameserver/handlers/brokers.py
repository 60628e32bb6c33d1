"""Brokers come, show that they live, and go; who is there."""

from __future__ import annotations

from collections.abc import Generator

from orbitmq.handling.call import Call, Result, in_turns, off_loop
from orbitmq.nameserver.brokers import Master, Registration, RegistrationRefused
from orbitmq.nameserver.kv import ORDER_TOPICS
from orbitmq.nameserver.limits import LimitReached
from orbitmq.nameserver.registering import is_long, read_registration, reading
from orbitmq.nameserver.tables import RouteTables, handlers
from orbitmq.protocol.bodies.route import (
    BrokerMemberGroup,
    GetBrokerMemberGroupResponseBody,
    KVTable,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Malformed, Refused
from orbitmq.protocol.requests.ha import BrokerHeartbeat
from orbitmq.protocol.requests.route import (
    AddedReply,
    AddWritePermOfBroker,
    DataVersionReply,
    GetBrokerClusterInfo,
    GetBrokerMemberGroup,
    QueryDataVersion,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
    WipedReply,
    WipeWritePermOfBroker,
)
from orbitmq.protocol.schema.declare import JsonReply, Reply, Void

ROWS_PER_TURN = 1_000
"""Topics of a registration that are handled in one turn, about 7 ms; other requests follow."""


@handlers(RegisterBroker)
def register_broker(tables: RouteTables, call: Call[RegisterBroker], now: int) -> Result:
    """Takes a broker's table in, so much per turn; a slave learns where its master is."""
    if is_long(call):
        return off_loop(
            reading(call), lambda read, later: _register(tables, read, later), now, holds_body=True
        )
    return _register(tables, read_registration(call), now)


def _register(tables: RouteTables, registration: Registration, now: int) -> Result:
    settings = tables.settings
    try:
        master = tables.routes.register(
            registration,
            now,
            delete_absent=settings.delete_topic_with_broker_registration,
            notify=settings.notify_min_broker_id_changed,
        )
    except RegistrationRefused:
        raise Refused(ResponseCode.SYSTEM_ERROR, "register broker failed") from None
    except LimitReached as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"register broker failed: {error}") from None
    return in_turns(_write_rows(tables, registration, master), now)


def _write_rows(
    tables: RouteTables, registration: Registration, master: Master | None
) -> Generator[None, None, Result]:
    routes = tables.routes
    try:
        while not routes.take_rows(registration.cluster, registration.address, ROWS_PER_TURN):
            yield
    except Malformed as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"the registration cannot be read: {error}") from None
    settings = tables.settings
    reply = RegisterBrokerReply()
    if master is not None:
        reply.master_addr = master.address
        reply.ha_server_addr = master.ha_address
    if settings.return_order_topic_config_to_broker:
        reply.body = KVTable(tables.kv.namespace(ORDER_TOPICS) or {})
    return reply


@handlers(UnregisterBroker)
def unregister_broker(tables: RouteTables, call: Call[UnregisterBroker], now: int) -> Reply:
    """Takes a broker out at once."""
    request = call.request
    tables.routes.unregister(
        request.cluster_name,
        request.broker_name,
        request.broker_addr,
        notify=tables.settings.notify_min_broker_id_changed,
    )
    return Void()


@handlers(QueryDataVersion)
def query_data_version(tables: RouteTables, call: Call[QueryDataVersion], now: int) -> Reply:
    """Tells a broker whether it has to register again. The request counts as a heartbeat."""
    request = call.request
    changed = tables.routes.is_changed(request.cluster_name, request.broker_addr, request.body)
    return DataVersionReply(changed, tables.routes.touch(request.cluster_name, request.broker_addr, now))


@handlers(BrokerHeartbeat)
def broker_heartbeat(tables: RouteTables, call: Call[BrokerHeartbeat], now: int) -> Reply:
    """A sign of life and nothing else."""
    tables.routes.touch(call.request.cluster_name, call.request.broker_addr, now)
    return Void()


@handlers(GetBrokerClusterInfo)
def get_broker_cluster_info(tables: RouteTables, call: Call[GetBrokerClusterInfo], now: int) -> Reply:
    """All brokers and clusters."""
    return JsonReply(tables.routes.cluster_info())


@handlers(GetBrokerMemberGroup)
def get_broker_member_group(tables: RouteTables, call: Call[GetBrokerMemberGroup], now: int) -> Reply:
    """The members of a group; none if the name is not known."""
    request = call.request
    group = tables.routes.groups.get(request.broker_name)
    members = BrokerMemberGroup(
        request.cluster_name, request.broker_name, {} if group is None else dict(group.addresses)
    )
    return JsonReply(GetBrokerMemberGroupResponseBody(members))


@handlers(WipeWritePermOfBroker)
def wipe_write_perm_of_broker(tables: RouteTables, call: Call[WipeWritePermOfBroker], now: int) -> Reply:
    """Clients that ask from now on send elsewhere; the broker's next changed table undoes it."""
    return WipedReply(tables.routes.wipe_write_perm(call.request.broker_name))


@handlers(AddWritePermOfBroker)
def add_write_perm_of_broker(tables: RouteTables, call: Call[AddWritePermOfBroker], now: int) -> Reply:
    """Clients send to the broker again."""
    return AddedReply(tables.routes.add_write_perm(call.request.broker_name))

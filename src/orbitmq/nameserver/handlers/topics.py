"""Routes and lists of topics."""

from __future__ import annotations

from orbitmq.handling.call import Call
from orbitmq.nameserver.kv import ORDER_TOPICS
from orbitmq.nameserver.limits import LimitReached
from orbitmq.nameserver.tables import RouteTables, handlers
from orbitmq.protocol.bodies.route import TopicRouteData
from orbitmq.protocol.bodies.topic import TopicList
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.help_pages import UNKNOWN_TOPICS
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.route import (
    DeleteTopicInNamesrv,
    GetAllTopicListFromNameserver,
    GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList,
    GetRouteinfoByTopic,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
    GetUnitTopicList,
    RegisterTopicInNamesrv,
    route_reply,
)
from orbitmq.protocol.schema.declare import JsonReply, Reply, Void

UNIT = 1
UNIT_SUB = 2


@handlers(GetRouteinfoByTopic)
def get_routeinfo_by_topic(tables: RouteTables, call: Call[GetRouteinfoByTopic], now: int) -> Reply:
    """The route of a topic, in the JSON that the asker reads."""
    settings, topic = tables.settings, call.request.topic
    if settings.need_wait_for_service and now - tables.started_ms < settings.wait_seconds_for_service * 1000:
        raise Refused(ResponseCode.SYSTEM_ERROR, "name server not ready")
    route = tables.routes.route(topic, support_acting_master=settings.support_acting_master)
    if route is None:
        raise Refused(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {topic}\n"
            f"See {UNKNOWN_TOPICS} for further details.",
        )
    if settings.order_message_enable:
        route.order_topic_conf = tables.kv.get(ORDER_TOPICS, topic)
    _keep_zone(route, call.command)
    return route_reply(route, call.command)


def _keep_zone(route: TopicRouteData, command: Command) -> None:
    """Leaves the brokers of the asker's zone, where it wants that; groups without a master stay readable."""
    ext = command.ext or {}
    zone = ext.get("__ZONE_NAME", "").strip().lower()
    if not zone or ext.get("__ZONE_MODE", "").lower() != "true":
        return
    route.broker_datas = [
        broker
        for broker in route.broker_datas
        if (broker.zone_name or "").lower() == zone or 0 not in (broker.broker_addrs or {})
    ]
    kept = {broker.broker_name for broker in route.broker_datas}
    addresses = {address for broker in route.broker_datas for address in (broker.broker_addrs or {}).values()}
    route.queue_datas = [row for row in route.queue_datas if row.broker_name in kept]
    route.filter_server_table = {
        address: servers for address, servers in route.filter_server_table.items() if address in addresses
    }


@handlers(GetAllTopicListFromNameserver)
def get_all_topic_list(tables: RouteTables, call: Call[GetAllTopicListFromNameserver], now: int) -> Reply:
    """Every topic."""
    _check_enabled(tables.settings.enable_all_topic_list)
    return JsonReply(TopicList(list(tables.routes.topics)))


@handlers(GetTopicsByCluster)
def get_topics_by_cluster(tables: RouteTables, call: Call[GetTopicsByCluster], now: int) -> Reply:
    """The topics of a cluster; none if it is not known."""
    _check_enabled(tables.settings.enable_topic_list)
    return JsonReply(TopicList(tables.routes.topics_of_cluster(call.request.cluster)))


@handlers(GetSystemTopicListFromNs)
def get_system_topic_list(tables: RouteTables, call: Call[GetSystemTopicListFromNs], now: int) -> Reply:
    """Clusters and brokers, after which topics are named, and where to ask for the rest."""
    names = [name for cluster, brokers in tables.routes.clusters.items() for name in (cluster, *brokers)]
    return JsonReply(TopicList(names, tables.routes.any_address()))


@handlers(GetUnitTopicList)
def get_unit_topic_list(tables: RouteTables, call: Call[GetUnitTopicList], now: int) -> Reply:
    """Unit topics."""
    return _by_flag(tables, UNIT)


@handlers(GetHasUnitSubTopicList)
def get_has_unit_sub_topic_list(tables: RouteTables, call: Call[GetHasUnitSubTopicList], now: int) -> Reply:
    """Topics with subscribers in units."""
    return _by_flag(tables, UNIT_SUB)


@handlers(GetHasUnitSubUnunitTopicList)
def get_has_unit_sub_ununit_topic_list(
    tables: RouteTables, call: Call[GetHasUnitSubUnunitTopicList], now: int
) -> Reply:
    """Topics with subscribers in units that are no unit topics themselves."""
    return _by_flag(tables, UNIT_SUB, without=UNIT)


def _by_flag(tables: RouteTables, flag: int, without: int = 0) -> Reply:
    _check_enabled(tables.settings.enable_topic_list)
    return JsonReply(TopicList(tables.routes.topics_with(flag, without)))


def _check_enabled(enabled: bool) -> None:
    if not enabled:
        raise Refused(ResponseCode.SYSTEM_ERROR, "disable")


@handlers(DeleteTopicInNamesrv)
def delete_topic_in_namesrv(tables: RouteTables, call: Call[DeleteTopicInNamesrv], now: int) -> Reply:
    """Forgets a topic until a broker that still has it registers again."""
    tables.routes.delete_topic(call.request.topic, call.request.cluster_name)
    return Void()


@handlers(RegisterTopicInNamesrv)
def register_topic_in_namesrv(tables: RouteTables, call: Call[RegisterTopicInNamesrv], now: int) -> Reply:
    """Takes over rows of a topic for brokers that are known."""
    if call.request.body is not None:
        try:
            tables.routes.put_rows(call.request.topic, call.request.body.queue_datas)
        except LimitReached as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return Void()

"""Queues that the broker assigns to consumers, and whether these pull or pop."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.assignment import allocation as assignment
from orbitmq.broker.assignment.request_modes import RequestModes
from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.routes import RouteTable
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call, Outcome, Result, Wait
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.handling.saving import after_saving
from orbitmq.protocol.bodies.heartbeat import MessageModel
from orbitmq.protocol.bodies.pop import (
    MessageQueueAssignment,
    MessageRequestMode,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.static_topic import logical_broker
from orbitmq.protocol.codes import PERM_READ, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.requests.pop import GetAllMessageRequestMode, QueryAssignment, SetMessageRequestMode
from orbitmq.protocol.schema.declare import JsonReply, Void

ROUTE_TIMEOUT_MS = 3_000


@dataclass(slots=True)
class AssignmentTables:
    """Tables that assignments look at and change."""

    identity: BrokerIdentity
    settings: PopOptions
    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    modes: RequestModes
    routes: RouteTable
    dirty_tables: DirtyTables


@handlers(QueryAssignment)
def query_assignment(tables: AssignmentTables, call: Call[QueryAssignment], now: int) -> Result:
    """The queues of one member of a group; absent where they are not known, and the member then changes
    nothing.
    """
    body = call.request.body
    if tables.routes.elsewhere(body.topic, now) is not None:
        return _answer(tables, body, now)

    def looked_up(outcome: Outcome, later: int) -> Result:
        return _answer(tables, body, later)

    return Wait((tables.routes.ask(body.topic),), now + ROUTE_TIMEOUT_MS, looked_up)


def _answer(
    tables: AssignmentTables, body: QueryAssignmentRequestBody, now: int
) -> JsonReply[QueryAssignmentResponseBody | None]:
    mode = tables.modes.get(body.topic, body.consumer_group)
    queues = _assigned(tables, body, mode, now)
    assignments = (
        None
        if queues is None
        else [MessageQueueAssignment(message_queue=queue, mode=mode.mode) for queue in queues]
    )
    return JsonReply(QueryAssignmentResponseBody(assignments))


def _assigned(
    tables: AssignmentTables,
    body: QueryAssignmentRequestBody,
    mode: SetMessageRequestModeRequestBody,
    now: int,
) -> list[MessageQueue] | None:
    mapping = tables.topics.static.by_topic.get(body.topic)
    if mapping is not None and mode.mode is MessageRequestMode.PULL:
        name = logical_broker(mapping.scope)
        queues = [MessageQueue(body.topic, name, number) for number in range(mapping.total_queues)] or None
    else:
        queues = _queues(tables, body.topic, now)
    if queues is None:
        return None
    if body.message_model is MessageModel.BROADCASTING or not tables.settings.server_load_balancer_enable:
        return queues
    members = tables.clients.consumers.get(body.consumer_group)
    strategy = assignment.STRATEGIES.get(body.strategy_name)
    if members is None or strategy is None:
        return None
    clients = members.client_ids()
    if mode.mode is MessageRequestMode.POP:
        return assignment.to_pop(strategy, queues, clients, body.client_id, mode.pop_share_queue_num)
    return assignment.to_pull(strategy, queues, clients, body.client_id)


def _queues(tables: AssignmentTables, topic: str, now: int) -> list[MessageQueue] | None:
    """All readable queues of a topic, on whichever broker; None if there are none, or they are unknown."""
    elsewhere = tables.routes.elsewhere(topic, now)
    if elsewhere is None:
        return None
    queues = list(elsewhere)
    config = tables.topics.get(topic)
    if config is not None and config.perm & PERM_READ:
        name = tables.identity.name
        queues += [MessageQueue(topic, name, queue_id) for queue_id in range(config.read_queue_nums)]
    return queues or None


@handlers(SetMessageRequestMode)
def set_message_request_mode(tables: AssignmentTables, call: Call[SetMessageRequestMode], now: int) -> Result:
    """Has the clients of a group pull a topic, or pop it."""
    mode = call.request.body
    if mode.topic.startswith(RETRY_PREFIX):
        raise Refused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    tables.topics.require(mode.topic)
    if tables.groups.find(mode.consumer_group, now) is None:
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
    if mode.mode is None:
        raise Refused(ResponseCode.INVALID_PARAMETER, "mode is neither PULL nor POP")
    tables.modes.set(mode)
    return after_saving(tables.dirty_tables, Void(), now, tables.modes.NAME, tables.groups.NAME)


@handlers(GetAllMessageRequestMode)
def get_all_message_request_mode(
    tables: AssignmentTables, call: Call[GetAllMessageRequestMode], now: int
) -> Result:
    """All modes that were set."""
    return JsonReply(tables.modes.to_body())

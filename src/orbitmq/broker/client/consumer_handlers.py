"""Questions that the broker passes on to a consumer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from orbitmq.broker.auth.permissions import SUB
from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.members import Client
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.record import read_record
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Answer, Call, Outcome, Result, Wait, off_loop
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.ids import MalformedId, parse_offset_message_id
from orbitmq.protocol.requests.client import ConsumeMessageDirectly, GetConsumerRunningInfo
from orbitmq.protocol.schema.declare import Blob, Request
from orbitmq.store import MessageStore

VERSION_THAT_ANSWERS = 62
"""Clients from this version on can be asked by their broker (V3_1_8_SNAPSHOT)."""

ASK_TIMEOUT_MS = 10_000


@dataclass(slots=True)
class ConsumerTables:
    """Tables that passing on a question looks at."""

    identity: BrokerIdentity
    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    store: MessageStore
    record_access: RecordAccess


@handlers(GetConsumerRunningInfo)
def get_consumer_running_info(tables: ConsumerTables, call: Call[GetConsumerRunningInfo], now: int) -> Result:
    """A consumer's report about itself."""
    request = call.request
    client = _find(tables, request.consumer_group, request.client_id)
    return _ask(client, request.consumer_group, request, now)


@handlers(ConsumeMessageDirectly)
def consume_message_directly(tables: ConsumerTables, call: Call[ConsumeMessageDirectly], now: int) -> Result:
    """Has a consumer handle one message out of turn, and reports the result."""
    request = call.request
    client = _find(tables, request.consumer_group, request.client_id or "")
    try:
        physical_offset = parse_offset_message_id(request.msg_id or "").physical_offset
    except MalformedId:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{request.msg_id} is no offset message id") from None
    found = partial(_pass_on, tables, call, client, physical_offset)
    return off_loop(read_record(tables.store, physical_offset), found, now)


def _pass_on(
    tables: ConsumerTables,
    call: Call[ConsumeMessageDirectly],
    client: Client,
    physical_offset: int,
    record: memoryview | None,
    now: int,
) -> Result:
    request = call.request
    if record is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical_offset}")
    tables.record_access.check(call, record, SUB)
    topic = tables.topics.get(request.topic or "")
    group = tables.groups.get(request.consumer_group)
    ask = ConsumeMessageDirectly(
        consumer_group=request.consumer_group,
        client_id=request.client_id,
        msg_id=request.msg_id,
        broker_name=tables.identity.name,
        topic=request.topic,
        topic_sys_flag=0 if topic is None else topic.topic_sys_flag,
        group_sys_flag=0 if group is None else group.group_sys_flag,
        body=bytes(record),
    )
    return _ask(client, request.consumer_group, ask, now)


def _find(tables: ConsumerTables, group: str, client_id: str) -> Client:
    members = tables.clients.consumers.get(group)
    client = None if members is None else members.find_client(client_id)
    if client is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    if client.version < VERSION_THAT_ANSWERS:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <{group}> <{client_id}> Version <{client.version}> too low to finish, "
            "please upgrade it to V3_1_8_SNAPSHOT",
        )
    return client


def _ask(client: Client, group: str, request: Request[Any], now: int) -> Wait:
    question = Answer(client.connection_id, request)

    def answered(outcome: Outcome, later: int) -> Result:
        command = outcome.answers.get(question)
        if command is not None:
            return Blob(command.body, code=command.code, remark=command.remark, extra=command.ext)
        if outcome.timed_out:
            raise Refused(
                ResponseCode.CONSUME_MSG_TIMEOUT,
                f"consumer <{group}> <{client.client_id}> Timeout: {ASK_TIMEOUT_MS} ms",
            )
        raise Refused(
            ResponseCode.SYSTEM_ERROR, f"consumer <{group}> <{client.client_id}> went away before it answered"
        )

    return Wait((question,), now + ASK_TIMEOUT_MS, answered)

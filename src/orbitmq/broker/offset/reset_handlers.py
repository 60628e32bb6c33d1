"""Offsets of whole groups: reset by an operator, and asked of the members of a group."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from orbitmq.broker.offset.handlers import OffsetTables
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Answer, Call, Outcome, Result, Wait, off_loop
from orbitmq.handling.saving import after_saving
from orbitmq.protocol.bodies.offset import (
    GetConsumerStatusBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from orbitmq.protocol.bodies.queue import MessageQueue, MessageQueueForC
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Malformed, Refused
from orbitmq.protocol.remoting.command import LANGUAGE_CPP
from orbitmq.protocol.requests.offset import (
    GetConsumerStatusFromClient,
    InvokeBrokerToGetConsumerStatus,
    InvokeBrokerToResetOffset,
    ResetConsumerClientOffset,
)
from orbitmq.protocol.schema.declare import JsonReply, Reply

VERSION_WITH_OFFSET_CONTROL = 28
"""Clients from this version on let their broker see and set their offsets (V3_0_7_SNAPSHOT)."""

STATUS_TIMEOUT_MS = 5_000


@handlers(InvokeBrokerToResetOffset)
def invoke_broker_to_reset_offset(
    tables: OffsetTables, call: Call[InvokeBrokerToResetOffset], now: int
) -> Result:
    """Sends a group to an offset or a time, on one queue of a topic or on all."""
    if tables.settings.use_server_side_reset_offset:
        return _reset_here(tables, call, now)
    return _reset_in_clients(tables, call, now)


def _reset_here(tables: OffsetTables, call: Call[InvokeBrokerToResetOffset], now: int) -> Result:
    """Answers the next pull of each queue with its new offset; the stored one changes at once."""
    request = call.request
    topic, group = request.topic, request.group
    if not tables.identity.is_master:
        raise Refused(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
    config = tables.topics.get(topic)
    if config is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
    if tables.groups.get(group) is None:
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")

    def set_to(targets: dict[int, int], later: int) -> Result:
        if not targets:
            raise Refused(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        for queue_id, offset in targets.items():
            tables.offsets.reset(group, topic, queue_id, offset, later)
        reply = JsonReply(_reset_body(tables, topic, targets))
        return after_saving(tables.dirty_tables, reply, later, tables.offsets.NAME)

    if request.queue_id >= 0 and request.offset is not None and request.offset != -1:
        first = max(0, tables.store.min_offset(topic, request.queue_id))
        end = max(0, tables.store.max_offset(topic, request.queue_id))
        if not first <= request.offset <= end + 1:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {request.offset} not in consume queue range [{first}-{end}]",
            )
        return set_to({request.queue_id: request.offset}, now)
    queues = (request.queue_id,) if request.queue_id >= 0 else range(config.read_queue_nums)
    return _offsets_at(tables, topic, queues, request.timestamp, set_to, now)


def _reset_in_clients(tables: OffsetTables, call: Call[InvokeBrokerToResetOffset], now: int) -> Result:
    """The clients that are online reset themselves: older behaviour, by an option."""
    request = call.request
    topic, group = request.topic, request.group
    config = tables.topics.get(topic)
    if config is None:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}",
        )
    queues = range(config.write_queue_nums)
    stored = [tables.offsets.get(group, topic, queue_id) for queue_id in queues]
    if any(offset < 0 for offset in stored):
        raise Refused(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")

    def notify(targets: dict[int, int], later: int) -> Result:
        if not request.is_force:
            targets = {queue_id: min(target, stored[queue_id]) for queue_id, target in targets.items()}
        return _notify_members(tables, call, targets)

    return _offsets_at(tables, topic, queues, request.timestamp, notify, now)


def _notify_members(
    tables: OffsetTables, call: Call[InvokeBrokerToResetOffset], targets: dict[int, int]
) -> Reply:
    request = call.request
    topic, group = request.topic, request.group
    members = _members_that_answer(tables, group)
    body: ResetOffsetBody | ResetOffsetBodyForC = _reset_body(tables, topic, targets)
    if call.peer.language == LANGUAGE_CPP:
        body = ResetOffsetBodyForC(
            [
                MessageQueueForC(topic, tables.identity.name, queue_id, offset)
                for queue_id, offset in targets.items()
            ]
        )
    for connection_id in members:
        tables.outbox.push(
            connection_id,
            ResetConsumerClientOffset(
                group=group,
                topic=topic,
                timestamp=request.timestamp,
                is_force=request.is_force,
                body=body.to_json(),
            ),
        )
    return JsonReply(_reset_body(tables, topic, targets))


def _offsets_at(
    tables: OffsetTables,
    topic: str,
    queues: Sequence[int],
    time_ms: int,
    then: Callable[[dict[int, int], int], Result],
    now: int,
) -> Result:
    """Continues with the offset of each queue at a time; before all times is behind the last message."""
    if time_ms < 0:
        return then({queue: max(0, tables.store.max_offset(topic, queue)) for queue in queues}, now)
    search = tables.store.search([(topic, queue) for queue in queues])

    def work() -> Generator[None, None, dict[int, int]]:
        found = {}
        for queue in queues:
            yield
            found[queue] = max(0, search.offset_by_time(topic, queue, time_ms, False))
        return found

    return off_loop(work(), then, now)


def _reset_body(tables: OffsetTables, topic: str, targets: dict[int, int]) -> ResetOffsetBody:
    return ResetOffsetBody(
        {MessageQueue(topic, tables.identity.name, queue_id): offset for queue_id, offset in targets.items()}
    )


def _members_that_answer(tables: OffsetTables, group: str) -> list[int]:
    members = tables.clients.consumers.get(group)
    if members is None or not members.members:
        raise Refused(
            ResponseCode.CONSUMER_NOT_ONLINE, f"Consumer not online, so can not reset offset, Group: {group}"
        )
    for client in members.members.values():
        if client.version < VERSION_WITH_OFFSET_CONTROL:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the client does not support this feature. version={client.version}",
            )
    return list(members.members)


@handlers(InvokeBrokerToGetConsumerStatus)
def invoke_broker_to_get_consumer_status(
    tables: OffsetTables, call: Call[InvokeBrokerToGetConsumerStatus], now: int
) -> Result:
    """The offsets as the members of a group have them in memory; silent members are left out."""
    request = call.request
    group = tables.clients.consumers.get(request.group)
    if group is None or not group.members:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{request.group}]"
        )
    asked: dict[Answer, str] = {}
    for client in group.members.values():
        if client.version < VERSION_WITH_OFFSET_CONTROL:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the client does not support this feature. version={client.version}",
            )
        if not request.client_addr or request.client_addr == client.client_id:
            ask = GetConsumerStatusFromClient(topic=request.topic, group=request.group)
            asked[Answer(client.connection_id, ask)] = client.client_id

    def answered(outcome: Outcome, later: int) -> Result:
        table = {}
        for answer, command in outcome.answers.items():
            if command.code != ResponseCode.SUCCESS or command.body is None:
                continue
            try:
                body = GetConsumerStatusBody.from_json(command.body)
            except Malformed:
                continue
            table[asked[answer]] = body.message_queue_table
        return JsonReply(GetConsumerStatusBody(consumer_table=table))

    if not asked:
        return answered(Outcome(timed_out=False), now)
    return Wait(tuple(asked), now + STATUS_TIMEOUT_MS, answered)

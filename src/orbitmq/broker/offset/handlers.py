"""Queue offsets: asked for, stored, copied; ranges and times of queues."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.outbox import Outbox
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.snapshots import with_items
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable, Queues
from orbitmq.broker.offset.options import UpkeepOptions
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.state import RoleState
from orbitmq.handling.call import Call, Result, Warm, in_turns, off_loop
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.handling.saving import after_saving
from orbitmq.handling.warming import once_warm
from orbitmq.protocol.bodies.offset import (
    ConsumerOffsetManager,
    QueryCorrectionOffsetBody,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.lite_topics import lite_queue
from orbitmq.protocol.requests.offset import (
    CloneGroupOffset,
    ConsumerOffset,
    GetAllConsumerOffset,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    QueryCorrectionOffset,
    SearchOffsetByTimestamp,
    StoretimeReply,
    UpdateConsumerOffset,
)
from orbitmq.protocol.schema.declare import Blob, JsonReply, Reply, Void
from orbitmq.protocol.schema.fastjson import write
from orbitmq.protocol.schema.json_body import LONG_MAX
from orbitmq.store import MessageStore


@dataclass(slots=True)
class OffsetTables:
    """Tables of requests about offsets."""

    identity: BrokerIdentity
    settings: UpkeepOptions
    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    offsets: OffsetTable
    store: MessageStore
    outbox: Outbox
    dirty_tables: DirtyTables
    role: RoleState


@handlers(QueryConsumerOffset)
def query_consumer_offset(tables: OffsetTables, call: Call[QueryConsumerOffset], now: int) -> Result:
    """The offset of a group on a queue.

    A group without an offset starts at 0 while the queue's first message is still in memory, whatever its
    client would choose.
    """
    request = call.request
    topic, queue_id = request.topic, request.queue_id
    is_new = tables.offsets.get(request.consumer_group, topic, queue_id) < 0
    if is_new and request.set_zero_if_not_found is not False:
        cold = tables.store.reader.cold_unit(topic, queue_id, 0)
        if cold is not None:
            return once_warm(Warm(*cold), lambda later: _offset_of(tables, request), now)
    return _offset_of(tables, request)


def _offset_of(tables: OffsetTables, request: QueryConsumerOffset) -> Reply:
    offset = tables.offsets.get(request.consumer_group, request.topic, request.queue_id)
    if offset < 0:
        if request.set_zero_if_not_found is False or not _is_young(tables, request.topic, request.queue_id):
            raise Refused(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
            )
        offset = 0
    return ConsumerOffset(offset)


def _is_young(tables: OffsetTables, topic: str, queue_id: int) -> bool:
    """True if a queue still has its first message in memory, or never had one."""
    store = tables.store
    if store.min_offset(topic, queue_id) > 0:
        return False
    return store.max_offset(topic, queue_id) <= 0 or store.is_in_memory(topic, queue_id, 0)


@handlers(UpdateConsumerOffset)
def update_consumer_offset(tables: OffsetTables, call: Call[UpdateConsumerOffset], now: int) -> Reply:
    """Stores where a group has got to on a queue."""
    request = call.request
    group, topic = request.consumer_group, request.topic
    if tables.groups.get(group) is None:
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
    if tables.topics.get(topic) is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    tables.offsets.commit(group, topic, request.queue_id, request.commit_offset, now)
    if tables.role.is_slave:
        tables.offsets.for_master[group, topic, request.queue_id] = request.commit_offset
    return Void()


@handlers(GetMaxOffset)
def get_max_offset(tables: OffsetTables, call: Call[GetMaxOffset], now: int) -> Reply:
    """The offset that a queue's next message will get; 0 for a queue that is not there."""
    return OffsetReply(max(0, tables.store.max_offset(call.request.topic, call.request.queue_id)))


@handlers(GetMinOffset)
def get_min_offset(tables: OffsetTables, call: Call[GetMinOffset], now: int) -> Reply:
    """The offset of a queue's first message; 0 for a queue that is not there."""
    return OffsetReply(max(0, tables.store.min_offset(call.request.topic, call.request.queue_id)))


@handlers(GetEarliestMsgStoretime)
def get_earliest_msg_storetime(tables: OffsetTables, call: Call[GetEarliestMsgStoretime], now: int) -> Result:
    """Store time of a queue's first message; -1 without one."""
    topic, queue_id = call.request.topic, call.request.queue_id
    search = tables.store.search([(topic, queue_id)])

    def work() -> Generator[None, None, Reply]:
        yield
        return StoretimeReply(search.earliest_time(topic, queue_id))

    return off_loop(work(), lambda reply, later: reply, now)


@handlers(SearchOffsetByTimestamp)
def search_offset_by_timestamp(tables: OffsetTables, call: Call[SearchOffsetByTimestamp], now: int) -> Result:
    """The offset of the first message stored at a time or later; `upper`: of the last one until then."""
    request = call.request
    upper = (request.boundary_type or "lower").lower() == "upper"
    topic, queue_id, time_ms = request.topic, request.queue_id, request.timestamp
    if request.lite_topic:
        topic, queue_id = lite_queue(topic, request.lite_topic), 0
    search = tables.store.search([(topic, queue_id)])

    def work() -> Generator[None, None, Reply]:
        yield
        return OffsetReply(max(0, search.offset_by_time(topic, queue_id, time_ms, upper)))

    return off_loop(work(), lambda reply, later: reply, now)


PAIRS_PER_STEP = 2_000
"""Pairs of group and topic whose offsets are copied in one turn or written out in one step: a few ms."""


@handlers(GetAllConsumerOffset)
def get_all_consumer_offset(tables: OffsetTables, call: Call[GetAllConsumerOffset], now: int) -> Result:
    """The offsets of all groups. Very many are copied in several turns, and written out in a thread."""
    return in_turns(_all_offsets(tables.offsets, now), now)


def _all_offsets(offsets: OffsetTable, now: int) -> Generator[None, None, Result]:
    pairs = offsets.pairs()
    if len(pairs) <= PAIRS_PER_STEP:
        return Blob(offsets.to_body().to_json())
    empty = ConsumerOffsetManager(data_version=offsets.version).to_json_text()
    copied: dict[str, dict[str, Queues]] = {}
    for number, (group, topic) in enumerate(pairs, 1):
        queues = offsets.queues(group, topic)
        if queues:
            copied.setdefault(group, {})[topic] = queues
        if number % PAIRS_PER_STEP == 0:
            yield
    return off_loop(_written_out(empty, copied), lambda body, later: Blob(body), now)


def _written_out(empty: str, copied: dict[str, dict[str, Queues]]) -> Generator[None, None, bytes]:
    groups, offsets = [], []
    for group, topics in copied.items():
        groups.append(f"{write(group)}:{write(sorted(topics))}")
        for topic, queues in topics.items():
            offsets.append(f"{write(f'{topic}@{group}')}:{write(queues)}")
            if len(offsets) % PAIRS_PER_STEP == 0:
                yield
    text = with_items(empty, "groupTopicMap", groups)
    return with_items(text, "offsetTable", offsets).encode("utf-8", "replace")


@handlers(CloneGroupOffset)
def clone_group_offset(tables: OffsetTables, call: Call[CloneGroupOffset], now: int) -> Result:
    """Replaces a group's offsets on a topic by those of another group."""
    request = call.request
    topic = request.topic
    if topic and tables.topics.get(topic) is not None:
        source = tables.clients.consumers.get(request.src_group)
        consumes = source is None or not source.subscriptions or topic in source.subscriptions
        if request.offline or consumes:
            tables.offsets.clone(request.src_group, request.dest_group, topic, now)
    return after_saving(tables.dirty_tables, Void(), now, tables.offsets.NAME)


@handlers(QueryCorrectionOffset)
def query_correction_offset(tables: OffsetTables, call: Call[QueryCorrectionOffset], now: int) -> Reply:
    """The smallest offset of all groups by queue; the greatest number where the compared group is behind."""
    request = call.request
    for group in (request.filter_groups or "").split(","):
        if group.strip():
            tables.offsets.remove_group_topic(group.strip(), request.topic, now)
    smallest: dict[int, int] = {}
    for group in tables.offsets.groups_of(request.topic):
        for queue_id, offset in tables.offsets.queues(group, request.topic).items():
            if offset >= tables.store.min_offset(request.topic, queue_id):
                smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
    for queue_id, offset in tables.offsets.queues(request.compare_group, request.topic).items():
        if queue_id in smallest and smallest[queue_id] > offset:
            smallest[queue_id] = LONG_MAX
    return JsonReply(QueryCorrectionOffsetBody(smallest))

"""Finding messages: by key, by offset, and the units of a consume queue."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from orbitmq.broker.auth.permissions import GET
from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.record import read_record
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call, Result, off_loop
from orbitmq.protocol.bodies.stats import ConsumeQueueData, QueryConsumeQueueResponseBody
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import INDEX_KEY, INDEX_TAG, INDEX_UNIQUE
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.pull import QueryMessage, QueryReply, ViewMessageById
from orbitmq.protocol.requests.topic import QueryConsumeQueue
from orbitmq.protocol.schema.declare import Blob, JsonReply, Reply
from orbitmq.store import MessageStore
from orbitmq.store.option_rows import StoreSettings

MAX_QUERIED = 64
MAX_UNITS = 1_000
"""Largest number of units of a consume queue in one answer."""


@dataclass(slots=True)
class QueryTables:
    """Tables that searches look at."""

    settings: StoreSettings
    topics: TopicTable
    clients: ClientTable
    store: MessageStore
    record_access: RecordAccess


@handlers(QueryMessage)
def query_message(tables: QueryTables, call: Call[QueryMessage], now: int) -> Result:
    """The messages of a topic that have a key, newest first, within a range of store times."""
    request = call.request
    if request.is_unique_key:
        index_type, most = INDEX_UNIQUE, min(tables.settings.default_query_max_num, MAX_QUERIED)
    else:
        index_type, most = request.index_type or INDEX_KEY, min(max(1, request.max_num), MAX_QUERIED)
    finding = tables.store.key_search.begin(
        request.topic, request.key, most, request.begin_timestamp, request.end_timestamp, index_type
    )

    def work() -> Generator[None, None, Reply]:
        found = yield from finding
        records = [record for record in found.records if _is_meant(record, request, index_type)]
        if not records:
            raise Refused(
                ResponseCode.QUERY_NOT_FOUND,
                "can not find message, maybe time range not correct",
                {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"},
            )
        return QueryReply(
            index_last_update_timestamp=found.last_timestamp,
            index_last_update_phyoffset=found.last_physical_offset,
            body=b"".join(records),
        )

    return off_loop(work(), lambda reply, later: reply, now)


def _is_meant(record: bytes | memoryview, request: QueryMessage, index_type: str) -> bool:
    """True if a record is of the topic and the key: the index knows hashes only, which others may share."""
    try:
        message = decode_record(record)
    except BadRecord:
        return False
    if message.topic != request.topic:
        return False
    key = request.key
    if index_type == INDEX_UNIQUE:
        return message.unique_id == key
    if index_type == INDEX_TAG:
        return message.tags == key
    return key in message.keys


@handlers(ViewMessageById)
def view_message_by_id(tables: QueryTables, call: Call[ViewMessageById], now: int) -> Result:
    """The message at a physical offset."""
    offset = call.request.offset

    def found(record: bytes | memoryview | None, later: int) -> Reply:
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        tables.record_access.check(call, record, GET)
        return Blob(bytes(record))

    unconfirmed = bool(call.request.unconfirmed)
    return off_loop(read_record(tables.store, offset, unconfirmed=unconfirmed), found, now)


@handlers(QueryConsumeQueue)
def query_consume_queue(tables: QueryTables, call: Call[QueryConsumeQueue], now: int) -> Result:
    """Units of a consume queue, and what a group subscribes of its topic.

    As Apache's, the answer says only of units with an extension if they would be let through (`eval`).
    """
    request = call.request
    topic, queue_id = request.topic or "", request.queue_id
    if tables.topics.get(topic) is None or tables.store.min_offset(topic, queue_id) < 0:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    first = max(0, tables.store.min_offset(topic, queue_id))
    end = max(0, tables.store.max_offset(topic, queue_id))
    subscription = None
    if request.consumer_group:
        subscription = tables.clients.subscription(request.consumer_group, topic)
    start = max(first, request.index)
    search = tables.store.search([(topic, queue_id)])

    def work() -> Generator[None, None, list[ConsumeQueueData]]:
        units = []
        for queue_offset in range(start, min(end, start + min(request.count, MAX_UNITS))):
            yield
            unit = search.unit(topic, queue_id, queue_offset)
            if unit is None:
                break
            physical_offset, size, code = unit
            units.append(ConsumeQueueData(physic_offset=physical_offset, physic_size=size, tags_code=code))
        return units

    def reply(units: list[ConsumeQueueData], later: int) -> Reply:
        return JsonReply(
            body=QueryConsumeQueueResponseBody(
                subscription_data=subscription,
                filter_data=None if subscription is None else "null",
                queue_data=units,
                max_queue_index=end,
                min_queue_index=first,
            )
        )

    return off_loop(work(), reply, now)

"""Making, changing, deleting and listing topics."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.locks import QueueLocks
from orbitmq.broker.lite.expiry import LiteExpiry
from orbitmq.broker.metadata import names
from orbitmq.broker.metadata.attributes import TOPIC_ATTRIBUTES, alter, parse_attributes
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.options import TopicOptions
from orbitmq.broker.metadata.pagination import page
from orbitmq.broker.metadata.snapshots import with_items
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.registry import handlers
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call, Result, in_turns, off_loop
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.handling.saving import after_saving
from orbitmq.protocol.bodies.group import GroupList
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.static_topic import WrongMapping
from orbitmq.protocol.bodies.stats import TopicOffset, TopicStatsTable, pack_ends
from orbitmq.protocol.bodies.topic import (
    MAX_QUEUES,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicFilterType,
    TopicList,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import retry_topic
from orbitmq.protocol.requests.client import QueryTopicsByConsumer
from orbitmq.protocol.requests.topic import (
    DeleteTopicInBroker,
    DeleteTopicInBrokerList,
    GetAllTopicConfig,
    GetSystemTopicListFromBroker,
    GetTopicConfig,
    GetTopicStatsInfo,
    QueryTopicConsumeByWho,
    TopicStatsReply,
    UpdateAndCreateStaticTopic,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)
from orbitmq.protocol.schema.declare import Blob, JsonReply, Reply, Void
from orbitmq.store import MessageStore

MESSAGE_TYPE = "message.type"


@dataclass(slots=True)
class TopicTables:
    """Tables of the administration of topics."""

    identity: BrokerIdentity
    settings: TopicOptions
    topics: TopicTable
    clients: ClientTable
    offsets: OffsetTable
    locks: QueueLocks
    deletions: Deletions
    lite_expiry: LiteExpiry
    store: MessageStore
    stats: BrokerStats
    dirty_tables: DirtyTables


@handlers(UpdateAndCreateTopic)
def update_and_create_topic(tables: TopicTables, call: Call[UpdateAndCreateTopic], now: int) -> Result:
    """Makes a topic or changes it."""
    wanted = _wanted(call.request)
    _check(tables, wanted)
    tables.topics.update(wanted, now)
    return after_saving(tables.dirty_tables, Void(), now, tables.topics.NAME)


def _wanted(request: UpdateAndCreateTopic | UpdateAndCreateStaticTopic) -> TopicConfig:
    return TopicConfig(
        topic_name=request.topic,
        read_queue_nums=request.read_queue_nums,
        write_queue_nums=request.write_queue_nums,
        perm=request.perm,
        topic_filter_type=_filter_type(request.topic_filter_type),
        topic_sys_flag=request.topic_sys_flag or 0,
        order=request.order,
        attributes=parse_attributes(request.attributes),
    )


@handlers(UpdateAndCreateStaticTopic)
def update_and_create_static_topic(
    tables: TopicTables, call: Call[UpdateAndCreateStaticTopic], now: int
) -> Result:
    """Makes a static topic, or moves its queues: the config and the mapping change together."""
    request, topics = call.request, tables.topics
    wanted = _wanted(request)
    _check(tables, wanted)
    try:
        if request.body is None or request.body.topic != request.topic:
            raise WrongMapping("The request has no mapping of its topic")
        mapping = topics.static.accepted(request.body, force=request.force is True)
    except WrongMapping as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    topics.update(wanted, now, mapping)
    return after_saving(tables.dirty_tables, Void(), now, topics.NAME, topics.static.NAME)


CONFIGS_PER_TURN = 500
"""Topics of a list that are checked or changed in one turn, about 5 ms; other requests follow."""


@handlers(UpdateAndCreateTopicList)
def update_and_create_topic_list(
    tables: TopicTables, call: Call[UpdateAndCreateTopicList], now: int
) -> Result:
    """Makes or changes several topics: all, or none if one is wrong. A long list takes several turns."""
    return in_turns(_update_all(tables, call.request.body.topic_config_list or [], now), now)


def _update_all(tables: TopicTables, configs: list[TopicConfig], now: int) -> Generator[None, None, Result]:
    for number, wanted in enumerate(configs, 1):
        _check(tables, wanted)
        current = tables.topics.get(wanted.topic_name)
        alter(TOPIC_ATTRIBUTES, None if current is None else current.attributes, wanted.attributes)
        if number % CONFIGS_PER_TURN == 0:
            yield
    for number, wanted in enumerate(configs, 1):
        tables.topics.update(wanted, now)
        if number % CONFIGS_PER_TURN == 0:
            yield
    return after_saving(tables.dirty_tables, Void(), now, tables.topics.NAME)


def _filter_type(name: str) -> TopicFilterType:
    """The type with a name. Raises Refused (INVALID_PARAMETER)."""
    try:
        return TopicFilterType[name]
    except KeyError:
        raise Refused(
            ResponseCode.INVALID_PARAMETER, f"topicFilterType {name} is neither SINGLE_TAG nor MULTI_TAG"
        ) from None


def _check(tables: TopicTables, wanted: TopicConfig) -> None:
    topic = wanted.topic_name
    names.check_topic_name(topic)
    if tables.settings.validate_system_topic_when_update_topic and tables.topics.is_system(topic):
        raise Refused(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")
    if not (0 <= wanted.read_queue_nums <= MAX_QUEUES and 0 <= wanted.write_queue_nums <= MAX_QUEUES):
        raise Refused(ResponseCode.INVALID_PARAMETER, f"A topic has 0 to {MAX_QUEUES} queues on a broker.")
    if wanted.attributes.get("+" + MESSAGE_TYPE) == "MIXED" and not (
        tables.settings.enable_mixed_message_type
    ):
        raise Refused(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")


@handlers(DeleteTopicInBroker)
def delete_topic_in_broker(tables: TopicTables, call: Call[DeleteTopicInBroker], now: int) -> Result:
    """Removes a topic with its queues and the offsets of all groups, whether it is there or not."""
    _check_deletable(tables, call.request.topic)
    _delete(tables, call.request.topic, now)
    return _after_saving_deletions(tables, now)


@handlers(DeleteTopicInBrokerList)
def delete_topic_in_broker_list(tables: TopicTables, call: Call[DeleteTopicInBrokerList], now: int) -> Result:
    """Removes several topics: none if the name of one is wrong. Each has a turn of its own."""
    topics = dict.fromkeys(call.request.body.topic_list or ())
    if not topics:
        raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic list is blank.")
    for topic in topics:
        _check_deletable(tables, topic)

    def work() -> Generator[None, None, Result]:
        for topic in topics:
            _delete(tables, topic, now)
            yield
        return _after_saving_deletions(tables, now)

    return in_turns(work(), now)


def _check_deletable(tables: TopicTables, topic: str) -> None:
    if not topic.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if tables.settings.validate_system_topic_when_update_topic and tables.topics.is_system(topic):
        raise Refused(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")


def _delete(tables: TopicTables, topic: str, now: int) -> None:
    log_end = tables.store.log_end()
    tables.lite_expiry.delete_all_of(topic, now)
    for name in (topic, *_pop_retry_topics(tables, topic)):
        tables.topics.delete(name, now)
        tables.offsets.remove_topic(name, now)
        tables.locks.remove_topic(name)
        tables.deletions.note(name, log_end, now)
        tables.store.structures.delete_queues(name)
        tables.stats.forget_topic(name)


def _after_saving_deletions(tables: TopicTables, now: int) -> Result:
    topics = tables.topics
    names_of_tables = (topics.NAME, topics.static.NAME, tables.offsets.NAME, tables.deletions.NAME)
    return after_saving(tables.dirty_tables, Void(), now, *names_of_tables)


def _pop_retry_topics(tables: TopicTables, topic: str) -> list[str]:
    """The topics in which POP consumers of the topic keep what they have to see again."""
    if not tables.settings.clear_retry_topic_when_delete_topic:
        return []
    candidates = (
        f"{retry_topic(group)}{separator}{topic}"
        for group in tables.offsets.groups_of(topic)
        for separator in ("_", "+")
    )
    return [retry for retry in candidates if tables.topics.get(retry) is not None]


TEXTS_PER_TURN = 1_000
"""Topics that are written out in one turn, about 5 ms; other requests follow."""


@handlers(GetAllTopicConfig)
def get_all_topic_config(tables: TopicTables, call: Call[GetAllTopicConfig], now: int) -> Result:
    """The table of topics, or the page that is asked for; a long one is written out over several turns."""
    return in_turns(_all_topics(tables, call.request), now)


def _all_topics(tables: TopicTables, request: GetAllTopicConfig) -> Generator[None, None, Result]:
    topics = tables.topics
    while not topics.make_wire_texts(TEXTS_PER_TURN):
        yield
    found = page(
        topics.by_name,
        request.topic_seq,
        request.max_topic_num,
        request.data_version,
        topics.version,
        tables.settings.split_metadata_size if tables.settings.enable_split_metadata else None,
    )
    wrapper = TopicConfigAndMappingSerializeWrapper(
        data_version=topics.version,
        topic_queue_mapping_detail_map=topics.static.details(found),
        mapping_data_version=topics.static.version,
    )
    text = with_items(wrapper.to_json_text(), "topicConfigTable", topics.wire_texts(found))
    return Blob(body=text.encode(), extra={"totalTopicNum": str(len(topics.by_name))})


@handlers(GetTopicConfig)
def get_topic_config(tables: TopicTables, call: Call[GetTopicConfig], now: int) -> Reply:
    """The config of one topic; its mapping as well for who asks for logical queues."""
    name = call.request.topic
    config = tables.topics.get(name)
    if config is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
    return JsonReply(
        body=TopicConfigAndQueueMapping(
            topic_name=config.topic_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=config.attributes,
            mapping_detail=tables.topics.static.by_topic.get(name) if call.request.logical else None,
        )
    )


@handlers(GetSystemTopicListFromBroker)
def get_system_topic_list(tables: TopicTables, call: Call[GetSystemTopicListFromBroker], now: int) -> Reply:
    """The topics that belong to the system here."""
    return JsonReply(TopicList(topic_list=sorted(tables.topics.system_topics)))


@handlers(GetTopicStatsInfo)
def get_topic_stats_info(tables: TopicTables, call: Call[GetTopicStatsInfo], now: int) -> Result:
    """Range and last store time of every queue of a topic, or of those with the newest messages, or only
    where each queue ends.
    """
    topic, newest = call.request.topic, call.request.newest
    config = tables.topics.require(topic)
    name, tps = tables.identity.name, tables.stats.put_tps(topic)
    queue_ids: Sequence[int] = range(max(config.write_queue_nums, config.read_queue_nums))
    if call.request.only_ends:
        ends = tables.store.ends(topic)
        packed = pack_ends([ends.get(queue_id, 0) for queue_id in queue_ids])
        return TopicStatsReply(body=TopicStatsTable(topic_put_tps=tps, ends=packed))
    left_out = None
    if newest is not None:
        queue_ids, left_out = tables.store.newest_queues(topic, newest)
    search = tables.store.search([(topic, queue_id) for queue_id in queue_ids])

    def work() -> Generator[None, None, Reply]:
        table = {}
        for queue_id in queue_ids:
            yield
            end = max(0, search.max_offset(topic, queue_id))
            table[MessageQueue(topic=topic, broker_name=name, queue_id=queue_id)] = TopicOffset(
                min_offset=max(0, search.min_offset(topic, queue_id)),
                max_offset=end,
                last_update_timestamp=max(0, search.store_time(topic, queue_id, end - 1)) if end > 0 else 0,
            )
        return TopicStatsReply(body=TopicStatsTable(offset_table=table, topic_put_tps=tps), left_out=left_out)

    return off_loop(work(), lambda reply, later: reply, now)


@handlers(QueryTopicConsumeByWho)
def query_topic_consume_by_who(tables: TopicTables, call: Call[QueryTopicConsumeByWho], now: int) -> Reply:
    """The groups that consume a topic: by their subscriptions now, or by offsets of earlier times."""
    topic = call.request.topic
    groups = tables.clients.groups_of(topic) | tables.offsets.groups_of(topic)
    return JsonReply(GroupList(group_list=sorted(groups)))


@handlers(QueryTopicsByConsumer)
def query_topics_by_consumer(tables: TopicTables, call: Call[QueryTopicsByConsumer], now: int) -> Reply:
    """The topics a group has offsets for."""
    return JsonReply(
        body=TopicList(
            topic_list=sorted(tables.offsets.topics_of(call.request.group)),
            broker_addr=tables.identity.address,
        )
    )

import pytest

from orbitmq.broker.admin.topic_handlers import CONFIGS_PER_TURN, TEXTS_PER_TURN
from orbitmq.handling.call import Saved, Wait
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import unpack_ends
from orbitmq.protocol.bodies.topic import (
    MAX_QUEUES,
    CreateTopicListRequestBody,
    DeleteTopicListRequestBody,
    TopicConfig,
    TopicFilterType,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.client import QueryTopicsByConsumer
from orbitmq.protocol.requests.topic import (
    DeleteTopicInBroker,
    DeleteTopicInBrokerList,
    GetAllTopicConfig,
    GetSystemTopicListFromBroker,
    GetTopicConfig,
    GetTopicStatsInfo,
    QueryTopicConsumeByWho,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)
from tests.kit.waiting import turns_of
from tests.kit.world import NOW, World


def update(
    topic: str, queues: int = 4, attributes: str | None = None, filter_type: str = "SINGLE_TAG"
) -> UpdateAndCreateTopic:
    return UpdateAndCreateTopic(topic, "TBW102", queues, queues, 6, filter_type, False, 0, attributes)


def test_the_reply_waits_until_the_topic_is_saved() -> None:
    world = World()
    world.ask(update("T", attributes="+message.type=FIFO"))
    assert world.last_wait is not None
    assert world.last_wait.on == (Saved("topics"),)
    assert world.ask(GetTopicConfig("T")).body.attributes == {"message.type": "FIFO"}
    assert world.topics.drain_changed() == {"T"}


def test_a_topic_that_is_so_already_needs_no_wait() -> None:
    world = World()
    world.ask(update("T"))
    world.dirty_tables.drain_all()
    world.ask(update("T"))
    assert world.last_wait is None


@pytest.mark.parametrize("topic", ["a b", "x" * 128, "TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x"])
def test_names_that_topics_may_not_have_or_that_the_system_needs(topic: str) -> None:
    assert World().refusal(update(topic)).code == ResponseCode.INVALID_PARAMETER


def test_a_topic_has_no_more_queues_than_every_client_can_keep() -> None:
    assert World().refusal(update("T", MAX_QUEUES + 1)).code == ResponseCode.INVALID_PARAMETER
    assert World().refusal(update("T", -1)).code == ResponseCode.INVALID_PARAMETER
    world = World()
    world.ask(update("T", MAX_QUEUES))
    assert world.ask(GetTopicConfig("T")).body.read_queue_nums == MAX_QUEUES


def test_attributes_that_are_refused() -> None:
    world = World()
    assert world.refusal(update("T", attributes="+message.type=QUICK")).code == ResponseCode.SYSTEM_ERROR
    assert world.refusal(update("T", attributes="+message.type=MIXED")).code == ResponseCode.INVALID_PARAMETER
    assert world.topics.get("T") is None


@pytest.mark.parametrize(
    ("attribute", "missing"),
    [
        ("cleanup.policy=COMPACTION", "compaction topics"),
        ("queue.type=BatchCQ", "batch consume queues"),
        ("reserve.time=3600000", "tiered storage"),
    ],
)
def test_attributes_that_would_change_nothing_are_refused(attribute: str, missing: str) -> None:
    world = World()
    refusal = world.refusal(update("T", attributes=f"+{attribute}"))
    assert refusal.code == ResponseCode.SYSTEM_ERROR
    assert f"{attribute} is not supported yet" in refusal.remark
    assert missing in refusal.remark
    key, _, value = attribute.partition("=")
    listed = CreateTopicListRequestBody([TopicConfig("T", attributes={f"+{key}": value})])
    assert world.refusal(UpdateAndCreateTopicList(listed)).remark == refusal.remark
    assert world.topics.get("T") is None


def test_attributes_that_say_what_holds_anyway_are_kept() -> None:
    world = World()
    world.ask(update("T", attributes="+cleanup.policy=DELETE,+queue.type=SimpleCQ,+reserve.time=-1"))
    assert world.topics.require("T").attributes == {
        "cleanup.policy": "DELETE",
        "queue.type": "SimpleCQ",
        "reserve.time": "-1",
    }


def test_the_filter_type_is_kept_and_has_to_be_one() -> None:
    world = World()
    world.ask(update("T", filter_type="MULTI_TAG"))
    assert world.ask(GetTopicConfig("T")).body.topic_filter_type is TopicFilterType.MULTI_TAG
    assert world.refusal(update("U", filter_type="TAGS")).code == ResponseCode.INVALID_PARAMETER
    assert world.topics.get("U") is None


def test_a_list_with_one_wrong_topic_makes_none() -> None:
    world = World()
    good, bad = TopicConfig("T", 2, 2), TopicConfig("U", attributes={"+no.such": "x"})
    assert world.refusal(UpdateAndCreateTopicList(CreateTopicListRequestBody([good, bad]))).code == 1
    assert world.topics.get("T") is None
    world.ask(UpdateAndCreateTopicList(CreateTopicListRequestBody([good, TopicConfig("U", 3, 3)])))
    assert world.topics.require("U").read_queue_nums == 3


def test_deleting_takes_queues_and_offsets_along() -> None:
    world = World()
    world.ask(update("T"))
    world.put("T")
    world.offsets.commit("G", "T", 0, 1, NOW)
    world.topics.ensure("%RETRY%G_T", 1, NOW)
    world.ask(DeleteTopicInBroker("T"))
    assert world.topics.get("T") is None
    assert world.topics.get("%RETRY%G_T") is None
    assert world.store.topics() == set()
    assert world.offsets.groups_of("T") == set()
    world.ask(DeleteTopicInBroker("NeverThere"))
    assert world.refusal(DeleteTopicInBroker(" ")).code == ResponseCode.INVALID_PARAMETER
    assert world.refusal(DeleteTopicInBroker("TBW102")).code == ResponseCode.INVALID_PARAMETER


def test_a_list_of_topics_is_deleted_or_none_of_them() -> None:
    world = World()
    for topic in ("A", "B", "C"):
        world.ask(update(topic))

    def delete(*topics: str) -> DeleteTopicInBrokerList:
        return DeleteTopicInBrokerList(DeleteTopicListRequestBody(list(topics)))

    for wrong in (delete(), delete("A", " "), delete("A", "TBW102")):
        assert world.refusal(wrong).code == ResponseCode.INVALID_PARAMETER
    assert world.topics.get("A") is not None
    world.ask(delete("A", "B", "A", "NeverThere"))
    assert [world.topics.get(topic) is None for topic in ("A", "B", "C")] == [True, True, False]


def test_pop_retry_topics_stay_by_an_option() -> None:
    world = World(clear_retry_topic_when_delete_topic=False)
    world.offsets.commit("G", "T", 0, 1, NOW)
    world.topics.ensure("%RETRY%G_T", 1, NOW)
    world.ask(DeleteTopicInBroker("T"))
    assert world.topics.get("%RETRY%G_T") is not None


def test_the_range_of_every_queue() -> None:
    world = World()
    world.ask(update("T", 2))
    world.put("T", 0, 3)
    body = world.ask(GetTopicStatsInfo("T")).body
    rows = {queue.queue_id: row for queue, row in body.offset_table.items()}
    assert (rows[0].min_offset, rows[0].max_offset, rows[0].last_update_timestamp) == (0, 3, NOW)
    assert (rows[1].min_offset, rows[1].max_offset, rows[1].last_update_timestamp) == (0, 0, 0)
    refused = world.refusal(GetTopicStatsInfo("U"))
    assert (refused.code, refused.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[U] not exist")


def test_the_queues_with_the_newest_messages() -> None:
    world = World()
    world.ask(update("T", 8))
    for queue_id in (5, 2, 7, 5):
        world.put("T", queue_id, 1)
    reply = world.ask(GetTopicStatsInfo("T", newest=2))
    assert [queue.queue_id for queue in reply.body.offset_table] == [5, 7]
    assert (reply.body.offset_table[MessageQueue("T", "broker-a", 5)].max_offset, reply.left_out) == (2, 1)
    assert world.ask(GetTopicStatsInfo("T")).left_out is None


def test_where_every_queue_ends() -> None:
    world = World()
    world.ask(update("T", 4))
    for queue_id in (2, 0, 2):
        world.put("T", queue_id, 1)
    body = world.ask(GetTopicStatsInfo("T", only_ends=True)).body
    assert (body.offset_table, unpack_ends(body.ends or b"")) == ({}, (1, 0, 2, 0))
    assert world.ask(GetTopicStatsInfo("T")).body.ends is None


def test_an_unknown_topic_has_no_config() -> None:
    assert World().refusal(GetTopicConfig("T")).code == ResponseCode.TOPIC_NOT_EXIST


def test_topics_come_all_at_once_or_page_by_page() -> None:
    world = World(split_metadata_size=2)
    for name in ("A", "B", "C"):
        world.ask(update(name))
    whole = world.ask(GetAllTopicConfig())
    assert set(whole.body.topic_config_table) == {"A", "B", "C"}
    assert whole.total_topic_num == 3
    version = world.topics.version.to_json_text()
    first = world.ask(GetAllTopicConfig(0, None, 10))
    assert list(first.body.topic_config_table) == ["A", "B"]
    second = world.ask(GetAllTopicConfig(2, version, 10))
    assert list(second.body.topic_config_table) == ["C"]
    past = world.ask(GetAllTopicConfig(4, version, 10))
    assert past.body.topic_config_table == {}
    world.ask(update("D"))
    again = world.ask(GetAllTopicConfig(2, version, 10))
    assert list(again.body.topic_config_table) == ["A", "B"], "another version: from the beginning"


def test_who_consumes_a_topic() -> None:
    world = World()
    world.offsets.commit("G", "T", 0, 1, NOW)
    assert world.ask(QueryTopicConsumeByWho("T")).body.group_list == ["G"]
    assert world.ask(QueryTopicsByConsumer("G")).body.topic_list == ["T"]


def test_the_topics_of_the_system() -> None:
    world = World()
    world.topics.add_system_topics(NOW)
    assert "SCHEDULE_TOPIC_XXXX" in world.ask(GetSystemTopicListFromBroker()).body.topic_list


def test_a_long_table_is_written_out_over_several_turns() -> None:
    world = World()
    for n in range(2 * TEXTS_PER_TURN):
        world.topics.ensure(f"many-{n}", 1, NOW)
    assert isinstance(world.handle(GetAllTopicConfig()), Wait)
    whole = world.ask(GetAllTopicConfig())
    assert whole.total_topic_num == len(whole.body.topic_config_table) == len(world.topics.by_name)
    assert whole.body.topic_config_table == world.topics.by_name
    world.topics.ensure("one more", 1, NOW)
    assert not isinstance(world.handle(GetAllTopicConfig()), Wait), "the rest is kept"


def test_very_many_topics_are_made_over_several_turns() -> None:
    world, most = World(), 3 * CONFIGS_PER_TURN
    before = len(world.topics.by_name)
    listed = [TopicConfig(f"T{number}", 3, 3) for number in range(most)]
    turns, _ = turns_of(world.handle(UpdateAndCreateTopicList(CreateTopicListRequestBody(listed))))
    assert turns == 6, "they are checked first, all of them"
    assert len(world.topics.by_name) == before + most
    wrong = [*listed, TopicConfig("no name", 3, 3)]
    for config in listed:
        config.read_queue_nums = 9
    with pytest.raises(Refused):
        turns_of(world.handle(UpdateAndCreateTopicList(CreateTopicListRequestBody(wrong))))
    assert world.topics.require("T0").read_queue_nums == 3

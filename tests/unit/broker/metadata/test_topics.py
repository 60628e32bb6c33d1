from dataclasses import dataclass

import pytest

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import MalformedJson, Refused

IDENTITY = BrokerIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912", b"")


@dataclass
class Settings:
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    timer_wheel_enable: bool = True
    revive_queue_num: int = 8


def table(**settings: object) -> TopicTable:
    topics = TopicTable(IDENTITY, Settings(**settings), DirtyTables(), now=1)  # type: ignore[arg-type]
    topics.add_system_topics(now=1)
    return topics


@pytest.mark.parametrize(
    ("topic", "queues", "perm"),
    [
        ("SELF_TEST_TOPIC", 1, 6),
        ("TBW102", 8, 7),
        ("BenchmarkTest", 1024, 6),
        ("DefaultCluster", 16, 7),
        ("broker-a", 1, 7),
        ("OFFSET_MOVED_EVENT", 1, 6),
        ("SCHEDULE_TOPIC_XXXX", 18, 6),
        ("DefaultCluster_REPLY_TOPIC", 1, 6),
        ("rmq_sys_REVIVE_LOG_DefaultCluster", 8, 6),
        ("rmq_sys_SYNC_BROKER_MEMBER_broker-a", 1, 1),
        ("RMQ_SYS_TRANS_HALF_TOPIC", 1, 6),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 6),
        ("rmq_sys_wheel_timer", 1, 6),
    ],
)
def test_topics_of_a_new_broker(topic: str, queues: int, perm: int) -> None:
    config = table().get(topic)
    assert config is not None
    assert (config.write_queue_nums, config.read_queue_nums, config.perm) == (queues, queues, perm)


def test_the_trace_topic_is_there_only_when_asked_for() -> None:
    assert table().get("RMQ_SYS_TRACE_TOPIC") is None
    assert table(trace_topic_enable=True).get("RMQ_SYS_TRACE_TOPIC") is not None


def test_a_first_send_makes_a_topic_in_the_image_of_the_default_topic() -> None:
    topics = table()
    config = topics.create_for_send("T", "TBW102", 4, unit_mode=False, now=5)
    assert config == TopicConfig("T", 4, 4, 6)
    assert topics.create_for_send("T", "TBW102", 2, unit_mode=False, now=6) is config
    assert topics.create_for_send("U", "TBW102", 40, unit_mode=True, now=6) == TopicConfig(
        "U", 8, 8, 6, topic_sys_flag=1
    )


def test_no_topic_is_made_where_the_default_topic_does_not_allow_it() -> None:
    assert table(auto_create_topic_enable=False).create_for_send("T", "TBW102", 4, False, now=1) is None
    topics = table()
    assert topics.create_for_send("T", "NoSuchTopic", 4, False, now=1) is None
    topics.ensure("Plain", 4, now=1)
    assert topics.create_for_send("T", "Plain", 4, False, now=1) is None


def test_a_stored_default_topic_does_not_bring_auto_creation_back() -> None:
    topics = table(auto_create_topic_enable=False)
    topics.ensure("TBW102", 8, now=1, perm=7)
    assert topics.create_for_send("T", "TBW102", 4, False, now=1) is None


def test_every_change_makes_a_version_and_is_to_be_saved_and_registered() -> None:
    dirty_tables = DirtyTables()
    topics = TopicTable(IDENTITY, Settings(), dirty_tables, now=1)
    topics.put(TopicConfig("T"), now=7)
    assert (topics.version.counter, topics.version.timestamp) == (1, 7)
    assert dirty_tables.drain_soon() == {"topics"}
    assert topics.drain_changed() == {"T"}
    assert topics.delete("T", now=8)
    assert not topics.delete("T", now=9)
    assert topics.version.counter == 2
    assert topics.drain_changed() == {"T"}


def test_an_update_that_changes_nothing_makes_no_version() -> None:
    topics = table()
    assert topics.update(TopicConfig("T", 3, 3), now=2)
    counter = topics.version.counter
    assert not topics.update(TopicConfig("T", 3, 3), now=3)
    assert topics.version.counter == counter
    assert topics.update(TopicConfig("T", 3, 3, attributes={"+message.type": "FIFO"}), now=4)
    assert topics.get("T") == TopicConfig("T", 3, 3, attributes={"message.type": "FIFO"})
    # A request that names attributes counts as a change, whether it is one or not.
    assert topics.update(TopicConfig("T", 3, 3, attributes={"+message.type": "FIFO"}), now=5)


def test_an_update_keeps_attributes_that_it_does_not_name() -> None:
    topics = table()
    topics.update(TopicConfig("T", attributes={"+message.type": "FIFO"}), now=2)
    topics.update(TopicConfig("T", 2, 2), now=3)
    assert topics.require("T").attributes == {"message.type": "FIFO"}
    assert topics.require("T").write_queue_nums == 2


def test_a_wrong_update_changes_nothing() -> None:
    topics = table()
    with pytest.raises(Refused):
        topics.update(TopicConfig("T", attributes={"+message.type": "QUICK"}), now=2)
    assert topics.get("T") is None


def test_a_retry_topic_follows_the_order_of_what_its_group_consumes() -> None:
    topics = table()
    assert not topics.ensure("%RETRY%g", 1, now=1, order=False).order
    assert topics.ensure("%RETRY%g", 1, now=1, order=True).order
    assert topics.ensure("%RETRY%g", 1, now=1).order


def test_topics_are_the_same_after_a_restart() -> None:
    topics = table()
    topics.update(TopicConfig("T", 5, 4, 6, attributes={"+message.type": "FIFO"}), now=9)
    again = TopicTable(IDENTITY, Settings(), DirtyTables(), now=99)
    again.load_text(topics.snapshot()())
    assert again.by_name == topics.by_name
    assert again.version == topics.version


def test_the_file_of_another_broker_is_read() -> None:
    topics = TopicTable(IDENTITY, Settings(), DirtyTables(), now=1)
    topics.load_text(
        '{"dataVersion":{"counter":6,"stateVersion":0,"timestamp":1795212134652},"topicConfigTable":{"T1":'
        '{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
        '"topicName":"T1","topicSysFlag":0,"writeQueueNums":4}}}'
    )
    assert topics.get("T1") == TopicConfig("T1", 4, 4, 6)
    assert topics.version.counter == 6


def test_attributes_that_another_broker_took_and_that_change_nothing_here_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = (
        '{"dataVersion":{"counter":1},"topicConfigTable":{'
        '"T1":{"topicName":"T1","attributes":{"cleanup.policy":"COMPACTION","message.type":"FIFO"}},'
        '"T2":{"topicName":"T2","attributes":{"cleanup.policy":"DELETE"}}}}'
    )
    TopicTable(IDENTITY, Settings(), DirtyTables(), now=1).load_text(text)
    assert caplog.messages == ["topic T1: cleanup.policy=COMPACTION is not supported yet and changes nothing"]


def test_a_torn_file_leaves_the_table_as_it_was() -> None:
    topics = table()
    before = dict(topics.by_name)
    with pytest.raises(MalformedJson):
        topics.load_text('{"topicConfigTable":{"T1":')
    assert topics.by_name == before


def test_an_unknown_topic_is_refused_by_name() -> None:
    with pytest.raises(Refused) as refused:
        table().require("T")
    assert (refused.value.code, refused.value.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[T] not exist")


def test_system_topics_are_known() -> None:
    topics = table()
    for topic in ("TBW102", "DefaultCluster", "broker-a", "rmq_sys_anything", "SCHEDULE_TOPIC_XXXX"):
        assert topics.is_system(topic), topic
    assert not topics.is_system("T")

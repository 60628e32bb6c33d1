from dataclasses import dataclass

import pytest

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.send.admission import Admission
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused

IDENTITY = BrokerIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912", b"")


@dataclass
class Settings:
    broker_permission: int = 6
    start_accept_send_request_time_stamp: int = 0


def topic(name: str, **more: int) -> TopicConfig:
    return TopicConfig(name, 4, 2, **more)


def admission(*topics: TopicConfig, **settings: int) -> tuple[Admission, TopicTable]:
    table = TopicTable(IDENTITY, Settings(**settings), DirtyTables(), now=1)  # type: ignore[arg-type]
    for one in topics:
        table.put(one, 1)
    return Admission(IDENTITY, Settings(**settings), table), table  # type: ignore[arg-type]


def never() -> TopicConfig:
    raise AssertionError("a topic is made")


def test_fast_paths_send_to_plain_topics_that_may_be_written() -> None:
    names = ("plain", "%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX")
    admitted, _ = admission(*map(topic, names), topic("closed", perm=4))
    assert [admitted.open_queues()[name] for name in (*names, "closed", "unknown")] == [4, 0, 0, 0, 0, 0]
    assert "unknown" not in admitted.open_queues(), "clients may name any number of them"


def test_a_decision_lasts_until_the_topics_change() -> None:
    admitted, topics = admission(topic("a"))
    assert admitted.open_queues()["a"] == 4
    kept = admitted.open_queues()
    assert kept is admitted.open_queues()
    assert dict(kept) == {"a": 4}
    topics.put(topic("a", perm=4), 2)
    assert admitted.open_queues()["a"] == 0
    topics.put(topic("a"), 3)
    assert admitted.open_queues()["a"] == 4
    topics.delete("a", 4)
    assert admitted.open_queues()["a"] == 0


def test_a_master_s_table_of_the_same_count_of_changes_replaces_the_decisions() -> None:
    admitted, topics = admission(topic("a"))
    _, of_master = admission(topic("a", perm=4))
    assert admitted.open_queues()["a"] == 4
    before = topics.version.counter
    topics.load_text(of_master.snapshot()())
    assert topics.version.counter == before
    assert admitted.open_queues()["a"] == 0


@pytest.mark.parametrize(
    ("name", "queue_id", "settings", "code"),
    [
        ("a", 0, {"start_accept_send_request_time_stamp": 9}, ResponseCode.SYSTEM_ERROR),
        ("a b", 0, {"broker_permission": 4}, ResponseCode.NO_PERMISSION),
        ("a b", 0, {}, ResponseCode.INVALID_PARAMETER),
        ("SCHEDULE_TOPIC_XXXX", 0, {}, ResponseCode.NO_PERMISSION),
        ("closed", 0, {}, ResponseCode.NO_PERMISSION),
        ("a", 4, {}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_of_several_rules_the_first_that_a_send_breaks_is_told(
    name: str, queue_id: int, settings: dict[str, int], code: ResponseCode
) -> None:
    admitted, _ = admission(topic("a"), topic("closed", perm=4), **settings)
    with pytest.raises(Refused) as refused:
        admitted.admit_send(name, queue_id, never, 5)
    assert refused.value.code == code


def test_a_read_only_broker_takes_sends_to_topics_without_an_order_and_no_replies() -> None:
    admitted, _ = admission(topic("a"), TopicConfig("ordered", 1, 1, order=True), broker_permission=4)
    assert admitted.admit_send("a", 0, never, 5).topic_name == "a"
    for refused in (
        lambda: admitted.admit_send("ordered", 0, never, 5),
        lambda: admitted.admit_reply("a", 0, 5),
    ):
        with pytest.raises(Refused, match="forbidden"):
            refused()
    assert not admitted.takes_from_anybody(5)


def test_a_reply_makes_no_topic() -> None:
    admitted, _ = admission(topic("a"))
    admitted.admit_reply("a", 3, 5)
    with pytest.raises(Refused, match="not exist"):
        admitted.admit_reply("b", 0, 5)

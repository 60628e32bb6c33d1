import json
from dataclasses import replace

import pytest

from orbitmq.broker.metadata.registration import register_changed
from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.handling.call import Saved
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem as Item
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail, WrongMapping
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.protocol.requests.topic import (
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetTopicConfig,
    UpdateAndCreateStaticTopic,
)
from tests.kit.world import NOW, World

A, B = Item(0, 0, "broker-a", 0), Item(1, 3, "broker-b", 10_000)


def mapping(*items: Item, epoch: int = 1, total: int = 1, **changes: object) -> TopicQueueMappingDetail:
    """The mapping of a topic with one queue."""
    queues = {0: list(items)} if items else {}
    detail = TopicQueueMappingDetail(
        "T", total_queues=total, bname="broker-a", epoch=epoch, hosted_queues=queues
    )
    return replace(detail, **changes)  # type: ignore[arg-type]


def change(body: TopicQueueMappingDetail | None, force: bool | None = None) -> UpdateAndCreateStaticTopic:
    return UpdateAndCreateStaticTopic("T", "TBW102", 4, 4, 6, "SINGLE_TAG", False, force=force, body=body)


def test_a_static_topic_is_made_and_registered() -> None:
    world = World()
    world.ask(change(mapping(A)))
    assert world.last_wait is not None
    assert world.last_wait.on == (Saved("topics"), Saved("static mappings"))
    assert world.ask(GetTopicConfig("T")).body.mapping_detail is None
    assert world.ask(GetTopicConfig("T", logical=True)).body.mapping_detail == mapping(A)
    assert world.ask(GetAllTopicConfig()).body.topic_queue_mapping_detail_map == {"T": mapping(A)}
    (name,) = world.topics.drain_changed()
    registered = register_changed(world.identity, world.topics, [name], 6)
    wrapper = json.loads(bytes(registered.body).decode().replace("{0:", '{"0":'))[
        "topicConfigSerializeWrapper"
    ]
    assert wrapper["topicQueueMappingInfoMap"]["T"]["currIdMap"] == {"0": 0}
    assert world.store.messages == [] if hasattr(world.store, "messages") else True


def test_a_mapping_goes_with_its_topic() -> None:
    world = World()
    world.ask(change(mapping(A)))
    world.ask(DeleteTopicInBroker("T"))
    assert world.topics.static.by_topic == {}


def test_each_change_is_a_version_of_both_tables() -> None:
    world = World()
    world.ask(change(mapping(A)))
    before = world.topics.version.counter, world.topics.static.version.counter
    world.ask(change(mapping(A)))
    assert world.topics.version.counter == before[0] + 1, "name servers hear of the mapping with the topic"
    assert world.topics.static.version.counter == before[1] + 1


@pytest.mark.parametrize(
    ("wanted", "remark"),
    [
        (None, "no mapping"),
        (mapping(A, topic="U"), "no mapping"),
        (mapping(A, bname="broker-b"), "one of broker-b"),
        (mapping(A, epoch=4), "small epoch 4 < 5"),
        (mapping(A, epoch=6, total=100_001), "100000 queues at most"),
        (mapping(A, epoch=6, scope="other"), "unmatched scope"),
        (mapping(epoch=5), "equal epoch with null data"),
        (mapping(A, B), "new leader is different but epoch equal"),
        (mapping(replace(A, queue_id=1), epoch=6), "differs from the one that is known"),
        (mapping(replace(A, logic_offset=5), epoch=6), "differs from the one that is known"),
        (mapping(replace(A, start_offset=-1), epoch=6), "should not be negative"),
        (mapping(replace(A, logic_offset=-1), B, epoch=6), "negative logic offset"),
        (mapping(B, A, epoch=6), "gen does not increase"),
        (mapping(A, replace(B, logic_offset=0), epoch=6), "base logic offset does not increase"),
        (mapping(replace(A, end_offset=10_000), B, epoch=6), "max logic offset does not increase"),
        (mapping(replace(A, start_offset=9, end_offset=8), epoch=6), "smaller than the start offset"),
    ],
)
def test_mappings_that_are_refused(wanted: TopicQueueMappingDetail | None, remark: str) -> None:
    world = World()
    world.ask(change(mapping(A, epoch=5)))
    if wanted is not None and wanted.epoch == 1:
        wanted = replace(wanted, epoch=5)
    refused = world.refusal(change(wanted))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert remark in refused.remark
    assert world.topics.static.by_topic["T"] == mapping(A, epoch=5)


def test_force_takes_what_contradicts_the_present_mapping_and_keeps_other_queues() -> None:
    world = World()
    world.ask(change(mapping(A, epoch=5)))
    world.ask(change(mapping(epoch=1, hosted_queues={1: [A]}), force=True))
    assert world.topics.static.by_topic["T"].hosted_queues == {0: [A], 1: [A]}


def test_messages_go_to_the_physical_queue_and_answers_name_the_logical_one() -> None:
    world = World()
    led = Item(1, 2, "broker-a", 10_000)
    queues = {
        0: [A, B],
        5: [replace(A, bname="broker-b"), led],
        6: [replace(led, queue_id=1, logic_offset=-1)],
    }
    world.ask(change(mapping(hosted_queues=queues, total=7)))
    world.new_unique_id = lambda now: "ID"  # type: ignore[attr-defined]
    world.transactions = None  # type: ignore[attr-defined]

    def send(queue_id: int) -> SendMessageV2:
        return SendMessageV2(
            "P", "T", "TBW102", 4, queue_id, 0, NOW, 0, properties="UNIQ_KEY\x01x\x02", body=b"b"
        )

    assert world.admission.open_queues()["T"] == 0, "the fast paths leave it alone"
    answers = [world.ask(send(5)) for _ in range(2)]
    assert [(one.queue_id, one.queue_offset) for one in answers] == [(5, 10_000), (5, 10_001)]
    assert world.store.max_offset("T", 2) == 2
    assert world.ask(send(6)).queue_offset == -1, "the place of its offsets is not decided"
    assert {world.ask(send(-1)).queue_id for _ in range(4)} == {5, 6}
    for other in (0, 1):
        assert world.refusal(send(other)).code == ResponseCode.NOT_LEADER_FOR_QUEUE


def test_the_file_is_apaches() -> None:
    static = StaticMappings("broker-a", DirtyTables(), NOW)
    static.put(mapping(A), NOW)
    text = static.snapshot()()
    assert text.startswith('{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"stateVersion":0,')
    assert '"currIdMap":{\n\t\t\t\t\n\t\t\t},' in text
    again = StaticMappings("broker-a", DirtyTables(), 0)
    again.load_text(text)
    assert (again.by_topic, again.version) == (static.by_topic, static.version)
    for wrong in ("{}", text.replace('"startOffset":0', '"startOffset":-1')):
        with pytest.raises((MalformedJson, WrongMapping)):
            again.load_text(wrong)


def test_a_slave_takes_over_the_table() -> None:
    dirty = DirtyTables()
    slave = StaticMappings("broker-a", dirty, NOW)
    slave.replace({}, DataVersion(0, 0, 7))
    assert StaticMappings.NAME not in dirty, "most brokers have no static topics, and no file"
    slave.replace({"T": mapping(A)}, DataVersion(3, 0, 7))
    assert slave.by_topic["T"].leads(0)
    assert StaticMappings.NAME in dirty

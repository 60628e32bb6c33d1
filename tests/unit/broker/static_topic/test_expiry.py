from dataclasses import replace

from orbitmq.broker.metadata.static_mappings import StaticMappings
from orbitmq.broker.static_topic.expiry import drop, oldest_stretches
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem as Item
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail

OLD, LATER = Item(0, 1, "broker-b", 0), Item(1, 2, "broker-c", 10_000)
LED, UNPLACED = Item(2, 3, "broker-a", 20_000), Item(2, 3, "broker-a", -1)


def test_stretches_before_a_readable_one_may_go() -> None:
    static = StaticMappings("broker-a", DirtyTables(), 0)
    queues = {0: [OLD, LATER, LED], 1: [OLD, UNPLACED], 2: [LED], 3: [OLD, LATER], 4: [OLD, LATER, UNPLACED]}
    static.put(TopicQueueMappingDetail("T", bname="broker-a", epoch=7, hosted_queues=queues), 0)
    found = oldest_stretches(static)
    assert [(one.global_id, one.item) for one in found] == [(0, OLD), (4, OLD)]
    drop(static, found[0], 1)
    kept = static.by_topic["T"]
    assert (kept.epoch, kept.hosted_queues) == (7, {**queues, 0: [LATER, LED]})
    drop(static, found[0], 1)
    assert static.by_topic["T"] is kept, "it is not the first one any more"
    static.put(replace(kept, hosted_queues={0: [OLD, LATER, LED]}), 2)
    drop(static, found[1], 3)
    assert static.by_topic["T"].hosted_queues == {0: [OLD, LATER, LED]}

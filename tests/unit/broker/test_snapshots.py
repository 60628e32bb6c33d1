from orbitmq.protocol.bodies.group import SubscriptionGroupWrapper
from orbitmq.protocol.bodies.topic import TopicConfigSerializeWrapper
from tests.unit.broker.world import NOW, World


def test_the_text_is_that_of_the_whole_table() -> None:
    world = World()
    for names in ((), ("A",), ("A", "B")):
        for name in names:
            world.topics.ensure(name, 2, NOW)
            world.groups.find(name, NOW)
        whole = TopicConfigSerializeWrapper(world.topics.by_name, world.topics.version)
        assert world.topics.snapshot()() == whole.to_pretty_json()
        groups = SubscriptionGroupWrapper(world.groups.by_name, world.groups.forbidden, world.groups.version)
        assert world.groups.snapshot()() == groups.to_pretty_json()


def test_changes_show_in_the_next_snapshot_and_not_in_the_one_before() -> None:
    world = World()
    world.topics.ensure("A", 2, NOW)
    world.offsets.commit("G", "A", 0, 5, NOW)
    topics, offsets = world.topics.snapshot(), world.offsets.snapshot()
    world.topics.ensure("A", 2, NOW, order=True)
    world.topics.delete("B", NOW)
    world.offsets.commit("G", "A", 0, 6, NOW)
    assert '"order":false' in topics()
    assert '"order":true' in world.topics.snapshot()()
    assert "0:5" in offsets()
    assert "0:6" in world.offsets.snapshot()()
    world.topics.delete("A", NOW)
    assert '"A"' not in world.topics.snapshot()()

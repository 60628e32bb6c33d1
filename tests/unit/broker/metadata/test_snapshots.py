import pytest

from orbitmq.broker.metadata.snapshots import TextLog
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.group import SubscriptionGroupWrapper
from orbitmq.protocol.bodies.topic import TopicConfigSerializeWrapper
from tests.kit.world import NOW, World


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


def test_a_snapshot_looks_at_what_has_changed_and_at_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets, frozen = OffsetTable(DirtyTables(), NOW), 0
    plain = TextLog.snapshot

    def counting(log: TextLog[object], freeze: object) -> object:
        def count(name: str) -> object:
            nonlocal frozen
            frozen += 1
            return freeze(name)  # type: ignore[operator]

        return plain(log, count)

    monkeypatch.setattr(TextLog, "snapshot", counting)
    for number in range(1000):
        offsets.commit(f"G{number}", "T", 0, number, NOW)
    assert "0:999" in offsets.snapshot()()
    assert frozen == 2000
    offsets.commit("G7", "T", 1, 4, NOW)
    offsets.remove_group("G8", NOW)
    text = offsets.snapshot()()
    assert frozen <= 2004
    again = OffsetTable(DirtyTables(), NOW)
    again.load_text(text)
    assert sorted(again) == sorted(offsets)
    assert text == offsets.to_body().to_pretty_json()


def test_a_snapshot_that_becomes_no_text_loses_nothing() -> None:
    world = World()
    world.offsets.commit("G", "T", 0, 5, NOW)
    world.offsets.snapshot()  # its write fails before there is a text
    world.offsets.commit("H", "T", 0, 6, NOW)
    later = world.offsets.snapshot()
    assert "T@G" in later()
    assert "T@H" in later()

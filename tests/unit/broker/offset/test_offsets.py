from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.handling.dirty_tables import DirtyTables


def table(**options: int) -> OffsetTable:
    return OffsetTable(DirtyTables(), now=1, **options)


def test_offsets_by_group_topic_and_queue() -> None:
    offsets = table()
    assert offsets.get("G", "T", 0) == -1
    offsets.commit("G", "T", 0, 5, now=1)
    assert offsets.get("G", "T", 0) == 5
    assert offsets.get("G", "T", 1) == -1
    assert offsets.get("H", "T", 0) == -1
    offsets.commit("G", "T", 0, 3, now=1)
    assert offsets.get("G", "T", 0) == 3, "lower offsets are taken, too"


def test_a_version_stands_for_many_commits() -> None:
    offsets = table(updates_per_version=3)
    for offset in range(7):
        offsets.commit("G", "T", 0, offset, now=9)
    assert offsets.version.counter == 2


def test_commits_are_saved_at_leisure_and_resets_at_once() -> None:
    dirty_tables = DirtyTables()
    offsets = OffsetTable(dirty_tables, now=1)
    offsets.commit("G", "T", 0, 1, now=1)
    assert not dirty_tables.any_soon
    assert "offsets" in dirty_tables
    offsets.reset("G", "T", 0, 0, now=1)
    assert dirty_tables.drain_soon() == {"offsets"}


def test_a_reset_is_handed_out_once_and_holds_off_commits_until_then() -> None:
    offsets = table()
    offsets.commit("G", "T", 0, 9, now=1)
    offsets.reset("G", "T", 0, 4, now=2)
    offsets.commit("G", "T", 0, 10, now=3)
    assert offsets.get("G", "T", 0) == 4
    assert offsets.has_reset("G", "T", 0)
    assert offsets.pop_reset("G", "T", 1) is None
    assert offsets.pop_reset("G", "T", 0) == 4
    assert offsets.pop_reset("G", "T", 0) is None
    offsets.commit("G", "T", 0, 5, now=4)
    assert offsets.get("G", "T", 0) == 5


def test_pull_positions_are_remembered_apart() -> None:
    offsets = table()
    assert offsets.pulled("G", "T", 0) == -1
    offsets.remember_pull("G", "T", 0, 7)
    assert offsets.pulled("G", "T", 0) == 7
    assert offsets.get("G", "T", 0) == -1


def test_cloning_replaces_the_offsets_of_one_topic() -> None:
    offsets = table()
    offsets.commit("G", "T", 0, 5, now=1)
    offsets.commit("H", "T", 1, 8, now=1)
    offsets.commit("H", "U", 0, 2, now=1)
    offsets.clone("G", "H", "T", now=2)
    assert offsets.queues("H", "T") == {0: 5}
    assert offsets.get("H", "U", 0) == 2
    offsets.commit("H", "T", 0, 6, now=3)
    assert offsets.get("G", "T", 0) == 5
    offsets.clone("nobody", "H", "T", now=4)
    assert offsets.queues("H", "T") == {0: 6}


def test_offsets_go_with_their_topic_and_group() -> None:
    offsets = table()
    for group in ("G", "H"):
        for topic in ("T", "U"):
            offsets.commit(group, topic, 0, 1, now=1)
            offsets.remember_pull(group, topic, 0, 1)
    offsets.remove_topic("T", now=2)
    assert offsets.topics_of("G") == {"U"}
    assert offsets.groups_of("T") == set()
    assert offsets.pulled("G", "T", 0) == -1
    offsets.remove_group("G", now=2)
    assert offsets.groups_of("U") == {"H"}
    offsets.remove_group_topic("H", "U", now=2)
    assert list(offsets) == []


def test_offsets_are_the_same_after_a_restart() -> None:
    offsets = table()
    offsets.commit("G1", "T1", 0, 4, now=1)
    offsets.commit("G1", "%RETRY%G1", 0, 1, now=1)
    offsets.commit("g@broadcast", "T1", 2, 3, now=1)
    text = offsets.snapshot()()
    assert '"T1@G1":{' in text
    assert '"groupTopicMap"' in text
    again = table()
    again.load_text(text)
    assert sorted(again) == sorted(offsets)
    assert again.version == offsets.version

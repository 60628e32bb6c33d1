import pytest

from orbitmq.delay_service.store.backup import NoBackup, backup_time, make_backup, restore
from tests.kit.delay_world import DelayWorld


@pytest.fixture
def backed_up(world):
    world.send(b"early", topic="t", after="1s", id="early")
    world.send(b"late", topic="t", after="1h", id="late")
    world.send(b"daily", topic="t", after="1s", every="1h", id="daily")
    world.take_in()
    return make_backup(world.store, world.now)


def restored(world, backed_up, tmp_path, begin):
    left_out = restore(backed_up, tmp_path / "new", begin, world.now + 60_000)
    new = DelayWorld(tmp_path / "new")
    new.now = world.now + 60_000
    new.log = world.log
    return new, left_out


def test_a_backup_is_made_while_the_store_is_used(world, backed_up):
    assert backup_time(backed_up) == world.now
    world.run(1500)
    assert len(world.bodies("main/t")) == 2


def test_what_left_since_leaves_again(world, backed_up, tmp_path):
    new, left_out = restored(world, backed_up, tmp_path, None)
    new.run(1000)
    assert left_out == 0
    assert sorted(new.bodies("main/t")) == [b"daily", b"early"]
    new.store.close()


def test_what_was_due_before_a_time_may_count_as_delivered(world, backed_up, tmp_path):
    world.send(b"after the backup", topic="t", after="2s", id="x")
    world.send(b"after the backup, and far", topic="t", after="30m", id="y")
    new, left_out = restored(world, backed_up, tmp_path, world.now + 60_000)
    new.run(1000)
    assert left_out == 1
    assert new.bodies("main/t") == [b"daily"]
    assert new.store.has_left(new.store.number("cluster main"), "early", new.now)
    new.send(b"old, and sent after the restore", topic="t", at="5")
    new.run(30 * 60_000, 60_000)
    assert new.bodies("main/t")[1:] == [b"old, and sent after the restore", b"after the backup, and far"]
    new.store.close()


def test_folders_that_are_none(world, backed_up, tmp_path):
    with pytest.raises(NoBackup, match="has a store"):
        restore(backed_up, world.folder, None, 0)
    with pytest.raises(NoBackup, match="is no backup"):
        restore(tmp_path, tmp_path / "x", None, 0)

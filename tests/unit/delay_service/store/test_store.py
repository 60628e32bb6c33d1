"""The store on disk."""

import os
import threading

import msgspec
import pytest

from orbitmq import failpoints
from orbitmq.delay_service.errors import StoreDamaged, StoreFull, StoreLocked, StoreVersion
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.records import (
    Content,
    NameEntry,
    Pending,
    decode_entry,
    decode_pending,
    encode,
)
from orbitmq.delay_service.store.store import DelayStore
from tests.kit.delay_world import DelayWorld


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "delay"


def test_keys_are_in_the_order_of_their_times():
    found = [keys.pending_key(7, due, 1, 0) for due in (-5, 0, 255, 256, 10**13, 253_402_300_799_999)]
    assert found == sorted(found)
    assert all(keys.lane_start(7) < key < keys.lane_end(7) for key in found)
    assert keys.read_pending_key(keys.pending_key(7, 9, 3, 4, 2)) == (7, 9, 3, 4, 2)


def test_a_message_is_read_as_it_was_written():
    pending = Pending("n", 1, -5, Content(b"\x00\xff", None, 0, [("h", None), ("h", b"\xff")], b"k"))
    assert decode_pending(encode(pending)) == pending


def test_a_message_of_an_older_release_has_the_defaults_of_newer_fields():
    old = msgspec.msgpack.encode(["n", 1, 5, [b"b", {"p": "1"}]])
    assert decode_pending(old) == Pending("n", 1, 5, Content(b"b", {"p": "1"}))
    assert decode_entry(msgspec.msgpack.encode([b"key"])) == NameEntry(b"key")


def test_a_store_has_what_was_written_and_counts_it(folder):
    world = DelayWorld(folder)
    for n in range(5):
        world.send(topic="t", after=f"{n}h")
    world.take_in()
    world.store.close()
    store = DelayStore(folder)
    assert store.pending_count == 5
    assert [len(hours) for hours in store.counts.values()] == [5]
    store.close()


def test_targets_without_messages_give_their_numbers_back(folder):
    world = DelayWorld(folder)
    for n in range(20):
        world.send(topic=f"t{n}", after="1s")
    world.send(topic="far", after="1h")
    world.run(2000)
    world.store.close()
    store = DelayStore(folder)
    assert list(store.numbered("lane ").values()) == ["main/far"]
    store.close()


def test_a_second_process_is_told_so(folder):
    store = DelayStore(folder)
    with pytest.raises(StoreLocked, match="another process"):
        DelayStore(folder)
    store.close()


def test_a_store_of_a_newer_release_is_left_alone(folder):
    store = DelayStore(folder)
    changes = store.changes()
    changes.put(keys.VERSION_KEY, b"99")
    store.write(changes)
    store.close()
    with pytest.raises(StoreVersion, match="layout 99"):
        DelayStore(folder)


@pytest.mark.parametrize("damage", ["no CURRENT", "no table", "flipped", "cut manifest", "gone"])
def test_a_damaged_store_is_refused(folder, damage):
    world = DelayWorld(folder)
    for n in range(200):
        world.send(b"x" * 100, topic="t", after=f"{n}h", id=f"n{n}")
    world.take_in()
    world.store._db.flush()
    world.store.close()
    db = folder / "db"
    if damage == "no CURRENT":
        (db / "CURRENT").unlink()
    elif damage == "gone":
        for one in db.iterdir():
            one.unlink()
    elif damage == "no table":
        next(db.glob("*.sst")).unlink()
    elif damage == "flipped":
        for table in db.glob("*.sst"):
            data = bytearray(table.read_bytes())
            for place in range(50, len(data) - 100, 40):
                data[place] ^= 0xFF
            table.write_bytes(data)
    else:
        manifest = next(db.glob("MANIFEST-*"))
        manifest.write_bytes(manifest.read_bytes()[:20])
    with pytest.raises(StoreDamaged, match="orbitmq delay restore"):
        DelayWorld(folder)


def test_a_message_that_cannot_be_read_is_damage(folder):
    world = DelayWorld(folder)
    world.send(topic="t", after="1s")
    world.take_in()
    ((key, _),) = world.store.items(b"P", b"Q")
    changes = world.store.changes()
    changes.put(key, b"\xff")
    world.store.write(changes)
    with pytest.raises(StoreDamaged):
        world.run(2000)
    world.store.close()


def test_a_write_that_fails_keeps_nothing(folder):
    world = DelayWorld(folder)
    world.send(topic="t", after="1s")

    def full():
        raise StoreFull("no room")

    with failpoints.armed_point("delay.write", full), pytest.raises(StoreFull):
        world.take_in()
    world.store.close()
    world.open()
    assert world.intake.position(world_queue()) is None
    world.run(2000)
    assert len(world.sent) == 1
    world.store.close()


def world_queue():
    from tests.kit.delay_world import QUEUE

    return QUEUE


def test_room_comes_back_over_ten_rounds(folder):
    """Ten rounds of filling and draining: the store is no larger after the last than after the first."""
    world = DelayWorld(folder)
    sizes = []
    for _ in range(10):
        for n in range(2000):
            world.send(b"%0200d" % n, topic="t", after=f"{n}ms", id=f"n{n}-{len(world.log)}")
        world.take_in(100_000)
        world.now += 3000
        world.deliver()
        world.now += 26 * 3_600_000
        world.store.forget(world.now)
        world.store._db.flush()
        world.store.reclaim([(b"G", b"H"), (b"N", b"O"), (b"P", b"Q")])
        sizes.append(world.store.size_bytes)
    assert len(world.sent) == 20_000
    assert world.store.pending_count == 0
    assert list(world.store.items(b"P", b"Q")) == []
    assert sizes[-1] <= sizes[0] * 1.1 + 100_000
    world.store.close()


def test_a_close_ends_a_compaction(folder):
    store = DelayStore(folder)
    for _ in range(20):
        changes = store.changes()
        for _ in range(5000):
            changes.put(b"P" + os.urandom(12), os.urandom(200))
        store.write(changes)
    compaction = threading.Thread(target=store.reclaim, args=([(b"P", b"Q")],))
    compaction.start()
    store.close()
    compaction.join(60)
    assert not compaction.is_alive()


def test_a_checkpoint_is_a_store_of_its_own(folder, tmp_path):
    world = DelayWorld(folder)
    world.send(topic="t", after="1h", id="n")
    world.take_in()
    copy = tmp_path / "copy"
    copy.mkdir()
    world.store.checkpoint(copy / "db")
    world.send(topic="t", after="1h", id="m")
    world.take_in()
    (copy / "orbitmq-delay").write_text("")
    copied = DelayStore(copy)
    assert (copied.pending_count, world.store.pending_count) == (1, 2)
    copied.close()
    world.store.close()

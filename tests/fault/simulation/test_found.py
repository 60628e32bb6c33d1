"""Findings of simulated runs, each as a test of its own: a seed means something else after the next
change."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from orbitmq.broker.delay.delivered_messages import identity_of
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.store import MessageStore
from orbitmq.store.queue.consume_queue import UNIT
from orbitmq.testing.load.history import History
from orbitmq.testing.simulation.disk import MemoryDisk
from tests.kit.store import NOW, SEGMENT, crash, filled, message, opened, options, read_queue


@pytest.mark.parametrize("second_is_empty", [False, True])
def test_a_queue_whose_first_file_is_gone_and_whose_second_is_not(
    tmp_path: Path, second_is_empty: bool
) -> None:
    """A power cut may also leave the second one without the units that were written to it."""
    store = opened(tmp_path)
    filled(store, 150)
    for task in store.periodic_tasks():
        if task.name == "write queues":
            task.run(NOW + 1000)
    crash(store)
    first, second = sorted((tmp_path / "consumequeue" / "T" / "0").iterdir())
    first.unlink()
    if second_is_empty:
        second.write_bytes(bytes(second.stat().st_size))
    store = opened(tmp_path, NOW + 10_000)
    assert [record.queue_offset for record in read_queue(store)] == list(range(150))
    store.close()


def test_a_log_that_grew_by_more_segments_than_recovery_goes_back_to(tmp_path: Path) -> None:
    """Queues that no sync had brought to the disk lacked all that was older than the last ten segments."""
    disk = MemoryDisk(random.Random(1))
    given = options(tmp_path, timer_wheel_enable=False, commit_log_recover_max_num=4)
    store = MessageStore.open(given, NOW, disk)
    write_queues = next(task for task in store.periodic_tasks() if task.name == "write queues")
    count = 0
    while store.max_physical < 12 * SEGMENT:
        # Recovery trusts the checkpoint for what is three seconds older.
        store.append(message(count, body=bytes(8000)), NOW + count * 1000)
        count += 1
        store.flushing.flush_now()
        write_queues.run(NOW + count)
    crash(store)
    for content in disk.files.values():
        if content.synced is None:
            for at, page in content.before.items():
                content.data[at : at + len(page)] = page
    store = MessageStore.open(given, NOW + 10**6, disk)
    assert [record.queue_offset for record in read_queue(store)] == list(range(count))
    crash(store)


def test_a_delayed_message_is_known_again_where_records_end_with_a_checksum(tmp_path: Path) -> None:
    """The copy that waits and the one that was delivered have checksums of their own."""
    store = opened(tmp_path, enabled_append_prop_crc=True)
    records = []
    for topic in ("SCHEDULE_TOPIC_XXXX", "T"):
        appended = store.append(message(1, topic=topic), NOW)
        found = store.record_at(appended.physical_offset)
        assert found is not None
        records.append(decode_record(found))
    assert records[0].properties != records[1].properties
    assert len({identity_of("T", 0, record) for record in records}) == 1
    store.close()


def test_what_a_start_wiped_of_a_queue_does_not_come_back(tmp_path: Path) -> None:
    """Units of messages that a power cut took, wiped but not synced: a second cut brought one back, and the
    next start took it for that of a message that had come to its place since.
    """
    disk = MemoryDisk(random.Random(1))
    store = MessageStore.open(options(tmp_path), NOW, disk)
    filled(store, 3)
    write_queues = next(task for task in store.periodic_tasks() if task.name == "write queues")
    write_queues.run(NOW + 1000)
    store.flushing.flush_now()
    end = store.max_physical
    crash(store)
    queue = disk.files[tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)]
    for number, at in enumerate((60, 1500), start=3):
        queue.data[at : at + 20] = UNIT.pack(end + number, 100, 0)
    queue.top = len(queue.data)
    queue.sync()
    store = MessageStore.open(options(tmp_path), NOW + 10_000, disk)
    assert not any(queue.data[60:])
    assert not queue.unsynced()
    assert [record.queue_offset for record in read_queue(store)] == [0, 1, 2]
    crash(store)


def test_an_answer_from_before_a_power_cut_may_come_after_it() -> None:
    """Over a slow connection: what a cut took was counted as lost, for its answer was not there yet."""
    history = History()
    kept, taken = (history.promise(name, "T", 0, "plain") for name in ("plain0-1", "plain1-1"))
    history.life_ended("cut", now_ms=1_000, durable=500)
    later = history.promise("plain0-2", "T", 0, "plain")
    history.acknowledge(kept, now_ms=1_100, place=499)
    history.acknowledge(taken, now_ms=1_100, place=500)
    history.acknowledge(later, now_ms=1_200, place=600)
    broken = {str(one) for one in history.check({("T", 0): []})}
    assert broken == {
        "lost: plain0-1 was acknowledged and is not in T",
        "lost: plain0-2 was acknowledged and is not in T",
    }
    assert history.loss.messages == 1

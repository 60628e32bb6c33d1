from pathlib import Path

import pytest

from tests.kit.store import NOW, bodies, crash, filled, message, opened, read_queue, run_task


def test_checkpoints_are_written_as_the_log_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.store.checkpointing.EVERY_BYTES", 20_000)
    store = opened(tmp_path)
    for second in range(60):
        filled(store, 10, body=bytes(100))
        run_task(store, "write queues", NOW + 1000 * second)
    end = store.max_physical
    crash(store)
    store = opened(tmp_path)
    assert end - 25_000 < store.recovered.read_from < end
    assert len(read_queue(store)) == 600
    store.close()


def test_with_many_queues_checkpoints_are_written_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.store.checkpointing.EVERY_BYTES", 1000)
    store = opened(tmp_path)
    for queue_id in range(10):
        store.append(message(queue_id=queue_id, body=bytes(1000)), NOW)
    run_task(store, "write queues", NOW + 1000)
    assert not (tmp_path / "queuemarks.json").exists()
    for queue_id in range(70):
        store.append(message(queue_id=queue_id % 10, body=bytes(1000)), NOW)
    run_task(store, "write queues", NOW + 2000)
    assert (tmp_path / "queuemarks.json").exists()
    store.close()


def test_the_round_after_a_deletion_of_queues_writes_checkpoints(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 20)
    run_task(store, "write queues", NOW + 120_000)
    before = (tmp_path / "queuemarks.json").read_bytes()
    filled(store, 20)
    run_task(store, "write queues", NOW + 121_000)
    assert (tmp_path / "queuemarks.json").read_bytes() == before
    store.structures.delete_queues("T")
    run_task(store, "write queues", NOW + 122_000)
    assert b'"T"' in before
    assert b'"T"' not in (tmp_path / "queuemarks.json").read_bytes()
    store.close()


def test_messages_that_are_not_shown_yet_outlive_a_cut_and_a_crash(tmp_path: Path) -> None:
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    store.arrivals.replicas_reached(-1)  # no slave has anything
    *_, last = filled(store, 10)
    store.truncation.run(last.physical_offset, NOW)
    crash(store)
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    assert bodies(store) == [b"body %d" % number for number in range(9)]
    store.close()


def test_no_checkpoint_names_a_message_whose_unit_waits_in_memory(tmp_path: Path) -> None:
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    store.arrivals.replicas_reached(-1)
    sent = [
        store.append(message(number, "U" if number else "T", body=bytes(5000)), NOW + number * 1000)
        for number in range(60)
    ]
    store.flushing.flush_now()
    # A slave has one message, and most of the next.
    store.arrivals.replicas_reached(sent[1].end_offset - 100)
    store.arrivals.drain()
    run_task(store, "write queues", NOW + 120_000)
    crash(store)
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    assert (store.min_offset("U", 0), len(bodies(store, "U"))) == (0, 59)
    store.close()


def test_a_checkpoint_names_what_was_there_at_the_start_though_nothing_is_shown(tmp_path: Path) -> None:
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    *_, last = filled(store, 10)
    store.close()
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    store.arrivals.replicas_reached(0)
    store.arrivals.hide_all()
    filled(store, 1)
    run_task(store, "write queues", NOW + 120_000)
    crash(store)
    store = opened(tmp_path, flush_disk_type="SYNC_FLUSH")
    assert store.recovered.read_from == last.physical_offset
    assert len(bodies(store)) == 11
    store.close()

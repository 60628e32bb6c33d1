from pathlib import Path

import pytest

from tests.kit.store import NOW, crash, filled, message, opened, read_queue, run_task


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
    store.delete_queues("T")
    run_task(store, "write queues", NOW + 122_000)
    assert b'"T"' in before
    assert b'"T"' not in (tmp_path / "queuemarks.json").read_bytes()
    store.close()

"""Effects of options of the store, where no other test of the store shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.store import GetStatus, MessageStore, PutStatus
from orbitmq.store.files import RealFile
from tests.kit.store import NOW, SEGMENT, bodies, crash, filled, message, opened, query


def periodic_tasks(store: MessageStore) -> dict[str, Any]:
    return {task.name: task for task in store.periodic_tasks()}


def test_intervals_are_those_of_the_tasks(tmp_path: Path) -> None:
    store = opened(
        tmp_path, flush_interval_commit_log=11, flush_interval_consume_queue=22, clean_resource_interval=33
    )
    intervals = {name: task.interval_ms for name, task in periodic_tasks(store).items()}
    assert (intervals["flush"], intervals["write queues"], intervals["retention"]) == (11, 22, 33)
    store.close()


def test_few_pages_wait_for_the_thorough_flush(tmp_path: Path) -> None:
    store = opened(tmp_path, flush_commit_log_least_pages=2, flush_commit_log_thorough_interval=1000)
    flush = periodic_tasks(store)["flush"].run
    filled(store, 1, body=bytes(5000))
    flush(NOW + 1)
    assert store.flushing.unflushed_bytes, "less than two pages"
    filled(store, 1, body=bytes(5000))
    flush(NOW + 2)
    assert not store.flushing.unflushed_bytes, "more than two pages"
    filled(store, 1)
    flush(NOW + 999)
    assert store.flushing.unflushed_bytes
    flush(NOW + 1000)
    assert not store.flushing.unflushed_bytes, "the thorough flush"
    store.close()


def test_few_units_of_a_queue_wait_for_the_thorough_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    sync = RealFile.sync

    def counted(self: RealFile) -> None:
        flushed.append(self.path.parts[-4])
        sync(self)

    monkeypatch.setattr(RealFile, "sync", counted)
    store = opened(
        tmp_path,
        mapped_file_size_consume_queue=20_000,
        flush_consume_queue_least_pages=1,
        flush_consume_queue_thorough_interval=1000,
    )
    write_queues = periodic_tasks(store)["write queues"].run
    filled(store, 10)
    flushed.clear()
    write_queues(NOW + 1)
    assert "consumequeue" not in flushed
    filled(store, 300)
    write_queues(NOW + 2)
    assert flushed.count("consumequeue") == 1, "more than a page"
    filled(store, 10)
    write_queues(NOW + 999)
    assert flushed.count("consumequeue") == 1
    write_queues(NOW + 1000)
    assert flushed.count("consumequeue") == 2, "the thorough flush"
    store.close()


def test_keys_are_written_and_read_only_where_that_is_on(tmp_path: Path) -> None:
    def found(name: str, **values: Any) -> int:
        store = opened(tmp_path / name, **values)
        filled(store, 3, keys="k")
        periodic_tasks(store)["index"].run(NOW + 10)
        count = len(query(store, "T", "k", 10, 0, NOW + 1000, "K").records)
        store.close()
        return count

    assert found("both") == 3
    assert found("no-write", index_file_write_enable=False) == 0
    assert found("no-read", index_file_read_enable=False) == 0
    assert list((tmp_path / "no-read" / "index").iterdir())


def test_queries_give_no_more_than_allowed(tmp_path: Path) -> None:
    store = opened(tmp_path, max_msgs_num_batch=2)
    filled(store, 5, keys="k")
    periodic_tasks(store)["index"].run(NOW + 10)
    assert len(query(store, "T", "k", 64, 0, NOW + 1000, "K").records) == 2
    store.close()


def test_topics_are_no_longer_than_allowed(tmp_path: Path) -> None:
    store = opened(tmp_path, max_topic_length=5)
    assert store.append(message(topic="12345"), NOW).status is PutStatus.PUT_OK
    assert store.append(message(topic="123456"), NOW).status is PutStatus.MESSAGE_ILLEGAL
    store.close()


def test_a_pull_without_a_match_looks_through_as_many_files_as_allowed(tmp_path: Path) -> None:
    none = frozenset({1})
    for files in (1, 2):
        store = opened(tmp_path / str(files), travel_cq_file_num_when_get_message=files)
        filled(store, 250)
        result = store.get("T", 0, 0, 32, accept=none)
        assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 100 * files)
        store.close()


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"max_transfer_count_on_message_in_memory": 3}, 3),
        ({"max_transfer_count_on_message_in_disk": 3}, 20),
        ({"max_transfer_count_on_message_in_disk": 3, "access_message_in_memory_max_ratio": 0}, 3),
        ({"max_transfer_bytes_on_message_in_disk": 1, "access_message_in_memory_max_ratio": 0}, 1),
        ({"max_transfer_bytes_on_message_in_memory": 1}, 1),
    ],
)
def test_recent_and_old_messages_have_limits_of_their_own(
    tmp_path: Path, values: dict[str, int], count: int
) -> None:
    store = opened(tmp_path, **values)
    filled(store, 20)
    assert store.get("T", 0, 0, 32).count == count
    store.close()


def damaged(root: Path, what: bytes = b"body 1", **values: Any) -> MessageStore:
    """A store that crashed before its first sync point, with a byte of its second message changed."""
    store = opened(root, **values)
    results = filled(store, 3)
    crash(store)
    path = root / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    at = data.index(what, results[1].physical_offset)
    data[at] ^= 0xFF
    path.write_bytes(data)
    return opened(root, NOW + 1000, **values)


def test_recovery_looks_at_bodies_where_told(tmp_path: Path) -> None:
    store = damaged(tmp_path / "checked")
    assert bodies(store) == [b"body 0"]
    store.close()
    store = damaged(tmp_path / "unchecked", check_crc_on_recover=False)
    assert store.max_offset("T", 0) == 3
    store.close()


def test_recovery_looks_at_the_check_sum_of_whole_records_where_told(tmp_path: Path) -> None:
    for force, left in ((False, 3), (True, 1)):
        root = tmp_path / str(force)
        store = damaged(root, b"ID00000001", enabled_append_prop_crc=True, force_verify_prop_crc=force)
        assert store.max_offset("T", 0) == left, "what no other check covers: a property"
        store.close()


def test_recovery_goes_back_so_many_segments_at_most(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 5 * SEGMENT // 3000, body=bytes(3000))
    store.structures.queue_writer.run()
    newest = store.max_physical // SEGMENT
    crash(store)
    store = opened(tmp_path, NOW + 1000, commit_log_recover_max_num=2)
    assert store.recovered.read_from == (newest - 1) * SEGMENT
    store.close()

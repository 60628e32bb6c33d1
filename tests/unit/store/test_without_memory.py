"""An append that ends halfway because there is no memory leaves nothing behind, wherever it ends."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest

from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.store import MessageStore, PendingMessage, PutStatus, appending
from orbitmq.store.log.commit_log import Segment
from tests.kit.own_process import in_own_process
from tests.kit.store import NOW, bodies, crash, filled, message, opened, read_queue, write_queues

# From Python 3.12 on the interpreter itself fails with SystemError there where an allocation is made to fail.
pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="needs Python 3.11")


def batch(number: int) -> PendingMessage:
    made = message(number)
    made.batch = encode_batch(
        (0, b"%d of %d" % (part, number), b"UNIQ_KEY\x01ID%d\x02" % part) for part in range(3)
    )
    return made


def several(number: int) -> list[PendingMessage]:
    """Messages that one read of a connection may bring: two queues, one of them new, and a batch."""
    return [
        message(number),
        message(number, queue_id=1),
        batch(number),
        message(number, topic=f"New{number}"),
        message(number),
    ]


def without_memory(store: MessageStore, messages: list[PendingMessage], at: int) -> bool:
    """Appends while one allocation fails; whether that was noticed."""
    testcapi: Any = pytest.importorskip("_testcapi", reason="NOT RUN: this Python has no _testcapi")
    testcapi.set_nomemory(at, at + 1)
    try:
        store.append_many(messages, NOW)
    except MemoryError:
        return True
    finally:
        testcapi.remove_mem_hooks()
    return False


def all_offsets(store: MessageStore) -> dict[tuple[str, int], list[int]]:
    return {
        (topic, queue_id): [record.queue_offset for record in read_queue(store, topic, queue_id)]
        for topic in store.topics()
        for queue_id in store.queue_ids(topic)
    }


@in_own_process
def test_whichever_allocation_fails_queues_stay_dense(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 3)
    kept = []
    at = failed = unnoticed = 0
    while unnoticed < 10:
        if without_memory(store, several(at), at):
            failed += 1
            unnoticed = 0
        else:
            unnoticed += 1
        kept.append(b"kept %d" % at)
        assert store.append(message(at, body=kept[-1]), NOW).status is PutStatus.PUT_OK
        at += 1
    assert failed > 10, "many allocations were tried"
    held = bodies(store)
    assert [one for one in held if one.startswith(b"kept")] == kept
    offsets = all_offsets(store)
    assert all(found == list(range(len(found))) for found in offsets.values())
    assert store.figures().bad_records == 0
    crash(store)
    store = opened(tmp_path, NOW + 10_000)
    assert bodies(store) == held
    assert {queue: found for queue, found in all_offsets(store).items() if found} == {
        queue: found for queue, found in offsets.items() if found
    }
    store.close()


@pytest.mark.parametrize("written", [False, True])
def test_records_of_an_append_that_ended_halfway_are_not_found_by_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    store = opened(tmp_path)
    filled(store, 3)
    store.append(message(0, topic="SCHEDULE_TOPIC_XXXX"), NOW)

    def no_memory(*_: object) -> int:
        if written:
            write_queues(store)
        raise MemoryError

    monkeypatch.setattr(appending, "due_time", no_memory)
    half = [*(message(number, body=b"half") for number in range(5)), message(9, topic="SCHEDULE_TOPIC_XXXX")]
    with contextlib.suppress(MemoryError):
        store.append_many(half, NOW)
        pytest.fail("it had memory")
    monkeypatch.undo()
    assert store.append(message(3, queue_id=1, body=b"short"), NOW).queue_offset == 0
    assert len(bodies(store)) == 3
    crash(store)
    store = opened(tmp_path, NOW + 10_000)
    assert len(bodies(store)) == 3, "what was taken back stays so"
    assert store.append(message(3), NOW + 10_000).queue_offset == 3
    assert bodies(store, queue_id=1) == [b"short"]
    store.close()


def test_an_append_that_cannot_be_taken_back_was_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    filled(store, 3)
    store.append(message(0, topic="SCHEDULE_TOPIC_XXXX"), NOW)

    def no_memory(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(appending, "due_time", no_memory)
    monkeypatch.setattr(Segment, "clear_ahead", no_memory)
    with pytest.raises(MemoryError):
        store.append_many([message(3), message(9, topic="SCHEDULE_TOPIC_XXXX")], NOW)
    monkeypatch.undo()
    assert store.append(message(4), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert len(bodies(store)) >= 3
    crash(store)
    store = opened(tmp_path, NOW + 10_000)
    assert store.append(message(4), NOW + 10_000).status is PutStatus.PUT_OK
    assert [record.queue_offset for record in read_queue(store)] == list(range(store.max_offset("T", 0)))
    store.close()

"""Common parts of tests of the store: small stores, messages, and reading back what is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_records
from orbitmq.store import (
    Appended,
    GetResult,
    GetStatus,
    MessageStore,
    PendingMessage,
    QueryResult,
    StoreOptions,
)
from orbitmq.store.files import Disk, RealDisk
from orbitmq.store.queue.consume_queue import UNIT, ConsumeQueue

NOW = 1_700_000_000_000
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
SEGMENT = 64 << 10
QUEUE_FILE_BYTES = 20 * 100


def options(root: Path, **values: Any) -> StoreOptions:
    """A store with small files."""
    small: dict[str, Any] = {
        "mapped_file_size_commit_log": SEGMENT,
        "mapped_file_size_consume_queue": QUEUE_FILE_BYTES,
        "max_hash_slot_num": 100,
        "max_index_num": 400,
        "max_message_size": 16 << 10,
    }
    return StoreOptions(root=root, **{**small, **values})


def opened(root: Path, now: int = NOW, disk: Disk | None = None, **values: Any) -> MessageStore:
    """A small store, opened."""
    return MessageStore.open(options(root, **values), now, disk)


def add_units(queue: ConsumeQueue, count: int) -> None:
    """Appends units to the tail of a queue, as a store does: record n is at n * 100, and has 100 bytes."""
    for _ in range(count):
        queue.tail += UNIT.pack(queue.max_offset * 100, 100, queue.max_offset)
        queue.max_offset += 1


def message(
    number: int = 0,
    topic: str = "T",
    queue_id: int = 0,
    *,
    body: bytes | None = None,
    tag: str = "",
    keys: str = "",
    **values: Any,
) -> PendingMessage:
    """A message that can be told by its number."""
    properties = f"UNIQ_KEY\x01ID{number:08d}\x02"
    if tag:
        properties += f"TAGS\x01{tag}\x02"
    if keys:
        properties += f"KEYS\x01{keys}\x02"
    made = PendingMessage(
        topic,
        queue_id,
        number,
        0,
        NOW,
        HOST,
        HOST,
        0,
        0,
        b"body %d" % number if body is None else body,
        properties.encode(),
    )
    for name, value in values.items():
        setattr(made, name, value)
    return made


def filled(store: MessageStore, count: int, now: int = NOW, **values: Any) -> list[Appended]:
    """Appends messages 0, 1, 2 ... one by one, each a millisecond later."""
    return [store.append(message(number, **values), now + number) for number in range(count)]


def get_warm(store: MessageStore, *wanted: Any, **more: Any) -> GetResult:
    """The result of `store.get` once what it asks for is in memory."""
    while (result := store.get(*wanted, **more)).cold is not None:
        store.reader.read_cold(*result.cold)
    return result


def run_task(store: MessageStore, name: str, now: int) -> None:
    """Runs a periodic task of a store as if it were `now`, though it may have nothing to do."""
    (task,) = (task for task in store.periodic_tasks() if task.name == name)
    task.run(now)


def write_queues(store: MessageStore, now: int = NOW) -> None:
    """Writes the new units of all queues to their files."""
    run_task(store, "write queues", now)


@contextmanager
def full_disk(store: MessageStore, now: int = NOW, used: float = 1.0) -> Iterator[None]:
    """Has rounds of retention see a disk of which so much is used, and one with room afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RealDisk, "space", lambda *_: (1000, round(1000 * (1 - used))))
        run_task(store, "retention", now)
        yield
        patch.setattr(RealDisk, "space", lambda *_: (1000, 900))
        run_task(store, "retention", now)


def segments(store: MessageStore) -> list[str]:
    """The names of the files of the commit log."""
    return sorted(path.name for path in (store.options.root / "commitlog").iterdir())


def flip(root: Path, physical_offset: int, bits: int = 1, segment_bytes: int = SEGMENT) -> None:
    """Turns bits of a byte of the commit log over, as a damaged disk would."""
    position = physical_offset % segment_bytes
    with (root / "commitlog" / f"{physical_offset - position:020d}").open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ bits]))


def read_queue(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
    """All messages of a queue, through `get` alone."""
    found: list[StoredMessage] = []
    position = max(0, store.min_offset(topic, queue_id))
    while True:
        result = get_warm(store, topic, queue_id, position, 32)
        if result.status is GetStatus.FOUND:
            records, bad = decode_records(b"".join(result.records))
            assert not bad
            assert len(records) == result.count
            found += records
        elif result.status not in (GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_FOUND_NULL):
            return found
        assert result.next_offset > position
        position = result.next_offset


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    """The bodies of a queue's messages."""
    return [record.body for record in read_queue(store, topic, queue_id)]


def query(
    store: MessageStore,
    topic: str,
    key: str,
    max_count: int,
    begin_ms: int,
    end_ms: int,
    index_type: str = "K",
) -> QueryResult:
    """All steps of a search by key at once."""
    steps = store.key_search.begin(topic, key, max_count, begin_ms, end_ms, index_type)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: QueryResult = done.value
            return found


def crash(store: MessageStore) -> None:
    """The effect that the death of the process has on a store: nothing is written any more, the lock
    falls."""
    store.abandon()
    store.structures.close()
    store.structures.log.close()

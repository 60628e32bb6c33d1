"""Extensions of units: written as Apache writes them, found again, and done without where they are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.protocol.records.hashing import java_hash
from orbitmq.store import GetStatus, MessageStore
from orbitmq.store.queue.consume_queue import UNIT
from orbitmq.store.queue.extension import LARGEST_ADDRESS
from orbitmq.store.queue.filtering import ExtensionUnit, MessageFilter
from tests.kit.store import NOW, filled, get_warm, message, opened
from tests.wire.vector_files import load

A, B = java_hash("a"), java_hash("b")
LIVE = load("consume_queue_ext")["live_bitmaps"]


def extended(root: Path, **values: Any) -> MessageStore:
    return opened(root, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=200, **values)


def write_queues(store: MessageStore) -> None:
    store.structures.queue_writer.run()
    store.structures.queue_writer.trim_tails()


def codes(store: MessageStore, topic: str = "T") -> list[int]:
    """Codes in the units of a queue."""
    queue = store.structures.queues.find(topic, 0)
    assert queue is not None
    found = []
    for offset in range(queue.min_offset, queue.max_offset):
        unit = store.structures.queues.unit(queue, offset)
        assert unit is not None
        found.append(unit[2])
    return found


def file(root: Path, start: int = 0, topic: str = "T") -> Path:
    return root / "consumequeue_ext" / topic / "0" / f"{start:020d}"


class Bits(MessageFilter):
    """Takes messages whose bit map begins with a byte."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.seen: list[ExtensionUnit] = []

    def by_extension(self, extension: ExtensionUnit) -> bool:
        self.seen.append(extension)
        return extension.bit_map[:1] == bytes([self.first])


def test_units_and_extensions_have_the_bytes_that_apache_writes(tmp_path: Path) -> None:
    store = extended(tmp_path)
    for row in LIVE["units"]:
        expected = bytes.fromhex(row["hex"])
        store.structures.extension.bits_of = lambda topic, properties, bits=expected[20:]: bits  # type: ignore[misc]
        store_time = int.from_bytes(expected[10:18], "big")
        store.append(message(tag="TagA"), store_time)
    store.close()
    data = file(tmp_path).read_bytes()
    assert data[:68].hex() == "".join(row["hex"] for row in LIVE["units"])
    units = (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}").read_bytes()
    assert [UNIT.unpack_from(units, 20 * n)[2] for n in range(2)] == [-(1 << 63), -(1 << 63) + 34]


def test_a_unit_that_does_not_fit_begins_the_next_file(tmp_path: Path) -> None:
    store = extended(tmp_path)
    store.structures.extension.bits_of = lambda topic, properties: bytes(14)
    filled(store, 12)
    assert [code + (1 << 63) for code in codes(store)] == [
        *(0, 34, 68, 102, 136),
        *(200, 234, 268, 302, 336),
        *(400, 434),
    ]
    write_queues(store)
    assert file(tmp_path).read_bytes()[170:172] == b"\xff\xff"
    assert [path.name for path in sorted(file(tmp_path).parent.iterdir())] == [
        f"{start:020d}" for start in (0, 200, 400)
    ]
    store.close()


@pytest.mark.parametrize("written", [False, True])
def test_tags_and_bits_are_found_in_memory_and_in_files(tmp_path: Path, written: bool) -> None:
    store = extended(tmp_path)
    store.structures.extension.bits_of = lambda topic, properties: (
        b"\x01" if b"TAGS\x01a" in properties else b"\x02"
    )
    for number, tag in enumerate("abab" * 5):
        store.append(message(number, tag=tag), NOW + number)
    if written:
        write_queues(store)
        queue = store.structures.queues.find("T", 0)
        assert queue is not None
        assert queue.extension is not None
        assert not queue.extension.data
    assert get_warm(store, "T", 0, 0, 32, accept=frozenset({A})).count == 10
    assert store.get("T", 0, 0, 32, accept=lambda code: code == B).count == 10
    wanted = Bits(1)
    result = store.get("T", 0, 3, 32, accept=wanted)
    assert (result.status, result.count, result.next_offset) == (GetStatus.FOUND, 8, 20)
    assert wanted.seen[0] == ExtensionUnit(B, NOW + 3, b"\x02")
    unit = store.physical_offset_of("T", 0, 1)
    assert unit is not None
    assert unit[2] == B
    store.close()


def test_arrivals_are_told_with_the_hash_of_their_tag(tmp_path: Path) -> None:
    store = extended(tmp_path)
    store.append(message(0, tag="a"), NOW)
    assert store.arrivals.drain() == [("T", 0, 1, A)]
    store.close()


def test_delayed_messages_keep_their_due_time(tmp_path: Path) -> None:
    store = extended(tmp_path)
    store.append(message(0, "SCHEDULE_TOPIC_XXXX", tags_code=NOW + 5), NOW)
    unit = store.physical_offset_of("SCHEDULE_TOPIC_XXXX", 0, 0)
    assert unit is not None
    assert unit[2] == NOW + 5
    store.close()


def test_after_a_start_extensions_go_on_behind_the_last_one(tmp_path: Path) -> None:
    store = extended(tmp_path)
    filled(store, 3, tag="a")
    store.close()
    store = opened(tmp_path)  # without the option: plain codes
    filled(store, 2, tag="b")
    store.close()
    store = extended(tmp_path)
    filled(store, 2, tag="a")
    assert codes(store)[:3] == [-(1 << 63), -(1 << 63) + 20, -(1 << 63) + 40]
    assert codes(store)[3:] == [B, B, -(1 << 63) + 60, -(1 << 63) + 80]
    assert store.get("T", 0, 0, 32, accept=frozenset({A})).count == 5
    store.close()


def test_files_of_another_size_stay_and_new_ones_come_behind_them(tmp_path: Path) -> None:
    store = extended(tmp_path)
    filled(store, 3, tag="a")
    store.close()
    store = opened(tmp_path, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=300)
    store.append(message(9, tag="b"), NOW + 9)
    assert codes(store)[3] + (1 << 63) == 300
    write_queues(store)
    assert store.get("T", 0, 0, 32, accept=frozenset({A})).count == 3
    assert store.get("T", 0, 0, 32, accept=frozenset({B})).count == 1
    store.close()


def test_where_an_extension_is_gone_its_message_is_not_lost(tmp_path: Path) -> None:
    store = extended(tmp_path)
    filled(store, 2, tag="a")
    store.close()
    file(tmp_path).write_bytes(bytes(200))
    store = extended(tmp_path)
    assert store.get("T", 0, 0, 32, accept=frozenset({A})).count == 2
    assert store.get("T", 0, 0, 32, accept=Bits(7)).count == 2
    unit = store.physical_offset_of("T", 0, 1)
    assert unit is not None
    assert unit[2] == A  # from the message itself
    store.append(message(9, tag="b"), NOW + 9)
    assert codes(store)[2] + (1 << 63) == 200
    store.close()


def test_units_that_are_made_anew_from_the_log_are_plain(tmp_path: Path) -> None:
    store = extended(tmp_path)
    filled(store, 3, tag="a")
    store.close()
    for path in (tmp_path / "consumequeue" / "T" / "0").iterdir():
        path.unlink()
    store = extended(tmp_path)
    assert codes(store) == [A, A, A]
    store.append(message(9, tag="a"), NOW + 9)
    assert codes(store)[3] <= LARGEST_ADDRESS
    assert store.get("T", 0, 0, 32, accept=frozenset({A})).count == 4
    store.close()


def test_files_go_with_their_topic(tmp_path: Path) -> None:
    store = extended(tmp_path)
    filled(store, 3)
    write_queues(store)
    assert file(tmp_path).exists()
    store.structures.delete_queues("T")
    filled(store, 1, tag="a")  # at once, while the files of before are still there
    write_queues(store)
    assert not file(tmp_path).exists()
    assert get_warm(store, "T", 0, 0, 32, accept=frozenset({A})).count == 1
    store.structures.delete_queues("T")
    store.structures.queue_writer.run()
    assert not file(tmp_path).parent.parent.exists()
    store.close()


def test_files_go_with_the_messages_they_are_about(tmp_path: Path) -> None:
    store = extended(tmp_path)
    filled(store, 60, body=bytes(3000), tag="a")
    write_queues(store)
    assert file(tmp_path).exists()
    store.structures.log.remove_first()
    store.structures.queue_writer.raise_min_offsets(store.min_physical)
    first = codes(store)[0] + (1 << 63)
    left = sorted(int(path.name) for path in file(tmp_path).parent.iterdir())
    assert left[0] <= first < left[0] + 200
    assert store.get("T", 0, store.min_offset("T", 0), 32, accept=frozenset({A})).count > 0
    store.close()

"""Input of an audit's workers: what stands in files of a store, and what is wrong with it, row by row."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.kit.store_files import StoreFiles

pytest.importorskip("pyarrow")

from orbitmq.protocol.records.hashing import java_hash
from orbitmq.spark.jobs.audit.pieces import IndexPiece, LogPiece, QueuePiece
from orbitmq.spark.offline.log_ranges import LogFile, LogRange
from orbitmq.spark.offline.planning import BadPlace, Work

SLOTS, ENTRIES = 4, 16
INDEX_BYTES = 40 + 4 * SLOTS + 20 * ENTRIES


@pytest.fixture
def store(tmp_path: Path) -> StoreFiles:
    made = StoreFiles(tmp_path / "store")
    for number in range(3):
        made.put(b"message %d" % number, tags="red" if number else None, properties=f"KEYS\x01k{number}\x02")
    return made


def rows(piece: Any) -> list[dict[str, Any]]:
    return [row for batch in piece.batches() for row in batch.to_pylist()]


def problems(piece: Any) -> list[str | None]:
    return [row["problem"] for row in rows(piece)]


# The log.


def log(store: StoreFiles, *, with_keys: bool = True, bad: tuple[BadPlace, ...] = ()) -> LogPiece:
    file = LogFile(str(store.root / "commitlog"), f"{0:020d}", 0, store.segment_bytes)
    one = LogRange(file, 0, store.segment_bytes, True, str(store.root))
    return LogPiece(Work((one,), tuple((place, str(store.root)) for place in bad)), with_keys=with_keys)


def test_a_record_has_its_place_and_what_queue_and_index_say_of_it(store: StoreFiles) -> None:
    found = rows(log(store))
    assert [(row["queueOffset"], row["tagsCode"], len(row["keys"])) for row in found] == [
        (0, 0, 1),
        (1, java_hash("red"), 1),
        (2, java_hash("red"), 1),
    ]
    assert [row["tagKey"] is None for row in found] == [True, False, False]
    assert found[1]["physicalOffset"] == found[0]["size"]
    assert {row["problem"] for row in found} == {None}


def test_without_keys_none_are_read(store: StoreFiles) -> None:
    assert [row["keys"] for row in rows(log(store, with_keys=False))] == [None] * 3


def test_places_without_a_record_are_rows_with_a_problem(store: StoreFiles) -> None:
    place = BadPlace("/a/file", 500, 8, "a gap")
    first = rows(log(store, bad=(place,)))[0]
    assert (first["physicalOffset"], first["size"], first["file"], first["problem"]) == (
        500,
        8,
        "/a/file",
        "a gap",
    )


def test_a_record_that_is_damaged_is_told_with_its_place(store: StoreFiles) -> None:
    [_, second, _] = rows(log(store))
    store.flip(second["physicalOffset"] + 90)
    found = rows(log(store))
    assert [row["queueOffset"] for row in found if row["problem"] is None] == [0, 2]
    [bad] = [row for row in found if row["problem"]]
    assert bad["physicalOffset"] == second["physicalOffset"]


# Consume queues.


def queue(store: StoreFiles, name: str = f"{0:020d}") -> QueuePiece:
    return QueuePiece(str(store.root), "consumequeue/orders/0", name, "orders", 0)


def test_units_that_were_written_have_their_offsets(store: StoreFiles) -> None:
    found = rows(queue(store))
    assert [(row["topic"], row["queueId"], row["queueOffset"]) for row in found] == [
        ("orders", 0, number) for number in range(3)
    ]
    assert [row["tagsCode"] for row in found] == [0, java_hash("red"), java_hash("red")]


def test_a_queue_file_that_retention_took_has_no_rows(store: StoreFiles) -> None:
    assert rows(queue(store, f"{20_000:020d}")) == []


def test_units_that_point_backwards_and_gaps_are_problems(store: StoreFiles) -> None:
    store.write_unit("orders", 0, 3, 0, 90, 0)
    store.write_unit("orders", 0, 6, 10_000, 90, 0)
    assert problems(queue(store)) == [
        None,
        None,
        None,
        "the unit before points to the same place or one behind",
        "2 units before it were never written",
    ]


def test_blanks_that_a_broker_writes_are_no_gap(store: StoreFiles) -> None:
    for number in (3, 4):
        store.write_unit("orders", 0, number, 0, 0x7FFFFFFF, 0)
    store.write_unit("orders", 0, 5, 10_000, 90, 0)
    assert problems(queue(store)) == [None] * 4


# Index files.


def index(
    root: Path, entries: list[tuple[int, int]], *, count: int | None = None, head: int = 0, before: int = 0
) -> IndexPiece:
    """An index file with these entries, hash and physical offset of each."""
    (root / "index").mkdir(parents=True, exist_ok=True)
    raw = bytearray(INDEX_BYTES)
    struct.pack_into(">i", raw, 36, len(entries) + 1 if count is None else count)
    struct.pack_into(">i", raw, 40, head)
    for number, (key, physical) in enumerate(entries, 1):
        struct.pack_into(">iqii", raw, 40 + 4 * SLOTS + 20 * number, key, physical, 0, before)
    (root / "index" / "20260101000000000").write_bytes(raw)
    return IndexPiece(str(root), "20260101000000000", INDEX_BYTES, SLOTS)


def test_entries_of_an_index_file(tmp_path: Path) -> None:
    found = rows(index(tmp_path, [(7, 100), (8, 200)], head=2))
    assert [(row["keyHash"], row["physicalOffset"], row["problem"]) for row in found] == [
        (7, 100, None),
        (8, 200, None),
    ]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"count": ENTRIES + 9}, f"its header counts {ENTRIES + 9} entries, and {ENTRIES} fit into it"),
        ({"count": -1}, f"its header counts -1 entries, and {ENTRIES} fit into it"),
        ({"head": 9}, "a slot names an entry that there is not"),
        ({"before": 3}, "an entry names one behind it as the one before"),
    ],
)
def test_an_index_file_that_contradicts_itself(tmp_path: Path, values: dict[str, int], says: str) -> None:
    assert problems(index(tmp_path, [(7, 100), (8, 200)], **values))[0] == says


def test_slots_ahead_of_the_header_are_sound_while_a_broker_runs(tmp_path: Path) -> None:
    grows = index(tmp_path, [(7, 100)], head=9)
    running = IndexPiece(grows.store, grows.name, grows.size, grows.slots, may_grow=True)
    assert problems(running) == [None]


def test_an_index_file_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "1").write_bytes(bytes(30))
    assert problems(IndexPiece(str(tmp_path), "1", 30)) == ["30 bytes are too few for an index file"]


def test_an_index_file_that_retention_took_has_no_rows(tmp_path: Path) -> None:
    assert rows(IndexPiece(str(tmp_path), "gone", INDEX_BYTES, SLOTS)) == []

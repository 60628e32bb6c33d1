"""A store's files read without its code: laid out by hand, from the bytes that Apache wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.protocol.consume_queue import BLANK_UNIT, UNIT_BYTES, pack_unit
from orbitmq.protocol.ids import pack_host
from orbitmq.protocol.message import BadRecord
from orbitmq.protocol.message_cy import encode_blank, encode_record
from orbitmq.store.readers import NotAStore, QueueFiles, StoreFiles
from tests.wire.vector_files import load

HOST = pack_host("127.0.0.1", 10911)
LOG = b"".join(
    bytes.fromhex(vector["record_hex"])
    for vector in load("store_messages")["records"]
    if not vector.get("appendPropCRC")
)
SEGMENT_BYTES = 4096
QUEUE_BYTES = 10 * UNIT_BYTES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The store in which the vectors' records and units were written."""
    put(tmp_path / "commitlog" / f"{0:020d}", LOG, SEGMENT_BYTES)
    for name, text in load("consume_queue")["units"].items():
        if name.startswith("consumequeue"):
            put(tmp_path / name / f"{0:020d}", bytes.fromhex(text), QUEUE_BYTES)
        else:
            put(tmp_path / name, bytes.fromhex(text), 46 * 4)
    return tmp_path


def put(path: Path, content: bytes, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.ljust(size, b"\x00"))


def record(physical_offset: int, queue_offset: int, body: bytes = b"body", tag: str = "a") -> bytes:
    out = bytearray(500)
    size = encode_record(
        out,
        0,
        0,
        0,
        queue_offset,
        physical_offset,
        0,
        1,
        HOST,
        2,
        HOST,
        0,
        0,
        body,
        b"T",
        f"TAGS\x01{tag}\x02".encode(),
    )
    return bytes(out[:size])


def test_whole_log(root: Path) -> None:
    with StoreFiles(root) as files:
        records = list(files.records())
        assert [one.physical_offset for one in records] == [
            sum(other.size for other in records[:number]) for number in range(len(records))
        ]
        assert sum(one.size for one in records) == len(LOG)
        assert not files.damaged
        assert list(files.records(298, 500)) == records[2:4]
        assert files.record_at(298) == records[2]
        assert files.record_at(-1) is None
        assert files.record_at(SEGMENT_BYTES) is None
        with pytest.raises(BadRecord):
            files.record_at(299)


def test_queues(root: Path) -> None:
    with StoreFiles(root) as files:
        assert ("TopicTest", 0) in files.queues()
        assert ("SCHEDULE_TOPIC_XXXX", 2) in files.queues()
        assert len(files.queues()) == 6
        bodies = [one.body for one in files.messages("TopicTest", 1)]
        assert bodies == [b"hello world", b"second", b"b0", b"b1", b"b2"]
        assert [one.queue_offset for one in files.messages("TopicTest", 1, 1, 4)] == [1, 2, 3]
        assert [one.tags for one in files.messages("TopicTest", 1, tags=frozenset({"TagB"}))] == ["TagB"]
        queue = files.queue("TopicTest", 1)
        assert (queue.min_offset, queue.max_offset) == (0, 5)
        assert list(files.messages("TopicTest", 9)) == []
        assert files.queue("None", 0).max_offset == 0
        for topic, queue_id in files.queues():
            for message in files.messages(topic, queue_id):
                assert (message.topic, message.queue_id) == (topic, queue_id)
        assert not files.damaged


def test_queue_of_inner_batches(root: Path) -> None:
    with StoreFiles(root) as files:
        assert files.batch_queues() == [("BatchTopic", 0)]
        (unit,) = files.batch_units("BatchTopic", 0)
        found = files.record_at(unit.physical_offset)
        assert found is not None
        assert found.size == unit.size
        assert unit.batch_size == 3
        assert list(files.batch_units("BatchTopic", 1)) == []


def test_log_goes_on_in_the_next_file(tmp_path: Path) -> None:
    first = bytearray(SEGMENT_BYTES)
    one = record(8192, 0)
    first[: len(one)] = one
    encode_blank(first, len(one), SEGMENT_BYTES - len(one))
    put(tmp_path / "commitlog" / f"{8192:020d}", bytes(first), SEGMENT_BYTES)
    put(tmp_path / "commitlog" / f"{12288:020d}", record(12288, 1), SEGMENT_BYTES)
    (tmp_path / "commitlog" / f"{16384:020d}").touch()
    (tmp_path / "commitlog" / "notes.txt").write_text("not a segment")
    with StoreFiles(tmp_path) as files:
        assert files.min_physical_offset == 8192
        assert [found.physical_offset for found in files.records()] == [8192, 12288]
        assert [found.physical_offset for found in files.records(12288)] == [12288]
        assert [found.physical_offset for found in files.records(0, 12288)] == [8192]
        assert not files.damaged


def test_damage_is_passed_over_and_told(tmp_path: Path) -> None:
    size = len(record(0, 0))
    log = bytearray(record(0, 0) + record(size, 1) + record(2 * size, 2) + record(3 * size, 3))
    log[size + 89] ^= 1  # in the body
    log[2 * size + 35] ^= 1  # in the physical offset
    put(tmp_path / "commitlog" / f"{0:020d}", bytes(log), SEGMENT_BYTES)
    units = b"".join(pack_unit(number * size, size, 97) for number in range(4))
    put(tmp_path / "consumequeue/T/0" / f"{0:020d}", units, QUEUE_BYTES)
    with StoreFiles(tmp_path) as files:
        assert [found.queue_offset for found in files.records()] == [0, 3]
        assert [damage.physical_offset for damage in files.damaged] == [size, 2 * size]
        assert "checksum" in files.damaged[0].reason
        assert "says that it is at" in files.damaged[1].reason
        files.damaged.clear()
        assert [found.queue_offset for found in files.messages("T", 0)] == [0, 3]
        assert [damage.physical_offset for damage in files.damaged] == [size, 2 * size]
    with StoreFiles(tmp_path, strict=True) as files:
        with pytest.raises(BadRecord, match="checksum"):
            list(files.records())
        with pytest.raises(BadRecord, match="checksum"):
            list(files.messages("T", 0))


def test_torn_tail_ends_the_log(tmp_path: Path) -> None:
    size = len(record(0, 0))
    log = record(0, 0) + record(size, 1)[:50]
    put(tmp_path / "commitlog" / f"{0:020d}", log, SEGMENT_BYTES)
    with StoreFiles(tmp_path) as files:
        assert [found.queue_offset for found in files.records()] == [0]
        assert [damage.physical_offset for damage in files.damaged] == [size]


def test_units_that_point_nowhere_or_elsewhere(tmp_path: Path) -> None:
    size = len(record(0, 0))
    log = record(SEGMENT_BYTES, 0) + record(SEGMENT_BYTES + size, 1)
    put(tmp_path / "commitlog" / f"{SEGMENT_BYTES:020d}", log, SEGMENT_BYTES)
    units = (
        pack_unit(0, size, 0),  # removed
        pack_unit(SEGMENT_BYTES, size, 97),  # another queue offset
        pack_unit(SEGMENT_BYTES + size, size, 97),  # another queue offset
        pack_unit(1 << 40, size, 97),  # behind the log
    )
    put(tmp_path / "consumequeue/T/0" / f"{0:020d}", b"".join(units), QUEUE_BYTES)
    with StoreFiles(tmp_path) as files:
        assert list(files.messages("T", 0)) == []
        assert len(files.damaged) == 3
        assert "nothing there" in files.damaged[2].reason


def test_queue_that_begins_in_the_middle_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "queue"
    units = [pack_unit(number, 1, number) for number in range(14)]
    put(folder / f"{QUEUE_BYTES:020d}", BLANK_UNIT * 4 + b"".join(units[:6]), QUEUE_BYTES)
    put(folder / f"{2 * QUEUE_BYTES:020d}", b"".join(units[6:]), QUEUE_BYTES)
    put(folder / f"{3 * QUEUE_BYTES:020d}", b"", QUEUE_BYTES)
    queue = QueueFiles(folder)
    assert (queue.min_offset, queue.max_offset) == (14, 28)
    found = list(queue.units())
    assert [offset for offset, _ in found] == list(range(14, 28))
    assert [unit.physical_offset for _, unit in found] == list(range(14))
    assert [offset for offset, _ in queue.units(18, 21)] == [18, 19, 20]
    assert [offset for offset, _ in queue.units(25)] == [25, 26, 27]
    assert [offset for offset, _ in queue.units(codes=frozenset({3, 9}))] == [17, 23]
    assert list(queue.units(100)) == []


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="no commit log"):
        StoreFiles(tmp_path)
    elsewhere = tmp_path / "log"
    put(elsewhere / f"{0:020d}", record(0, 0), SEGMENT_BYTES)
    with StoreFiles(tmp_path, commit_log_folders=[elsewhere]) as files:
        assert len(list(files.records())) == 1
        assert files.queues() == files.batch_queues() == []
    put(elsewhere / f"{100:020d}", b"", SEGMENT_BYTES)
    with pytest.raises(NotAStore, match="overlap"):
        StoreFiles(tmp_path, commit_log_folders=[elsewhere])
    (tmp_path / "commitlog").mkdir()
    with StoreFiles(tmp_path) as files:
        assert list(files.records()) == []
        assert files.min_physical_offset == 0

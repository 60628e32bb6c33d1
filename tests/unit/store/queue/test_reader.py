"""Reading a queue: statuses, limits, filters, damaged records."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from orbitmq.protocol.records.hashing import java_hash
from orbitmq.store import GetStatus, MessageStore
from orbitmq.store.log.messages import Cold
from orbitmq.store.queue.consume_queue import UNIT_BYTES, OpenFiles
from orbitmq.store.queue.reader import COLD_UNITS
from tests.kit.store import NOW, SEGMENT, bodies, crash, filled, message, opened, write_queues


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    return opened(tmp_path)


def status_of(store: MessageStore, queue_offset: int) -> tuple[str, int]:
    result = store.get("T", 0, queue_offset, 32)
    return result.status.name, result.next_offset


def test_a_queue_that_was_never_written(store: MessageStore) -> None:
    assert status_of(store, 5) == ("NO_MATCHED_LOGIC_QUEUE", 0)
    assert store.max_offset("T", 0) == 0
    assert store.min_offset("T", 0) == -1


def test_statuses_around_the_end(store: MessageStore) -> None:
    filled(store, 3)
    assert status_of(store, 0) == ("FOUND", 3)
    assert status_of(store, 2) == ("FOUND", 3)
    assert status_of(store, 3) == ("OFFSET_OVERFLOW_ONE", 3)
    assert status_of(store, 9) == ("OFFSET_OVERFLOW_BADLY", 3)
    assert status_of(store, -1) == ("OFFSET_TOO_SMALL", 0)


def test_a_queue_whose_only_message_was_a_half_one_has_no_messages(store: MessageStore) -> None:
    store.append(message(sys_flag=4), NOW)
    assert status_of(store, 3) == ("NO_MESSAGE_IN_QUEUE", 0)


def test_neighbours_come_as_one_view(store: MessageStore) -> None:
    filled(store, 5)
    store.append(message(queue_id=1), NOW)
    filled(store, 2)
    result = store.get("T", 0, 0, 32)
    assert result.count == 7
    assert len(result.records) == 2
    assert result.size_bytes == sum(map(len, result.records))
    assert (result.min_offset, result.max_offset) == (0, 7)


@pytest.mark.parametrize("accept", [None, frozenset({java_hash("b")})])
@pytest.mark.parametrize("max_count", [1, 5, 32])
def test_a_copy_holds_what_the_views_show(
    store: MessageStore, max_count: int, accept: frozenset[int] | None
) -> None:
    appended = [
        store.append(message(number, tag="ab"[number % 2], queue_id=number // 3 % 2), NOW)
        for number in range(40)
    ]
    damage(store.options.root, appended[7].physical_offset + FIELDS["body"])
    for queue_offset in range(21):
        into = bytearray(64 << 10)
        cursor = store.reader.cursor("T", 0, max_count, 0, accept, len(into))
        assert cursor is not None
        copied = store.copy(cursor, queue_offset, into)
        shown = store.get("T", 0, queue_offset, max_count, 0, accept)
        assert copied is not None
        assert bytes(into[: copied.size_bytes]) == b"".join(shown.records)
        copied.records = shown.records
        assert copied == shown


@pytest.mark.parametrize("accept", [None, frozenset({java_hash("a")})])
def test_what_has_no_room_is_not_copied_in_part(store: MessageStore, accept: frozenset[int] | None) -> None:
    filled(store, 10, tag="a")
    size = store.get("T", 0, 0, 10).size_bytes
    cursor = store.reader.cursor("T", 0, 10, 0, accept, size)
    assert cursor is not None
    assert store.copy(cursor, 0, bytearray(size - 1)) is None
    copied = store.copy(cursor, 0, bytearray(size))
    assert copied is not None
    assert copied.count == 10


def test_no_more_than_asked_for(store: MessageStore) -> None:
    filled(store, 50)
    assert store.get("T", 0, 0, 10).count == 10
    assert store.get("T", 0, 0, 100).count == 32
    assert store.get("T", 0, 0, 0).count == 1


def test_sizes_are_limited_but_the_first_always_comes(tmp_path: Path) -> None:
    store = opened(tmp_path, max_transfer_bytes_on_message_in_memory=10_000)
    filled(store, 10, body=bytes(4000))
    assert store.get("T", 0, 0, 32).count == 2
    assert store.get("T", 0, 0, 32, 5000).count == 1
    assert store.get("T", 0, 0, 32, 1).count == 1


def test_old_messages_have_limits_of_their_own(tmp_path: Path) -> None:
    store = opened(tmp_path, max_transfer_count_on_message_in_disk=3, access_message_in_memory_max_ratio=0)
    filled(store, 30)
    result = store.get("T", 0, 0, 32)
    assert result.count == 3
    assert result.suggest_slave


@pytest.mark.parametrize("ratio", [0, 40], ids=["old", "recent"])
def test_readers_of_a_whole_topic_are_limited_by_bytes_alone(tmp_path: Path, ratio: int) -> None:
    store = opened(
        tmp_path,
        max_transfer_bytes_on_message_in_memory=100_000,
        mapped_file_size_consume_queue=20 * 2000,
        access_message_in_memory_max_ratio=ratio,
    )
    filled(store, 1000)
    size = store.get("T", 0, 0, 1, bulk=True).size_bytes
    result = store.get("T", 0, 0, 4096, bulk=True)
    assert (result.status, result.next_offset) == (GetStatus.FOUND, result.count)
    assert 100_000 - 2 * size < result.size_bytes <= 100_000
    assert store.get("T", 0, 0, 40, bulk=True).count == 40
    assert store.get("T", 0, 0, 4096).count < 40
    for room, count in ((200_000, result.count), (50_000, 50_000 // size), (size, 1)):
        into = bytearray(room)
        cursor = store.reader.cursor("T", 0, 4096, 0, None, room, bulk=True)
        assert cursor is not None
        copied = store.copy(cursor, 0, into)
        assert copied is not None
        assert copied.count == pytest.approx(count, rel=0.02)
        shown = store.get("T", 0, 0, copied.count, bulk=True)
        assert bytes(into[: copied.size_bytes]) == b"".join(shown.records)
    cursor = store.reader.cursor("T", 0, 4096, 0, None, size - 1, bulk=True)
    assert cursor is not None
    assert store.copy(cursor, 0, bytearray(size - 1)) is None


def test_tags_select(store: MessageStore) -> None:
    for number in range(20):
        store.append(message(number, tag="ab"[number % 2]), NOW)
    wanted = frozenset({java_hash("b")})
    result = store.get("T", 0, 0, 5, accept=wanted)
    assert (result.count, result.next_offset) == (5, 10)
    assert len(result.records) == 5
    assert store.get("T", 0, 0, 5, accept=wanted.__contains__).count == 5
    nothing = store.get("T", 0, 0, 5, accept=frozenset({1}))
    assert nothing.status is GetStatus.NO_MATCHED_MESSAGE
    assert nothing.next_offset == 20


def test_a_scan_without_a_match_ends_somewhere(tmp_path: Path) -> None:
    store = opened(tmp_path, max_filter_message_size=20 * 40, mapped_file_size_consume_queue=20 * 1000)
    filled(store, 100)
    assert store.get("T", 0, 0, 1, accept=frozenset({1})).next_offset == 40
    assert store.get("T", 0, 0, 60, accept=frozenset({1})).next_offset == 60


def test_units_come_from_memory_and_from_files_alike(tmp_path: Path) -> None:
    store = opened(tmp_path)
    expected = [b"body %d" % number for number in range(350)]
    filled(store, 230)
    assert bodies(store) == expected[:230]
    write_queues(store)
    for number in range(230, 350):
        store.append(message(number), NOW)
    assert bodies(store) == expected
    write_queues(store)  # written, and the tail not trimmed yet
    assert bodies(store) == expected
    names = sorted(path.name for path in (tmp_path / "consumequeue" / "T" / "0").iterdir())
    assert names == [f"{start:020d}" for start in (0, 2000, 4000, 6000)]
    assert all(path.stat().st_size == 2000 for path in (tmp_path / "consumequeue" / "T" / "0").iterdir())


def damage(root: Path, at: int) -> None:
    path = root / "commitlog" / f"{at - at % SEGMENT:020d}"
    with path.open("r+b") as file:
        file.seek(at % SEGMENT)
        byte = file.read(1)
        file.seek(at % SEGMENT)
        file.write(bytes([byte[0] ^ 0x10]))


FIELDS = {
    "size": 3,
    "magic": 5,
    "crc": 9,
    "queue id": 15,
    "queue offset": 27,
    "physical offset": 35,
    "body": 90,
}


@pytest.mark.parametrize("length", [0, 1, 7, 63, 64, 65, 79, 80, 127, 128, 200, 512, 513, 1000, 3001])
def test_a_bit_that_is_wrong_anywhere_in_a_body_is_noticed(tmp_path: Path, length: int) -> None:
    store = opened(tmp_path)
    body = bytes(number * 7 % 251 for number in range(length))
    (appended,) = filled(store, 1, body=body)
    assert bodies(store) == [body]
    for at in {0, length // 2, length - 1} & set(range(length)):
        damage(tmp_path, appended.physical_offset + 88 + at)
        assert store.get("T", 0, 0, 1).count == 0
        damage(tmp_path, appended.physical_offset + 88 + at)
        assert store.get("T", 0, 0, 1).count == 1


@pytest.mark.parametrize("field", FIELDS)
def test_a_damaged_record_is_stepped_over_and_counted(tmp_path: Path, field: str) -> None:
    store = opened(tmp_path)
    appended = filled(store, 5)
    damage(tmp_path, appended[2].physical_offset + FIELDS[field])
    result = store.get("T", 0, 0, 32)
    assert result.count == 4
    assert bodies(store) == [b"body 0", b"body 1", b"body 3", b"body 4"]
    assert store.figures().bad_records == 1
    assert store.reader.bad_records == {appended[2].physical_offset: ("T", 0, 2)}
    assert store.record_at(appended[2].physical_offset) is None or field in ("queue id", "queue offset")
    alone = store.get("T", 0, 2, 1)
    assert alone.count == 1  # the next one


def test_if_only_damaged_records_are_left_the_reader_goes_on(tmp_path: Path) -> None:
    store = opened(tmp_path)
    (one,) = filled(store, 1)
    damage(tmp_path, one.physical_offset + 90)
    result = store.get("T", 0, 0, 32)
    assert result.status is GetStatus.NO_MATCHED_MESSAGE
    assert result.next_offset == 1


class ColdFile:
    """A file none of which is in memory."""

    def __init__(self, file: object) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def resident_bytes(self, position: int, length: int) -> int:
        return 0


def test_what_is_not_in_memory_is_announced_and_then_served(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 5)
    store.close()
    store = opened(tmp_path)
    segment = store.structures.log.segments[0]
    file, segment.file = segment.file, ColdFile(segment.file)  # type: ignore[assignment]
    result = store.get("T", 0, 0, 32)
    assert result.cold is not None
    assert result.count == 0
    assert result.next_offset == 0
    store.reader.read_cold(*result.cold)
    assert store.get("T", 0, 0, 32).count == 5
    segment.file = file
    crash(store)


def test_units_that_are_not_in_memory_are_announced_and_then_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    filled(store, 5)
    store.close()
    store = opened(tmp_path)
    queue = store.structures.queues.find("T", 0)
    assert queue is not None
    files = store.structures.queues.reading
    with monkeypatch.context() as patch:
        files.get(queue, 0)
        patch.setattr(files, "opened", lambda queue, start: ColdFile(OpenFiles.opened(files, queue, start)))
        result = store.get("T", 0, 2, 32)
        assert result.cold == Cold(2, COLD_UNITS * UNIT_BYTES, queue)
        assert (result.count, result.next_offset) == (0, 2)
        store.reader.read_cold(*result.cold)
        assert store.get("T", 0, 2, 32).count == 3
    crash(store)


def test_with_whole_checksums_no_flipped_bit_is_served(tmp_path: Path) -> None:
    store = opened(tmp_path, enabled_append_prop_crc=True)
    first, one, last = filled(store, 3, tag="TagA")
    view = store.structures.log.segments[0].view
    name_of_checksum = range(one.size - 20, one.size - 11)
    for at in range(one.size):
        for bit in (0, 7):
            view[one.physical_offset + at] ^= 1 << bit
            result = store.get("T", 0, 0, 32)
            served = b"".join(result.records)
            if at not in name_of_checksum:  # without its name it is no checksum
                assert result.count == 2, at
                assert len(served) == first.size + last.size
            view[one.physical_offset + at] ^= 1 << bit
    assert store.get("T", 0, 0, 32).count == 3


def test_tags_behind_addresses_of_extensions_select_too(tmp_path: Path) -> None:
    folder = tmp_path / "consumequeue_ext" / "T" / "0"
    folder.mkdir(parents=True)
    codes = [java_hash("a"), java_hash("b")]
    units = b"".join(struct.pack(">hqqh", 20, code, NOW, 0) for code in codes)
    (folder / f"{0:020d}").write_bytes(units.ljust(4096, b"\x00"))
    store = opened(tmp_path)
    first_address = -(1 << 63)
    store.append(message(0, tags_code=first_address), NOW)
    store.append(message(1, tags_code=first_address + 20), NOW)
    store.append(message(2, tag="b"), NOW)
    wanted = frozenset({java_hash("b")})
    for accept in (wanted, wanted.__contains__):
        result = store.get("T", 0, 0, 32, accept=accept)
        assert result.count == 2
        assert result.next_offset == 3
    unit = store.physical_offset_of("T", 0, 0)
    assert unit is not None
    assert unit[2] == codes[0]
    crash(store)


def test_messages_whose_segment_went_while_they_were_asked_for(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 60, body=bytes(3000))
    store.structures.log.remove_first()  # and the queues were not told yet
    result = store.get("T", 0, 0, 1)
    assert result.status is GetStatus.FOUND  # the first that is still there
    assert result.next_offset > 1
    while len(store.structures.log.segments) > 1:
        store.structures.log.remove_first()
    before_the_rest = result.next_offset - 1
    assert store.get("T", 0, 0, 1, accept=lambda _: False).status is GetStatus.NO_MATCHED_MESSAGE
    gone = store.get("T", 0, before_the_rest, 1)
    assert gone.next_offset > before_the_rest
    assert store.get("T", 0, gone.next_offset, 1).status in (GetStatus.FOUND, GetStatus.MESSAGE_WAS_REMOVING)


def test_a_queue_file_that_is_missing_is_skipped(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 250)
    write_queues(store)
    store.structures.queues.reading.clear()
    (tmp_path / "consumequeue" / "T" / "0" / f"{2000:020d}").unlink()
    result = store.get("T", 0, 150, 32)
    assert result.cold is not None
    store.reader.read_cold(*result.cold)
    result = store.get("T", 0, 150, 32)
    assert result.status is GetStatus.OFFSET_FOUND_NULL
    assert result.next_offset == 200
    crash(store)

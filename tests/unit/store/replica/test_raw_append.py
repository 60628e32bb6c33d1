"""A slave's log: bytes cut anywhere, whole records alone stored, queues as the master's."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbitmq import failpoints
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.store import MessageStore, PutStatus
from orbitmq.store.config_files import write_text
from orbitmq.store.errors import NotTheMasters
from orbitmq.store.replica import raw_append
from tests.kit.store import NOW, SEGMENT, bodies, crash, filled, message, opened, run_task

SMALL_GAPS = 1 << 14


def stream(store: MessageStore) -> bytes:
    """Everything of a log from its beginning on, as a master sends it."""
    at, parts = store.min_physical, []
    while at < store.max_physical:
        data = store.log.read(at, SEGMENT)
        parts.append(data)
        at += len(data)
    return b"".join(parts)


def feed(slave: MessageStore, data: bytes, at: int, cuts: list[int]) -> None:
    """Gives bytes to a slave in pieces that end at `cuts` and at ends of segments."""
    ends = {*(at + cut for cut in cuts), *range(at - at % SEGMENT + SEGMENT, at + len(data), SEGMENT)}
    begin = at
    for end in sorted(end for end in {*ends, at + len(data)} if at < end <= at + len(data)):
        slave.replica.append(begin, data[begin - at : end - at])
        begin = end


def over_segments(store: MessageStore, count: int = 60) -> None:
    sizes = random.Random(5)
    for n in range(count):
        store.append(message(n, body=bytes(sizes.randrange(10, 6000)), queue_id=n % 3), NOW + n)


def same(slave: MessageStore, master: MessageStore, topic: str = "T") -> None:
    assert (slave.max_physical, stream(slave)) == (master.max_physical, stream(master))
    assert slave.queue_ids(topic) == master.queue_ids(topic)
    for queue_id in master.queue_ids(topic):
        end = master.max_offset(topic, queue_id)
        assert slave.max_offset(topic, queue_id) == end
        assert slave.lookup.units(topic, queue_id, 0, end) == master.lookup.units(topic, queue_id, 0, end)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 130_000), max_size=30))
def test_bytes_cut_anywhere_make_the_same_log_and_queues(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    root = tmp_path_factory.mktemp("raw")
    master, slave = opened(root / "m"), opened(root / "s")
    over_segments(master)
    assert master.max_physical > 2 * SEGMENT
    feed(slave, stream(master), 0, cuts)
    same(slave, master)
    slave.close()
    again = opened(root / "s")
    same(again, master)
    again.close()
    master.close()


def test_a_record_that_is_not_whole_is_asked_for_again(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    first, second = filled(master, 2)
    data = stream(master)
    slave.replica.append(0, data[: second.end_offset - 1])
    assert (slave.replica.end, slave.max_physical) == (second.end_offset - 1, first.end_offset)
    assert bodies(slave) == [b"body 0"]
    slave.replica.drop_partial()
    assert slave.replica.end == first.end_offset
    slave.replica.append(first.end_offset, data[first.end_offset :])
    same(slave, master)


def test_a_slave_cut_off_within_the_end_of_a_segment_goes_on_with_the_next(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    over_segments(master)
    data = stream(master)
    slave.replica.append(0, data[: SEGMENT - 1])  # within what stands behind the blank record
    assert slave.replica.end == SEGMENT - 1
    slave.replica.drop_partial()
    assert slave.replica.end == SEGMENT
    feed(slave, data[SEGMENT:], SEGMENT, [])
    same(slave, master)


def test_an_empty_slave_begins_where_the_masters_log_does(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    over_segments(master)
    data = stream(master)
    feed(slave, data[SEGMENT:], SEGMENT, [])
    assert (slave.min_physical, slave.max_physical) == (SEGMENT, master.max_physical)
    assert stream(slave) == data[SEGMENT:]
    for queue_id in range(3):
        end = master.max_offset("T", queue_id)
        first = slave.min_offset("T", queue_id)
        assert first > 0
        assert slave.lookup.units("T", queue_id, first, end) == master.lookup.units("T", queue_id, first, end)
    slave.close()
    again = opened(tmp_path / "s")
    assert stream(again) == data[SEGMENT:]
    assert again.max_offset("T", 0) == master.max_offset("T", 0)
    again.close()


def test_held_reads_at_a_slave_hear_of_what_came(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 3)
    slave.replica.append(0, stream(master))
    assert [(topic, queue, behind) for topic, queue, behind, _ in slave.arrivals.drain()] == [
        ("T", 0, 1),
        ("T", 0, 2),
        ("T", 0, 3),
    ]


def test_a_topic_that_the_master_made_anew_begins_anew(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 3)
    slave.replica.append(0, stream(master))
    at = master.max_physical
    master.structures.delete_queues("T")
    master.append(message(9), NOW)
    slave.replica.append(at, stream(master)[at:])
    assert slave.max_offset("T", 0) == master.max_offset("T", 0) == 1
    assert bodies(slave) == [b"body 9"]


def test_queues_of_a_topic_made_anew_stay_where_another_one_begins_anew_later(tmp_path: Path) -> None:
    """The old topic had nothing in the queue of the first new messages."""
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 3, queue_id=1)
    filled(master, 1, queue_id=2)
    filled(master, 1, queue_id=1)
    master.structures.delete_queues("T")
    filled(master, 3)
    filled(master, 1, queue_id=1)
    filled(master, 1)
    slave.replica.append(0, stream(master))
    same(slave, master)


class Replicated:
    """A master and its slave, which hears of deletions late."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.master, self.slave = opened(root / "m"), opened(root / "s")
        self.deletions = Deletions(DirtyTables())
        self.exists = True
        self.answer: tuple[int, bool] | None = None
        self.number = 0

    def do(self, step: str, queue_id: int) -> None:
        master, slave = self.master, self.slave
        match step:
            case "send":
                self.exists = True
                self.number += 1
                master.append(message(self.number, queue_id=queue_id), NOW)
            case "delete":
                self.exists = False
                master.structures.delete_queues("T")
            case "replicate":
                self.slave.replica.append(slave.max_physical, stream(master)[slave.max_physical :])
            case "ask":
                self.answer = slave.max_physical, self.exists
            case "learn" if self.answer is not None and not self.answer[1]:
                # As `MasterTables.topics` does.
                slave.structures.delete_queues("T", self.answer[0])
                self.deletions.note("T", slave.log_end(self.answer[0]), NOW)
                self.answer = None
            case "save":
                slave.flushing.flush_now()
                write_text(self.root / "s" / "config" / Deletions.FILE, self.deletions.snapshot()())
            case "write":
                run_task(slave, "write queues", NOW + 60_000 * self.number)
            case "kill":
                crash(slave)
                self.slave = opened(self.root / "s")


STEPS = {"send": 8, "delete": 2, "replicate": 6, "ask": 3, "learn": 3, "save": 1, "write": 2, "kill": 2}


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 11, 13, 22])
def test_a_slave_that_learns_late_of_a_deletion_has_all_of_the_topic_made_anew(
    tmp_path: Path, seed: int
) -> None:
    rng, pair = random.Random(seed), Replicated(tmp_path)
    for step in rng.choices(list(STEPS), list(STEPS.values()), k=60):
        pair.do(step, rng.randrange(3))
    for last in ("replicate", "learn", "kill"):
        pair.do(last, 0)
        for queue_id in pair.master.queue_ids("T"):
            assert bodies(pair.slave, "T", queue_id) == bodies(pair.master, "T", queue_id)
    pair.master.close()
    pair.slave.close()


@pytest.mark.parametrize(
    ("at", "damage", "says"),
    [
        (0, lambda data: b"\0" * 100 + data[100:], "no record"),
        (0, lambda data: b"GET / HTTP/1.1\r\n" + data[16:], "no record"),
        (0, lambda data: b"\x7f" + data[1:], "maxMessageSize"),
        (0, lambda data: data[:35] + b"\x07" + data[36:], "empty store"),
        (7, lambda data: data, "mappedFileSizeCommitLog"),
        (0, lambda data: b"\0\0\x01\0\xcb\xd4\x31\x94" + data[8:], "mappedFileSizeCommitLog"),
    ],
)  # fmt: skip
def test_what_is_not_the_masters_log_is_refused_and_not_stored(
    tmp_path: Path, at: int, damage: object, says: str
) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 2)
    with pytest.raises(NotTheMasters, match=says):
        slave.replica.append(at, damage(stream(master)))  # type: ignore[operator]
    assert slave.max_physical == 0


def test_bytes_that_do_not_join_are_refused(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 2)
    slave.replica.append(0, stream(master))
    for at in (0, slave.max_physical + 8):
        with pytest.raises(NotTheMasters, match="do not join"):
            slave.replica.append(at, stream(master))


def test_sound_records_before_a_foreign_one_are_kept(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 2)
    with pytest.raises(NotTheMasters):
        slave.replica.append(0, stream(master) + b"\xff" * 100)
    same(slave, master)


def test_records_before_the_disk_was_full_are_in_their_queues(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    over_segments(master)
    data = stream(master)

    def no_room() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        failpoints.armed_point("commitlog.create", no_room),
        pytest.raises(OSError, match="No space"),
    ):
        slave.replica.append(0, data)
    assert slave.max_physical == SEGMENT
    slave.replica.drop_partial()
    slave.replica.append(SEGMENT, data[SEGMENT:])
    same(slave, master)


@pytest.mark.parametrize("extended", [False, True])
def test_messages_of_every_kind_get_the_units_that_their_master_gave(tmp_path: Path, extended: bool) -> None:
    """Some in no queue, some with units by a rule of their own, some with texts that are more than ASCII."""
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"tag": "red"},
        {"tag": "rød"},
        {"topic": "Tømmer"},
        {"topic": "SCHEDULE_TOPIC_XXXX", "properties": b"DELAY\x013\x02"},
        {"properties": b"TAGS\x01\x02"},
        {"properties": b"TAGS\x01a\x02TAGS\x01b"},
        {"properties": b"\xff\xfe\x01x"},
        {"sys_flag": 0x4},
        {"sys_flag": 0x8},
        {"sys_flag": 0xC},
        {"born_host": bytes(20), "store_host": bytes(20)},
    )
    chance = random.Random(7)
    master, slave = (opened(tmp_path / name, enable_consume_queue_ext=extended) for name in "ms")
    for n in range(400):
        sent = message(n, queue_id=n % 3, **chance.choice(kinds))
        assert master.append(sent, NOW + n).status is PutStatus.PUT_OK
    feed(slave, stream(master), 0, list(range(0, master.max_physical, 5000)))
    assert sorted(slave.topics()) == sorted(master.topics())
    for topic in master.topics():
        same(slave, master, topic)
    assert slave.newest.physical_offset == master.newest.physical_offset
    assert slave.newest.timestamp_ms == master.newest.timestamp_ms == NOW + 399


def at_offsets(record: bytes, queue_offset: int, physical_offset: int) -> bytes:
    """A record with other offsets, which have no checksum."""
    return record[:20] + queue_offset.to_bytes(8, "big") + physical_offset.to_bytes(8, "big") + record[36:]


@pytest.mark.parametrize("gaps", [[1 << 40], [SMALL_GAPS * 3 // 4] * 2])
def test_a_stream_cannot_make_a_slave_fill_its_memory_by_gaps(
    tmp_path: Path, gaps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if gaps[0] < SMALL_GAPS:
        monkeypatch.setattr(raw_append, "MAX_GAP_UNITS", SMALL_GAPS)
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 2 + len(gaps))
    data, begin = stream(master), SEGMENT << 36
    size = len(data) // (2 + len(gaps))
    records = [data[at : at + size] for at in range(0, len(data), size)]
    offsets = [0, 1]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    sent = b"".join(
        at_offsets(record, offset, begin + size * number)
        for number, (record, offset) in enumerate(zip(records, offsets, strict=True))
    )
    with pytest.raises(NotTheMasters, match="leaves out"):
        slave.replica.append(begin, sent)
    kept = len(records) - 1
    assert slave.max_physical == slave.replica.end == begin + size * kept
    assert slave.max_offset("T", 0) == offsets[kept - 1] + 1
    slave.close()
    again = opened(tmp_path / "s")
    assert again.max_physical == begin + size * kept, "nothing of the refused record is on the disk"
    assert again.max_offset("T", 0) == offsets[kept - 1] + 1
    again.close()


@pytest.mark.parametrize("queue_offset", [-1, 1 << 62])
def test_a_queue_offset_that_cannot_be_makes_no_unit(tmp_path: Path, queue_offset: int) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 1)
    data = stream(master)
    slave.replica.append(0, data[:20] + queue_offset.to_bytes(8, "big", signed=True) + data[28:])
    assert slave.max_physical == master.max_physical
    assert slave.topics() == []

"""A slave's log: bytes cut anywhere, whole records alone stored, queues as the master's."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbitmq.store import MessageStore, PutStatus, failpoints
from orbitmq.store.errors import NotTheMasters
from tests.kit.store import NOW, SEGMENT, bodies, filled, message, opened


def stream(store: MessageStore) -> bytes:
    """Everything of a log from its beginning on, as a master sends it."""
    at, parts = store.min_physical, []
    while at < store.max_physical:
        data = store.read_log(at, SEGMENT)
        parts.append(data)
        at += len(data)
    return b"".join(parts)


def feed(slave: MessageStore, data: bytes, at: int, cuts: list[int]) -> None:
    """Gives bytes to a slave in pieces that end at `cuts` and at ends of segments."""
    ends = {*(at + cut for cut in cuts), *range(at - at % SEGMENT + SEGMENT, at + len(data), SEGMENT)}
    begin = at
    for end in sorted(end for end in {*ends, at + len(data)} if at < end <= at + len(data)):
        slave.append_raw(begin, data[begin - at : end - at])
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
        assert slave.units(topic, queue_id, 0, end) == master.units(topic, queue_id, 0, end)


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
    slave.append_raw(0, data[: second.end_offset - 1])
    assert (slave.replica_end, slave.max_physical) == (second.end_offset - 1, first.end_offset)
    assert bodies(slave) == [b"body 0"]
    slave.drop_partial_record()
    assert slave.replica_end == first.end_offset
    slave.append_raw(first.end_offset, data[first.end_offset :])
    same(slave, master)


def test_a_slave_cut_off_within_the_end_of_a_segment_goes_on_with_the_next(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    over_segments(master)
    data = stream(master)
    slave.append_raw(0, data[: SEGMENT - 1])  # within what stands behind the blank record
    assert slave.replica_end == SEGMENT - 1
    slave.drop_partial_record()
    assert slave.replica_end == SEGMENT
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
        assert slave.units("T", queue_id, first, end) == master.units("T", queue_id, first, end)
    slave.close()
    again = opened(tmp_path / "s")
    assert stream(again) == data[SEGMENT:]
    assert again.max_offset("T", 0) == master.max_offset("T", 0)
    again.close()


def test_held_reads_at_a_slave_hear_of_what_came(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 3)
    slave.append_raw(0, stream(master))
    assert [(topic, queue, behind) for topic, queue, behind, _ in slave.drain_arrivals()] == [
        ("T", 0, 1),
        ("T", 0, 2),
        ("T", 0, 3),
    ]


def test_a_topic_that_the_master_made_anew_begins_anew(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 3)
    slave.append_raw(0, stream(master))
    at = master.max_physical
    master.delete_queues("T")
    master.append(message(9), NOW)
    slave.append_raw(at, stream(master)[at:])
    assert slave.max_offset("T", 0) == master.max_offset("T", 0) == 1
    assert bodies(slave) == [b"body 9"]


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
        slave.append_raw(at, damage(stream(master)))  # type: ignore[operator]
    assert slave.max_physical == 0


def test_bytes_that_do_not_join_are_refused(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 2)
    slave.append_raw(0, stream(master))
    for at in (0, slave.max_physical + 8):
        with pytest.raises(NotTheMasters, match="do not join"):
            slave.append_raw(at, stream(master))


def test_sound_records_before_a_foreign_one_are_kept(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 2)
    with pytest.raises(NotTheMasters):
        slave.append_raw(0, stream(master) + b"\xff" * 100)
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
        slave.append_raw(0, data)
    assert slave.max_physical == SEGMENT
    slave.drop_partial_record()
    slave.append_raw(SEGMENT, data[SEGMENT:])
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
    assert slave.last_record == master.last_record
    assert slave.last_timestamp_ms == master.last_timestamp_ms == NOW + 399


@pytest.mark.parametrize("queue_offset", [-1, 1 << 62])
def test_a_queue_offset_that_cannot_be_makes_no_unit(tmp_path: Path, queue_offset: int) -> None:
    master, slave = opened(tmp_path / "m"), opened(tmp_path / "s")
    filled(master, 1)
    data = stream(master)
    slave.append_raw(0, data[:20] + queue_offset.to_bytes(8, "big", signed=True) + data[28:])
    assert slave.max_physical == master.max_physical
    assert slave.topics() == []

"""Messages that may be stored, and the fate of the rest."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from orbitmq.protocol.records.batch_cy import encode_batch
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.store import MessageStore, PendingMessage, PutStatus
from tests.kit.store import NOW, SEGMENT, bodies, filled, message, opened, read_queue


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    return opened(tmp_path)


def test_queue_offsets_are_dense_per_queue(store: MessageStore) -> None:
    appended = store.append_many([message(n, queue_id=n % 2) for n in range(6)], NOW)
    assert [one.queue_offset for one in appended] == [0, 0, 1, 1, 2, 2]
    assert all(a.end_offset == b.physical_offset for a, b in pairwise(appended))


def test_store_times_never_go_back(store: MessageStore) -> None:
    times = [store.append(message(), now).store_timestamp for now in (NOW, NOW + 5, NOW - 3_600_000, NOW + 6)]
    assert times == [NOW, NOW + 5, NOW + 5, NOW + 6]


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (message(body=bytes((16 << 10) + 1)), PutStatus.MESSAGE_ILLEGAL),
        (message(properties=b"A\x01" + b"x" * 32_766), PutStatus.PROPERTIES_SIZE_EXCEEDED),
        (message(properties=b"A\x01\x00\x02"), PutStatus.MESSAGE_ILLEGAL),
        (message(topic="t" * 128), PutStatus.MESSAGE_ILLEGAL),
        (message(topic="%RETRY%" + "t" * 250), PutStatus.MESSAGE_ILLEGAL),
        (message(topic=""), PutStatus.MESSAGE_ILLEGAL),
        (message(topic=".."), PutStatus.MESSAGE_ILLEGAL),
        (message(topic="../../etc"), PutStatus.MESSAGE_ILLEGAL),
        (message(topic="a\x00b"), PutStatus.MESSAGE_ILLEGAL),
        (message(topic="T", queue_id=-1), PutStatus.MESSAGE_ILLEGAL),
        (message(topic="T", queue_id=1 << 31), PutStatus.MESSAGE_ILLEGAL),
        (message(flag=1 << 31), PutStatus.MESSAGE_ILLEGAL),
        (message(born_host=b"123"), PutStatus.MESSAGE_ILLEGAL),
        (message(sys_flag=0x80), PutStatus.MESSAGE_ILLEGAL),
        (message(topic="dos", body=None, properties=b"x" * 32_768), PutStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_what_cannot_be_stored_costs_the_others_nothing(
    store: MessageStore, bad: PendingMessage, status: PutStatus
) -> None:
    first, refused, last = store.append_many([message(1), bad, message(2)], NOW)
    assert refused.status is status
    assert (refused.physical_offset, refused.size) == (0, 0)
    assert last.physical_offset == first.end_offset
    assert (first.queue_offset, last.queue_offset) == (0, 1)
    assert bodies(store) == [b"body 1", b"body 2"]


def test_a_long_retry_topic_is_stored_with_the_longer_record(store: MessageStore) -> None:
    topic = "%RETRY%" + "g" * 200
    appended = store.append(message(topic=topic), NOW)
    record = store.record_at(appended.physical_offset)
    assert record is not None
    assert record[4:8] == bytes.fromhex("DAA320AB")
    assert decode_record(record).topic == topic


def test_without_the_longer_record_long_topics_are_refused(tmp_path: Path) -> None:
    store = opened(tmp_path, auto_message_version_on_topic_len=False)
    assert store.append(message(topic="%RETRY%" + "g" * 200), NOW).status is PutStatus.MESSAGE_ILLEGAL


def test_half_messages_are_in_no_queue(store: MessageStore) -> None:
    for sys_flag in (0x4, 0xC):
        appended = store.append(message(sys_flag=sys_flag), NOW)
        assert appended.status is PutStatus.PUT_OK
        assert appended.queue_offset == 0
        assert store.record_at(appended.physical_offset) is not None
    assert store.max_offset("T", 0) == 0
    assert store.append(message(sys_flag=0x8), NOW).queue_offset == 0
    assert store.max_offset("T", 0) == 1


def test_bodies_may_be_views(store: MessageStore) -> None:
    store.append(message(body=memoryview(b"..body..")[2:6]), NOW)  # type: ignore[arg-type]
    assert bodies(store) == [b"body"]


def test_tags_code_is_the_hash_of_the_tag_unless_given(store: MessageStore) -> None:
    store.append_many([message(tag="TagA"), message(tags_code=77), message()], NOW)
    assert [store.physical_offset_of("T", 0, n)[2] for n in range(3)] == [2598919, 77, 0]  # type: ignore[index]


def test_a_delayed_messages_code_is_its_time(store: MessageStore) -> None:
    properties = (b"DELAY\x013\x02", b"DELAY\x0199\x02", b"DELAY\x01x\x02TAGS\x01TagA\x02")
    store.append_many([message(topic="SCHEDULE_TOPIC_XXXX", properties=p) for p in properties], NOW)
    codes = [store.physical_offset_of("SCHEDULE_TOPIC_XXXX", 0, n)[2] for n in range(3)]  # type: ignore[index]
    assert codes == [NOW + 10_000, NOW + 7_200_000, 2598919]


def test_segments_follow_each_other_and_messages_never_cross(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = filled(store, 100, body=bytes(3000))
    assert len(list((tmp_path / "commitlog").iterdir())) >= 4
    assert all(one.physical_offset // SEGMENT == (one.end_offset - 1) // SEGMENT for one in appended)
    assert len(read_queue(store)) == 100
    store.close()
    first = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    last = max(one.end_offset for one in appended if one.end_offset <= SEGMENT)
    assert int.from_bytes(first[last : last + 4], "big") == SEGMENT - last
    assert first[last + 4 : last + 8].hex() == "cbd43194"


def test_a_batch_is_stored_as_a_whole_in_one_segment(store: MessageStore) -> None:
    filled(store, 15, body=bytes(4000))
    (appended,) = store.append_many(
        [message(batch=encode_batch([(n, bytes(3000), b"") for n in range(4)]))], NOW
    )
    assert {physical_offset // SEGMENT for physical_offset in appended.parts} == {1}
    assert appended.parts[0] == appended.physical_offset
    sizes = [b - a for a, b in pairwise([*appended.parts, appended.end_offset])]
    assert [len(store.record_at(at) or b"") for at in appended.parts] == sizes


def test_a_batch_with_one_bad_message_is_not_stored_at_all(store: MessageStore) -> None:
    sound = encode_batch([(0, b"1", b""), (0, b"2", b"p"), (0, b"3", b"")])
    for bad in (sound.replace(b"p", b"\x00"), sound[:-1], sound.replace(b"\x00\x01p", b"\x00\x02p")):
        batch = message(batch=bad)
        before, refused, after = store.append_many([message(0), batch, message(4)], NOW)
        assert refused.status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)
        assert after.physical_offset == before.end_offset
    assert bodies(store) == [b"body 0", b"body 4"] * 3


def test_a_message_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path, max_message_size=1 << 20)
    assert store.append(message(body=bytes(SEGMENT)), NOW).status is PutStatus.MESSAGE_ILLEGAL
    largest = SEGMENT - 8 - (91 + 1 + len(message().properties))
    assert store.append(message(body=bytes(largest + 1)), NOW).status is PutStatus.MESSAGE_ILLEGAL
    assert store.append(message(body=bytes(largest)), NOW).status is PutStatus.PUT_OK


def test_a_closed_store_takes_nothing(store: MessageStore) -> None:
    store.close()
    assert store.append(message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert not store.is_writable


def test_a_batch_larger_than_a_segment_is_refused(store: MessageStore) -> None:
    for count in (20, 21, 22, 30):
        batch = message(batch=encode_batch([(n, bytes(3000), message(n).properties) for n in range(count)]))
        expected = PutStatus.PUT_OK if count <= 21 else PutStatus.MESSAGE_ILLEGAL
        assert store.append(batch, NOW).status is expected
    assert store.append_many([], NOW) == []

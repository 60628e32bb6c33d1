"""Reads with a filter: what it is asked of each record, and what a read says of those it passes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.protocol.records.message_cy import decode_record, decode_records
from orbitmq.protocol.records.properties_cy import decode_properties
from orbitmq.store import GetStatus
from orbitmq.store.queue.filtering import MessageFilter
from orbitmq.store.queue.records_cy import properties_of
from tests.kit.store import HOST, NOW, filled, message, opened

IPV6 = bytes(range(16)) + bytes([0, 0, 0x2A, 0x9F])


class ById(MessageFilter):
    def __init__(self, *ids: int) -> None:
        self.ids = {f"ID{number:08d}" for number in ids}
        self.asked: list[str] = []

    def matches(self, properties: bytes) -> bool:
        unique_id = decode_properties(properties)["UNIQ_KEY"]
        self.asked.append(unique_id)
        return unique_id in self.ids


@pytest.mark.parametrize("topic", ["T", "T" * 127, "%RETRY%" + "T" * 140], ids=len)
@pytest.mark.parametrize("flag", [0, 0x10, 0x20, 0x30], ids=hex)
def test_properties_are_found_behind_hosts_and_topics_of_every_length(
    tmp_path: Path, topic: str, flag: int
) -> None:
    store = opened(tmp_path, max_topic_length=255)
    born, kept = IPV6 if flag & 0x10 else HOST, IPV6 if flag & 0x20 else HOST
    for body in (b"", b"x" * 300):
        one = message(5, topic, body=body, sys_flag=flag, born_host=born, store_host=kept)
        appended = store.append(one, NOW)
        record = store.record_at(appended.physical_offset)
        assert record is not None
        assert properties_of(record, 0, len(record)) == one.properties
        assert decode_record(record).body == body
    store.close()


def test_a_filter_is_asked_of_each_record_until_there_are_enough(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10)
    wanted = ById(2, 4, 6)
    result = store.get("T", 0, 1, 2, accept=wanted)
    records, bad = decode_records(b"".join(result.records))
    assert [record.queue_offset for record in records] == [2, 4]
    assert not bad
    assert (result.status, result.count, result.next_offset) == (GetStatus.FOUND, 2, 5)
    assert wanted.asked == [f"ID{number:08d}" for number in (1, 2, 3, 4)]
    store.close()


def test_neighbours_that_match_are_one_view_and_others_are_not(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10)
    result = store.get("T", 0, 0, 32, accept=ById(1, 2, 3, 7))
    assert len(result.records) == 2
    assert result.size_bytes == sum(map(len, result.records))
    store.close()


def test_where_nothing_matches_the_read_says_how_far_it_got(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 10)
    result = store.get("T", 0, 3, 32, accept=ById(1))
    assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)
    store.close()


def test_one_message_can_be_asked_about(tmp_path: Path) -> None:
    store = opened(tmp_path)
    filled(store, 3)
    assert store.lookup.matches_at("T", 0, 1, ById(1))
    assert not store.lookup.matches_at("T", 0, 2, ById(1))
    assert not store.lookup.matches_at("T", 0, 3, ById(3))
    assert not store.lookup.matches_at("U", 0, 0, ById(0))
    store.close()

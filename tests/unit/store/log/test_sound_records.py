"""Searches for sound records in a log that is damaged, or whose end is not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store import MessageStore
from orbitmq.store.log import sound_records
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segment import Segment
from orbitmq.store.log.sound_records import (
    last_record_before,
    last_record_in,
    next_record_in,
    record_checksum,
    record_in,
)
from tests.kit.store import filled, opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    store = opened(tmp_path)
    yield store
    store.close()


def log_of(store: MessageStore) -> CommitLog:
    return store.structures.log


def damage(segment: Segment, position: int) -> None:
    segment.view[position + 88] ^= 0xFF  # the first byte of the body


def test_the_search_goes_on_behind_a_damaged_record(store: MessageStore) -> None:
    appended = filled(store, 3)
    segment = log_of(store).segments[0]
    starts = [one.physical_offset for one in appended]
    damage(segment, starts[1])
    assert record_in(segment, starts[1]) is None
    found = next_record_in(segment, starts[0] + 1)
    assert found is not None
    assert found[0] == starts[2]


def test_a_record_across_two_pieces_of_the_search_is_found(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended = filled(store, 3)
    segment = log_of(store).segments[0]
    for piece in (64, 65, 66, 67):
        monkeypatch.setattr(sound_records, "_SEARCH_BYTES", piece)
        found = next_record_in(segment, 1)
        assert found is not None
        assert found[0] == appended[1].physical_offset


def test_a_record_inside_of_a_body_is_none(store: MessageStore) -> None:
    (inner,) = filled(store, 1)
    record = log_of(store).read(inner.physical_offset, inner.size)
    outer, behind = filled(store, 2, body=b"...." + record)
    segment = log_of(store).segments[0]
    found = next_record_in(segment, outer.physical_offset + 1)
    assert found is not None
    assert found[0] == behind.physical_offset


def test_the_last_record_ends_where_it_is_said_or_before(store: MessageStore) -> None:
    appended = filled(store, 3)
    commit_log = log_of(store)
    segment, end = commit_log.segments[0], appended[-1].end_offset
    for asked, expected in ((end, 2), (end - 1, 1), (appended[1].end_offset, 1), (appended[0].end_offset, 0)):
        last = last_record_in(segment, asked)
        assert last is not None
        assert last[0] == appended[expected].physical_offset
        assert last_record_before(commit_log, asked) == last
    assert last_record_before(commit_log, appended[0].end_offset - 1) is None


def test_a_checksum_is_of_all_of_a_record_and_of_sound_ones_only(store: MessageStore) -> None:
    first, second = filled(store, 2)
    commit_log = log_of(store)
    before = record_checksum(commit_log, first.physical_offset)
    assert before is not None
    assert before != record_checksum(commit_log, second.physical_offset)
    assert record_checksum(commit_log, first.physical_offset + 1) is None
    assert record_checksum(commit_log, 1 << 40) is None
    damage(commit_log.segments[0], first.physical_offset)
    assert record_checksum(commit_log, first.physical_offset) is None

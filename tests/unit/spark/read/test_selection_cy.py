"""Selection of messages: topic, tag, store time, queue offset, and no half messages."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.protocol.records.message_cy import decode_record
from tests.kit.stored_records import stored_record

pytest.importorskip("pyarrow")

from orbitmq.spark.read.column_types import MAX_QUEUE_OFFSET
from orbitmq.spark.read.scanner import RecordScanner
from orbitmq.spark.read.selection_cy import Selection


def takes(selection: Any, **how: Any) -> bool:
    return bool(selection.takes(decode_record(stored_record(0, **how))))


def test_half_messages_and_rolled_back_ones_are_never_read() -> None:
    by_type = {kind: takes(Selection(), sys_flag=kind) for kind in (0x0, 0x4, 0x8, 0xC)}
    assert by_type == {0x0: True, 0x4: False, 0x8: True, 0xC: False}


def test_each_topic_is_asked_for_once() -> None:
    asked = []

    def accept(topic: str) -> bool:
        asked.append(topic)
        return topic == "wanted"

    selection = Selection(accept)
    assert [takes(selection, topic=topic) for topic in (b"wanted", b"other", b"wanted", b"other")] == [
        True,
        False,
        True,
        False,
    ]
    assert asked == ["wanted", "other"]


def test_store_times_are_selected_to_the_last_one_that_is_excluded() -> None:
    selection = Selection(None, None, 10, 12)
    assert [takes(selection, store_timestamp=time_ms) for time_ms in (9, 10, 11, 12)] == [
        False,
        True,
        True,
        False,
    ]
    assert takes(Selection(), store_timestamp=-(1 << 63))
    assert takes(Selection(), store_timestamp=(1 << 63) - 1)


def test_queue_offsets_are_selected_by_range() -> None:
    selection = Selection()
    assert [selection.takes_offset(offset) for offset in (-1, 0, MAX_QUEUE_OFFSET - 1)] == [False, True, True]
    selection.set_offsets(3, 5)
    assert [selection.takes_offset(offset) for offset in (2, 3, 4, 5)] == [False, True, True, False]


def test_tags_select_messages_with_one_of_them() -> None:
    assert Selection().takes_tag(None)
    assert not Selection().has_tags
    selection = Selection(None, frozenset({"a", "é"}))
    assert selection.has_tags
    assert [selection.takes_tag(tag) for tag in ("a", "é", "b", "", None)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert not Selection(None, frozenset()).takes_tag("a")


@pytest.mark.parametrize("topics", [3, 64, 500])
def test_topics_whose_names_collide_are_told_apart(topics: int) -> None:
    """The scan keeps the topics met last in 64 slots, which topics of one length and like letters share."""
    names = [b"topic-%03d-x" % number for number in range(topics)]
    raw = b"".join(stored_record(number, topic=names[number % topics]) for number in range(2 * topics))
    scanner = RecordScanner(("queueOffset",), accept=lambda topic: int(topic[6:9]) % 3 == 0)
    scanner.scan(raw)
    expected = [number for number in range(2 * topics) if number % topics % 3 == 0]
    assert scanner.take().column(0).to_pylist() == expected


def test_an_empty_topic_is_a_topic() -> None:
    scanner = RecordScanner(("queueOffset",), topic="")
    scanner.scan(stored_record(0, topic=b"") + stored_record(1, topic=b"T"))
    assert scanner.take().column(0).to_pylist() == [0]

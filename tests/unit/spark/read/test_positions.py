from __future__ import annotations

import json

import pytest

from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.positions import (
    EARLIEST,
    FIRST,
    LAST,
    LATEST,
    ending,
    flat,
    is_queue,
    nested,
    starting,
)


def test_a_batch_begins_at_the_first_message_and_a_stream_behind_the_last() -> None:
    assert starting({}, streaming=False) == FIRST
    assert starting({}, streaming=True) == LAST
    assert ending({}) == LAST


def test_a_time_wins_over_times_per_queue_and_these_over_offsets() -> None:
    offsets = {"startingOffsets": '{"T":{"b|0":5}}'}
    times = offsets | {"startingOffsetsByTimestamp": '{"T":{"b|0":1700000000000}}'}
    assert starting(offsets, streaming=False).offsets == {"T": {"b|0": 5}}
    assert starting(times, streaming=False).times_ms == {"T": {"b|0": 1_700_000_000_000}}
    assert starting(times | {"startingTimestamp": "17"}, streaming=False).time_ms == 17


def test_words_are_read_in_any_case_but_not_where_they_make_no_sense() -> None:
    assert starting({"startingOffsets": "Latest"}, streaming=True) == LAST
    with pytest.raises(BadOption, match="startingOffsets may not be latest here: earliest, or JSON"):
        starting({"startingOffsets": "latest"}, streaming=False)
    with pytest.raises(BadOption, match="endingOffsets may not be earliest here"):
        ending({"endingOffsets": "earliest"})


def test_first_and_last_may_stand_in_json_where_the_word_may() -> None:
    given = json.dumps({"T": {"b|0": EARLIEST, "b|1": LATEST}})
    assert starting({"startingOffsets": given}, streaming=True).offsets == json.loads(given)
    with pytest.raises(BadOption, match=r"-2 of b\|0 is no offset"):
        ending({"endingOffsets": given})


@pytest.mark.parametrize(
    "text",
    [
        "5",
        "[]",
        "{",
        '{"T":5}',
        '{"T":{"b|x":5}}',
        '{"T":{"|0":5}}',
        '{"T":{"b|0":"5"}}',
        '{"T":{"b|0":true}}',
    ],
)
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(BadOption, match="startingOffsets is neither earliest nor JSON of the form"):
        starting({"startingOffsets": text}, streaming=False)


@pytest.mark.parametrize(
    ("key", "valid"), [("b|0", True), ("0", True), ("a|b|7", True), ("b|", False), ("٣", False)]
)
def test_the_name_of_a_queue(key: str, valid: bool) -> None:
    assert is_queue(key) is valid


def test_offsets_are_written_in_one_order_with_numbers_as_numbers() -> None:
    offsets = {("T", "b|10"): 1, ("T", "b|9"): 2, ("S", "a|0"): 3}
    assert json.dumps(nested(offsets)) == '{"S": {"a|0": 3}, "T": {"b|9": 2, "b|10": 1}}'
    assert flat(nested(offsets)) == offsets
